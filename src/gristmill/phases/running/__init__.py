"""What a run shows while it works, and how it continues where a file is damaged."""
