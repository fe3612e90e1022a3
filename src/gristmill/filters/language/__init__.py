"""The language or the script of a document."""
