"""Releases of a corpus through object stores and the web: publishing, trust, and the nodes that
read them.
"""
