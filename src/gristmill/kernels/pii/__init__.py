"""Personal data: where it stands in a text, and the text with something else in its place."""
