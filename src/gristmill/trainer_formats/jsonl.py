"""JSONL, plain, gzip or zstd: `SOURCE/SHARD.jsonl`, a document a line, with all its fields."""

import gzip
import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, cast

import msgspec
import pyarrow as pa

from gristmill.tables.schema import shard_name
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.kept_texts import KeptTexts, TextFormat

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def _write(to: str, texts: KeptTexts, folder: ExportFolder) -> int:
    """Write JSONL: `SOURCE/SHARD.jsonl`. Returns the number of documents."""
    documents = 0
    for number, source in texts.shards():
        fields = texts.fields(source)
        name = f"{source}/{shard_name(number)}.{to}"
        if (part := folder.kept(name)) is not None:
            documents += part.counts["documents"]
            continue
        counts = {"documents": 0}
        with folder.file(name, counts) as file:
            plain = cast("BinaryIO", file)
            packed = _packed(plain, to)
            for batch in texts.batches(source, number):
                packed.write(b"".join(_lines(batch, fields)))
                counts["documents"] += len(batch)
            if packed is not plain:
                packed.close()
        documents += counts["documents"]
    return documents


def _packed(file: BinaryIO, to: str) -> BinaryIO:
    if to == "jsonl.gz":
        return cast("BinaryIO", gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
    if to == "jsonl.zst":
        return cast("BinaryIO", zstd.ZstdFile(file, "wb", level=3))
    return file


def _lines(batch: pa.RecordBatch, fields: tuple[str, str]) -> Iterator[bytes]:
    """Yield a line for each document: its text and URL under their original names, the fields of
    its format (date, record_id, declared_language), all other fields, and `copies`.

    A field `copies` of the document itself is written as `original_copies`.
    """
    encode = msgspec.json.Encoder().encode
    for row in batch.to_pylist():
        line = {fields[0]: row["text"]}
        if row["url"] is not None:
            line[fields[1]] = row["url"]
        line |= {
            name: row[name]
            for name in ("date", "record_id", "declared_language")
            if row[name] is not None
        }
        if row["extra"] is not None:
            # The document's own fields replace those of its format.
            line |= json.loads(row["extra"])
        if "copies" in line:
            line["original_copies"] = line["copies"]
        line["copies"] = row["copies"]
        yield encode(line) + b"\n"


FIELDS = "all fields of a document under their names, and `copies`"
JSONL = TextFormat(
    name="jsonl", files="`SOURCE/SHARD.jsonl`", fields=FIELDS, write=partial(_write, "jsonl")
)
GZIP = TextFormat(
    name="jsonl.gz",
    files="`SOURCE/SHARD.jsonl.gz`",
    fields=FIELDS,
    write=partial(_write, "jsonl.gz"),
)
ZSTD = TextFormat(
    name="jsonl.zst",
    files="`SOURCE/SHARD.jsonl.zst`",
    fields=FIELDS,
    write=partial(_write, "jsonl.zst"),
)
