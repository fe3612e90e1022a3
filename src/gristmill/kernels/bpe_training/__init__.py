"""Training byte-pair encoding: counting pieces, and choosing merges."""
