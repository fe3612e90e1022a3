"""What goes out: tokens or text, their shards, and the published manifest."""
