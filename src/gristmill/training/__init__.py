"""Training: tokenizers, text classifiers, n-gram models."""
