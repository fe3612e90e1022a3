"""Lists of millions of entries, URLs looked up in them, and many phrases searched at once."""
