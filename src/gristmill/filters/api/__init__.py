"""What a filter is, how its decisions drop documents, and custom filters."""
