"""Benchmark items in documents, found and dropped."""
