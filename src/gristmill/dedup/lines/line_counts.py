"""Frequent lines: the lines (or paragraphs) that are in more than `most` documents, and texts
without them.

    kept documents of a shard -> counted      hash, documents, earliest: one row a line, sorted by
                                              hash, in runs of bounded size
    counted of all shards     -> lines.sql    the lines that are in more than `most` documents
                              -> texts        each line as its earliest document has it; its hash
                                              must be the one that was counted
                              -> listed.sql   in the order of the list
    the list + a text         -> LineRemover  the text without them

With `unit = "sentences"` three sentences that follow each other are compared together, as C4 does
(Raffel 2020, section 2.2: all but one of any three-sentence span are discarded): a span has the
hashes of its sentences, and is at the place of its first one. Sentences without words are in none.

Lines are compared by 64 bits of their form (docs/compared-text.md). With N different lines, L of
them listed, the chance that any other line is removed by mistake is N * L / 2^64: 5 in 10,000 for
10^10 lines and 10^6 listed, over the whole corpus. An attacker gains nothing by making lines
collide: to repeat somebody's line makes it frequent as well.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup.settings import FrequentLines
from gristmill.engine.relations import Opener
from gristmill.errors import Damaged
from gristmill.store.parts import open_table, read_batches
from gristmill.tables.columns import utf8_buffers, view_strings

if TYPE_CHECKING:
    from gristmill.kernels.text import lines as kernels

SPAN = 3  # sentences that are compared together
# What the hash of each sentence of a span is multiplied by: odd, so that no bit is lost.
FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
RUN = 1 << 21  # lines counted together (24 bytes each, and temporary copies)
SHOWN = 500  # characters of a line that the list stores

COUNTED = pa.schema(
    [pa.field(name, pa.int64(), nullable=False) for name in ("hash", "documents", "earliest")]
)

LISTED = pa.schema(
    [
        *COUNTED,
        pa.field("text", pa.string(), nullable=False),
        pa.field("source", pa.string()),  # null: of all sources
    ]
)
FOUND = pa.schema([pa.field("scope", pa.int64(), nullable=False), *COUNTED, LISTED.field("text")])


class CountedShard(NamedTuple):
    """The counted lines of one raw shard, and its documents."""

    lines: Path  # COUNTED
    documents: Path
    scope: int  # documents of different scopes are never counted together


class _HashedLines(NamedTuple):
    """The lines of a batch of texts."""

    data: np.ndarray  # the texts' buffer
    lines: "kernels.Lines"
    hashes: np.ndarray  # (lines,) int64: of what begins with the line
    counts: np.ndarray  # (lines,) bool: it is long enough to count
    ends: np.ndarray  # (lines,) int64: the line behind it


def _hashed(texts: pa.Array, settings: FrequentLines) -> _HashedLines:
    from gristmill.kernels.folding.compared import compared
    from gristmill.kernels.text import lines as kernels

    offsets, data = utf8_buffers(texts)
    if settings.unit == "sentences":
        from gristmill.kernels.filters.sentences import find_sentences

        lines = find_sentences(offsets, data)
    else:
        lines = kernels.find(offsets, data, paragraphs=settings.unit == "paragraphs")
    # What is compared has no white space at its ends, so a line may be hashed with its line end.
    hashes, counts = kernels.hash_lines(
        *compared(lines.starts, data, "signs", arabic_marks=settings.arabic_marks),
        least=settings.least_characters,
    )
    if settings.unit == "sentences":
        return _spans(data, lines, hashes, counts)
    return _HashedLines(data, lines, hashes, counts, np.arange(1, len(hashes) + 1))


def _spans(
    data: np.ndarray, found: "kernels.Lines", hashes: np.ndarray, counts: np.ndarray
) -> _HashedLines:
    """Return what begins with each sentence: SPAN of one text that count."""
    at = np.flatnonzero(counts)
    owners = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
    first, last = at[: max(len(at) - SPAN + 1, 0)], at[SPAN - 1 :]
    whole = owners[first] == owners[last]
    first, last = first[whole], last[whole]
    places = np.flatnonzero(whole)
    mixed = np.zeros(len(first), np.uint64)
    for place, factor in enumerate(FACTORS):
        mixed += hashes[at[places + place]].view(np.uint64) * np.uint64(factor)
    spans, counted = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), bool)
    ends = np.arange(1, len(hashes) + 1)
    spans[first], counted[first], ends[first] = mixed.view(np.int64), True, last + 1
    return _HashedLines(data, found, spans, counted, ends)


def _owners(batch: pa.RecordBatch, lines: "kernels.Lines") -> np.ndarray:
    """Return the document of each line."""
    return np.repeat(batch["document"].to_numpy(), np.diff(lines.offsets))


def count(batches: Iterable[pa.RecordBatch], settings: FrequentLines) -> Iterator[pa.RecordBatch]:
    """Count in how many documents each line is: COUNTED, sorted by hash.

    A line has one row in a batch; if there are too many different lines for memory, it may have a
    row in several batches.
    """
    waiting: list[tuple[np.ndarray, ...]] = []
    held = 0
    for batch in batches:
        hashed = _hashed(batch["text"], settings)
        hashes, owners = hashed.hashes[hashed.counts], _owners(batch, hashed.lines)[hashed.counts]
        once = settings.unit != "sentences"
        waiting.append(_summed(hashes, np.ones(len(hashes), np.int64), owners, distinct=once))
        held += len(waiting[-1][0])
        if held >= RUN:
            waiting = [_summed(*map(np.concatenate, zip(*waiting, strict=True)))]
            held = len(waiting[0][0])
            if held >= RUN // 2:
                yield _batch(waiting[0])
                waiting, held = [], 0
    if waiting:
        yield _batch(_summed(*map(np.concatenate, zip(*waiting, strict=True))))


def _summed(
    hashes: np.ndarray, documents: np.ndarray, earliest: np.ndarray, *, distinct: bool = False
) -> tuple[np.ndarray, ...]:
    """Merge the rows of each hash, given in document order, into one; sorted by hash.

    `distinct`: a line that a document repeats is counted once.
    """
    order = np.argsort(hashes, kind="stable")
    hashes, documents, earliest = hashes[order], documents[order], earliest[order]
    new = np.ones(len(hashes), bool)
    new[1:] = hashes[1:] != hashes[:-1]
    if distinct:
        documents[1:] = new[1:] | (earliest[1:] != earliest[:-1])
    firsts = np.flatnonzero(new)
    if not len(firsts):
        return hashes, documents, earliest
    return hashes[firsts], np.add.reduceat(documents, firsts), earliest[firsts]


def _batch(columns: tuple[np.ndarray, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=COUNTED)


def frequent(
    tables: list[CountedShard], settings: FrequentLines, work: Path, *, opener: Opener
) -> Iterator[pa.RecordBatch]:
    """Yield the list of frequent lines: FOUND, those of most documents first, then by hash.

    Temporary files are written to the folder `work`. Raises Damaged if documents changed after
    their lines were counted.
    """
    if not tables:
        return
    work.mkdir(parents=True, exist_ok=True)
    folders = [work, *{table.lines.parent for table in tables}]
    with opener(work / "spill", folders) as relations:
        scopes = {table.lines: table.scope for table in tables}
        relations.table("counted", scopes, "hash, documents, earliest")
        relations.row("parameters", most=settings.most)
        frequent = relations.write("lines", work / "frequent.parquet")
    with pq.ParquetWriter(work / "found.parquet", FOUND) as writer:
        for table in tables:
            for batch in _with_texts(table, frequent, settings):
                writer.write_batch(batch)
    with opener(work / "spill", folders) as relations:
        relations.table("found", [work / "found.parquet"], "*")
        listed = relations.write("listed", work / "listed.parquet")
    for path in listed:
        yield from read_batches(path)


def _with_texts(
    table: CountedShard, frequent: list[Path], settings: FrequentLines
) -> Iterator[pa.RecordBatch]:
    """Yield the frequent lines whose earliest document is in this shard, with their texts:
    FOUND.
    """
    with open_table(table.documents) as documents:
        for group in range(documents.num_row_groups):
            statistics = documents.metadata.row_group(group).column(0).statistics
            if statistics is None or not statistics.has_min_max:
                continue  # an empty row group
            within = [("earliest", ">=", statistics.min), ("earliest", "<=", statistics.max)]
            wanted = pq.read_table(frequent, filters=within, use_threads=False)
            if not len(wanted):
                continue
            wanted = wanted.sort_by("hash").combine_chunks()
            left = len(wanted)
            whole = documents.read_row_group(group, columns=["document", "text"], use_threads=False)
            for batch in whole.to_batches(max_chunksize=4096):
                mask = np.isin(batch["document"].to_numpy(), wanted["earliest"].to_numpy())
                if mask.any():
                    lines = _texts(batch.filter(pa.array(mask)), wanted, settings)
                    left -= len(lines)
                    yield lines
            if left:
                raise Damaged(
                    f"{table.documents}: {left} lines that were counted are missing: the file "
                    "changed since they were counted"
                )


def _texts(batch: pa.RecordBatch, wanted: pa.Table, settings: FrequentLines) -> pa.RecordBatch:
    """Return the rows of `wanted` (sorted by hash) whose earliest document is in the batch, with
    their lines.
    """
    hashed = _hashed(batch["text"], settings)
    hashes = wanted["hash"].to_numpy()
    places = np.minimum(np.searchsorted(hashes, hashed.hashes), len(hashes) - 1)
    own = wanted["earliest"].to_numpy()[places] == _owners(batch, hashed.lines)
    at = np.flatnonzero(own & (hashes[places] == hashed.hashes) & hashed.counts)
    rows, firsts = np.unique(places[at], return_index=True)
    first = at[firsts]
    starts, stops = hashed.lines.starts[first], hashed.lines.stops[hashed.ends[first] - 1]
    texts = _slices(hashed.data, starts, stops)
    taken = wanted.take(pa.array(rows)).combine_chunks()
    columns = [taken[name].combine_chunks() for name in FOUND.names[:-1]]
    return pa.RecordBatch.from_arrays(
        [*columns, pc.utf8_slice_codeunits(texts, 0, SHOWN)], schema=FOUND
    )


def _slices(data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> pa.Array:
    """Stretches of a buffer of texts, which may overlap, as strings."""
    offsets = np.append(0, np.cumsum(stops - starts)).astype(np.int32)
    places = np.repeat(starts - offsets[:-1], stops - starts) + np.arange(offsets[-1])
    return view_strings(offsets, data[places])


class LineList(NamedTuple):
    """The list of frequent lines, as removing them needs it: 16 bytes a line."""

    hashes: np.ndarray  # (k,) int64, sorted
    earliest: np.ndarray  # (k,) int64: the earliest document of each


@lru_cache(1)
def load(path: Path, sha256: str, source: str | None) -> LineList:
    """Read the list of a source (None: of all). The cache distinguishes lists by their sha256."""
    table = pq.read_table(path, columns=["hash", "earliest", "source"], use_threads=False)
    if source is not None:
        table = table.filter(pc.equal(table["source"], source))
    hashes = table["hash"].to_numpy()
    order = np.argsort(hashes)
    return LineList(hashes[order], table["earliest"].to_numpy()[order])


class LineRemover:
    """Removes frequent lines from the documents of a shard, and counts what it removed."""

    def __init__(self, listed: LineList, settings: FrequentLines) -> None:
        self._listed, self._settings = listed, settings
        self.counts = {"cut": 0, "characters": 0, "documents": 0, "emptied": 0}

    def remove(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without frequent lines; a document whose text becomes empty is kept."""
        from gristmill.kernels.text.lines import cut_lines

        texts, listed = batch["text"], self._listed
        if not len(listed.hashes):
            return batch
        hashed = _hashed(texts, self._settings)
        places = np.minimum(np.searchsorted(listed.hashes, hashed.hashes), len(listed.hashes) - 1)
        removed = (listed.hashes[places] == hashed.hashes) & hashed.counts
        if self._settings.keep == "first":
            own = np.flatnonzero(
                removed & (listed.earliest[places] == _owners(batch, hashed.lines))
            )
            _, firsts = np.unique(hashed.hashes[own], return_index=True)
            removed[own[firsts]] = False
        if not removed.any():
            return batch
        removed = _cover(np.flatnonzero(removed), hashed.ends, len(removed))
        new = view_strings(*cut_lines(hashed.data, hashed.lines, removed))
        self.counts["cut"] += int(removed.sum())
        self.counts["documents"] += int(
            np.count_nonzero(np.diff(np.append(0, np.cumsum(removed))[hashed.lines.offsets]))
        )
        self.counts["characters"] += _characters(texts) - _characters(new)
        lengths = pc.binary_length(new)
        self.counts["emptied"] += pc.sum(
            pc.and_(pc.equal(lengths, 0), pc.not_equal(pc.binary_length(texts), 0))
        ).as_py()
        return batch.set_column(
            batch.schema.get_field_index("text"), batch.schema.field("text"), new
        )


def _cover(firsts: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    """Return which of n lines lie in what begins at `firsts`, (n,) bool."""
    steps = np.zeros(size + 1, np.int64)
    np.add.at(steps, firsts, 1)
    np.add.at(steps, ends[firsts], -1)
    return np.asarray(np.cumsum(steps)[:-1] > 0)


def _characters(texts: pa.Array) -> int:
    return int(pc.sum(pc.utf8_length(texts)).as_py() or 0)
