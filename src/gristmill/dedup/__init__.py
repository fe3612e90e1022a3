"""Duplicates: signatures, candidates as SQL, and the rule that decides."""
