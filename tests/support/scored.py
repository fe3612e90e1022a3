"""A corpus whose documents are scored, repeated and put into partitions: score files made from the
texts, so that every test can count again by itself.
"""

import json
from pathlib import Path
from typing import Any

from tests.support.corpora import article, jsonl

TOPICS = ("news", "sport", "Science & Tech", None)
RECIPE = """
seed = 5
[[source]]
name = "web"
files = ["raw/web*.jsonl"]
[[source]]
name = "books"
files = ["raw/books.jsonl"]
[[step]]
use = "scores"
files = ["edu.jsonl", "topic.jsonl"]
numbers = ["edu"]
labels = ["topic"]
[[step]]
use = "ensemble"
scores = ["scores.edu"]
buckets = 4
[deduplicate]
exact = true
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 3_000
validation = 0.15
[tokens.repeat]
by = "ensemble.bucket"
table = { 0 = 0, 1 = 1, 2 = 1.5, 3 = 4 }
otherwise = 1
[tokens.partition]
by = ["scores.topic"]
names = { "Science & Tech" = "science" }
"""


def rows(source: str, count: int) -> list[dict[str, Any]]:
    """A source's documents; every fifth is a copy of the one before."""
    texts = [article(f"{source} {number}", 6) for number in range(count)]
    return [
        {
            "url": f"https://{source}.example/{number}",
            "text": texts[number - 1 if number % 5 == 4 else number],
        }
        for number in range(count)
    ]


def score_of(url: str) -> float | None:
    """The score of a document; some have none."""
    number = int(url.rpartition("/")[2])
    return None if number % 11 == 3 else (number * 7919 % 1000) / 100


def topic_of(url: str) -> str | None:
    """The topic of a document; some have none."""
    return TOPICS[int(url.rpartition("/")[2]) % len(TOPICS)]


def lay_out(folder: Path, recipe: str = RECIPE, count: int = 60) -> Path:
    """Raw shards, score files, a tokenizer and a recipe; returns the recipe."""
    from gristmill.training.train_tokenizer import train_tokenizer

    raw = folder / "raw"
    raw.mkdir(parents=True)
    web = rows("web", count)
    (raw / "web-0.jsonl").write_bytes(jsonl(web[: count // 2]))
    (raw / "web-1.jsonl").write_bytes(jsonl(web[count // 2 :]))
    (raw / "books.jsonl").write_bytes(jsonl(rows("books", count // 3)))
    shards = [web[: count // 2], web[count // 2 :], rows("books", count // 3)]
    numbered = [
        (f"{shard}:{row}", str(one["url"]))
        for shard, members in enumerate(shards)
        for row, one in enumerate(members)
    ]
    for name, of in (("edu", score_of), ("topic", topic_of)):
        lines = [
            {"document": number, "url": url, name: value}
            for number, url in reversed(numbered)
            if (value := of(url)) is not None
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    train_tokenizer([raw / "books.jsonl"], folder / "tokenizer.json", vocabulary=400)
    path = folder / "recipe.toml"
    path.write_text(recipe)
    return path
