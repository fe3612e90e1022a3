"""One raw shard at a time: documents, measures, signatures, samples."""
