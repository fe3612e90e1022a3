"""Parquet of texts: `SOURCE/SHARD.parquet`, with a column for each field of the documents.

Columns: `document`, `text`, `url`, then `date`, `record_id`, `declared_language`, `content_type`
and `title`, then the documents' own fields in the order in which they first occur, then `copies`. A
field of a document replaces a column of its format, as in JSONL; one called document, text, url or
copies is `original_document` and so on.

The type of a field is inferred from all documents of the export, so that all files have one schema
(column_types.py).
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from gristmill.trainer_formats.column_types import (
    Kind,
    arrow_type,
    as_kind,
    is_json,
    merged,
    value_kind,
)
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.kept_texts import KeptTexts, TextFormat
from gristmill.trainer_formats.parquet_files import write_files

OF_FORMAT = ("date", "record_id", "declared_language", "content_type", "title")
RESERVED = ("document", "text", "url", "copies")
MOST_FIELDS = 1000  # columns; the fields that occur first


def write(texts: KeptTexts, folder: ExportFolder) -> int:
    """Write the files; returns the number of documents."""
    kinds = _kinds(texts)
    own = list(kinds)[:MOST_FIELDS]
    schema = pa.schema(
        [
            pa.field("document", pa.int64(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("url", pa.string()),
            *(pa.field(name, arrow_type(kinds[name])) for name in own),
            pa.field("copies", pa.int64(), nullable=False),
        ]
    )
    as_json = [name for name in own if is_json(kinds[name])]
    folder.describe(details={"json_columns": as_json, "left_out": list(kinds)[MOST_FIELDS:]})
    chosen = {name: kinds[name] for name in own}
    return write_files(texts, folder, schema, lambda batch: _batch(batch, schema, chosen))


def extra_fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a document besides those that every document has."""
    fields = {name: row[name] for name in OF_FORMAT if row[name] is not None}
    if row["extra"] is not None:
        for name, value in json.loads(row["extra"]).items():
            fields[f"original_{name}" if name in RESERVED else name] = value
    return fields


def _kinds(texts: KeptTexts) -> dict[str, Kind]:
    """Return the kind of every field in all documents, those of the format first."""
    kinds = {name: Kind("string") for name in OF_FORMAT}
    for number, source in texts.shards():
        for batch in texts.batches(source, number):
            for row in _rows(batch):
                for name, value in extra_fields(row).items():
                    kind = value_kind(value)
                    known = kinds.get(name)
                    if known != kind:
                        kinds[name] = kind if known is None else merged(known, kind)
    return kinds


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    yield from batch.select([*OF_FORMAT, "extra"]).to_pylist()


def _batch(batch: pa.RecordBatch, schema: pa.Schema, kinds: dict[str, Kind]) -> pa.RecordBatch:
    rows = [extra_fields(row) for row in _rows(batch)]
    columns = [batch["document"], batch["text"], batch["url"]]
    for name, kind in kinds.items():
        values = [as_kind(row.get(name), kind) for row in rows]
        columns.append(pa.array(values, arrow_type(kind)))
    return pa.RecordBatch.from_arrays([*columns, batch["copies"]], schema=schema)


PARQUET = TextFormat(
    name="parquet", files="`SOURCE/SHARD.parquet`", fields="the same as columns", write=write
)
