"""The whole corpus at once: corpus filters, duplicates, frequent lines, repeated
substrings.
"""
