"""Outside bytes to batches of documents: codecs and formats, told apart by their bytes and never by
their names.
"""
