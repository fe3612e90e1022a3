"""The folder of a corpus: its parts, its records, its funnel, and the documents that are kept in
it.
"""
