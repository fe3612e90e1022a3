"""Raw shards: gzip members, and where records of archives are in their bytes."""
