"""Benchmark items: their n-grams, and where documents hold them."""
