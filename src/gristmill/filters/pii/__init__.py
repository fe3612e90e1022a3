"""Personal data, redacted."""
