"""Raw files to batches of documents. The format of a file is detected from its bytes, not from its
name.
"""
