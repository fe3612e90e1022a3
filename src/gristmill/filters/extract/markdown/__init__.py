"""The blocks of a page that are kept as Markdown, formulas as TeX: plain Python over what the
kernels say of the page (docs/adr/0052-markdown-in-python.md).
"""
