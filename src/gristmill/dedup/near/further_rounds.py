"""Further rounds of the near stage: who goes for none of the first documents of its buckets is
compared with those that are kept in them.

The rule, one document after another in the order that decides:

    1. against the first `candidates` documents of each of its buckets, whether they went or not; it
      goes for the most like one that is kept
    2. if it goes for none of them: against the first `keepers` kept documents of each of its
      buckets, in the same way

Only buckets of more than `candidates` documents have a second part, and who is kept in them is
known at the end. So it is found in rounds:

    who is kept and who asks, as far as known -> meet        the pairs of part 2, cut by cut;
                                                             signatures rule out most
                                              -> further.sql each once, with what the round before
                                              found
                                              -> compare     the others, on texts
    both parts' like pairs                    -> decide      who is kept and who asks; until a round
                                                             changes neither

A verdict depends on earlier documents alone, so each round settles more of them from the first on,
and the last has the verdicts of the rule.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.dedup.near.candidates import LIKELY, PAIRS, RUN, as_rows, ruled_out
from gristmill.dedup.near.signature_rows import Rows, mapped, write_array
from gristmill.dedup.reference_corpus import Earlier
from gristmill.dedup.settings import Near
from gristmill.engine.executor import Executor, fresh
from gristmill.engine.relations import Relations
from gristmill.store.parts import read_batches

ASKED = 1 << 16  # entries of buckets looked at together, or one bucket
FIRST = (
    2.0**64
)  # what a similarity of part 1 is multiplied with, exactly: it goes before any of part 2
ALIKE = np.dtype([("document", np.int64), ("candidate", np.int64), ("similarity", np.float64)])

Chunk = tuple[np.ndarray, np.ndarray, np.ndarray]


class Decided(NamedTuple):
    """Of n rows what becomes of them."""

    keepers: np.ndarray  # (n,) int64: -1: it is kept
    similarities: np.ndarray  # (n,) float64: to the keepers
    asks: np.ndarray  # (n,) bool: it goes for nobody of part 1

    def same(self, other: "Decided") -> bool:
        """Whether a round would meet the same pairs."""
        kept = np.array_equal(self.keepers < 0, other.keepers < 0)
        return kept and np.array_equal(self.asks, other.asks)


class Asked(NamedTuple):
    """The large buckets of a cut, and the state of a round: a task."""

    buckets: Path  # (m, 2) int64: key and number, sorted
    kept: Path  # (n,) bool
    asks: Path  # (n,) bool
    rows: Rows
    earlier: Path  # (e,) int64: the numbers of the earlier documents, sorted
    signatures: Path  # (e, k) uint32: theirs
    near: Near
    work: Path


def meet(task: Asked) -> Path:
    """Write the pairs of part 2 in a cut whose signatures do not rule them out: LIKELY, as rows, in
    no order.
    """
    near, numbers = task.near, mapped(task.earlier, np.int64)
    kept, asks = mapped(task.kept, np.bool_), mapped(task.asks, np.bool_)
    target = fresh(task.work, "met")
    with pq.ParquetWriter(target, LIKELY, compression="zstd") as writer:
        for part in _buckets(mapped(task.buckets, np.int64, 2)):
            rows = as_rows(part[:, 1], task.rows.first, numbers)
            for one, other in _pairs(part[:, 0], kept[rows], asks[rows], near):
                left = ruled_out(
                    rows[one],
                    rows[other],
                    task.rows.signatures,
                    task.signatures,
                    len(numbers),
                    near,
                )
                writer.write_table(pa.table(list(left), schema=LIKELY))
    return target


def _buckets(whole: np.ndarray) -> Iterator[np.ndarray]:
    """Whole buckets, some ASKED entries of them together."""
    heads = np.append(np.flatnonzero(whole[1:, 0] != whole[:-1, 0]) + 1, len(whole))
    start = 0
    while start < len(whole):
        stop = int(heads[np.searchsorted(heads, min(start + ASKED, len(whole)))])
        yield whole[start:stop]
        start = stop


def _pairs(
    keys: np.ndarray, kept: np.ndarray, asks: np.ndarray, near: Near
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of buckets' entries those that ask, each with the kept ones of its bucket before it that part
    1 did not look at: places among them.
    """
    entries = np.arange(len(keys))
    heads = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    heads = np.repeat(heads, np.diff(np.r_[heads, len(keys)]))
    before = np.r_[0, np.cumsum(kept)]  # kept ones before an entry, from the start
    places = np.flatnonzero(kept)
    low = before[np.minimum(heads + near.candidates, entries)]
    high = np.minimum(before[entries], before[heads] + near.keepers)
    asking = np.flatnonzero(asks & (high > low))
    low, counts = low[asking], (high - low)[asking]
    ends = np.cumsum(counts)
    start = 0
    while start < len(asking):
        base = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, base + PAIRS, "right")), start + 1)
        some = counts[start:stop]
        within = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
        yield np.repeat(asking[start:stop], some), places[np.repeat(low[start:stop], some) + within]
        start = stop


class Firsts:
    """The like pairs of part 1, on disk."""

    def __init__(self, path: Path, threshold: float) -> None:
        """A file at `path` will hold them."""
        self._path, self._threshold = path, threshold
        path.write_bytes(b"")

    def add(self, chunks: Iterator[Chunk]) -> None:
        """Take those that are like enough."""
        with open(self._path, "ab") as file:
            file.writelines(alike(chunk, self._threshold).data for chunk in chunks)

    def chunks(self) -> Iterator[np.ndarray]:
        """All of them, in order, ALIKE."""
        with open(self._path, "rb") as file:
            while part := file.read(ALIKE.itemsize * PAIRS):
                yield np.frombuffer(part, ALIKE)


def alike(chunk: Chunk, threshold: float) -> np.ndarray:
    """Those pairs of a chunk that are like enough, ALIKE."""
    stays = chunk[2] >= threshold
    found = np.empty(int(stays.sum()), ALIKE)
    for name, column in zip(ALIKE.names or (), chunk, strict=True):
        found[name] = column[stays]
    return found


def decide(firsts: Firsts, later: np.ndarray, stays: np.ndarray) -> Decided:
    """Decide by the like pairs of both parts, ALIKE, sorted.

    stays: (n,) int8: a row is 1 to be decided, 0 kept or -1 gone before this.
    """
    from gristmill.kernels.hashing import pairs

    keepers, best = np.full(len(stays), -1, np.int64), np.zeros(len(stays))
    keepers[stays < 0] = np.flatnonzero(stays < 0)  # a document that was dropped is no keeper

    def take(part: np.ndarray) -> None:
        columns = (np.ascontiguousarray(part[name]) for name in ALIKE.names or ())
        pairs.decide(keepers, best, *columns, threshold=0.0)

    done = 0
    for part in firsts.chunks():
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
    return Decided(keepers, best, (stays > 0) & ~first)


class Rounds:
    """Rounds over the large buckets of a corpus."""

    def __init__(
        self,
        rows: Rows,
        earlier: Earlier,
        near: Near,
        work: Path,
        *,
        executor: Executor,
        relations: Callable[[], Relations],
        compare: Callable[[list[Path]], Iterator[Path]],
    ) -> None:
        """`compare` gives files of LIKELY pairs again with all similarities."""
        self._rows, self._earlier, self._near, self._work = rows, earlier, near, work
        self._executor, self._relations, self._compare = executor, relations, compare
        self.compared: list[Path] = []  # the last round's pairs, LIKELY

    def run(self, firsts: Firsts, stays: np.ndarray) -> Decided:
        """Decide, until a round changes nothing."""
        decided = decide(firsts, np.empty(0, ALIKE), stays)
        while self._rows.large:
            met = self._meet(decided)
            if not met and not self.compared:
                break
            before, self.compared = self.compared, self._judge(met)
            for path in before:
                path.unlink()
            threshold = 0.0 if self._near.verify == "none" else self._near.threshold
            later = [alike(chunk, threshold) for path in self.compared for chunk in chunks_of(path)]
            last, decided = (
                decided,
                decide(firsts, np.concatenate([*later, np.empty(0, ALIKE)]), stays),
            )
            if decided.same(last):
                break
        return decided

    def _meet(self, decided: Decided) -> list[Path]:
        kept, asks = self._work / "round.kept", self._work / "round.asks"
        write_array(kept, decided.keepers < 0)
        write_array(asks, decided.asks)
        numbers = self._work / "earlier.numbers"
        write_array(numbers, self._earlier.numbers)
        slim = self._rows._replace(keys=[], large=[])
        tasks = [
            Asked(path, kept, asks, slim, numbers, self._earlier.signatures, self._near, self._work)
            for path in self._rows.large
        ]
        met = []
        for path in self._executor(meet, tasks):
            if pq.read_metadata(path).num_rows:
                met.append(path)
            else:
                path.unlink()
        return met

    def _judge(self, met: list[Path]) -> list[Path]:
        """The pairs of a round, each once, with their similarities: files of LIKELY, one after
        another sorted.
        """
        if not met:
            return []
        compared = self.compared
        if not compared:
            compared = [fresh(self._work, "compared")]
            pq.write_table(LIKELY.empty_table(), compared[0])
        with self._relations() as connection:
            connection.table("met", met, "document, candidate, similarity")
            connection.table("compared", compared, "document, candidate, similarity")
            written = connection.write("further", self._work / "further.parquet")
        for path in met if self.compared else [*met, *compared]:
            path.unlink()
        cut = _cut(written, self._work)
        for path in written:
            path.unlink()
        return list(self._compare(cut))


def _cut(written: list[Path], work: Path) -> list[Path]:
    """The same pairs in files of some RUN each: a task compares one."""
    files: list[Path] = []
    writer, size = None, 0
    for path in written:
        for batch in read_batches(path):
            if writer is None or size >= RUN:
                if writer is not None:
                    writer.close()
                files.append(fresh(work, "further"))
                writer, size = pq.ParquetWriter(files[-1], LIKELY, compression="zstd"), 0
            writer.write_table(pa.table(batch.columns, schema=LIKELY))
            size += len(batch)
    if writer is not None:
        writer.close()
    return files


def chunks_of(path: Path) -> Iterator[Chunk]:
    """The pairs of a file of LIKELY."""
    for batch in read_batches(path):
        one, other, similarities = (column.to_numpy() for column in batch.columns)
        yield one, other, similarities


def merged(firsts: Iterator[Chunk], later: Iterator[Chunk], size: int) -> Iterator[Chunk]:
    """The pairs of both parts among `size` rows, sorted, each once."""
    held: list[Chunk] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    more = True
    for chunk in firsts:
        last = int(chunk[0][-1]) * size + int(chunk[1][-1])
        while more and (not len(held[-1][0]) or _places(held[-1], size)[-1] <= last):
            following = next(later, None)
            more = following is not None
            held += [following] if following is not None else []
        whole: Chunk = tuple(map(np.concatenate, zip(*held, strict=True)))  # type: ignore[assignment]
        stop = int(np.searchsorted(_places(whole, size), last, "right"))
        held = [tuple(column[stop:] for column in whole)]  # type: ignore[list-item]
        both: Chunk = tuple(
            map(np.concatenate, zip(chunk, (column[:stop] for column in whole), strict=True))
        )  # type: ignore[assignment]
        _, at = np.unique(_places(both, size), return_index=True)
        yield both[0][at], both[1][at], both[2][at]
    yield from (chunk for chunk in held if len(chunk[0]))
    yield from later


def _places(chunk: Chunk, size: int) -> np.ndarray:
    """A number for each pair, in their order: so far as rows are fewer than 3 * 10^9."""
    return chunk[0] * size + chunk[1]
