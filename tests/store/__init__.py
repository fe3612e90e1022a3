"""Tests of the store: the manifest, parts, and how bytes come in."""
