"""Filters by a model's score, and the model files that they read."""
