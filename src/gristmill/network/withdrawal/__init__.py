"""Documents that are taken out of a corpus and of its releases."""
