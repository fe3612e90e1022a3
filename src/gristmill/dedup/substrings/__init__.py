"""Substrings that occur again in the corpus."""
