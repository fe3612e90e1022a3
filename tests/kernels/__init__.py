"""Kernels against their slow twins (tests/support/naive.py)."""
