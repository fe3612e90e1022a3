"""What a run shows while it works, and how it goes on where a file is damaged."""
