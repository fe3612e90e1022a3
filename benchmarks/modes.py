"""What each mode of gristmill's own extraction does to the pages whose main text is known."""

import time
from typing import Any

import make_corpus
from extraction import ROUNDS, Pages, batch_of, score, sets
from harness import Bench
from section import Rows, Section

from gristmill.filters.extract.extract import Extract

MODES: dict[str, dict[str, Any]] = {
    "balanced": {},
    'favor = "precision"': {"favor": "precision"},
    'favor = "recall"': {"favor": "recall"},
    "comments = true": {"comments": True},
    "comments = false": {"comments": False},
    'articles = "first"': {"articles": "first"},
    "tables = false": {"tables": False},
    "lists = false": {"lists": False},
    "headings = false": {"headings": False},
    'format = "markdown"': {"format": "markdown"},
    'format = "markdown", links = true': {"format": "markdown", "links": True},
    "metadata = true": {"metadata": True},
    'types = ["article"]': {"types": ("article",)},
    'types = ["article"], min_type = 0.9': {"types": ("article",), "min_type": 0.9},
    'types = ["forum", "listing"]': {"types": ("forum", "listing")},
}


def _texts(pages: list[Pages], settings: dict[str, Any]) -> tuple[list[list[str | None]], float]:
    """Of each set the texts, None where a page is dropped; processor seconds."""
    step = Extract(**settings)
    measure = step.load({})
    texts: list[list[str | None]] = []
    seconds = 0.0
    for each in pages:
        batch, least = batch_of(each.sources), float("inf")
        for _ in range(ROUNDS):
            start = time.process_time()
            found = measure(batch)
            reasons = step.decide(found.measures).reason.to_pylist()
            least = min(least, time.process_time() - start)
        assert found.text is not None
        kept = zip(reasons, found.text.to_pylist(), strict=True)
        texts.append([text if reason is None else None for reason, text in kept])
        seconds += least
    return texts, seconds


def measure(bench: Bench) -> Rows:
    """A row for each mode: means over the sets' pages that are kept, and of each set its F1."""
    pages = sets(make_corpus.data_folder())
    rows = []
    for mode, settings in MODES.items():
        texts, seconds = _texts(pages, settings)
        scores = [
            [
                score(text, true)
                for text, true in zip(ours, each.texts, strict=True)
                if text is not None
            ]
            for ours, each in zip(texts, pages, strict=True)
        ]
        every = [row for part in scores for row in part]
        precision, recall, f1 = (sum(column) / len(every) for column in zip(*every, strict=True))
        rows.append(
            {
                "mode": mode,
                "pages": sum(len(each.sources) for each in pages),
                "kept": len(every),
                "characters": sum(len(text or "") for part in texts for text in part),
                "precision": precision,
                "recall": recall,
                "f1": f1,
                "sets": {
                    each.name: sum(row[2] for row in part) / max(len(part), 1)
                    for each, part in zip(pages, scores, strict=True)
                },
                "pages_per_second": sum(len(each.sources) for each in pages) / seconds,
            }
        )
        bench.say(f"modes, {mode}: precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}")
    return rows


def table(rows: Rows) -> list[str]:
    """A line for each mode."""
    names = list(rows[0]["sets"]) if rows else []
    columns = ["mode", "pages kept", "characters", "precision", "recall", "F1", *names, "pages/s"]
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    for row in rows:
        shown = " | ".join(f"{row['sets'][name]:.3f}" for name in names)
        lines.append(
            f"| `{row['mode']}` | {row['kept']} of {row['pages']} | {row['characters']:,} | "
            f"{row['precision']:.3f} | {row['recall']:.3f} | {row['f1']:.3f} | {shown} | "
            f"{row['pages_per_second']:,.0f} |"
        )
    return lines


SECTION = Section(
    name="modes",
    title="Modes of gristmill's own extraction",
    remarks=(
        "The pages of the section before (`benchmarks/extraction.py`) through the step with one "
        "parameter changed; means over the pages that are kept, then each set's F1. The forest was "
        "trained on these pages: compare modes with each other, not with other extractors. Words "
        "are bags of `\\w+`, so the targets of links count as words that are not true."
    ),
    measure=measure,
    table=table,
)
