"""The published rules: Gopher, C4, FineWeb, and the plainest ones."""
