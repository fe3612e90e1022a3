"""Small corpora of the tests' own text, and how to run them."""

import gzip
import hashlib
import json
import random
from pathlib import Path

from gristmill import run
from gristmill.store.manifest import decode

WORDS = (
    "mill stone river wheel water grain flour sack miller village bridge winter morning road "
    "field harvest barn horse cart "
    "market bread oven baker kitchen table lamp window garden orchard apple basket ladder "
    "summer cloud wind rain storm night "
    "star moon letter paper pencil story teacher school child song music drum fiddle dance "
    "feast holiday travel ship harbour "
    "sailor island mountain forest hunter path lantern stranger door key castle king queen "
    "crown sword peace promise friend "
    "the the the a a and and of of to to in in is was with for on as by at from that which "
    "it he she they we had have not"
).split()


def sentence(pick: random.Random) -> str:
    """A sentence of made-up prose."""
    words = [pick.choice(WORDS) for _ in range(pick.randint(6, 18))]
    return " ".join(words).capitalize() + pick.choice(".....?!")


def article(seed: int | str, sentences: int = 30) -> str:
    """A page of made-up prose: English enough for the rules."""
    pick = random.Random(f"article {seed}")
    lines = [
        " ".join(sentence(pick) for _ in range(pick.randint(1, 4))) for _ in range(sentences // 2)
    ]
    return "\n".join(lines)


def pages(count: int, seed: str = "pages") -> list[dict[str, object]]:
    """Pages with planted exact copies, near copies, stubs and repetition."""
    pick = random.Random(seed)
    out: list[dict[str, object]] = []
    for number in range(count):
        kind = number % 10
        if kind == 7 and number > 10:
            text = str(out[pick.randrange(len(out) - 5)]["text"])
        elif kind == 8 and number > 10:
            words = str(out[pick.randrange(len(out) - 5)]["text"]).split(" ")
            for _ in range(max(1, len(words) // 60)):
                words[pick.randrange(len(words))] = pick.choice(WORDS)
            text = " ".join(words)
        elif kind == 9:
            text = pick.choice(
                [
                    "Page not found.",
                    "buy cheap watches now " * 40,
                    "- a link\n" * 60,
                    "The story went on …\n" * 30,
                ]
            )
        else:
            text = article(f"{seed} {number}", pick.randint(12, 50))
        out.append(
            {
                "url": f"https://pages.example/{seed}/{number}",
                "text": text,
                "meta": {"number": number},
            }
        )
    return out


def record(
    text: bytes,
    url: str | None,
    number: int = 0,
    *,
    length: int | None = None,
    end: bytes = b"\r\n",
    kind: str = "conversion",
) -> bytes:
    """A WARC record as bytes."""
    lines = [b"WARC/1.0", b"WARC-Type: " + kind.encode(), b"WARC-Date: 2026-01-01T00:00:00Z"]
    lines.append(f"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{number:012d}>".encode())
    if url is not None:
        lines.append(b"WARC-Target-URI: " + url.encode())
    lines += [b"WARC-Identified-Content-Language: eng", b"Content-Type: text/plain"]
    lines.append(b"Content-Length: " + str(len(text) if length is None else length).encode())
    return end.join(lines) + end + end + text + end + end


def wet(rows: list[dict[str, object]]) -> bytes:
    """A WET file, a gzip member a record, as Common Crawl writes it."""
    out = [gzip.compress(record(b"software: tests\r\n", None, kind="warcinfo"), 6, mtime=0)]
    for number, row in enumerate(rows):
        out.append(
            gzip.compress(record(str(row["text"]).encode(), str(row["url"]), number), 6, mtime=0)
        )
    return b"".join(out)


def jsonl(rows: list[dict[str, object]]) -> bytes:
    """JSONL."""
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


RECIPE = """
seed = 7
[[source]]
name = "web"
files = ["raw/*"]
[[step]]
use = "gopher"
[deduplicate]
near = {}
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 5_000
validation = 0.1
"""


def lay_out(folder: Path, *, count: int = 120, recipe: str = RECIPE) -> Path:
    """Raw shards, a tokenizer and a recipe in a folder; returns the recipe."""
    from gristmill.training.train_tokenizer import train_tokenizer

    raw = folder / "raw"
    raw.mkdir(parents=True)
    (raw / "a.wet.gz").write_bytes(wet(pages(count, "a")))
    (raw / "b.jsonl").write_bytes(jsonl(pages(count, "b") + pages(count // 3, "a")))
    (raw / "c.jsonl.gz").write_bytes(gzip.compress(jsonl(pages(count // 2, "c")), mtime=0))
    (raw / "d.txt").write_text(article("text", 60), "utf-8")
    train_tokenizer([raw / "a.wet.gz"], folder / "tokenizer.json", vocabulary=600)
    path = folder / "recipe.toml"
    path.write_text(recipe, "utf-8")
    return path


def digests(corpus: Path) -> dict[str, str]:
    """sha256 of everything that is proven: all parts, the manifest and the lock."""
    manifest = decode((corpus / "manifest.json").read_bytes())
    names = [part.path for part in manifest.parts] + [
        "manifest.json",
        "manifest.lock",
        "SHA256SUMS",
    ]
    return {name: hashlib.sha256((corpus / name).read_bytes()).hexdigest() for name in names}


__all__ = [
    "RECIPE",
    "article",
    "digests",
    "jsonl",
    "lay_out",
    "pages",
    "record",
    "run",
    "sentence",
    "wet",
]
