"""The phases, in order: what happens to one raw shard, and what to all of them. pipeline.py tells the story."""

# What the bytes of each kind of part depend on besides parameters; a number goes up when the code gives other bytes.
FORMAT_VERSIONS = {"refine": "3", "relate": "4", "tokenize": "2", "assemble": "1", "unicode": "16.0"}
