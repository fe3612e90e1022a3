"""What comes in: the plan of raw shards, their download, and the files that filters read."""
