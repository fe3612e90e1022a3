"""What a Python program uses: texts in memory, and a finished corpus (docs/library.md)."""
