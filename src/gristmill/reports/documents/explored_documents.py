"""The documents that `explore` writes: which, and their rows from the tables of a corpus.

The tables of a raw shard are in the order of documents, so they are merged as they are read; memory
is that of a few batches, whatever the size of the corpus.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import VerificationError
from gristmill.reports.documents.document_tables import LANGUAGE
from gristmill.store.manifest import Manifest, RawShard
from gristmill.store.parts import Part, read_batches
from gristmill.tables.schema import row_number, shard_name

KEPT = "kept"
READ = ("verdicts", "measures", "text", "documents", "samples")  # folders
# embedding-atlas draws a chart of each in this order: what is worth filtering by comes first.
FIRST = pa.schema(
    [
        pa.field("text", pa.string()),  # null: the corpus stores no text of it
        pa.field("reason", pa.string()),
        pa.field("verdict", pa.string()),  # kept or dropped
        pa.field("step", pa.string()),  # which dropped it
        pa.field("source", pa.string()),
        pa.field("language", pa.string()),  # of the step language
        pa.field("characters", pa.int64()),  # of the whole text, where it is stored whole
        pa.field("host", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("threshold", pa.float64()),
        pa.field("similarity", pa.float64()),
    ]
)
LAST = pa.schema(
    [
        pa.field("document", pa.string(), nullable=False),  # shard:row, as `gristmill why` takes it
        pa.field("url", pa.string()),
        pa.field("keeper", pa.string()),
        pa.field("raw_shard", pa.string()),
    ]
)
PLACE = [pa.field("x", pa.float32()), pa.field("y", pa.float32())]

Verdict = Literal["kept", "dropped"]


class ChosenDocuments:
    """The documents that are wanted: which, and their rows."""

    def __init__(self, root: Path, manifest: Manifest, verdict: Verdict | None, seed: int) -> None:
        self._root, self._verdict, self._seed = root, verdict, seed
        parts = {part.path for part in manifest.parts}
        self._has = parts.__contains__
        self.shards = [
            shard
            for shard in manifest.raw_shards
            if self._has(f"verdicts/{shard_name(shard.number)}.parquet")
        ]
        for part in manifest.parts:
            if part.path.startswith(tuple(f"{folder}/" for folder in READ)):
                _check(root, part)
        self._last = np.uint64(2**64 - 1)  # the largest hash of a document that is wanted
        self._measures: list[pa.Field] | None = None

    def _path(self, folder: str, shard: RawShard) -> Path | None:
        """Return a shard's table in a folder."""
        name = f"{folder}/{shard_name(shard.number)}.parquet"
        return self._root / name if self._has(name) else None

    def choose(self, sample: int | None) -> int:
        """Choose a sample; how many documents there are to choose from."""
        least, count = np.empty(0, np.uint64), 0
        for shard in self.shards:
            for batch in self._verdicts(shard, ["document", "reason"]):
                count += len(batch)
                if sample is not None:
                    least = np.concatenate([least, self._hashes(batch)])
                    if len(least) > 4 * sample:
                        least = np.partition(least, sample - 1)[:sample]
        if sample is not None and count > sample:
            self._last = np.partition(least, sample - 1)[sample - 1]
        return count

    def measures(self) -> list[pa.Field]:
        """Return a column for each measure of any shard; a dot in its name becomes `_`."""
        if self._measures is None:
            found: dict[str, pa.Field] = {}
            for shard in self.shards:
                if (path := self._path("measures", shard)) is not None:
                    for field in pq.read_schema(path):
                        found.setdefault(field.name, field)
            taken = {"document", LANGUAGE}
            names = {name: _column(name) for name in found if name not in taken}
            self._measures = [
                pa.field(names[name], _plain(found[name].type), metadata={"measure": name})
                for name in names
                if _plain(found[name].type) is not None
            ]
        return self._measures

    def some(self) -> Iterator[pa.Table]:
        """Yield rows of documents, from raw shards in an order by their hash: of any shard."""
        order = np.argsort(_mixed(np.arange(len(self.shards), dtype=np.uint64), self._seed))
        for place in order.tolist():
            yield from self._rows(self.shards[place])

    def rows(self) -> Iterator[pa.Table]:
        """Yield the rows of all documents that are wanted."""
        for shard in self.shards:
            yield from self._rows(shard)

    def _rows(self, shard: RawShard) -> Iterator[pa.Table]:
        """Yield rows of a raw shard: its verdicts, `text`, and the columns of its measures."""
        texts = [
            OrderedTable(path, ["document", "text"])
            for path in (
                self._root / "text" / shard.source / f"{shard_name(shard.number)}.parquet",
                self._path("documents", shard),
                self._path("samples", shard),
            )
            if path is not None and path.exists()
        ]
        path = self._path("measures", shard)
        measures = None if path is None else OrderedTable(path, None)
        for batch in self._verdicts(shard, None):
            rows = batch.filter(pa.array(self._hashes(batch) <= self._last))
            if not len(rows):
                continue
            wanted = rows["document"]
            table = pa.Table.from_batches([rows])
            table = table.append_column("text", _first_text(wanted, texts))
            table = table.append_column("source", pa.array([shard.source] * len(rows)))
            files = [shard.file_at(row_number(document)) for document in wanted.to_pylist()]
            table = table.append_column("raw_shard", pa.array(files))
            if measures is not None:
                found = measures.of(wanted)
                for name in found.column_names:
                    if name != "document":
                        table = table.append_column(f"measure {name}", found[name])
            yield table

    def _verdicts(self, shard: RawShard, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        path = self._path("verdicts", shard)
        assert path is not None
        for batch in read_batches(path, columns):
            if self._verdict is None:
                yield batch
            else:
                kept = batch["reason"].is_null()
                yield batch.filter(kept if self._verdict == KEPT else pc.invert(kept))

    def _hashes(self, batch: pa.RecordBatch) -> np.ndarray:
        return _mixed(batch["document"].to_numpy().view(np.uint64), self._seed)


def _check(root: Path, part: Part) -> None:
    """Refuse a table that is not there, or not whole. Raises VerificationError."""
    try:
        size = (root / part.path).stat().st_size
    except OSError as error:
        raise VerificationError(
            f"{root / part.path}: {error.strerror}, and the manifest names it: run the recipe again"
        ) from error
    if size != part.size:
        raise VerificationError(
            f"{root / part.path}: {size:,} bytes, and the manifest says {part.size:,}: "
            f"`gristmill verify {root}` shows all damage"
        )


def _mixed(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return a keyed hash of numbers (n,) uint64: (n,) uint64 (SplitMix64; Steele, Lea, Flood
    2014).
    """
    state = numbers + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


class OrderedTable:
    """A table in the order of its documents, read once from its start."""

    def __init__(self, path: Path, columns: list[str] | None) -> None:
        self._batches = read_batches(path, columns)
        self._held: list[pa.RecordBatch] = []
        names = pq.read_schema(path)
        self._empty = pa.schema(
            [field for field in names if columns is None or field.name in columns]
        ).empty_table()

    def of(self, documents: pa.Array) -> pa.Table:
        """Return the rows of documents, in their order, null where there is none; each call's
        documents are behind those of the call before.
        """
        last = documents[-1].as_py()
        while not self._held or self._held[-1]["document"][-1].as_py() < last:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._held.append(batch)
        found = pa.Table.from_batches(self._held) if self._held else self._empty
        self._held = [one for one in self._held if one["document"][-1].as_py() > last]
        found = found.filter(pc.is_in(found["document"], documents))
        found = found.combine_chunks()
        return found.take(pc.index_in(documents, found["document"].combine_chunks()))


def _first_text(documents: pa.Array, tables: list[OrderedTable]) -> pa.ChunkedArray:
    """Return the text of each document in the first table that has it."""
    found = pa.chunked_array([pa.nulls(len(documents), pa.string())])
    for table in tables:
        found = pc.coalesce(found, table.of(documents)["text"])
    return found


def _column(measure: str) -> str:
    """Return the column of a measure: letters, digits and `_`, and none of the other columns."""
    name = re.sub(r"\W", "_", measure)
    known = {*FIRST.names, *LAST.names, *(field.name for field in PLACE)}
    return f"{name}_" if name.lower() in known else name


def _plain(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of a measure's column; None: it is no number, word or truth value."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.string()
    simple = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return kind if simple else None
