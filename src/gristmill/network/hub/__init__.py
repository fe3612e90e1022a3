"""What others read about a release: its card, Croissant, and data hubs."""
