"""Tokens: tokenizers, and the shards that trainers read."""
