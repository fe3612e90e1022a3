"""What a run writes: tokens or text, their shards, and the manifest."""
