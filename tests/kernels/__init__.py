"""Kernels against their slow twins (tests/naive.py)."""
