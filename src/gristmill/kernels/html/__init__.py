"""HTML pages: their tags, and what parsing them costs at most."""
