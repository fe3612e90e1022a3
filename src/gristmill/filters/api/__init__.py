"""What a filter is, how its decisions drop documents, and filters of one's own."""
