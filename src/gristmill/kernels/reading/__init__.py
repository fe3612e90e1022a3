"""Raw shards: gzip members, where records of archives are in their bytes, and JSON lines."""
