"""Loops over UTF-8 buffers, compiled by numba. The only room with numba.

A kernel takes (offsets, data, ..., out): Arrow's string buffers, and arrays to write into. It
allocates nothing that grows with its input beyond what its wrapper gives it, raises nothing and
holds no objects. Every kernel has a slow twin in tests/support/naive.py.
"""
