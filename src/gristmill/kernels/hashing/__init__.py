"""Hashes: MinHash signatures, the keys of their bands, pairs compared, and orders by a keyed
hash.
"""
