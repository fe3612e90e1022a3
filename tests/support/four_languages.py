"""A corpus of four languages, with duplicates, and settings of deduplication for three of them."""

import random
from pathlib import Path
from typing import Any

from tests.support.corpora import jsonl

# Each language has its letters, so that its words are of no other.
WORDS = {
    "Latn": ("mill", "river", "wheat", "stone", "bread", "village", "wheel", "grain"),
    "Cyrl": ("мельница", "река", "пшеница", "камень", "хлеб", "деревня", "колесо", "зерно"),
    "Grek": ("μύλος", "ποτάμι", "σιτάρι", "πέτρα", "ψωμί", "χωριό", "τροχός", "σπόρος"),
    "Arab": ("طاحونة", "نهر", "قمح", "حجر", "خبز", "قرية", "عجلة", "حبوب"),
}
RECIPE = """
[[source]]
name = "web"
files = ["*.jsonl"]
[[step]]
use = "language"
rules = "script"
keep = ["Latn", "Cyrl", "Grek", "Arab"]
[deduplicate]
near = { shingle = 1, bands = 32, rows = 1, threshold = 0.8, floor = 0.5, verify = "text" }
scope = "language"
"""
ENTRIES: dict[str, Any] = {
    "Cyrl": {"near": {"threshold": 0.5}},
    "Grek": {"exact": False, "near": {"threshold": 0.95}},
    "Arab": {"near": False},
}


def texts_of(language: str, seed: int, count: int = 40) -> list[str]:
    """Texts of distinct words; many are copies of earlier ones with a few words changed."""
    draw = random.Random(f"{language} {seed}")
    found: list[list[str]] = []
    for number in range(count):
        words = [f"{draw.choice(WORDS[language])}{number}x{place}" for place in range(20)]
        if found and draw.random() < 0.6:
            words = list(draw.choice(found))
            for _ in range(draw.choice((0, 0, 1, 2, 3, 5, 8))):
                words[draw.randrange(len(words))] = f"{draw.choice(WORDS[language])}{number}y"
        found.append(words)
    return [" ".join(words) for words in found]


def lay_out(folder: Path, seed: int = 0) -> list[tuple[str, str]]:
    """Two shards of all languages; the documents as (language, text), in order."""
    rows = [(language, text) for language in WORDS for text in texts_of(language, seed)]
    random.Random(seed).shuffle(rows)
    for name, part in (("a", rows[:100]), ("b", rows[100:])):
        lines = [{"url": f"https://{name}.example/", "text": text} for _, text in part]
        (folder / f"{name}.jsonl").write_bytes(jsonl(lines))
    (folder / "recipe.toml").write_text(RECIPE)
    return rows


def asked(entries: dict[str, Any]) -> dict[str, str]:
    """`--set` of these settings."""
    found = {}
    for label, entry in entries.items():
        for key, value in entry.items() if entry is not False else ():
            near = isinstance(value, dict)
            found[f"deduplicate.by_language.{label}.{key}{'.threshold' * near}"] = str(
                value["threshold"] if near else value
            ).lower()
        if entry is False:
            found[f"deduplicate.by_language.{label}"] = "false"
    return found
