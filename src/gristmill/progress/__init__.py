"""How far work is: counted, drawn on a terminal or in a notebook, and written as lines."""
