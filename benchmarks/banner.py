"""Tokens saved as a cookie banner spreads: `python banner.py [--documents N] [--most N]`.

The textbook's experiment: one banner is put into a fraction p of real documents (pages of a
government site and of manuals, C_neardup below $GRISTMILL_DATA), at a random line. Four runs for
each p: without deduplication, without exact and near duplicates, without frequent lines, and
without both. Reduction is the share of the first run's GPT-2 tokens that are removed.

The reduction at p = 0 is a property of the pages: versions of one page, menus, footers. A text
without its banner is as it was before, so frequent lines alone leave the same tokens at every p.
"""

import argparse
import gzip
import json
import os
import random
import tempfile
from pathlib import Path

from gristmill.pipeline import run
from gristmill.recipe import Loaded, parse

BANNER = (
    "We use cookies and similar technologies on this site to make it work, to remember your "
    "settings, and to understand how you use it. "
    "Some are set by partners who help us with advertising and statistics. You can accept "
    "all cookies, reject those that are not "
    "needed, or choose for each purpose; you can change your mind at any time under cookie "
    "settings at the bottom of every page."
)
RECIPE = """
[[source]]
name = "web"
files = ["pages.jsonl"]
[tokens]
tokenizer = "gpt2"
"""
NEAR = "[deduplicate]\nnear = {}\n"
LINES = "[deduplicate.lines]\nmost = %d\n"
STEPS = 10
WIDTH = 50


def documents(count: int) -> list[str]:
    """Real pages in a seeded order."""
    folder = Path(os.environ.get("GRISTMILL_DATA") or Path.home() / ".cache" / "gristmill-data")
    texts = []
    for name in ("govuk_cc_wet_2024a", "postgresql_doc_13_15"):
        with gzip.open(folder / "C_neardup" / name / "docs.jsonl.gz") as file:
            texts += [json.loads(line)["text"] for line in file]
    random.Random(1).shuffle(texts)
    return texts[:count]


def with_banner(texts: list[str], share: float) -> list[str]:
    """The banner at a line drawn at random of each document among the first `share` of a seeded
    order: more of it never moves it.
    """
    order = list(range(len(texts)))
    random.Random(2).shuffle(order)
    out = list(texts)
    for number in order[: round(share * len(texts))]:
        lines = texts[number].split("\n")
        lines.insert(random.Random(number).randint(0, len(lines)), BANNER)
        out[number] = "\n".join(lines)
    return out


def measure(texts: list[str], most: int, folder: Path, cache: Path) -> list[dict[str, float]]:
    """A row for each p."""
    found = []
    for step in range(STEPS + 1):
        here = folder / f"p{step}"
        here.mkdir(parents=True)
        pages = with_banner(texts, step / STEPS)
        (here / "pages.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in pages)
        )
        row: dict[str, float] = {"p": step / STEPS}
        ways = {
            "plain": "",
            "near": NEAR,
            "lines": "[deduplicate]\nexact = false\n" + LINES % most,
            "both": NEAR + LINES % most,
        }
        for name, more in ways.items():
            recipe = Loaded(parse(RECIPE + more, name), here)
            table = run(recipe, out=here / name, workers=1, cache_dir=cache).table
            row[name] = table["tokens"]
        found.append(row)
        print(row, flush=True)
    return found


def table(found: list[dict[str, float]]) -> list[str]:
    """The rows in Markdown, the plot, and what is the same in all of them."""
    lines = [
        "| p | tokens | of which the banner | exact and near duplicates | frequent lines | both |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        gone = [f"{1 - row[name] / row['plain']:.2%}" for name in ("near", "lines", "both")]
        banner = 1 - found[0]["plain"] / row["plain"]
        lines.append(f"| {row['p']:.1f} | {row['plain']:,} | {banner:.2%} | {' | '.join(gone)} |")
    top = -(-max(1 - row["both"] / row["plain"] for row in found) * 20 // 1) / 20
    lines += [
        "",
        "```",
        (
            f"{'p':>4}  tokens gone, 0 to {top:.0%} (n: exact and near duplicates, L: frequent "
            "lines, B: both)"
        ),
    ]
    for row in found:
        bar = [" "] * (WIDTH + 1)
        for mark, name in (("n", "near"), ("L", "lines"), ("B", "both")):
            bar[round(WIDTH * (1 - row[name] / row["plain"]) / top)] = mark
        lines.append(f"{row['p']:>4.1f}  |{''.join(bar)}|")
    left = {row["lines"] for row in found}
    lines += [
        "```",
        (
            f"Frequent lines alone leave {' or '.join(f'{count:,}' for count in sorted(left))} "
            "tokens at every p."
        ),
    ]
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument(
        "--most", type=int, help="documents a line may stand in (default: one in 20)"
    )
    asked = parser.parse_args()
    chosen = documents(asked.documents)
    with tempfile.TemporaryDirectory() as name:
        rows = measure(chosen, asked.most or len(chosen) // 20, Path(name), Path(name) / "cache")
    print("\n".join(table(rows)))
