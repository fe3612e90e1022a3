"""The parts of a corpus without the documents that are withdrawn: as a run with the list writes
them, but for the token shards, which keep their lengths.

    tokens             end-of-text tokens, and -1 - n for the number n
    documents, text, samples, contamination, tables, signatures, finished      without their rows
    verdicts           dropped, for the reason withdrawn.listed
    measures           null; the measure of the step `withdrawn` says which are listed
    duplicates         copies, pairs and similar without their rows; the text of a frequent line
                       that was taken from one of them is removed, its hash stays
    index              without their entries
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus.clusters import TABLE as COPIES
from gristmill.corpus.corpus import Corpus
from gristmill.corpus.similar_documents import TABLE as SIMILAR
from gristmill.corpus.token_corpus import split_table
from gristmill.filters.lists.withdrawn import REASON
from gristmill.phases.relations.frequent_lines import LIST as LINES
from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part, read_batches, write_bytes, writing, writing_table
from gristmill.tables import schema
from gristmill.tables.schema import shard_name

PAIRS = "duplicates/pairs.parquet"
# Folders with a table for each raw shard, whose rows are removed.
ROWS = ("documents", "samples", "contamination", "tables", "signatures", "finished")
PLAIN = "signatures"  # the tables that are not compressed
Urls = dict[int, str | None]  # of documents, by number
Change = Callable[[pa.RecordBatch], pa.RecordBatch]


class Withdrawal(NamedTuple):
    """A withdrawal under way."""

    corpus: Corpus
    manifest: Manifest
    before: Urls  # documents that were withdrawn earlier
    now: Urls  # those that go now

    @property
    def numbers(self) -> np.ndarray:
        """Return those that go now: (n,) int64, ascending."""
        return np.array(sorted(self.now), np.int64)

    @property
    def shards(self) -> list[int]:
        """Return the raw shards that the documents are in."""
        return sorted({schema.shard_number(number) for number in self.now})


class Before(NamedTuple):
    """What the verdicts of the withdrawn documents were."""

    reasons: dict[str, int]  # how many had a reason; `kept N`: were kept, of raw shard N
    # by (keeper, its corpus): how many were copies of a document of another corpus
    copies: dict[tuple[int, str], int]
    texts: dict[str, int]  # `characters` and `bytes` of their rows in text/


def token_shard(task: Withdrawal, docs: Part) -> tuple[int, list[Part]]:
    """Overwrite the documents' tokens in a token shard: (how many, the two parts)."""
    root, stage, stated = task.corpus.root, task.corpus.stage, task.manifest.tokens
    assert stated is not None
    path = docs.path.removesuffix(".docs") + ".bin"
    part = next(entry for entry in task.manifest.parts if entry.path == path)
    table = np.fromfile(root / docs.path, "<i8")
    numbers, ends = split_table(root / docs.path, table, part.counts["tokens"])
    rows = np.flatnonzero(np.isin(numbers, task.numbers))
    if not len(rows):
        return 0, []
    tokens = np.fromfile(root / path, "<u2" if stated.dtype == "uint16" else "<u4")
    starts = np.concatenate([[0], ends[:-1]])
    count = 0
    for row in rows.tolist():
        tokens[starts[row] : ends[row]] = stated.end_of_text
        count += int(ends[row] - starts[row])
    numbers[rows] = ~numbers[rows]
    with writing(stage, path) as file:
        file.write(tokens)
    written = Part(path, file.size, file.hexdigest(), part.counts)
    return count, [written, write_bytes(stage, docs.path, table.tobytes(), **docs.counts)]


def rewritten(task: Withdrawal, part: Part, before: Before) -> list[Part]:
    """Return a part without the documents; nothing if they are not in it."""
    folder = part.path.partition("/")[0]
    numbers = pa.array(task.numbers)

    def without(*columns: str) -> Change:
        """Leave out the rows with one of the documents; one of another corpus is none of them."""

        def change(batch: pa.RecordBatch) -> pa.RecordBatch:
            for column in columns:
                hit = pc.is_in(batch[column], numbers)
                if f"{column}_corpus" in batch.schema.names:
                    hit = pc.and_(hit, pc.is_null(batch[f"{column}_corpus"]))
                batch = batch.filter(pc.invert(hit))
            return batch

        return change

    if part.path.startswith("index/") and part.path.endswith(".keys"):
        return _index(task, part)
    if part.path == COPIES:
        own = without("keeper")
        return [_table(task, part, lambda batch: _fewer(own(batch), before.copies))]
    if part.path in (PAIRS, SIMILAR):
        return [_table(task, part, without("document", *(["candidate"] * (part.path == PAIRS))))]
    if part.path == LINES:
        return [_table(task, part, lambda batch: _untold(batch, numbers))]
    if folder == "measures":
        return _measures(task, part)
    if _of_shard(part.path) not in task.shards:
        return []
    if folder == "text":
        own = without("document")
        return [_table(task, part, lambda batch: _counted(batch, own(batch), before.texts))]
    if folder == "verdicts":
        return [_table(task, part, lambda batch: _drop_rows(batch, numbers, before))]
    return [_table(task, part, without("document"))] if folder in ROWS else []


def _of_shard(path: str) -> int:
    """Return the raw shard of a table, such as verdicts/00042.parquet; -1: it is of none."""
    name = path.rpartition("/")[2].removesuffix(".parquet")
    return int(name) if path.endswith(".parquet") and name.isdecimal() else -1


def _table(task: Withdrawal, part: Part, change: Change, columns: pa.Schema | None = None) -> Part:
    path = task.corpus.root / part.path
    kind = columns or pq.read_schema(path)
    plain = part.path.startswith(f"{PLAIN}/")
    with writing_table(task.corpus.stage, part.path, kind, plain=plain) as (table, written):
        for batch in read_batches(path):
            table.write(change(batch))
    return written[0]


def _drop_rows(batch: pa.RecordBatch, numbers: pa.Array, before: Before) -> pa.RecordBatch:
    """VERDICTS, of which some are dropped as withdrawn; what they were is counted."""
    hit = pc.is_in(batch["document"], numbers)
    for row in batch.filter(hit).to_pylist():
        reason = row["reason"] or f"kept {schema.shard_number(row['document'])}"
        before.reasons[reason] = before.reasons.get(reason, 0) + 1
        if row["keeper_corpus"] is not None:
            keeper = (row["keeper"], row["keeper_corpus"])
            before.copies[keeper] = before.copies.get(keeper, 0) + 1
    columns = []
    for name in batch.schema.names:
        column = batch[name]
        if name not in ("document", "url"):
            column = pc.if_else(hit, REASON if name == "reason" else None, column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _counted(batch: pa.RecordBatch, left: pa.RecordBatch, texts: dict[str, int]) -> pa.RecordBatch:
    """Return what is left of a batch of texts; what is not is counted."""
    for name, size in (("characters", pc.utf8_length), ("bytes", pc.binary_length)):
        sums = [pc.sum(size(rows["text"])).as_py() or 0 for rows in (batch, left)]
        texts[name] = texts.get(name, 0) + sums[0] - sums[1]
    return left


def _fewer(batch: pa.RecordBatch, copies: dict[tuple[int, str], int]) -> pa.RecordBatch:
    """Return copies of documents of other corpora, less those that are withdrawn."""
    keys = zip(batch["keeper"].to_pylist(), batch["keeper_corpus"].to_pylist(), strict=True)
    gone = pa.array([copies.get(key, 0) for key in keys], pa.int64())
    counts = pc.subtract(batch["copies"], gone)
    place = batch.schema.get_field_index("copies")
    return batch.set_column(place, batch.schema.field(place), counts).filter(pc.greater(counts, 0))


def _untold(batch: pa.RecordBatch, numbers: pa.Array) -> pa.RecordBatch:
    """Frequent lines, whose text is removed where it was taken from a withdrawn document."""
    place = batch.schema.get_field_index("text")
    texts = pc.if_else(pc.is_in(batch["earliest"], numbers), "", batch["text"])
    return batch.set_column(place, batch.schema.field(place), texts)


def _measures(task: Withdrawal, part: Part) -> list[Part]:
    """Return the measures of a raw shard: those of withdrawn documents are null, and a column says
    which are withdrawn, as the step `withdrawn` measures it.
    """
    root, number = task.corpus.root, _of_shard(part.path)
    kind = pq.read_schema(root / part.path)
    new = REASON not in kind.names
    if not new and number not in task.shards:
        return []
    listed = pa.array(sorted({*task.before, *task.now}), pa.int64())
    if new:
        kind = kind.insert(kind.get_field_index("document") + 1, pa.field(REASON, pa.int8()))
    unread = _unread(task, number)

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        hit = pc.is_in(batch["document"], listed)
        arrays = []
        for field in kind:
            if field.name == "document":
                arrays.append(batch["document"])
            elif field.name == REASON and new:
                absent = pc.is_in(batch["document"], unread)
                arrays.append(pc.if_else(absent, None, hit.cast(field.type)))
            elif field.name == REASON:
                arrays.append(pc.if_else(hit, pa.scalar(1, field.type), batch[field.name]))
            else:
                arrays.append(pc.if_else(hit, pa.scalar(None, field.type), batch[field.name]))
        return pa.RecordBatch.from_arrays(arrays, schema=kind)

    return [_table(task, part, change, kind)]


def _unread(task: Withdrawal, shard: int) -> pa.Array:
    """Return the documents of a raw shard that no step saw: dropped as they were read."""
    path = task.corpus.root / f"verdicts/{shard_name(shard)}.parquet"
    chunks = [
        batch.filter(pc.fill_null(pc.starts_with(batch["reason"], "read."), False))["document"]
        for batch in read_batches(path, ["document", "reason"])
    ]
    return pa.chunked_array(chunks, pa.int64()).combine_chunks()


def _index(task: Withdrawal, keys: Part) -> list[Part]:
    """Return a partition of the index without the documents' entries: the keys, and their
    documents.
    """
    root, stage = task.corpus.root, task.corpus.stage
    path = keys.path.removesuffix(".keys") + ".documents"
    documents = np.fromfile(root / path, "<i8")
    stays = ~np.isin(documents, task.numbers)
    if stays.all():
        return []
    of = {part.path: part.counts for part in task.manifest.parts}
    left = np.fromfile(root / keys.path, "<u8")[stays].tobytes()
    return [
        write_bytes(stage, keys.path, left, **of[keys.path]),
        write_bytes(stage, path, documents[stays].tobytes(), **of[path]),
    ]
