"""Choices with letters, digits, bullets or nothing: `python lettered.py --data DIR` writes the
second table of docs/decontamination.md.

Items of several choices (MMLU's dev sets, ARC-easy) are planted in the layouts in which pages and
prompts show them, each in a clean document of its own. The clean documents are of four kinds, as
many as CLEAN says: manuals of PostgreSQL, pages of gov.uk, pieces of novels, main text of web
pages.
"""

import argparse
import csv
import gzip
import io
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leaks

from gristmill.filters.decontaminate.benchmarks import Benchmark
from gristmill.filters.decontaminate.decontaminate import Decontaminate

CLEAN = {"manuals": 600, "gov.uk": 400, "novels": 700, "pages": 251}
ITEMS = 500
COLUMNS = ["question", "A", "B", "C", "D"]
LETTERS, SMALL = "ABCDEFGH", "abcdefgh"
Item = list[str]  # a question and its choices


def _listed(mark: Callable[[int], str], between: str) -> Callable[[Item], str]:
    return lambda item: between.join(
        [item[0], *(mark(place) + choice for place, choice in enumerate(item[1:]))]
    )


LAYOUTS: dict[str, Callable[[Item], str]] = {
    "A. x, lines": _listed(lambda place: f"{LETTERS[place]}. ", "\n"),
    "(A) x (B) y, one line": _listed(lambda place: f"({LETTERS[place]}) ", " "),
    "A) x, lines": _listed(lambda place: f"{LETTERS[place]}) ", "\n"),
    "a) x; b) y, one line": _listed(lambda place: f"{SMALL[place]}) ", "; "),
    "A: x, lines": _listed(lambda place: f"{LETTERS[place]}: ", "\n"),
    "**A.** x, lines": _listed(lambda place: f"**{LETTERS[place]}.** ", "\n\n"),
    "1. x, lines": _listed(lambda place: f"{place + 1}. ", "\n"),
    "1) x 2) y, one line": _listed(lambda place: f"{place + 1}) ", " "),
    "bullets": _listed(lambda place: "• ", "\n"),
    "bare lines": _listed(lambda place: "", "\n"),
    "one line": _listed(lambda place: "", " "),
    "a prompt of MMLU": lambda item: (
        "Question: " + _listed(lambda place: f"{LETTERS[place]}. ", "\n")(item) + "\nAnswer:"
    ),
    "the question alone": lambda item: item[0],
}


def items_of(data: Path) -> list[Item]:
    """Questions and choices: MMLU's dev sets, then ARC-easy."""
    out: list[Item] = []
    for path in sorted((data / "E_bench/mmlu_dev").glob("*.csv")):
        out += [
            [row[key] for key in leaks.MMLU]
            for row in csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))
        ]
    for line in (data / "E_bench/llmfoundry_arc_easy.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        out.append([row["query"].removeprefix("Question: "), *row["choices"]])
    return out


def clean(data: Path) -> dict[str, list[str]]:
    """Documents without a leak, of each kind as many as CLEAN says, evenly chosen."""
    made = {
        "manuals": _texts(data / "C_neardup/postgresql_doc_13_15/docs.jsonl.gz"),
        "gov.uk": _texts(data / "C_neardup/govuk_cc_wet_2024a/docs.jsonl.gz"),
        "novels": leaks.novels(data, 12),
        "pages": [
            path.read_text("utf-8", "replace")
            for folder in ("cleaneval-dev", "CleanPortalEval-master")
            for path in sorted((data / "B_html" / folder / "GoldStandard").glob("*.txt"))
        ],
    }
    return {name: _spread(texts, CLEAN[name]) for name, texts in made.items()}


def _texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in gzip.decompress(path.read_bytes()).splitlines()]


def _spread(texts: list[str], count: int) -> list[str]:
    return [texts[place * len(texts) // count] for place in range(count)]


def step_of(items: list[Item], folder: Path, **keys: Any) -> Decontaminate:
    """A step that looks for items, their question and all choices."""
    path = folder / "items.jsonl"
    path.write_text(
        "".join(json.dumps({"question": item[0], "choices": item[1:]}) + "\n" for item in items)
    )
    return Decontaminate(
        benchmarks=[Benchmark(name="choices", file=str(path), fields=["question", "choices"])],
        **keys,
    )


def experiment(data: Path, *, items: int = ITEMS, **keys: Any) -> dict[str, Any]:
    """MMLU's dev items and as many of ARC-easy as make `items`, planted in each layout; found by
    layout, and clean documents dropped.
    """
    every = items_of(data)
    dev = min(len(every) - 2376, items)
    chosen = every[:dev] + every[-2376:][: max(items - dev, 0)]
    held = clean(data)
    hosts = [text for texts in held.values() for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        step = step_of(every, Path(folder), **keys)
        measure = step.load(leaks.inputs_of(step))
        background = leaks.overlaps(measure, hosts)["overlap"]
        pick = random.Random("lettered")
        found = {}
        for layout, show in LAYOUTS.items():
            texts = []
            for item in chosen:
                page = pick.choice(hosts)
                at = page.find("\n", pick.randrange(len(page))) + 1
                texts.append(f"{page[:at]}\n{show(item)}\n{page[at:]}")
            dropped = leaks.overlaps(measure, texts)["overlap"] >= step.threshold
            found[layout] = {"mmlu": int(dropped[:dev].sum()), "arc": int(dropped[dev:].sum())}
    told = {"planted": {"mmlu": dev, "arc": len(chosen) - dev}, "found": found, "clean": {}}
    start = 0
    for name, texts in held.items():
        own = background[start : start + len(texts)]
        told["clean"][name] = {
            "documents": len(own),
            "any": int((own > 0).sum()),
            "dropped": int((own >= step.threshold).sum()),
        }
        start += len(texts)
    return told


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/gristmill-data")
    parser.add_argument("--items", type=int, default=ITEMS)
    asked = parser.parse_args()
    told = experiment(asked.data, items=asked.items)
    planted = told["planted"]
    print(
        f"| layout | MMLU, of {planted['mmlu']:,} | ARC-easy, of {planted['arc']:,} "
        "|\n|---|---|---|"
    )
    for layout, found in told["found"].items():
        print(f"| {layout} | {found['mmlu']:,} | {found['arc']:,} |")
    print(json.dumps(told["clean"]))


if __name__ == "__main__":
    main()
