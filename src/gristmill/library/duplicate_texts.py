"""Duplicates among texts in memory: the deduplicate phase of a run, over a folder that is removed
in the end; and MinHash signatures as an array.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup import duplicates, signatures
from gristmill.dedup.settings import Deduplicate, ExactForm, Near
from gristmill.dedup.shard_tables import GROUP, ShardTables
from gristmill.engine.engine import worker_count
from gristmill.engine.executor import threads_with
from gristmill.engine.relations import RELATIONS_MEMORY_MB, duckdb_with
from gristmill.errors import ArgumentError
from gristmill.tables import schema
from gristmill.tables.columns import view_rows
from gristmill.tables.user_texts import slice_batches, to_table

RESULT = pa.schema(
    [
        pa.field("reason", pa.string()),  # null: kept
        pa.field("keeper", pa.int64()),  # the row that is kept in its place
        pa.field("similarity", pa.float64()),
    ]
)


def deduplicate_texts(
    texts: Any,
    *,
    near: Near | Mapping[str, Any] | bool | None = True,
    exact: bool | ExactForm = True,
    url: bool = False,
    keep: Literal["first", "longest"] = "first",
    text: str = "text",
    threads: int | None = None,
) -> pa.Table:
    """Find the duplicates among n texts, by the rule and with the result of a run: a row for each,
    with `reason` (null: kept; a missing text is `read.no_text`), `keeper` (the row that is kept
    instead) and `similarity`.

    `texts` is what filters take; a table may have `url`. `near` is True, a Near or its parameters,
    or False; `exact` is True, the form in which texts are equal (docs/compared-text.md), or False;
    `keep` says which of two duplicates is kept. Temporary files take a few times the bytes of the
    texts, in the folder of `tempfile`. Raises ArgumentError, MachineError.

    >>> import gristmill
    >>> found = gristmill.deduplicate(["One text.", "Another.", "One  text."], near=False)
    >>> found["keeper"].to_pylist()
    [None, None, 0]
    """
    settings = _settings(near, exact=exact, url=url, keep=keep)
    table = to_table(texts, text)
    rows = len(table)
    missing = pc.is_null(table["text"])
    count = worker_count(threads)
    with TemporaryDirectory(prefix="gristmill-") as folder:
        work = Path(folder)
        written = list(_write(table, settings, work, count))
        drops = (
            duplicates.deduplicate(
                written,
                settings,
                work / "work",
                opener=duckdb_with(count, RELATIONS_MEMORY_MB),
                on_progress=lambda _: None,
                executor=threads_with(count),
            ).drops
            if written
            else duplicates.DROPS.empty_table()
        )
    places = np.full(rows, -1, np.int64)
    places[drops["document"].to_numpy()] = np.arange(len(drops))
    at = pa.array(places, mask=places < 0)
    columns = [
        pc.if_else(missing, "read.no_text", drops["reason"].take(at)).cast(pa.string()),
        drops["keeper"].take(at),
        drops["similarity"].take(at),
    ]
    return pa.table(columns, schema=RESULT)


class MinHash:
    """MinHash signatures of texts, those of a corpus: `MinHash(near)(texts)` is (n, k) uint32.

    >>> import gristmill
    >>> rows = gristmill.MinHash()(["one two three four five six", "one two three four five six."])
    >>> rows.shape, gristmill.MinHash.similarity(rows[0], rows[1])
    ((2, 128), 1.0)
    """

    def __init__(self, near: Near | Mapping[str, Any] | None = None) -> None:
        """`near` says what a shingle is, and how many numbers a signature has (bands * rows)."""
        self._settings = _settings(True if near is None else near)

    def __call__(self, texts: Any, *, text: str = "text") -> np.ndarray:
        """Return signatures, (n, k) uint32. A text without words, or a missing one, has the largest
        number in each place. Raises ArgumentError.
        """
        table = to_table(texts, text)
        size = signatures.permutation_count(self._settings)
        parts = [np.empty((0, size), np.uint32)]
        for part in slice_batches(table):
            signed = signatures.sign(_documents(part, 0), self._settings)["signature"]
            empty = np.flatnonzero(signed.is_null().to_numpy(zero_copy_only=False))
            values = view_rows(pc.fill_null(signed, b"\xff" * (4 * size)), np.uint32).copy()
            values[empty] = 0xFFFFFFFF
            parts.append(values)
        return np.concatenate(parts)

    @staticmethod
    def similarity(a: np.ndarray, b: np.ndarray) -> float:
        """Return the share of places in which two signatures agree: an estimate of Jaccard
        similarity.
        """
        return float(np.mean(np.asarray(a) == np.asarray(b)))


def _settings(
    near: Near | Mapping[str, Any] | bool | None,
    *,
    exact: bool | ExactForm = True,
    url: bool = False,
    keep: str = "first",
) -> Deduplicate:
    """Return the recipe's `[deduplicate]`. Raises ArgumentError."""
    if keep not in ("first", "longest"):
        raise ArgumentError(f"keep = {keep!r}: it is 'first' or 'longest'")
    if near is True:
        near = Near()
    elif near is False:
        near = None
    table = msgspec.to_builtins(near) if isinstance(near, Near) else near
    given = {"near": table, "exact": exact, "url": url}
    given["order"] = "plan" if keep == "first" else keep
    try:
        return msgspec.convert(given, Deduplicate)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise ArgumentError(f"deduplicate: {error}") from error


def _documents(part: pa.Table, first: int) -> pa.RecordBatch:
    """Return a slice as DOCUMENTS, numbered by rows; a missing text is empty."""
    columns = {name: part[name].chunk(0) for name in part.column_names if name != "document"}
    columns["document"] = pa.array(np.arange(first, first + len(part)))
    columns["text"] = pc.fill_null(columns["text"], "")
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(len(part), field.type)
        for field in schema.DOCUMENTS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.DOCUMENTS)


def _write(
    table: pa.Table, settings: Deduplicate, work: Path, threads: int
) -> Iterator[ShardTables]:
    """Write documents and signatures as a run has them: groups of documents, a file of each."""
    first = 0
    parts: list[tuple[pa.RecordBatch, pa.Array]] = []
    for part in slice_batches(table):
        batch = _documents(part, first)
        first += len(part)
        parts.append((batch, pc.is_valid(part["text"].chunk(0))))
        if sum(len(documents) for documents, _ in parts) >= GROUP:
            yield _write_group(parts, settings, work / f"{first}", threads)
            parts = []
    if parts:
        yield _write_group(parts, settings, work / f"{first}", threads)


def _write_group(
    parts: list[tuple[pa.RecordBatch, pa.Array]], settings: Deduplicate, folder: Path, threads: int
) -> ShardTables:
    folder.mkdir()
    tables = ShardTables(folder / "signatures.parquet", folder / "documents.parquet", 0)
    given = [batch.filter(valid) for batch, valid in parts]
    signed = threads_with(threads)(partial(signatures.sign, settings=settings), given)
    kind = schema.signatures(signatures.permutation_count(settings))
    with (
        pq.ParquetWriter(tables.documents, schema.DOCUMENTS, compression="zstd") as documents,
        pq.ParquetWriter(tables.signatures, kind, compression="none") as hashes,
    ):
        for batch, rows in zip(given, signed, strict=True):
            documents.write_batch(batch)
            hashes.write_batch(rows)
    return tables
