"""Nodes of training networks: which parts are theirs, fetched ahead, kept and read."""
