"""Shingles and bands on labelled near-duplicates: what each choice finds, and what it compares in
vain. Prints three tables.

    python banding.py [--data FOLDER]

Truth is all pairs: the exact Jaccard similarity of word shingles of each width, by an inverted
index. The defaults are those of `[deduplicate.near]`.
"""

import argparse
import gzip
import json
import random
import sys
import tempfile
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.duplicates import deduplicate
from gristmill.dedup.near import candidates
from gristmill.dedup.settings import Deduplicate, Near
from gristmill.dedup.shard_tables import ShardTables
from gristmill.dedup.signatures import sign
from gristmill.engine.relations import duckdb_with
from gristmill.kernels.hashing.minhash import distinct_shingles
from gristmill.kernels.unicode.normalised import normalise
from gristmill.tables import schema
from gristmill.tables.columns import utf8_buffers

SETS = ("govuk_cc_wet_2024a", "postgresql_doc_13_15")
BANDS = ((32, 4), (16, 8), (20, 6), (14, 8))
THRESHOLD = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path.home() / ".cache/gristmill-data")
    folder = parser.parse_args().data / "C_neardup"
    texts = [
        json.loads(line)["text"]
        for name in SETS
        for line in gzip.open(folder / name / "docs.jsonl.gz")
    ]
    print(f"{len(texts):,} documents of {', '.join(SETS)}\n")
    shown(
        "| width | bands x rows | pairs at 0.8 | of them met | pairs met a document | after "
        "signatures | of those below 0.7 | dropped | truth drops |"
    )
    for width in (3, 5, 9):
        truth = similarities(texts, width)
        for bands, rows in BANDS:
            print(
                row_of(texts, truth, Near(shingle=width, bands=bands, rows=rows, keepers=0)),
                flush=True,
            )
    templated = templates(texts)
    for name, some in (("real, edited", edited(texts)), ("templated", templated)):
        truth = similarities(some, 5)
        print(f"\n{name}: {len(some):,} documents")
        shown(
            "| candidates of a bucket | pairs met a document | after signatures | dropped, "
            "of what all candidates would drop |"
        )
        every = kept_by(truth, len(some))
        for most in (1, 2, 4, 8, 16):
            found = ask(some, Near(candidates=most, keepers=0))
            print(
                (
                    f"| {most} | {found['met'] / len(some):.2f} | "
                    f"{found['likely'] / len(some):.2f} | "
                    f"{len(found['drops']) / max(every, 1):.2%} |"
                ),
                flush=True,
            )


def shown(head: str) -> None:
    """A table's head."""
    print(head + "\n" + "|---" * (head.count("|") - 1) + "|", flush=True)


def row_of(texts: list[str], truth: dict[tuple[int, int], float], near: Near) -> str:
    """One choice, measured."""
    found = ask(texts, near)
    alike = {pair for pair, similarity in truth.items() if similarity >= THRESHOLD}
    # Exact copies are one document here: truth and bands are asked of what exact.sql leaves.
    met = sum(pair in found["pairs"] for pair in alike)
    false = sum(truth.get(pair, 0.0) < near.least for pair in found["pairs"])
    return (
        f"| {near.shingle} | {near.bands} x {near.rows} | {len(alike):,} | "
        f"{met / len(alike):.2%} | {found['met'] / len(texts):.2f} "
        f"| {found['likely'] / len(texts):.2f} | {false / max(len(found['pairs']), 1):.1%} | "
        f"{len(found['drops']):,} | {kept_by(truth, len(texts)):,} |"
    )


def similarities(texts: list[str], width: int) -> dict[tuple[int, int], float]:
    """All pairs that share a shingle, with their true similarity where it is 0.3 or more."""
    offsets, hashes = distinct_shingles(*normalise(*utf8_buffers(pa.array(texts))), width=width)
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(len(texts)), sizes)
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(hashes[order].view(np.int64)) != 0])
    shared: Counter[tuple[int, int]] = Counter()
    for start, stop in zip(starts, np.r_[starts[1:], len(order)], strict=True):
        if stop - start > 1:
            shared.update(combinations(sorted(owners[order[start:stop]].tolist()), 2))
    told = {(b, a): count / (sizes[a] + sizes[b] - count) for (a, b), count in shared.items()}
    return {pair: float(similarity) for pair, similarity in told.items() if similarity >= 0.3}


def kept_by(truth: dict[tuple[int, int], float], count: int) -> int:
    """How many documents the rule drops when every earlier document is a candidate."""
    alike: dict[int, list[int]] = {}
    for (later, earlier), similarity in truth.items():
        if similarity >= THRESHOLD:
            alike.setdefault(later, []).append(earlier)
    gone: set[int] = set()
    for document in range(count):
        if any(earlier not in gone for earlier in alike.get(document, ())):
            gone.add(document)
    return len(gone)


def ask(texts: list[str], near: Near) -> dict[str, Any]:
    """Deduplicate texts as one shard: what met, what was likely, what was compared, what goes."""
    settings = Deduplicate(exact=False, near=near)
    counts = Counter[str]()
    original = candidates.likely_pairs

    def counted(found: list[Path], *rest: Any) -> list[Path]:
        counts["met"] = sum(pq.read_metadata(path).num_rows for path in found)
        targets = original(found, *rest)
        counts["likely"] = sum(pq.read_metadata(path).num_rows for path in targets)
        return targets

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batch = pa.RecordBatch.from_pylist(
            [{"document": row, "text": text} for row, text in enumerate(texts)], schema.DOCUMENTS
        )
        pq.write_table(pa.Table.from_batches([batch]), folder / "documents.parquet")
        pq.write_table(
            pa.Table.from_batches([sign(batch, settings)]), folder / "signatures.parquet"
        )
        module = sys.modules["gristmill.dedup.near.near_stage"]
        module.likely_pairs = counted  # type: ignore[attr-defined]
        try:
            deduplicated = deduplicate(
                [ShardTables(folder / "signatures.parquet", folder / "documents.parquet", 0)],
                settings,
                folder / "work",
                opener=duckdb_with(2, 1000),
                on_progress=lambda _: None,
            )
        finally:
            module.likely_pairs = original  # type: ignore[attr-defined]
        found = pq.read_table(deduplicated.pairs)
        pairs = set(zip(found["document"].to_pylist(), found["candidate"].to_pylist(), strict=True))
        return {"pairs": pairs, "drops": deduplicated.drops["document"].to_pylist(), **counts}


def edited(texts: list[str]) -> list[str]:
    """The documents, and as many again with up to 5 % of their words replaced."""
    pick = random.Random(1)
    found = list(texts)
    for _ in range(len(texts)):
        words = pick.choice(texts).split(" ")
        for _ in range(int(len(words) * pick.choice([0.002, 0.005, 0.01, 0.02, 0.05]))):
            words[pick.randrange(len(words))] = f"edit{pick.randrange(10**6)}"
        found.append(" ".join(words))
    pick.shuffle(found)
    return found


def templates(texts: list[str]) -> list[str]:
    """2,000 pages of eight templates: two thirds of a page are its template's, a third its own."""
    pick = random.Random(2)
    words = " ".join(texts).split(" ")
    frames = [
        words[place : place + 160] for place in (pick.randrange(len(words) - 200) for _ in range(8))
    ]
    found = []
    for _ in range(2000):
        place = pick.randrange(len(words) - 100)
        found.append(
            " ".join([*pick.choice(frames), *words[place : place + pick.randrange(10, 70)]])
        )
    return found


if __name__ == "__main__":
    main()
