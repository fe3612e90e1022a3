"""Genesis (NeuroShard) for gristmill: a format of `gristmill export` and `import`, and recipes for
the sources of its data pipeline.
"""
