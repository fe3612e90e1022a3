"""The second part of the near stage: a document that is not a duplicate of the first documents of
its buckets is compared with the kept documents in them.

The rule, one document after another in the order that decides:

    1. compare it with the first `candidates` documents of each of its buckets, kept or not; it is
       dropped for the most similar one that is kept
    2. if it was not dropped: compare it with the first `keepers` kept documents of each of its
       buckets, in the same way

Only buckets of more than `candidates` documents have a second part. Which documents are kept in
them is known only at the end, so the verdicts are found in rounds:

    kept and unmatched documents,   -> find_pairs         the pairs of part 2, by partition;
    as far as known                                       signatures rule out most
                                    -> keeper_pairs.sql   each pair once, with the similarity that
                                                          an earlier round found
                                    -> compare            the other pairs, on texts
    the similar pairs of both parts -> decide             kept and unmatched documents, until a
                                                          round changes neither

A verdict depends on earlier documents alone. So each round makes the verdicts of more documents
final, from the first on, and the last round has the verdicts of the rule.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.disk_arrays import map_array, write_array
from gristmill.dedup.near.candidates import LIKELY, PAIRS, RUN, as_rows, keep_likely
from gristmill.dedup.near.signature_rows import SignatureRows
from gristmill.dedup.reference_corpus import ReferenceDocuments
from gristmill.dedup.settings import Near
from gristmill.engine.executor import Executor, fresh
from gristmill.engine.relations import Relations
from gristmill.store.parts import read_batches

ENTRIES = 1 << 16  # entries of buckets that are looked at together, or the entries of one bucket
FEW = 1 << 20  # pairs of a round that are made one in memory, of 24 bytes each
# Similarities of part 1 are multiplied by this, which is exact: they are above all of part 2.
FIRST = 2.0**64
SIMILAR = np.dtype([("document", np.int64), ("candidate", np.int64), ("similarity", np.float64)])

Chunk = tuple[np.ndarray, np.ndarray, np.ndarray]
# The least similarity of duplicates, of each row: (n,) float64, or one that all have.
Thresholds = np.ndarray | float


class Decisions(NamedTuple):
    """What becomes of n rows."""

    keepers: np.ndarray  # (n,) int64; -1: the row is kept
    similarities: np.ndarray  # (n,) float64: to the keepers
    unmatched: np.ndarray  # (n,) bool: part 1 found no keeper

    def same(self, other: "Decisions") -> bool:
        """Return whether the next round would have the same pairs."""
        kept = np.array_equal(self.keepers < 0, other.keepers < 0)
        return kept and np.array_equal(self.unmatched, other.unmatched)


class RoundTask(NamedTuple):
    """The large buckets of a partition, and the state of a round: a task."""

    buckets: Path  # (m, 2) int64: key and number, sorted
    kept: Path  # (n,) bool
    unmatched: Path  # (n,) bool
    rows: SignatureRows
    references: Path  # (e,) int64: the numbers of the reference documents, sorted
    signatures: Path  # (e, k) uint32: theirs
    near: Near
    work: Path


def find_pairs(task: RoundTask) -> Path:
    """Write the pairs of part 2 in a partition that signatures do not rule out: LIKELY, as rows,
    unsorted.
    """
    near, numbers = task.near, map_array(task.references, np.int64)
    kept, unmatched = map_array(task.kept, np.bool_), map_array(task.unmatched, np.bool_)
    target = fresh(task.work, "round")
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for part in _buckets(map_array(task.buckets, np.int64, 2)):
            rows = as_rows(part[:, 1], task.rows.first, numbers)
            for left, right in _pairs(part[:, 0], kept[rows], unmatched[rows], near):
                columns = keep_likely(
                    rows[left],
                    rows[right],
                    task.rows.signatures,
                    task.signatures,
                    len(numbers),
                    near,
                )
                writer.write_table(pa.table(list(columns), schema=LIKELY))
    return target


def _buckets(whole: np.ndarray) -> Iterator[np.ndarray]:
    """Whole buckets, about ENTRIES entries of them together."""
    heads = np.append(np.flatnonzero(whole[1:, 0] != whole[:-1, 0]) + 1, len(whole))
    start = 0
    while start < len(whole):
        stop = int(heads[np.searchsorted(heads, min(start + ENTRIES, len(whole)))])
        yield whole[start:stop]
        start = stop


def _pairs(
    keys: np.ndarray, kept: np.ndarray, unmatched: np.ndarray, near: Near
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of entries of buckets: each unmatched entry with the kept entries before it in
    its bucket that part 1 did not compare it with. Both are places among the entries.
    """
    entries = np.arange(len(keys))
    heads = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    heads = np.repeat(heads, np.diff(np.r_[heads, len(keys)]))
    before = np.r_[0, np.cumsum(kept)]  # how many kept entries there are before each
    places = np.flatnonzero(kept)
    low = before[np.minimum(heads + near.candidates, entries)]
    high = np.minimum(before[entries], before[heads] + near.keepers)
    searching = np.flatnonzero(unmatched & (high > low))
    low, counts = low[searching], (high - low)[searching]
    ends = np.cumsum(counts)
    start = 0
    while start < len(searching):
        base = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, base + PAIRS, "right")), start + 1)
        some = counts[start:stop]
        within = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
        yield (
            np.repeat(searching[start:stop], some),
            places[np.repeat(low[start:stop], some) + within],
        )
        start = stop


class FirstPairs:
    """The similar pairs of part 1, on disk."""

    def __init__(self, path: Path, thresholds: Thresholds) -> None:
        """The file `path` is created; it holds them."""
        self._path, self._thresholds = path, thresholds
        path.write_bytes(b"")

    def add(self, chunks: Iterator[Chunk]) -> None:
        """Add those that reach their threshold."""
        with open(self._path, "ab") as file:
            file.writelines(similar_pairs(chunk, self._thresholds).data for chunk in chunks)

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield every similar pair, in order, as arrays with the fields of SIMILAR."""
        with open(self._path, "rb") as file:
            while part := file.read(SIMILAR.itemsize * PAIRS):
                yield np.frombuffer(part, SIMILAR)


def of_rows(thresholds: Thresholds, rows: np.ndarray) -> Thresholds:
    """Return the thresholds of rows (m,): (m,), or the one that all have."""
    return thresholds[rows] if isinstance(thresholds, np.ndarray) else thresholds


def similar_pairs(chunk: Chunk, thresholds: Thresholds) -> np.ndarray:
    """Return the pairs of a chunk that reach the threshold of their rows: an array of SIMILAR."""
    kept = chunk[2] >= of_rows(thresholds, chunk[0])
    found = np.empty(int(kept.sum()), SIMILAR)
    for name, column in zip(SIMILAR.names or (), chunk, strict=True):
        found[name] = column[kept]
    return found


def decide(first_pairs: FirstPairs, later: np.ndarray, states: np.ndarray) -> Decisions:
    """Decide by the similar pairs of both parts (`later` is SIMILAR, sorted).

    states: (n,) int8; a row is 1 to be decided, 0 kept before this, or -1 dropped before this.
    """
    from gristmill.kernels.hashing import pairs

    keepers, best = np.full(len(states), -1, np.int64), np.zeros(len(states))
    dropped = np.flatnonzero(states < 0)
    keepers[dropped] = dropped  # a document that was dropped is never a keeper

    def take(part: np.ndarray) -> None:
        columns = (np.ascontiguousarray(part[name]) for name in SIMILAR.names or ())
        pairs.decide(keepers, best, *columns, threshold=0.0)

    done = 0
    for part in first_pairs.chunks():
        some = part.copy()
        some["similarity"] *= FIRST
        stop = int(np.searchsorted(later["document"], some["document"][-1], "right"))
        if stop > done:
            some = np.concatenate([some, later[done:stop]])
            some = some[np.argsort(some["document"], kind="stable")]
            done = stop
        take(some)
    take(later[done:])
    first = best > 1.0
    best[first] /= FIRST
    return Decisions(keepers, best, (states > 0) & ~first)


class Rounds:
    """Rounds over the large buckets of a corpus."""

    def __init__(
        self,
        rows: SignatureRows,
        references: ReferenceDocuments,
        near: Near,
        work: Path,
        *,
        executor: Executor,
        relations: Callable[[], Relations],
        compare: Callable[[list[Path]], Iterator[Path]],
        thresholds: Thresholds,
    ) -> None:
        """`compare` writes files of LIKELY again, with the similarity of every pair."""
        self._thresholds = thresholds
        self._rows, self._references, self._near, self._work = rows, references, near, work
        self._executor, self._relations, self._compare = executor, relations, compare
        self.compared: list[Path] = []  # the last round's pairs, LIKELY

    def run(self, first_pairs: FirstPairs, states: np.ndarray) -> Decisions:
        """Decide, until a round changes nothing."""
        decisions = decide(first_pairs, np.empty(0, SIMILAR), states)
        while self._rows.large:
            files = self._find(decisions)
            if not files and not self.compared:
                break
            before, self.compared = self.compared, self._compare_found(files)
            for path in before:
                path.unlink()
            later = [
                similar_pairs(chunk, self._thresholds)
                for path in self.compared
                for chunk in chunks_of(path)
            ]
            last = decisions
            decisions = decide(first_pairs, np.concatenate([*later, np.empty(0, SIMILAR)]), states)
            if decisions.same(last):
                break
        return decisions

    def _find(self, decisions: Decisions) -> list[Path]:
        """Return the pairs of a round: files of LIKELY, none empty."""
        kept, unmatched = self._work / "round.kept", self._work / "round.unmatched"
        write_array(kept, decisions.keepers < 0)
        write_array(unmatched, decisions.unmatched)
        numbers, signatures = self._work / "reference.numbers", self._references.signatures
        write_array(numbers, self._references.numbers)
        slim = self._rows._replace(pairs=[], large=[])
        tasks = [
            RoundTask(path, kept, unmatched, slim, numbers, signatures, self._near, self._work)
            for path in self._rows.large
        ]
        files = []
        for path in self._executor(find_pairs, tasks):
            if pq.read_metadata(path).num_rows:
                files.append(path)
            else:
                path.unlink()
        return files

    def _compare_found(self, found: list[Path]) -> list[Path]:
        """Return the pairs of a round, each once, with their similarities: consecutive files of
        LIKELY, sorted.
        """
        if not found:
            return []
        target = self._work / "keeper_pairs.parquet"
        if sum(pq.read_metadata(path).num_rows for path in [*found, *self.compared]) <= FEW:
            size = len(self._references.numbers) + self._rows.size
            columns = few_pairs(found, self.compared, size)
            pq.write_table(pa.table(list(columns), schema=LIKELY), target)
            written = [target]
        else:
            written = self._of_relation(found, target)
        for path in found:
            path.unlink()
        parts = _split(written, self._work)
        for path in written:
            path.unlink()
        return list(self._compare(parts))

    def _of_relation(self, found: list[Path], target: Path) -> list[Path]:
        """Return what few_pairs gives, of any number of pairs: files of LIKELY."""
        compared = self.compared or [fresh(self._work, "compared")]
        if not self.compared:
            pq.write_table(LIKELY.empty_table(), compared[0])
        with self._relations() as connection:
            connection.table("found", found, "document, candidate, similarity")
            connection.table("compared", compared, "document, candidate, similarity")
            written = connection.write("keeper_pairs", target)
        if not self.compared:
            compared[0].unlink()
        return written


def few_pairs(found: list[Path], compared: list[Path], size: int) -> Chunk:
    """Return the pairs of a round with few of them, among `size` rows: what
    dedup/sql/keeper_pairs.sql gives, in memory and without an engine of relations.
    """
    left, right, similarities = _joined([chunk for path in found for chunk in chunks_of(path)])
    places, at = np.unique(_places((left, right, similarities), size), return_index=True)
    similarities = similarities[at]
    none = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    before = _joined([none, *(chunk for path in compared for chunk in chunks_of(path))])
    known, of_known = np.unique(_places(before, size), return_index=True)
    if len(known):
        near = np.minimum(np.searchsorted(known, places), len(known) - 1)
        same = known[near] == places
        similarities[same] = before[2][of_known[near[same]]]
    return left[at], right[at], similarities


def _split(written: list[Path], work: Path) -> list[Path]:
    """Return the same pairs in files of about RUN pairs: a task compares one file."""
    files: list[Path] = []
    writer, size = None, 0
    for path in written:
        for batch in read_batches(path):
            if writer is None or size >= RUN:
                if writer is not None:
                    writer.close()
                files.append(fresh(work, "round"))
                writer, size = pq.ParquetWriter(files[-1], LIKELY, compression="zstd"), 0
            writer.write_table(pa.table(batch.columns, schema=LIKELY))
            size += len(batch)
    if writer is not None:
        writer.close()
    return files


def chunks_of(path: Path) -> Iterator[Chunk]:
    """Yield the pairs of a file of LIKELY."""
    for batch in read_batches(path):
        left, right, similarities = (column.to_numpy() for column in batch.columns)
        yield left, right, similarities


def merged(firsts: Iterator[Chunk], later: Iterator[Chunk], size: int) -> Iterator[Chunk]:
    """Yield the pairs of both parts among `size` rows, sorted, each once."""
    held: list[Chunk] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    more = True
    for chunk in firsts:
        last = int(chunk[0][-1]) * size + int(chunk[1][-1])
        while more and (not len(held[-1][0]) or _places(held[-1], size)[-1] <= last):
            following = next(later, None)
            more = following is not None
            held += [following] if following is not None else []
        whole = _joined(held)
        stop = int(np.searchsorted(_places(whole, size), last, "right"))
        held = [(whole[0][stop:], whole[1][stop:], whole[2][stop:])]
        both = _joined([chunk, (whole[0][:stop], whole[1][:stop], whole[2][:stop])])
        _, at = np.unique(_places(both, size), return_index=True)
        yield both[0][at], both[1][at], both[2][at]
    yield from (chunk for chunk in held if len(chunk[0]))
    yield from later


def _joined(chunks: list[Chunk]) -> Chunk:
    """Return all pairs of chunks, in order."""
    left, right, similarities = (np.concatenate(columns) for columns in zip(*chunks, strict=True))
    return left, right, similarities


def _places(chunk: Chunk, size: int) -> np.ndarray:
    """Return a number for each pair, in their order. It fits 64 bits up to 3 * 10^9 rows."""
    return chunk[0] * size + chunk[1]
