"""The window: reads manifests, verdicts and parts of a corpus, and answers.

Nothing that makes a corpus reads it.
"""
