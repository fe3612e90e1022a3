"""Pieces of text, which byte-pair encoding merges within (pretokenization): one module a family of
patterns, and the bitmap of piece starts that they all give.
"""
