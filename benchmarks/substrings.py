"""Repeated substrings of made texts with known answers, at one size and at ten times it.

    python substrings.py MEGABYTES FOLDER ANSWER.json

Documents are 5,000 random letters, in shards of 100 MB that are made anew each time they are read.
One document in ten holds one of the passages, 1,500 bytes that are at some ten places of the
corpus, at byte 2,000. Everything else is `[deduplicate.substrings]` with its defaults, as the phase
runs it (gristmill/phases/relations/repeated_substrings.py): two passes over the texts, and what
they write on disk.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from section import Section

if TYPE_CHECKING:
    import pyarrow as pa
    from harness import Bench

    from gristmill.dedup.substrings.windows import MemberFiles

SIZES = (1_000, 10_000)  # MB of text
DOCUMENT, SHARD, BATCH = 5_000, 20_000, 800  # bytes of a document; documents of a shard, of a batch
PASSAGE, PLACE, ONE_IN, TIMES = 1_500, 2_000, 10, 10
WINDOW = 500
ROW_BITS = 32
MEMORY_MB = 400  # what a whole run lends the relational engine
LETTERS = np.frombuffer((b"abcdefghijklmnopqrstuvwxyz" * 10)[:256], np.uint8)


class Shard(Protocol):
    """One shard of a corpus."""

    @property
    def number(self) -> int: ...
    @property
    def work(self) -> Path: ...
    @property
    def window(self) -> int: ...
    def batches(self) -> "Iterator[pa.RecordBatch]":
        """The documents: `document`, `text`."""


class Texts(NamedTuple):
    """One shard of made texts."""

    number: int
    passages: int  # different ones, of the corpus
    work: Path
    window: int = WINDOW

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """The documents: `document`, `text`."""
        import pyarrow as pa

        letters = np.random.default_rng([1, self.number])
        passages = np.random.default_rng(0).bytes(self.passages * PASSAGE)
        pool = LETTERS[np.frombuffer(passages, np.uint8)].reshape(self.passages, PASSAGE)
        offsets = pa.py_buffer(np.arange(0, (BATCH + 1) * DOCUMENT, DOCUMENT, dtype=np.int32))
        for first in range(0, SHARD, BATCH):
            texts = LETTERS[np.frombuffer(letters.bytes(BATCH * DOCUMENT), np.uint8)]
            chosen = letters.integers(self.passages, size=BATCH // ONE_IN)
            texts.reshape(BATCH, DOCUMENT)[::ONE_IN, PLACE : PLACE + PASSAGE] = pool[chosen]
            documents = (np.int64(self.number) << ROW_BITS) + np.arange(first, first + BATCH)
            data = pa.StringArray.from_buffers(BATCH, offsets, pa.py_buffer(texts))
            yield pa.RecordBatch.from_arrays([pa.array(documents), data], ["document", "text"])

    def drawn(self) -> np.ndarray:
        """The passages of this shard (n,) int64, in document order."""
        letters = np.random.default_rng([1, self.number])
        found = []
        for _ in range(0, SHARD, BATCH):
            letters.bytes(BATCH * DOCUMENT)
            found.append(letters.integers(self.passages, size=BATCH // ONE_IN))
        return np.concatenate(found)


def shards_of(megabytes: int, work: Path) -> list[Texts]:
    """A corpus of this size."""
    shards = megabytes * 1_000_000 // (SHARD * DOCUMENT)
    passages = shards * SHARD // ONE_IN // TIMES
    return [Texts(number, passages, work) for number in range(shards)]


def _anchors(shard: Shard) -> Path:
    import pyarrow.parquet as pq

    from gristmill.dedup.substrings import windows

    target = shard.work / f"anchors-{shard.number}"
    with pq.ParquetWriter(target, windows.ANCHORS, compression="none") as writer:
        for batch in windows.make_anchors(shard.batches(), shard.window):
            writer.write_batch(batch)
    return target


def _members(repeated: Path, bits: int, shard: Shard) -> "MemberFiles":
    from gristmill.dedup.disk_arrays import map_array
    from gristmill.dedup.substrings import windows

    base = shard.work / f"members-{shard.number}"
    paths = [base.with_name(f"{base.name}{end}") for end in ("", ".contexts", ".index")]
    made = windows.MemberFiles(*paths, 0)
    windows.write_members(shard.batches(), shard.window, map_array(repeated, np.int64), bits, made)
    return made


class Found(NamedTuple):
    """What was found, and what it cost."""

    spans: list[np.ndarray]  # (3, n) int64 each: document, first byte, end byte
    wall: float
    cpu: float
    disk: int  # the most that was on disk at once


def find_spans(shards: Sequence[Shard], work: Path, *, keep_first: bool) -> Found:
    """Find the spans of shards, as a run does; `work` is theirs, and is removed."""
    from gristmill.dedup.substrings import repeated_spans
    from gristmill.engine.executor import threads_with
    from gristmill.engine.relations import duckdb_with

    threads, window = len(os.sched_getaffinity(0)), shards[0].window
    executor = threads_with(threads)
    relations = partial(duckdb_with(threads, MEMORY_MB), work / "spill", [work])
    wall, cpu = time.perf_counter(), time.process_time()
    anchors = list(executor(_anchors, shards))
    disk = _bytes(work)
    repeated, runs = repeated_spans.repeated_anchors(anchors, 1, relations, work)
    for path in anchors:
        path.unlink()
    bits = repeated_spans.partition_bits(runs, window)
    files = list(executor(partial(_members, repeated, bits), shards))
    disk = max(disk, _bytes(work))
    settings = repeated_spans.WindowSettings(window, 1, keep_first)
    spans = [
        np.stack([batch[name].to_numpy() for name in ("document", "first_byte", "end_byte")])
        for batch in repeated_spans.find_repeated_spans(
            files, bits, settings, work, relations=relations, executor=executor
        )
    ]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    shutil.rmtree(work)
    return Found(spans, wall, cpu, disk)


def find(megabytes: int, work: Path) -> dict[str, Any]:
    """Find the spans of made texts: time, disk, recall and precision by bytes."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shards = shards_of(megabytes, work)
    start = time.process_time()
    for _ in shards[0].batches():
        pass
    making = (time.process_time() - start) * len(shards)
    found = find_spans(shards, work, keep_first=True)
    cost = {"wall": found.wall, "cpu": found.cpu - 2 * making, "making": 2 * making}
    return cost | {"disk": found.disk} | _judged(found.spans, shards)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _judged(spans: list[np.ndarray], shards: list[Texts]) -> dict[str, Any]:
    """How much of the passages' places but the first is listed, and of the list is theirs."""
    documents, first, end = np.concatenate(spans, axis=1) if spans else np.zeros((3, 0), np.int64)
    drawn = np.concatenate([shard.drawn() for shard in shards])
    again = np.ones(len(drawn), bool)
    again[np.unique(drawn, return_index=True)[1]] = False
    per_shard = SHARD // ONE_IN
    numbers = np.flatnonzero(again)
    wanted = (numbers // per_shard << ROW_BITS) + numbers % per_shard * ONE_IN
    common = np.minimum(end, PLACE + PASSAGE) - np.maximum(first, PLACE)
    found = int(common[np.isin(documents, wanted)].clip(0).sum())
    return {
        "spans": len(documents),
        "recall": found / max(1, len(wanted) * PASSAGE),
        "precision": found / max(1, int((end - first).sum())),
    }


def measure(bench: "Bench") -> list[dict[str, Any]]:
    """Each size in a process of its own."""
    rows = []
    for megabytes in SIZES:
        folder, answer = bench.data / f"substrings-{megabytes}", bench.data / "substrings.json"
        command = [sys.executable, __file__, str(megabytes), str(folder), str(answer)]
        run = bench.tree(command, bench.plain(), pinned=False)
        row = {"megabytes": megabytes, "pss": run["peak_pss"]} | json.loads(answer.read_text())
        bench.say(f"{megabytes:,} MB: {row['cpu']:.1f} s, {row['pss'] / 1e6:,.0f} MB")
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as Markdown."""
    lines = [
        "| MB | CPU s | MB/s | wall s | peak PSS, MB | disk, GB | spans | recall | precision |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append(
            f"| {row['megabytes']:,} | {row['cpu']:.1f} | {row['megabytes'] / row['cpu']:.0f} | "
            f"{row['wall']:.0f} | {row['pss'] / 1e6:,.0f} | {row['disk'] / 1e9:.2f} | "
            f"{row['spans']:,} | {row['recall']:.4%} | {row['precision']:.4%} |"
        )
    met = "met" if rows[-1]["pss"] < 2e9 else "**not met**"
    return [*lines, "", f"* Memory under 2,000 MB for {rows[-1]['megabytes']:,} MB: {met}."]


SECTION = Section(
    name="substrings",
    title="Repeated substrings of ten times as much",
    remarks=(
        "One run each, spans of 500 bytes, texts of random letters with known repeated passages "
        "(substrings.py): their making is not in the processor time, but in the wall time. "
        "Recall and precision are by bytes of what is at a later place again."
    ),
    measure=measure,
    table=table,
    large=True,
)


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(find(int(sys.argv[1]), Path(sys.argv[2]))))
