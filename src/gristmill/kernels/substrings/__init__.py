"""Substrings of the corpus that occur again: windows, what they are found by, and texts without
them.
"""
