"""Clean text: main text out of HTML, and text in one normal form."""
