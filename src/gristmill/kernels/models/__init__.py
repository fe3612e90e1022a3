"""Classifiers and language models: fastText, our own linear classifier and n-gram model."""
