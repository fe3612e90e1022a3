"""Examples on the pages of docs/reference/: one of each table of a recipe, one of each filter.
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

STEPS = {
    "C4": 'use = "c4"\nmin_sentences = 3',
    "Classifier": 'use = "classifier"\nmodel = "quality.model"\ndrop_lowest = 0.3',
    "Decontaminate": 'use = "decontaminate"\n'
    'benchmarks = [{ name = "gsm8k", file = "gsm8k.jsonl", fields = ["question", "answer"] }]',
    "Ensemble": 'use = "ensemble"\nscores = ["classifier.score"]\nmin_bucket = 7',
    "Extract": 'use = "extract"\nformat = "markdown"',
    "LibraryExtract": 'use = "extract"\nextractor = "resiliparse"',
    "FineWeb": 'use = "fineweb"\nmax_newlines = 0.5',
    "Lab": 'use = "gopher"\nmin_words = 30',
    "Quality": 'use = "gopher"\nrules = "datatrove-0.10"',
    "Language": 'use = "language"\nkeep = ["en", "de"]\nmin_score = { en = 0.65, de = 0.5 }',
    "Normalise": 'use = "normalise"\nurls = "drop"',
    "Perplexity": 'use = "perplexity"\nmodel = "wiki.model"\ndrop_highest = 0.2',
    "ListedPhrases": 'use = "phrases"\nphrases = ["all rights reserved"]\nmax_places = 2',
    "Private": 'use = "private"\nkinds = ["email", "ip"]\nafter_dedup = true',
    "Regex": 'use = "regex"\npattern = "(?i)click here"\nmax_matches = 3',
    "RepeatedParagraphs": 'use = "repeated_paragraphs"\nmax_share = 0.5',
    "Repetition": 'use = "repetition"\nmax_lines = 0.25',
    "HashSample": 'use = "sample"\nshare = 0.1\nby = "host"',
    "GivenScores": 'use = "scores"\nfiles = ["edu.parquet"]\nnumbers = ["edu"]\nmin = { edu = 3 }',
    "Rights": 'use = "rights"\ndrop = ["noai"]',
    "Simple": 'use = "simple"\nmin_words = 30',
    "Toxicity": 'use = "toxicity"\nlists = ["bad-words.txt"]\nmax_share = 0.02',
    "Transformers": 'use = "transformers"\nmodel = "edu-judge"\nmin_score = 3.0',
    "Url": 'use = "url"\ndomains = ["blocked.txt"]',
    "Withdrawn": 'use = "withdrawn"\nlist = "withdrawn.txt"',
}
STEPS = {name: f"[[step]]\n{text}" for name, text in STEPS.items()}
