"""Counts over the tokens of token shards."""
