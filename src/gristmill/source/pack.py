"""Small files that are packed into one raw shard, read one after another, as the records of an
archive are.

A file that is of no kind that can be read is a row, `read.unreadable`; where most files are, the
raw shard is refused for what is wrong with the first of them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gristmill.errors import SourceError
from gristmill.source.path_columns import path_columns
from gristmill.source.read import ShardReader
from gristmill.source.rows import BATCH_BYTES, BATCH_ROWS, Fields, RowCollector
from gristmill.store.codecs import Proof
from gristmill.store.manifest import PackedFile
from gristmill.system.own_code import OwnFile

KIND = "pack"
# The reasons of a SourceError that speak of what is in a file, and not of the machine.
OF_CONTENT = ("not-text", "damaged", "too-large", "unreadable")
MOST_UNREADABLE = 0.5  # of the files


class PackReader:
    """The documents of a pack. Iterate once; `counts` is complete afterwards."""

    def __init__(
        self,
        folder: Path,
        number: int,
        files: Sequence[PackedFile],
        *,
        kind: str | None = None,
        own: OwnFile | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        proof: Proof | None = None,
    ) -> None:
        """Read files, whose names begin in `folder`, as raw shard `number`. All else is as of
        ShardReader, also what iteration raises.
        """
        self._folder, self._number, self._files = folder, number, files
        self._kind, self._own = kind, own
        self._fields, self._limit = fields or Fields(), limit
        self._proof = proof
        self.counts: dict[str, Any] = {}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over batches as large as those of one file would be."""
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self._read():
            waiting.append(batch)
            rows, size = rows + len(batch), size + batch["text"].nbytes
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield _join(waiting)
                rows = size = 0
        if waiting:
            yield _join(waiting)

    def _read(self) -> Iterator[pa.RecordBatch]:
        numbers, codecs = Counter[str](), set[str]()
        skipped, decoding = Counter[str](), Counter[str]()
        first_rows: list[int] = []
        wrong: list[str] = []
        row = 0
        for file in self._files:
            first_rows.append(row)
            left = None if self._limit is None else self._limit - numbers["documents"]
            if left is not None and left <= 0:
                continue
            shard = ShardReader(
                self._folder / file.url,
                self._number,
                kind=self._kind,
                own=self._own,
                fields=self._fields._replace(columns=path_columns(file.url)),
                limit=left,
                sha256=file.sha256,
                name=file.url,
                proof=self._proof,
                first_row=row,
            )
            try:
                yield from shard
            except SourceError as error:
                if error.reason not in OF_CONTENT:
                    raise
                wrong.append(f"{file.url}: {error}")
                failed = RowCollector(self._number, first_row=shard.rows)
                failed.fail("unreadable", failed.row, file.url)
                numbers["documents"] += shard.documents + 1
                row = failed.row
                if (last := failed.take()) is not None:
                    yield last
                continue
            row, counts = shard.rows, shard.counts
            for name in ("decompressed_bytes", "documents"):
                numbers[name] += counts[name]
            codecs.add(counts["codec"])
            skipped.update(counts["records_skipped"])
            decoding.update(counts["decoding"])
            if not counts["decompressed_bytes"]:
                skipped["empty file"] += 1
        if len(wrong) > MOST_UNREADABLE * len(self._files):
            raise SourceError(
                f"{len(wrong):,} of {len(self._files):,} packed files cannot be read. {wrong[0]}",
                "not-text",
            )
        self.counts = {
            "kind": KIND,
            "codec": codecs.pop() if len(codecs) == 1 else "several",
            "compressed_bytes": sum(file.size or 0 for file in self._files),
            "decompressed_bytes": numbers["decompressed_bytes"],
            "documents": numbers["documents"],
            "records_skipped": dict(sorted(skipped.items())),
            "decoding": dict(sorted(decoding.items())),
            "first_rows": first_rows,
        }


def _join(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Make one batch of all, and leave none waiting."""
    batches = [batch for batch in waiting if len(batch)] or waiting[:1]
    waiting.clear()
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
