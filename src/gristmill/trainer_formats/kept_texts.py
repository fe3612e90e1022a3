"""The kept documents of a corpus as text, with all their fields: as JSONL (plain, gzip or zstd),
Parquet, nanochat's Parquet, or texts to be scored.
"""

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import pyarrow as pa

from gristmill.errors import RecipeError
from gristmill.phases.output.corpus_texts import corpus_texts
from gristmill.store.manifest import Manifest
from gristmill.tables.schema import shard_name
from gristmill.trainer_formats.export_folder import ExportFolder

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class KeptTexts:
    """The kept documents of a finished corpus, by raw shard."""

    def __init__(self, root: Path, manifest: Manifest, sources: list[str]) -> None:
        """`sources`: those to read; none: all. Raises RecipeError for one that there is not, or a
        corpus that was imported.
        """
        if not manifest.raw_shards:
            raise RecipeError(
                f"{root}: it has no texts: its tokens were imported. Choose a format of tokens"
            )
        known = [table["name"] for table in manifest.recipe["source"]]
        for name in sources:
            if name not in known:
                raise RecipeError(f"--source {name}: no such source; there are {', '.join(known)}")
        self.root, self.manifest = root, manifest
        self.on_documents: Callable[[int], None] = lambda _: None  # of each batch that is read
        self.sources = [name for name in known if not sources or name in sources]

    def shards(self) -> list[tuple[int, str]]:
        """Return (number, source) of each raw shard."""
        return [
            (shard.number, shard.source)
            for shard in self.manifest.raw_shards
            if shard.missing is None and shard.source in self.sources
        ]

    def fields(self, source: str) -> tuple[str, str]:
        """Return the original names of text and URL."""
        table = next(table for table in self.manifest.recipe["source"] if table["name"] == source)
        return table["text"], table["url"]

    def batches(self, source: str, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the kept documents of a raw shard: batches of schema.TEXT."""
        for batch in corpus_texts(self.root, self.manifest, source, number):
            self.on_documents(len(batch))
            yield batch


def write_lines(texts: KeptTexts, folder: ExportFolder, to: str) -> int:
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
