"""The page that `gristmill report` writes: one HTML file that shows a corpus to people.

    tables.py          the corpus' Parquet parts as tables of DuckDB
    figures.py         counts: reasons, sources, hosts, languages, lengths
    thresholds.py      the limits of the recipe's steps
    distributions.py   the values of each measure, and what other limits would drop
    samples.py         documents to look at, seeded and redacted
    pairs.py           near duplicates and clusters, word by word
    markup.py, charts.py, *_sections.py, page.py   HTML

All that comes from documents is text in the page, never markup (markup.py).
"""
