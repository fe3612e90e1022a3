"""Words, lines, repeated pieces and n-grams of texts."""
