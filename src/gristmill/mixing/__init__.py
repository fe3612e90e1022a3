"""Mixtures of sources: rules for shares, their plan, and their choice by measurement.

The modules of `__all__` are public: a small model to measure with, and pictures.
"""

__all__ = ["plot", "proxy"]
