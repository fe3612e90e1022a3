"""Prose of at most 100 columns in pages that programs write; tables stay as wide as they are."""

import textwrap

COLUMNS = 100


def wrapped(lines: list[str]) -> list[str]:
    """Markdown lines, with paragraphs and list items wrapped; tables and headings unchanged."""
    out: list[str] = []
    for line in lines:
        if len(line) <= COLUMNS or line.lstrip().startswith(("|", "#")):
            out.append(line)
            continue
        indent = "  " if line.startswith("* ") else ""
        out += textwrap.wrap(
            line, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return out
