"""Which signatures are duplicates, at one size and at ten times it, with known answers.

    python pairs_at_scale.py make FOLDER DOCUMENTS SEED HOT
        writes signatures as the corpus stores them, in shards of 100,000
    python pairs_at_scale.py deduplicate FOLDER TOLD [--cuts N]
        runs dedup.duplicates over them, as a whole run does it, without texts, and writes the
        result to the file TOLD; --cuts sets the number of cuts of the keys

Every signature can be made from its document's number alone. 74 % are originals, 3 % are exact
copies of an earlier original, 18 % near copies (1 to 25 of its 128 numbers differ, so the agreement
is at least 0.8), 5 % are apart (30 to 60 differ). One copy in ten is of one of the first 64
originals. HOT of all documents have the same first band and nothing else in common.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from section import Section

if TYPE_CHECKING:
    from dedup import Hands

BANDS, ROWS, THRESHOLD = 32, 4, 0.8
NUMBERS = BANDS * ROWS
SHARD, PIECE, ROW_BITS = 100_000, 20_000, 32
ORIGINAL, EXACT, NEAR, APART = range(4)
BOUNDS = np.cumsum([0.74, 0.03, 0.18])
CHANGED = {NEAR: (1, 25), APART: (30, 60)}
POPULAR, HOT = 64, 0.01
MEMORY_MB = 400  # what a whole run lends the relational engine
SIZES = (10, 100)  # times the harness' number of documents
# of the keys of 10,000,000 documents; of 1,000,000 there are 4, where more of a pair's bands meet
# in one cut
CUTS = 64


def mixed(values: np.ndarray, salt: int) -> np.ndarray:
    """64 random bits of each number (splitmix64's)."""
    with np.errstate(over="ignore"):
        values = (values.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


def share(values: np.ndarray, salt: int) -> np.ndarray:
    """A random number below 1 of each."""
    return (mixed(values, salt) >> np.uint64(11)) / float(1 << 53)


def kinds(numbers: np.ndarray, seed: int) -> np.ndarray:
    """What documents would be, if there were an original to copy."""
    found = np.searchsorted(BOUNDS, share(numbers, seed * 1000 + 1), "right")
    return np.where(numbers == 0, ORIGINAL, found)


def sources(numbers: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(kind, original) of documents: an earlier original; themselves where none is found."""
    kind, source = kinds(numbers, seed), numbers.copy()
    open_ = kind != ORIGINAL
    for turn in range(20):
        popular = share(numbers, seed * 1000 + 100 + turn) < 0.1
        below = np.where(popular, np.minimum(numbers, POPULAR), numbers)
        drawn = (share(numbers, seed * 1000 + 200 + turn) * below).astype(np.int64)
        fits = open_ & (kinds(drawn, seed) == ORIGINAL)
        source[fits] = drawn[fits]
        open_ &= ~fits
    return np.where(open_, ORIGINAL, kind), source


def changed(numbers: np.ndarray, kind: np.ndarray, seed: int) -> np.ndarray:
    """Which numbers of a copy's signature are its own: (n, NUMBERS) bool."""
    order = (
        mixed(numbers[:, None] * NUMBERS + np.arange(NUMBERS), seed * 1000 + 3)
        .argsort(axis=1)
        .argsort(axis=1)
    )
    counts = np.zeros(len(numbers), np.int64)
    for which, (least, most) in CHANGED.items():
        drawn = least + (share(numbers, seed * 1000 + 4) * (most - least + 1)).astype(np.int64)
        counts = np.where(kind == which, drawn, counts)
    return np.asarray(order < counts[:, None])


def make(folder: Path, count: int, seed: int, hot: float) -> None:
    """Write the shards, and last what should be dropped."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gristmill.tables import schema
    from gristmill.tables.columns import fixed_binary

    folder.mkdir(parents=True, exist_ok=True)
    drops = []
    places = np.arange(NUMBERS)
    for shard, start in enumerate(range(0, count, SHARD)):
        with pq.ParquetWriter(
            folder / f"{shard:05d}.parquet",
            schema.signatures(NUMBERS),
            compression="none",
            use_dictionary=False,
        ) as writer:
            for begin in range(start, min(start + SHARD, count), PIECE):
                numbers = np.arange(begin, min(begin + PIECE, start + SHARD, count))
                kind, source = sources(numbers, seed)
                values = mixed(source[:, None] * NUMBERS + places, seed).astype(np.uint32)
                copies = np.flatnonzero((kind == NEAR) | (kind == APART))
                other = changed(numbers[copies], kind[copies], seed)
                own = mixed(numbers[copies, None] * NUMBERS + places, seed + 1).astype(np.uint32)
                values[copies] = np.where(other, own, values[copies])
                # An original's band is its copies' as well.
                values[np.ix_(share(source, seed * 1000 + 5) < hot, range(ROWS))] = 1
                texts = np.where(kind == EXACT, source, numbers)
                hashes = np.stack([mixed(texts, seed * 1000 + salt) for salt in (6, 7)], axis=1)
                documents = (np.int64(shard) << ROW_BITS) + numbers - start
                columns = [
                    pa.array(documents),
                    fixed_binary(hashes.view(np.uint8)),
                    fixed_binary(values.astype("<u4")),
                ]
                writer.write_table(pa.table(columns, schema=schema.signatures(NUMBERS)))
                drops.append((kind == EXACT) | (kind == NEAR))
    np.save(folder / "drops.npy", np.concatenate(drops))


def deduplicate(folder: Path, cuts: int | None = None) -> dict[str, Any]:
    """Find the duplicates: time, disk at the peak, recall and precision."""
    from gristmill.dedup import duplicates as deduplicating
    from gristmill.dedup.near import signature_rows
    from gristmill.dedup.settings import Deduplicate, Near
    from gristmill.dedup.shard_tables import ShardTables
    from gristmill.engine.executor import threads_with
    from gristmill.engine.relations import duckdb_with

    tables = [ShardTables(path, path, 0) for path in sorted(folder.glob("*.parquet"))]
    wanted = np.load(folder / "drops.npy")
    if cuts is not None:
        signature_rows.KEYS = len(wanted) * BANDS // cuts
    settings = Deduplicate(
        exact=True, near=Near(verify="signatures", bands=BANDS, rows=ROWS, threshold=THRESHOLD)
    )
    work, ended, laid_out = folder / "work", threading.Event(), [0.0]
    shutil.rmtree(work, ignore_errors=True)
    free = shutil.disk_usage(folder).free
    least = [free]

    def watch() -> None:
        # Not the size of each file: there are thousands, and the run would wait for the lock.
        while not ended.wait(0.25):
            least[0] = min(least[0], shutil.disk_usage(folder).free)

    def tell(rows: int) -> None:
        laid_out[0] = time.perf_counter()

    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, cpu = time.perf_counter(), time.process_time()
    threads = len(os.sched_getaffinity(0))
    deduplicated = deduplicating.deduplicate(
        tables,
        settings,
        work,
        opener=duckdb_with(threads, MEMORY_MB),
        executor=threads_with(threads),
        on_progress=tell,
    )
    now, cpu = time.perf_counter(), time.process_time() - cpu
    ended.set()
    watcher.join()
    documents = deduplicated.drops["document"].to_numpy()
    found = np.zeros(len(wanted), bool)
    found[(documents >> ROW_BITS) * SHARD + (documents & ((1 << ROW_BITS) - 1))] = True
    shutil.rmtree(work)
    return {
        "documents": len(wanted),
        "wall": now - wall,
        "cpu": cpu,
        "laid_out": laid_out[0] - wall,
        "disk": free - least[0],
        "drops": int(found.sum()),
        "recall": float((found & wanted).sum() / wanted.sum()),
        "precision": float((found & wanted).sum() / max(1, found.sum())),
    }


def signatures(
    hands: "Hands", count: int, hot: float, who: str, cuts: int | None = None
) -> dict[str, Any]:
    """One size: make, deduplicate in a process of its own, remove."""
    folder, told = hands.data / f"signatures-{count}", hands.data / "told.json"
    row: dict[str, Any] = {
        "who": who,
        "documents": count,
        "kind": "signatures",
        "hot": hot,
        "cuts": cuts,
    }
    shutil.rmtree(folder, ignore_errors=True)
    script = [sys.executable, __file__]
    try:
        subprocess.run(
            [*script, "make", str(folder), str(count), str(hands.seed), str(hot)],
            check=True,
            env=hands.ours,
        )
        how = [] if cuts is None else ["--cuts", str(cuts)]
        run = hands.tree(
            [*script, "deduplicate", str(folder), str(told), *how], hands.ours, pinned=False
        )
        row |= {"pss": run["peak_pss"]} | json.loads(told.read_text())
        hands.say(
            f"{who}: {row['wall']:.1f} s, {row['pss'] / 1e6:,.0f} MB, disk "
            f"{row['disk'] / 1e9:.1f} GB"
        )
    except RuntimeError as error:
        hands.say(f"{who}: {error}")
        row["failed"] = str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return row


def measure(hands: "Hands", count: int) -> list[dict[str, Any]]:
    """Texts and ten times as many; signatures and ten times as many; one bucket of all
    documents.
    """
    import dedup

    rows = []
    for times in (1, SIZES[0]):
        one = dedup.ours(hands, dedup.corpus(hands, count * times), BANDS, ROWS, 2, 1)
        rows.append(one | {"who": "texts, 32 x 4, 2 workers", "kind": "texts"})
    for times in SIZES:
        rows.append(signatures(hands, count * times, HOT, "signatures, 32 x 4"))
    rows.append(
        signatures(
            hands,
            count * SIZES[0],
            HOT,
            f"signatures, 32 x 4, in {CUTS} cuts as ten times as many",
            CUTS,
        )
    )
    rows.append(signatures(hands, count * SIZES[0], 1.0, "the same, all of them in one bucket"))
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as Markdown."""
    lines = [
        (
            "| what | documents | wall s | processor s | us a document | peak PSS, MB | disk at "
            "the peak, GB | recall | precision |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(
                f"| {row['who']} | {row['documents']:,} | not measured: {row['failed']} | | "
                "| | | | |"
            )
            continue
        rest = "| | | |"
        if row["kind"] == "signatures":
            rest = f"| {row['disk'] / 1e9:.2f} | {row['recall']:.4%} | {row['precision']:.4%} |"
        lines.append(
            f"| {row['who']} | {row['documents']:,} | {row['wall']:.1f} | {row['cpu']:.1f} "
            f"| {row['wall'] / row['documents'] * 1e6:.1f} | {row['pss'] / 1e6:,.0f} {rest}"
        )
    lines.append("")
    compared = [
        ("texts, ratio at most 1.15", *rows[:2]),
        ("signatures, as they are cut by default", *rows[2:4]),
    ]
    compared += [
        ("signatures, with the same partitioning, ratio at most 1.15", row, rows[3])
        for row in rows
        if row.get("cuts")
    ]
    for what, small, large in compared:
        if "failed" in small or "failed" in large:
            continue
        wall, cpu = (
            large[name] / large["documents"] / (small[name] / small["documents"])
            for name in ("wall", "cpu")
        )
        met = "" if "1.15" not in what else "met " if max(wall, cpu) <= 1.15 else "**not met** "
        lines.append(
            f"* Time per document of ten times as many {what}: {met}(wall {wall:.2f}, "
            f"processor {cpu:.2f})."
        )
    if "failed" not in rows[3]:
        met = "met" if rows[3]["pss"] < 2e9 else "**not met**"
        lines.append(f"* Memory under 2,000 MB: {met} ({rows[3]['pss'] / 1e6:,.0f}).")
    return lines


def main() -> None:
    """Make or deduplicate, in a process of its own."""
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    making, deduplicating = verbs.add_parser("make"), verbs.add_parser("deduplicate")
    for one in (making, deduplicating):
        one.add_argument("folder", type=Path)
    making.add_argument("documents", type=int)
    making.add_argument("seed", type=int)
    making.add_argument("hot", type=float)
    deduplicating.add_argument("told", type=Path)
    deduplicating.add_argument("--cuts", type=int)
    asked = parser.parse_args()
    if asked.verb == "make":
        make(asked.folder, asked.documents, asked.seed, asked.hot)
    else:
        asked.told.write_text(json.dumps(deduplicate(asked.folder, asked.cuts)))


SECTION = Section(
    name="dedup-scale",
    title="Deduplication of ten times as much",
    remarks=(
        "One run each. Signatures are made with known duplicates (pairs_at_scale.py); recall and "
        "precision are relative to those."
    ),
    measure=lambda bench: measure(bench.hands(), bench.asked.documents),
    table=table,
    large=True,
)


if __name__ == "__main__":
    main()
