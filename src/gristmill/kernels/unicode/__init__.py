"""Unicode: its tables, scripts, the normal form that texts are compared by, and white space and
control characters.
"""
