"""Crawls in which pages come back, and recipes that compare one crawl with another."""

import hashlib
import random
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.corpora import article
from tests.support.duplicates import edited

RECIPE = """
[[source]]
name = "web"
files = [FILES]
[deduplicate]
url = true
index = true
against = [AGAINST]
near = { NEAR }
"""


def crawl(count: int, seed: int) -> list[dict[str, str]]:
    """Pages; within a crawl and from crawl to crawl there are versions and copies of them, and
    other pages of the same URL.
    """
    pick = random.Random(seed)
    pages = random.Random(0)
    texts = [article(pages.random(), 14) for _ in range(60)] + [
        article(pick.random(), 14) for _ in range(20)
    ]
    found = []
    for _ in range(count):
        text = edited(pick.choice(texts), pick.choice([0.0, 0.0, 0.006, 0.02, 0.05, 0.2]), pick)
        texts.append(text)
        found.append({"url": f"https://x.example/{pick.randrange(400)}", "text": text})
    return found


def recipe(folder: Path, files: list[str], against: list[str], near: str = "") -> Path:
    names = ", ".join(f'"{name}.jsonl"' for name in files)
    path = folder / f"{'-'.join(files)}.toml"
    older_ones = ", ".join(f'"{name}"' for name in against)
    path.write_text(
        RECIPE.replace("FILES", names).replace("AGAINST", older_ones).replace("NEAR", near)
    )
    return path


def verdicts(corpus: Path) -> list[dict]:
    return [
        row
        for path in sorted((corpus / "verdicts").iterdir())
        for row in pq.read_table(path).to_pylist()
    ]


def digest_of(corpus: Path) -> str:
    return hashlib.sha256((corpus / "manifest.json").read_bytes()).hexdigest()
