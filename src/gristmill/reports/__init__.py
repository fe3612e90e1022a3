"""Reports: they read the manifest, verdicts and parts of a corpus, and answer questions about it.

No phase of a run uses them.
"""
