"""Releases of a corpus: published to a store, pulled, compared, and how they are laid out."""
