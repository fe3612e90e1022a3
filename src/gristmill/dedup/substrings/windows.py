"""Windows that may occur again: what each shard says of its windows.

    texts -> make_anchors     hash, places: one row a run of windows (kernels/substrings/runs.py)
    texts -> write_members    of the runs whose anchor occurs again all that comparing them needs,
                              in a file of bytes and a file of MEMBER, sorted by partition in blocks

A partition is the runs whose anchors' hashes begin with the same bits: windows that are equal are
in one partition.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.dedup.disk_arrays import in_sorted, map_array, write_array
from gristmill.tables.columns import utf8_buffers

ANCHORS = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("hash", "places")])
MEMBER = np.dtype(
    [
        ("hash", "<i8"),  # of the anchor
        ("document", "<i8"),
        ("position", "<i8"),  # where the first window starts, in bytes of the document's text
        ("count", "<i4"),  # windows
        ("lead", "<i4"),  # bytes from the first window's start to the anchor
        ("repeats", "<i4"),  # runs with the same bytes that follow at once
    ]
)
BLOCK = 32 << 20  # bytes of members and contexts that are sorted together


class MemberFiles(NamedTuple):
    """The members of one shard."""

    members: Path  # MEMBER
    contexts: Path  # the bytes that each one's windows cover
    blocks: Path  # (blocks, partitions, 2) int64: how many members and bytes
    scope: int  # documents of different scopes are never compared


def make_anchors(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield the anchors of all windows of `size` bytes: ANCHORS."""
    from gristmill.kernels.substrings.runs import find_runs

    for batch in batches:
        runs = find_runs(*utf8_buffers(batch["text"]), size=size)
        places = runs.repeats.astype(np.int64) + 1
        yield pa.RecordBatch.from_arrays([pa.array(runs.hashes), pa.array(places)], schema=ANCHORS)


def scoped(batch: pa.RecordBatch, scope: int) -> pa.RecordBatch:
    """Anchors of documents that are compared within a scope only."""
    hashes = pa.array(in_scope(batch["hash"].to_numpy(), scope))
    return pa.RecordBatch.from_arrays([hashes, batch["places"]], schema=ANCHORS)


def in_scope(hashes: np.ndarray, scope: int) -> np.ndarray:
    """Return hashes of anchors, others in each scope."""
    if scope == 0:
        return hashes
    return hashes ^ np.uint64(scope * 0x9E3779B97F4A7C15 % (1 << 64)).astype(np.int64)


def write_members(
    batches: Iterable[pa.RecordBatch],
    size: int,
    repeated: np.ndarray,
    bits: int,
    target: MemberFiles,
) -> None:
    """Write the runs of windows of `size` bytes whose anchors are among the sorted `repeated`, in
    2^bits partitions.
    """
    from gristmill.kernels.substrings.runs import find_runs, gather

    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    index: list[np.ndarray] = []
    held = 0
    with open(target.members, "wb") as members, open(target.contexts, "wb") as contexts:

        def flush() -> None:
            nonlocal held
            found, texts, counts = _sorted(waiting, size, bits)
            members.write(found.tobytes())
            contexts.write(texts.data)
            index.append(counts)
            waiting.clear()
            held = 0

        for batch in batches:
            offsets, data = utf8_buffers(batch["text"])
            runs = find_runs(offsets, data, size=size)
            hashes = in_scope(runs.hashes, target.scope)
            order = np.argsort(hashes)
            at = np.sort(order[in_sorted(hashes[order], repeated)])
            if not len(at):
                continue
            texts = runs.texts[at]
            found = np.empty(len(at), MEMBER)
            found["hash"] = hashes[at]
            found["document"] = batch["document"].to_numpy()[texts]
            found["position"] = runs.starts[at] - offsets[texts]
            found["count"], found["lead"] = runs.counts[at], runs.leads[at]
            found["repeats"] = runs.repeats[at]
            lengths = runs.counts[at].astype(np.int64) + (size - 1)
            waiting.append((found, gather(data, runs.starts[at], lengths)))
            held += found.nbytes + len(waiting[-1][1])
            if held >= BLOCK:
                flush()
        if waiting:
            flush()
    write_array(target.blocks, np.concatenate([*index, np.empty((0, 2), np.int64)]))


def _sorted(
    waiting: list[tuple[np.ndarray, np.ndarray]], size: int, bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a block by partitions: its members, their contexts, (partitions, 2) counts."""
    from gristmill.kernels.substrings.runs import gather

    members = np.concatenate([members for members, _ in waiting])
    contexts = np.concatenate([contexts for _, contexts in waiting])
    lengths = context_lengths(members, size)
    starts = np.cumsum(lengths) - lengths
    partitions = partition_numbers(members["hash"], bits)
    order = np.argsort(partitions, kind="stable")
    counts = np.stack(
        [
            np.bincount(partitions, weights, 1 << bits).astype(np.int64)
            for weights in (None, lengths)
        ],
        axis=1,
    )
    return members[order], gather(contexts, starts[order], lengths[order]), counts


def context_lengths(members: np.ndarray, size: int) -> np.ndarray:
    """Return the bytes of each member's context."""
    return np.asarray(members["count"].astype(np.int64) + (size - 1))


def partition_numbers(hashes: np.ndarray, bits: int) -> np.ndarray:
    """Return the partition of each anchor: (n,) int64."""
    if bits == 0:
        return np.zeros(len(hashes), np.int64)
    return (np.ascontiguousarray(hashes).view(np.uint64) >> np.uint64(64 - bits)).astype(np.int64)


def read_members(
    files: list[MemberFiles], partition: int, bits: int
) -> Iterator[tuple[np.ndarray, bytes, int]]:
    """Yield the members of a partition, block by block: (members, contexts, scope)."""
    for member_files in files:
        index = map_array(member_files.blocks, np.int64, 2).reshape(-1, 1 << bits, 2)
        ends = index.reshape(-1, 2).cumsum(axis=0).reshape(index.shape)
        with (
            open(member_files.members, "rb") as members,
            open(member_files.contexts, "rb") as contexts,
        ):
            for block in range(len(index)):
                rows, size = index[block, partition].tolist()
                if rows:
                    end: Any = ends[block, partition].tolist()
                    members.seek((end[0] - rows) * MEMBER.itemsize)
                    contexts.seek(end[1] - size)
                    records = np.frombuffer(members.read(rows * MEMBER.itemsize), MEMBER)
                    yield records, contexts.read(size), member_files.scope
