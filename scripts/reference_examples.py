"""Examples on docs/reference/recipe.md, one of each table; a filter has its own (`Step.example`).
tests/test_reference.py reads them all as recipes.
"""

TABLES = {
    "": """
output = "corpus"
seed = 1
samples = 10
""",
    "source": """
[[source]]
name = "web"
commoncrawl = "CC-MAIN-2024-22"
kind = "wet"
sample = 8

[[source]]
name = "own"
files = ["data/*.jsonl.zst"]
text = "body"
priority = 1
""",
    "languages": """
[languages]
parameters = "preset:fineweb2"
missing = "defaults"
""",
    "deduplicate": """
[deduplicate]
url = true
exact = true
order = "longest"
""",
    "deduplicate.near": """
[deduplicate.near]
shingle = 5
bands = 32
rows = 4
threshold = 0.8
""",
    "deduplicate.by_language.LABEL": """
[deduplicate.by_language.en]
exact = false
near = false
""",
    "deduplicate.by_language.LABEL.near": """
[deduplicate.by_language.fr.near]
threshold = 0.9
""",
    "deduplicate.lines": """
[deduplicate.lines]
most = 50
""",
    "deduplicate.substrings": """
[deduplicate.substrings]
bytes = 200
""",
    "tokens": """
[tokens]
tokenizer = "gpt2"
tokens_per_shard = 100_000_000
validation = 0.0005
""",
    "tokens.repeat": """
[tokens.repeat]
by = "copies"
table = { 1 = 1, 3 = 2, 10 = 3 }
""",
    "tokens.partition": """
[tokens.partition]
by = ["language.label"]
names = { en = "english" }
""",
    "mix": """
[mix]
tokens = 10_000_000_000
weights = { web = 0.7, own = 0.3 }
""",
    "mix.stage": """
[[mix.stage]]
name = "decay"
tokens = 1_000_000_000
weights = { web = 0.2, own = 0.8 }
""",
}
