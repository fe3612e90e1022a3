"""WARC and ARC archives, and the web pages in them."""
