"""Export to the files that trainers read, and import of token shards that others wrote: one module
for each format (docs/trainer-formats.md).
"""
