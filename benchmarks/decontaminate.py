"""Decontamination measured: the step `decontaminate` on documents of 5,000 bytes, every evaluation
set loaded, beside sets of words in plain Python.

Ours is the whole step on batches of about 4 MB: normalising, looking up, what is found as rows, the
decision. The plain reference is leaks.Sets, which gets a part of the documents. Both take turns in
one process, on one thread; processor time, medians.
"""

import statistics
import time
from pathlib import Path
from typing import Any

import leaks
import make_corpus
import numpy as np
import ours
import pyarrow as pa
from section import Section

SIZE = 5_000  # bytes of a document
PUBLISHED = 34.0  # us a document, allenai/decon's README: 30 GB in 5,162,084 documents in 175.7 s
PLAIN = 200  # documents of the plain reference
ROUNDS = 9


def pieces(texts: list[str]) -> list[str]:
    """Texts cut to documents of SIZE bytes; what is left over goes."""
    raw = "\n".join(texts).encode()
    return [raw[at : at + SIZE].decode("utf-8", "ignore") for at in range(0, len(raw) - SIZE, SIZE)]


def rows(data: Path) -> list[dict[str, Any]]:
    """A row a text."""
    reference = leaks.Sets([fields for _, fields in leaks.rows_of(data)])
    steps = {"overlap": leaks.step_of(data), "with similarity": leaks.step_of(data, similarity=0.5)}
    ready = {name: step.load(leaks.inputs_of(step)) for name, step in steps.items()}
    sets = {
        "novels": pieces(leaks.novels(data, 12)),
        "Debian's documentation": pieces(leaks.manuals(data, 500)),
    }
    sets["a leak in each"] = _with_leaks(data, sets["novels"])
    out = []
    for name, texts in sets.items():
        batches = []
        for column in ours._batches(texts):
            documents = pa.array(np.arange(len(column)), pa.int64())
            batches.append(pa.RecordBatch.from_arrays([documents, column], ["document", "text"]))
        times: dict[str, list[float]] = {"overlap": [], "with similarity": [], "plain": []}
        found: Any = None
        for turn in range(ROUNDS + 1):
            for way, measure in ready.items():
                if way == "with similarity" and turn > 3:
                    continue
                start = time.process_time()
                said = [measure(batch) for batch in batches]
                for one in said:
                    steps[way].decide(one.measures)
                took = (time.process_time() - start) / len(texts)
                found = said if way == "overlap" else found
                if turn:
                    times[way].append(took)
            if turn <= 3:
                start = time.process_time()
                expected = [reference.overlap(text) for text in texts[:PLAIN]]
                times["plain"].append((time.process_time() - start) / len(texts[:PLAIN]))
        overlaps = np.concatenate([one.measures["overlap"].to_numpy() for one in found])
        middle = {way: 1e6 * statistics.median(values) for way, values in times.items()}
        least = 1e6 * min(times["overlap"])
        out.append(
            {
                "documents": name,
                "count": len(texts),
                "us": middle["overlap"],
                "least": least,
                "plain_us": middle["plain"],
                "similarity_us": middle["with similarity"],
                "equal": bool(np.allclose(overlaps[: len(expected)], expected, rtol=0, atol=1e-12)),
                "dropped": int((overlaps >= 0.5).sum()),
            }
        )
    return out


def _with_leaks(data: Path, texts: list[str]) -> list[str]:
    """Documents that each hold an item, at their end."""
    fields = [leaks.leaked("verbatim", fields, None) for _, fields in leaks.rows_of(data)]  # type: ignore[arg-type]
    held = []
    for place, text in enumerate(texts):
        item = fields[place % len(fields)]
        head = text.encode()[: max(SIZE - len(item.encode()) - 1, 0)].decode("utf-8", "ignore")
        held.append(f"{head}\n{item}")
    return held


def table(rows: list[dict[str, Any]]) -> list[str]:
    """For RESULTS.md."""
    lines = [
        (
            "| documents of 5,000 bytes | count | ours, us (least) | MB/s | sets in plain "
            "Python, us | ratio | ours with similarity, us | equal | dropped | target: decon's "
            "published 34 us |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        met = "met" if row["us"] <= PUBLISHED else "**not met**"
        lines.append(
            f"| {row['documents']} | {row['count']:,} | {row['us']:.1f} ({row['least']:.1f}) "
            f"| {SIZE / row['us']:,.0f} | "
            f"{row['plain_us']:,.0f} | {row['plain_us'] / row['us']:,.0f} | "
            f"{row['similarity_us']:,.0f} | "
            f"{'yes' if row['equal'] else '**no**'} | {row['dropped']:,} | {met} |"
        )
    return lines


SECTION = Section(
    name="decontaminate",
    title="Decontamination: word 13-grams of six evaluation sets",
    remarks=(
        "HumanEval, GSM8K, ARC-easy, PIQA, LAMBADA and MMLU's dev sets are all loaded. Ours is "
        "the whole step: normalising, lookup, rows of finds, decision; equal: the same overlap as"
        " sets of words on these documents. 34 us per document is from the README of "
        "allenai/decon (30 GB, 5.2 million documents, machine not named, 5.8 KB each); it was not"
        " run here. It samples its n-grams, ours looks up each one."
    ),
    measure=lambda _: rows(make_corpus.data_folder()),
    table=table,
)
