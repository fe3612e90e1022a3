"""Near duplicates: candidates from equal bands, verified by exact Jaccard similarity."""
