"""Export to the files that trainers read, and import of token shards that others wrote: one module
for each format (docs/trainer-formats.md). Its name, with `_` for `-`, is the format's.
"""

# Names of --to: formats of text (kept_texts.py), and of tokens.
TEXT = ("jsonl", "jsonl.gz", "jsonl.zst", "parquet", "nanochat", "score-jobs")
TOKENS = (
    "nanogpt",
    "llmc",
    "megatron",
    "olmo",
    "datatrove",
    "torchtitan",
    "hf-parquet",
    "hdf5",
    "genesis",
)
FORMATS = (*TEXT, *TOKENS)
# Names of --from.
IMPORTED = ("megatron", "hf-parquet", "olmo", "nanogpt", "llmc", "datatrove", "genesis")
