"""Runs of tokens out of memory-mapped shards into rows, and the documents that they are of.

Shards lie one behind another: positions count tokens from the first one's first. A shard whose
address is 0 is not mapped yet; the kernels then return its number, and are called again.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.addresses import copy_from, load_i64_at
from gristmill.kernels.jit.compile import helper, kernel
from gristmill.kernels.jit.groups import Bools, Int64s

DONE, BROKEN = -1, -2


class Shards(NamedTuple):
    """Token shards and their .docs tables, by address."""

    starts: Int64s  # (shards + 1,) the position of each one's first token, and the end
    tokens: Int64s  # (shards,) address of the tokens; 0: not mapped yet
    documents: Int64s  # (shards,) address of the document numbers, behind which come the ends
    counts: Int64s  # (shards,) documents of each


class Runs(NamedTuple):
    """Tokens that follow one another: `lengths` tokens from `positions` on go to row `rows`, from
    column `columns` on. All (n,) int64.
    """

    rows: Int64s
    columns: Int64s
    positions: Int64s
    lengths: Int64s


class DocumentsInRuns(NamedTuple):
    """Of every document in every run: where it lies in its row. All (n,)."""

    rows: Int64s
    starts: Int64s  # the first column
    lengths: Int64s
    documents: Int64s
    begins: Bools  # its first token here is the document's first
    continues: Bools  # the token behind the run is the document's too
    offsets: Int64s  # tokens of the document before its first token here


@helper
def last_at_or_before(starts, value):
    """Return the last of ascending `starts`, whose final entry is the end, that is at or before a
    value: of a position its shard (one with tokens), of a bin its group.
    """
    low, high = np.int64(0), np.int64(len(starts) - 1)
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= value:
            low = middle
        else:
            high = middle
    return low


@helper
def _first_end_behind(table, count, local):
    """Of the `count` ends behind a table's document numbers, the first above `local`."""
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        if load_i64_at(table, count + middle) > local:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(Shards, Runs, types.int64, types.int64, types.uint8[::1], returns=types.int64)
def _gather(shards, runs, width, size, out):
    """Copy runs into rows of `width` tokens, `size` bytes each. Returns the shard that is not
    open, or DONE.
    """
    for i in range(len(runs.rows)):
        position, left = runs.positions[i], runs.lengths[i]
        place = (runs.rows[i] * width + runs.columns[i]) * size
        shard = last_at_or_before(shards.starts, position)
        while left > 0:
            if shards.tokens[shard] == 0:
                return shard
            take = min(left, shards.starts[shard + 1] - position)
            source = shards.tokens[shard] + (position - shards.starts[shard]) * size
            copy_from(out, place, source, take * size)
            place += take * size
            position += take
            left -= take
            shard += 1
    return DONE


@helper
def _same_at_seam(shards, shard):
    """Return whether the last document of the shard before goes on in this one; both are mapped."""
    if shard == 0 or shards.counts[shard - 1] == 0 or shards.counts[shard] == 0:
        return False
    before = load_i64_at(shards.documents[shard - 1], shards.counts[shard - 1] - 1)
    return before == load_i64_at(shards.documents[shard], 0)


@helper
def _tokens_before(shards, shard):
    """Return tokens of a shard's first document in the shards before; -1 - s: shard s is not
    mapped.
    """
    total = np.int64(0)
    while shard > 0:
        if shards.documents[shard - 1] == 0:
            return -shard
        if not _same_at_seam(shards, shard):
            return total
        shard -= 1
        size, count = shards.starts[shard + 1] - shards.starts[shard], shards.counts[shard]
        if count > 1:
            return total + size - load_i64_at(shards.documents[shard], 2 * count - 2)
        total += size
    return total


@kernel(Shards, Runs, DocumentsInRuns, types.int64[::1], returns=types.int64)
def _find_spans(shards, runs, out, missing):
    """Return the number of spans, which may be more than fit; missing[0] is a shard that is not
    mapped, or missing[1] one whose table ends before its tokens; else they are DONE.
    """
    missing[0], missing[1] = DONE, DONE
    found, room = np.int64(0), np.int64(len(out.rows))
    for i in range(len(runs.rows)):
        position = runs.positions[i]
        end = position + runs.lengths[i]
        shard = last_at_or_before(shards.starts, position)
        first = found
        while position < end:
            if shards.documents[shard] == 0:
                missing[0] = shard
                return found
            base = shards.starts[shard]
            stop = min(end, shards.starts[shard + 1])
            table, count = shards.documents[shard], shards.counts[shard]
            k = _first_end_behind(table, count, position - base)
            at_seam = False
            if position == base and shard > 0:
                if shards.documents[shard - 1] == 0:
                    missing[0] = shard - 1
                    return found
                at_seam = _same_at_seam(shards, shard)
            while position < stop:
                if k >= count:
                    missing[1] = shard
                    return found
                document_end = base + load_i64_at(table, count + k)
                if document_end <= position:  # a document of no tokens, or a broken table
                    k += 1
                    continue
                until = min(stop, document_end)
                if at_seam and found > first:
                    if found - 1 < room:
                        out.lengths[found - 1] += until - position
                else:
                    before = np.int64(0)
                    if k == 0:
                        before = _tokens_before(shards, shard)
                        if before < 0:
                            missing[0] = -1 - before
                            return found
                    if found < room:
                        begin = base + load_i64_at(table, count + k - 1) if k > 0 else base
                        out.offsets[found] = position - begin + before
                        out.rows[found] = runs.rows[i]
                        out.starts[found] = runs.columns[i] + position - runs.positions[i]
                        out.lengths[found] = until - position
                        out.documents[found] = load_i64_at(table, k)
                        out.begins[found] = out.offsets[found] == 0
                        out.continues[found] = False
                    found += 1
                at_seam = False
                position = until
                if position == end:
                    goes_on = document_end > end
                    if not goes_on and end == shards.starts[shard + 1]:
                        if shard + 1 < len(shards.counts):
                            if shards.documents[shard + 1] == 0:
                                missing[0] = shard + 1
                                return found
                            goes_on = _same_at_seam(shards, shard + 1)
                    if found - 1 < room:
                        out.continues[found - 1] = goes_on
                k += 1
            shard += 1
    return found


def gather(shards: Shards, runs: Runs, out: np.ndarray) -> int:
    """Copy runs into the rows of `out`, (rows, width) uint16 or uint32 as the shards.

    Returns DONE, or the number of a shard that is not mapped: map it, and call again. Runs lie
    within the shards and within their rows: the caller sees to it.
    """
    flat = out.reshape(-1).view(np.uint8)
    return int(_gather(shards, runs, out.shape[1], out.itemsize, flat))


def find_spans(shards: Shards, runs: Runs, room: int = 0) -> tuple[int, int, DocumentsInRuns]:
    """Return the documents of runs, in the order of the runs and of positions.

    Returns (DONE, DONE, spans), or (shard, DONE, _) for a shard that is not mapped: map it, and
    call again; or (DONE, shard, _) for one whose table of documents ends before its tokens.
    `room`: about how many spans there are.
    """
    missing = np.empty(2, np.int64)
    room = max(room, 2 * len(runs.rows))
    while True:
        rows, starts, lengths, documents, offsets = np.empty((5, room), np.int64)
        begins, continues = np.empty((2, room), np.bool_)
        out = DocumentsInRuns(rows, starts, lengths, documents, begins, continues, offsets)
        found = int(_find_spans(shards, runs, out, missing))
        if max(missing) != DONE:
            return int(missing[0]), int(missing[1]), out
        if found <= room:
            return DONE, DONE, DocumentsInRuns(*(field[:found] for field in out))
        room = found
