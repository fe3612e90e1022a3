"""Leaks planted in real documents, found or not: `python leaks.py --data DIR` writes the tables of
docs/decontamination.md to the screen.

Items are those of six evaluation sets (HumanEval, GSM8K, ARC-easy, PIQA, LAMBADA, MMLU's dev sets);
documents are pieces of English novels and pages of Debian's documentation. Each planted item goes
into a document of its own, at a seeded place. Every tenth document is also compared with sets of
words in plain Python.
"""

import argparse
import csv
import gzip
import io
import json
import random
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.filters.api.step import Input, Measured
from gristmill.filters.decontaminate.benchmarks import Benchmark
from gristmill.filters.decontaminate.decontaminate import Decontaminate

SETS = {
    "humaneval": ("E_bench/HumanEval.jsonl.gz", ["prompt", "canonical_solution"]),
    "gsm8k": ("E_bench/gsm8k_test.jsonl", ["question", "answer"]),
    "arc_easy": ("E_bench/llmfoundry_arc_easy.jsonl", ["query", "choices"]),
    "piqa": ("E_bench/llmfoundry_piqa.jsonl", ["query", "choices"]),
    "lambada": ("E_bench/llmfoundry_lambada_openai.jsonl", ["context", "continuation"]),
}
MMLU = ["question", "choice0", "choice1", "choice2", "choice3"]
PIECE = 5_000  # characters of a novel, about a web page
KINDS = (
    "verbatim",
    "reformatted",
    "padded",
    "question alone",
    "cut in half",
    "paraphrased lightly",
    "paraphrased",
)
SYNONYMS = {
    "big": "large",
    "small": "little",
    "many": "numerous",
    "buy": "purchase",
    "buys": "purchases",
    "start": "begin",
    "start.": "begin.",
    "use": "employ",
    "used": "employed",
    "make": "produce",
    "makes": "produces",
    "put": "place",
    "get": "obtain",
    "need": "require",
    "needs": "requires",
    "find": "locate",
    "total": "overall",
    "each": "every",
    "best": "finest",
    "said": "remarked",
    "went": "walked",
    "looked": "glanced",
    "return": "give back",
    "list": "sequence",
    "first": "initial",
    "which": "what",
    "after": "following",
}


def benchmarks(data: Path) -> list[Benchmark]:
    """All sets as the step takes them."""
    made = [
        Benchmark(name=name, file=str(data / path), fields=fields)
        for name, (path, fields) in SETS.items()
    ]
    files = sorted(str(path) for path in (data / "E_bench/mmlu_dev").glob("*.csv"))
    return [*made, Benchmark(name="mmlu", file=files, fields=MMLU)]


def step_of(data: Path, **keys: Any) -> Decontaminate:
    """The step with all sets."""
    return Decontaminate(benchmarks=benchmarks(data), **keys)


def inputs_of(step: Decontaminate) -> dict[str, Input]:
    """The files that a step names, where they lie."""
    return {
        location: Input(Path(location).name, location, "") for location in step.inputs().values()
    }


def rows_of(data: Path) -> Iterator[tuple[str, list[str]]]:
    """Every item: its set, and its fields as text."""
    for name, (path, fields) in SETS.items():
        raw = (data / path).read_bytes()
        for line in (gzip.decompress(raw) if path.endswith(".gz") else raw).decode().split("\n"):
            if line.strip():
                row = json.loads(line)
                yield (
                    name,
                    [
                        " ".join(row[key]) if isinstance(row[key], list) else row[key]
                        for key in fields
                    ],
                )
    for path in sorted((data / "E_bench/mmlu_dev").glob("*.csv")):
        for row in csv.DictReader(io.StringIO(path.read_text("utf-8"), newline="")):
            yield "mmlu", [row[key] for key in MMLU]


def novels(data: Path, count: int) -> list[str]:
    """Pieces of English novels."""
    out = []
    for path in sorted((data / "I_prose/english_novels").iterdir())[:count]:
        text = path.read_text("utf-8", "replace")
        out += [text[at : at + PIECE] for at in range(0, len(text) - PIECE, PIECE)]
    return out


def manuals(data: Path, most: int) -> list[str]:
    """Pages of Debian's documentation, as text."""
    from gristmill.filters.extract.extract import LibraryExtract
    from gristmill.source.read import ShardReader
    from gristmill.source.rows import Fields

    extract = LibraryExtract().load({})
    out: list[str] = []
    for batch in ShardReader(
        data / "J_debian_docs/open_docs.warc.gz", 0, fields=Fields(pages=True)
    ):
        whole = batch.filter(batch["reason"].is_null())
        out += [text for text in extract(whole).text.to_pylist() if text and len(text) > 200]
        if len(out) >= most:
            break
    return out[:most]


def leaked(kind: str, fields: list[str], pick: random.Random) -> str:
    """An item as it might stand on a page."""
    fields = [field for field in fields if field.strip()]
    text = "\n".join(fields)
    words = text.split()
    if kind == "verbatim":
        return text
    if kind == "question alone":
        return fields[0]
    if kind == "reformatted":
        # Other case and signs, wrapped lines, marks of a question and of answers before the fields.
        marks = ["Q: ", *(f"{chr(65 + number)}) " for number in range(len(fields) - 1))]
        lines = [
            mark + " ".join(field.split()).upper()
            for mark, field in zip(marks, fields, strict=True)
        ]
        return "\n* ".join(re.sub(r"(.{60}\S*) ", "\\1\n", line) for line in lines).replace(
            ",", " -"
        )
    if kind == "padded":
        return (
            f"Home | Forum | Login\nPosted by anna92 on Tuesday, 3 replies\n\n{text}\n\nShare "
            "this page! Terms of use, privacy, cookies."
        )
    if kind == "cut in half":
        return " ".join(words[: len(words) // 2])
    if kind == "paraphrased lightly":  # one word in thirty
        return _changed(words, 30, pick)
    return _changed(words, 8, pick)  # one in eight


def _changed(words: list[str], every: int, pick: random.Random) -> str:
    """Words of which one in so many is another: a synonym where the table has one."""
    words = list(words)
    for start in range(0, len(words), every):
        stretch = range(start, min(start + every, len(words)))
        known = [place for place in stretch if words[place].lower() in SYNONYMS]
        place = pick.choice(known or list(stretch))
        words[place] = SYNONYMS.get(words[place].lower(), "so")
    return " ".join(words)


LABEL = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z]|[0-9]{1,2})(?=[.):\]．）：、])")


def _unless_label(match: re.Match[str]) -> str:
    """A letter or number with a sign behind it: nothing where it is a label."""
    text, start, sign = match.string, match.start(), match.string[match.end()]
    opened = start > 0 and text[start - 1] + sign in ("()", "[]")
    if sign == "）" and text[start - 1 : start] == "（":
        return ""
    before = text[start - 2 : start - 1] if opened else text[start - 1 : start]
    behind = text[match.end() + 1 : match.end() + 2]
    free = (
        before in ("", "*", "_")
        or before.isspace()
        or (before > "\x7f" and unicodedata.category(before)[0] in "PS")
    )
    return (
        "" if free and (sign > "\x7f" or behind in ("", "*", "_") or behind.isspace()) else match[0]
    )


def plain_words(text: str) -> list[str]:
    """The words of normalised text without labels, in plain Python.

    (No script without spaces is among these texts.)
    """
    text = LABEL.sub(_unless_label, text)
    signs = {char: " " for char in set(text) if unicodedata.category(char)[0] in "PS"}
    return text.translate(str.maketrans(signs)).lower().split()


class Sets:
    """The plain reference: sets of n-grams, and which items have each; those in more than `most`
    items are left out.
    """

    def __init__(
        self, rows: list[list[str]], ngram: int = 13, least: int = 5, most: int = 10
    ) -> None:
        self.ngram = ngram
        self.parts: list[set[tuple[str, ...]]] = []
        self.having: dict[tuple[str, ...], list[int]] = {}
        self.sizes: set[int] = set()
        seen: set[tuple[tuple[str, ...], ...]] = set()
        often: dict[tuple[str, ...], int] = {}
        for fields in rows:
            held = [field for field in fields if field]
            parts = []
            for place, text in [(-1, " ".join(held)), *(enumerate(held) if len(held) > 1 else ())]:
                words = plain_words(text)
                if len(words) < (ngram if place > 0 else least):
                    continue
                parts.append(list(dict.fromkeys(self.grams(words, min(ngram, len(words))))))
                self.sizes.add(min(ngram, len(words)))
            self.parts += map(set, parts)
            if parts and tuple(parts[0]) not in seen:
                seen.add(tuple(parts[0]))
                for gram in {gram for part in parts for gram in part}:
                    often[gram] = often.get(gram, 0) + 1
        for place, part in enumerate(self.parts):
            part -= {gram for gram in part if often[gram] > most}
            for gram in part:
                self.having.setdefault(gram, []).append(place)

    @staticmethod
    def grams(words: list[str], size: int) -> Iterator[tuple[str, ...]]:
        """N-grams of words."""
        return zip(*(words[k:] for k in range(size)), strict=False)

    def overlap(self, text: str) -> float:
        """The highest share of a part's n-grams that stand in a text."""
        words = plain_words(text)
        counts: dict[int, int] = {}
        for size in self.sizes:
            for gram in set(self.grams(words, size)) & self.having.keys():
                for part in self.having[gram]:
                    counts[part] = counts.get(part, 0) + 1
        return max((count / len(self.parts[part]) for part, count in counts.items()), default=0.0)


def overlaps(
    measure: Callable[[pa.RecordBatch], Measured], texts: list[str]
) -> dict[str, np.ndarray]:
    """What the loaded step measures of texts."""
    batch = pa.RecordBatch.from_pydict(
        {"document": pa.array(range(len(texts)), pa.int64()), "text": pa.array(texts)}
    )
    found = measure(batch).measures
    return {name: column.to_numpy(zero_copy_only=False) for name, column in found.items()}


def experiment(data: Path, *, items: int, novels: int, **keys: Any) -> dict[str, Any]:
    """Plant `items` items of each kind; counts found at several thresholds, by kind, and of
    documents without a plant.
    """
    pick = random.Random("leaks")
    rows = list(rows_of(data))
    plain = globals()["novels"](data, novels) + manuals(data, 60 * novels)
    step = step_of(data, **keys)
    reference = Sets([fields for _, fields in rows])
    chosen = pick.sample(
        [fields for _, fields in rows if len(" ".join(fields).split()) >= 20], items
    )
    told: dict[str, Any] = {
        "items": len(rows),
        "kinds": {},
        "differs from sets": 0,
        "compared with sets": 0,
    }
    measure = step.load(inputs_of(step))
    background = overlaps(measure, plain)
    told["plain"] = {
        "documents": len(plain),
        "any n-gram": int((background["overlap"] > 0).sum()),
        "dropped at 0.5": int((background["overlap"] >= 0.5).sum()),
    }
    for kind in KINDS:
        texts = []
        for fields in chosen:
            page = pick.choice(plain)
            at = page.find("\n", pick.randrange(len(page))) + 1
            texts.append(f"{page[:at]}\n{leaked(kind, fields, pick)}\n{page[at:]}")
        found = overlaps(measure, texts)
        shares = found["overlap"]
        told["kinds"][kind] = {
            "planted": len(texts),
            "found at 0.5": int((shares >= 0.5).sum()),
            "found at 0.2": int((shares >= 0.2).sum()),
            "found at 0": int((shares > 0).sum()),
            "median overlap": float(np.median(shares)),
        }
        if "similarity" in found:
            told["kinds"][kind]["alike"] = int((found["similarity"] >= step.similarity).sum())
        for place in range(0, len(texts), 10):
            told["compared with sets"] += 1
            told["differs from sets"] += int(
                abs(reference.overlap(texts[place]) - shares[place]) > 1e-12
            )
    for place in range(0, len(plain), 10):
        told["compared with sets"] += 1
        told["differs from sets"] += int(
            abs(reference.overlap(plain[place]) - background["overlap"][place]) > 1e-12
        )
    if "similarity" in background:
        told["plain"]["alike"] = int((background["similarity"] >= step.similarity).sum())
    return told


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/gristmill-data")
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--novels", type=int, default=20)
    parser.add_argument("--similarity", type=float)
    asked = parser.parse_args()
    keys = {} if asked.similarity is None else {"similarity": asked.similarity}
    told = experiment(asked.data, items=asked.items, novels=asked.novels, **keys)
    kinds = told.pop("kinds")
    columns = list(next(iter(kinds.values())))
    print("| leak | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for kind, counts in kinds.items():
        print(
            f"| {kind} | "
            + " | ".join(
                f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
                for value in counts.values()
            )
            + " |"
        )
    print(json.dumps(told))


if __name__ == "__main__":
    main()
