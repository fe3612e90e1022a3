"""Repeated spans: stretches of a document's bytes in which every window of n bytes occurs again.

    anchors of all shards -> repeated_anchors.sql   anchors that occur again
    members of all shards -> compare                a partition at a time: windows that occur again,
                                                    compared byte by byte
                          -> substrings.sql         in document order
                          -> joined                 SPANS

What is found does not depend on partitions, nor on hashes: docs/adr/0030-exact-substrings.md.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import map_array
from gristmill.dedup.substrings.windows import MEMBER, MemberFiles, context_lengths, read_members
from gristmill.engine.executor import Executor, fresh
from gristmill.engine.relations import Relations
from gristmill.store.parts import read_batches

SPANS = pa.schema(
    [
        pa.field(name, pa.int64(), nullable=False)
        for name in ("document", "first_byte", "end_byte", "places", "earliest")
    ]
)
PARTITION = 64 << 20  # bytes of contexts in a partition, about
MOST_BITS = 12
IN_MEMORY = 256 << 20  # bytes of contexts; those of a larger partition are mapped from a file


class WindowSettings(NamedTuple):
    """Which windows are looked for."""

    size: int  # bytes
    most: int  # places that one may be at
    keeps_first: bool  # its first place is not listed


class WindowPartition(NamedTuple):
    """All windows of one partition: a task."""

    place: int
    bits: int
    files: list[MemberFiles]
    windows: WindowSettings
    work: Path


def repeated_anchors(
    anchors: list[Path], most: int, relations: Callable[[], Relations], work: Path
) -> tuple[Path, int]:
    """Return the anchors of windows that may be at more than `most` places: a file of sorted int64,
    and how many runs have them.
    """
    target, runs = work / "repeated", 0
    with relations() as connection:
        connection.table("anchors", anchors, "hash, places")
        connection.row("parameters", most=most)
        written = connection.write("repeated_anchors", work / "repeated.parquet")
    with open(target, "wb") as file:
        for path in written:
            for batch in read_batches(path):
                file.write(np.ascontiguousarray(batch["hash"].to_numpy()).data)
                runs += int(batch["runs"].to_numpy().sum())
    return target, runs


def partition_bits(runs: int, size: int) -> int:
    """Return how many bits number the partitions of this number of runs of windows."""
    total, bits = runs * (size + size // 3), 0
    while total >> bits > PARTITION and bits < MOST_BITS:
        bits += 1
    return bits


def find_repeated_spans(
    files: list[MemberFiles],
    bits: int,
    windows: WindowSettings,
    work: Path,
    *,
    relations: Callable[[], Relations],
    executor: Executor,
) -> Iterator[pa.RecordBatch]:
    """Yield the repeated spans of all documents, in document order: SPANS."""
    tasks = (WindowPartition(place, bits, files, windows, work) for place in range(1 << bits))
    paths = list(executor(compare, tasks))
    with relations() as connection:
        connection.table("found", paths, ", ".join(SPANS.names))
        written = connection.write("substrings", work / "ordered.parquet")
    for path in paths:
        path.unlink()
    yield from joined(batch for path in written for batch in read_batches(path))


def compare(task: WindowPartition) -> Path:
    """Write the intervals of a partition's windows that are at more than `most` places: Parquet of
    SPANS, in no order.
    """
    from gristmill.kernels.substrings import repeats

    target = fresh(task.work, f"found-{task.place:04d}")
    members, scopes, contexts, mapped = _loaded(task)
    lengths = context_lengths(members, task.windows.size)
    starts = np.cumsum(lengths) - lengths
    order = np.lexsort((members["position"], members["document"], members["hash"], scopes))
    hashes, ordered = members["hash"][order], scopes[order]
    new = np.zeros(len(order), np.int64)
    new[1:] = (hashes[1:] != hashes[:-1]) | (ordered[1:] != ordered[:-1])
    given = repeats.RunMembers(
        np.cumsum(new),
        starts[order],
        members["count"][order].astype(np.int64),
        members["lead"][order].astype(np.int64),
        members["repeats"][order].astype(np.int64),
        np.ascontiguousarray(members["position"][order]),
    )
    documents = members["document"][order]
    del members, order, hashes, ordered, new, starts, lengths
    with pq.ParquetWriter(target, SPANS, compression="none", use_dictionary=False) as writer:
        for intervals in repeats.repeated(given, contexts, repeats.WantedWindows(*task.windows)):
            columns = [
                documents[intervals.members],
                intervals.starts,
                intervals.stops,
                intervals.places,
                documents[intervals.earliest],
            ]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=SPANS))
    if mapped is not None:
        mapped.unlink()
    return target


def _loaded(task: WindowPartition) -> tuple[np.ndarray, np.ndarray, np.ndarray, Path | None]:
    """Return a partition's members, their scopes, the buffer of their contexts, and the file that
    it is mapped from; None: it is in memory.
    """
    members: list[np.ndarray] = []
    scopes: list[np.ndarray] = []
    held: list[bytes] = []
    size = 0
    mapped: Path | None = None
    for block, contexts, scope in read_members(task.files, task.place, task.bits):
        members.append(block)
        scopes.append(np.full(len(block), scope, np.int64))
        held.append(contexts)
        size += len(contexts)
        if size > IN_MEMORY:
            mapped = mapped or fresh(task.work, f"contexts-{task.place:04d}")
            with open(mapped, "ab") as file:
                file.writelines(held)
            held, size = [], 0
    if mapped is not None:
        with open(mapped, "ab") as file:
            file.writelines(held)
        buffer = map_array(mapped, np.uint8)
    else:
        buffer = np.frombuffer(b"".join(held), np.uint8)
    every = np.concatenate([*members, np.empty(0, MEMBER)])
    return every, np.concatenate([*scopes, np.empty(0, np.int64)]), buffer, mapped


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join intervals of a document that overlap or touch: SPANS in document order, from intervals
    in document order.

    A span's places are the most of its windows', its earliest document is its first window's.
    """
    held = [np.empty(0, np.int64) for _ in SPANS.names]
    for batch in batches:
        held = _joined(
            [
                np.concatenate([before, batch[name].to_numpy()])
                for before, name in zip(held, SPANS.names, strict=True)
            ]
        )
        if len(held[0]) > 1:
            yield _batch([column[:-1] for column in held])
            held = [column[-1:] for column in held]
    if len(held[0]):
        yield _batch(held)


def _joined(columns: list[np.ndarray]) -> list[np.ndarray]:
    documents, starts, stops, places, earliest = columns
    if not len(documents):
        return columns
    first = np.flatnonzero(np.diff(documents, prepend=documents[0] - 1))
    # The furthest end within a document so far: ends of later documents are made greater.
    number = np.repeat(np.arange(len(first)), np.diff(first, append=len(documents)))
    reach = np.maximum.accumulate((number << 40) + stops)
    new = np.ones(len(documents), bool)
    new[1:] = (number[1:] << 40) + starts[1:] > reach[:-1]
    heads = np.flatnonzero(new)
    return [
        documents[heads],
        starts[heads],
        np.maximum.reduceat(stops, heads),
        np.maximum.reduceat(places, heads),
        earliest[heads],
    ]


def _batch(columns: list[np.ndarray]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SPANS)
