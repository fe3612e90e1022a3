"""Block and allow lists of domains, URLs and words."""
