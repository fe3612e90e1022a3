"""A corpus of two sources with targets, which grows when they are raised."""

from collections.abc import Iterator
from pathlib import Path

from gristmill import train_tokenizer
from tests.support.corpora import jsonl, pages

RECIPE = """
[[source]]
name = "web"
files = ["web/*"]
priority = 2
target_shards = FIRST
[[source]]
name = "docs"
files = ["docs/*"]
target_tokens = SECOND
[[step]]
use = "gopher"
[deduplicate]
near = {}
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 2_000
validation = 0.1
order = "append"
"""


def two_sources(folder: Path, first: str, second: str) -> None:
    """Five raw shards of each source, and the tokenizer. The second has copies of texts of the
    first.
    """
    for source in (first, second):
        (folder / source).mkdir()
        for number in range(5):
            rows = pages(12, f"{source} {number}") + pages(6, f"{first} {number + 1}")
            (folder / source / f"{number}.jsonl").write_bytes(jsonl(rows))
    train_tokenizer([folder / first / "0.jsonl"], folder / "tokenizer.json", vocabulary=400)


def growing(folder: Path) -> Iterator[Path]:
    """Lay out the sources; yield the recipe with low targets, then with higher ones."""
    two_sources(folder, "web", "docs")
    recipe = folder / "recipe.toml"
    for first, second in (("3", "5_000"), ("6", "11_000")):
        recipe.write_text(RECIPE.replace("FIRST", first).replace("SECOND", second))
        yield recipe
