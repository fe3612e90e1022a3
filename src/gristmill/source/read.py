"""A raw shard to batches of documents.

What it holds its decoded bytes tell (kinds.py), unless the recipe says it.

Memory is a block of the file and a batch of text, whatever the file's size.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from gristmill.errors import SourceError, reason_of_file
from gristmill.source import arc, array, bare, delimited, ipc, kinds, lines, table, warc
from gristmill.source.rows import Fields, Rows
from gristmill.store.codecs import Damage, Pieces


class _Hashed:
    """A file that hashes all that is read from it, in order; a jump is read through first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._hashed = 0

    def read(self, size: int = -1) -> bytes:
        at = self._file.tell()
        data = self._file.read(size)
        if at <= self._hashed < at + len(data):
            self._digest.update(data[self._hashed - at :])
            self._hashed = at + len(data)
        return data

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def hexdigest(self) -> str:
        """The digest of the whole file; reads what was not read."""
        self._file.seek(self._hashed)
        while block := self._file.read(1 << 20):
            self._digest.update(block)
            self._hashed += len(block)
        return self._digest.hexdigest()


class Shard:
    """One raw shard's documents. Iterate once; what was counted is there afterwards."""

    def __init__(
        self,
        path: Path,
        number: int,
        *,
        kind: str | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        sha256: str | None = None,
        name: str | None = None,
    ) -> None:
        """Read a file as shard `number`; `kind` overrides what the bytes tell; `sha256` is what
        they must be; `name` is the file's own, or its URL.
        """
        self._path = path
        self._name = path.name if name is None else name
        self._rows = Rows(number, limit)
        self._kind = kind
        self._fields = fields or Fields()
        self._sha256 = sha256
        self.counts: dict[str, Any] = {}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            with open(self._path, "rb") as file:
                yield from self._read(file)
        except OSError as error:
            raise SourceError(
                f"{self._path}: cannot be read: {error.strerror or error}", reason_of_file(error)
            ) from error

    def _read(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        hashed = _Hashed(file)
        pieces = Pieces(hashed, self._fields.max_shard_bytes)  # type: ignore[arg-type]
        replay = _Replay(pieces)
        try:
            kind = self._tell(replay, pieces)
        except SourceError:
            if not self._rows.full:
                raise
            kind = self._kind or "text"
        if self._rows.full:
            pass  # the source's limit was reached before this shard
        elif kind == "parquet":
            yield from self._read_table(replay, pieces, file)
        else:
            yield from _READERS[kind](replay, self._rows, self._fields)
        found = hashed.hexdigest()
        if self._sha256 is not None and found != self._sha256:
            raise SourceError(
                f"{self._path}: changed since the plan pinned it: expected sha256 "
                f"{self._sha256}, got {found}. "
                "Bring the old file back, or start a new corpus",
                "changed",
            )
        self.counts = {
            "kind": {"arc": "warc", "told text": "text"}.get(kind, kind),
            "codec": pieces.codec,
            "compressed_bytes": file.seek(0, 2),
            "decompressed_bytes": pieces.decoded_bytes,
            "documents": self._rows.documents,
            "records_skipped": dict(sorted(self._rows.skipped.items())),
        }

    def _tell(self, replay: "_Replay", pieces: Pieces) -> str:
        """The kind that is said, or that the bytes tell; of archives also whether they are framed
        as ARC.
        """
        if self._kind is not None:
            if self._kind in ("wet", "warc"):
                head = kinds.look(replay, 0)
                return (
                    "arc" if any(arc.is_arc(stretch) for stretch in head.stretches) else self._kind
                )
            return "told text" if self._kind == "text" else self._kind
        first = pieces.first
        if pieces.codec == "none" and kinds.is_lost(first, self._fields) and pieces.find_member():
            # A member whose own first bytes are damaged: those behind it tell, if they are an
            # archive's or lines.
            try:
                kind = kinds.tell(kinds.look(replay, self._fields.max_document_bytes), self._fields)
            except SourceError:
                kind = "text"
            if kind not in ("wet", "warc", "arc", "jsonl"):
                raise kinds.not_text(f"binary data (it begins with {first[:8].hex(' ')})")
            return kind
        return kinds.tell(
            kinds.look(replay, self._fields.max_document_bytes), self._fields, self._name
        )

    def _read_table(
        self, replay: "_Replay", pieces: Pieces, file: BinaryIO
    ) -> Iterator[pa.RecordBatch]:
        """Read Parquet, which is read from its end: decode it to a file first where it is
        packed.
        """
        if pieces.codec == "none":
            yield from table.read(str(self._path), self._rows, self._fields)
            pieces.decoded_bytes = file.seek(0, 2)
            return
        with tempfile.NamedTemporaryFile(suffix=".parquet") as whole:
            for piece in replay:
                if isinstance(piece, Damage):
                    raise SourceError(
                        f"{self._path}: {piece.reason} {pieces.codec} at byte {piece.offset}",
                        "damaged",
                    )
                whole.write(piece)
            whole.flush()
            yield from table.read(whole.name, self._rows, self._fields)


_READERS: dict[str, Callable[["_Replay", Rows, Fields], Iterator[pa.RecordBatch]]] = {
    "wet": warc.read,
    "warc": warc.read,
    "arc": arc.read,
    "jsonl": lines.read,
    "json": array.read,
    "csv": delimited.read_csv,
    "tsv": delimited.read_tsv,
    "arrow": ipc.read,
    "html": bare.read,
    "text": lines.read_text,
    "told text": lines.read_told,
}


class _Replay:
    """Pieces that were looked at, and then the rest."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces: Iterator[bytes | Damage] | None = None
        self._from = pieces
        self._seen: list[bytes | Damage] = []

    def _next(self) -> bytes | Damage | None:
        if self._pieces is None:
            self._pieces = iter(self._from)
        return next(self._pieces, None)

    def peek(self) -> bytes | Damage | None:
        """Look at another piece; None at the end."""
        piece = self._next()
        if piece is not None:
            self._seen.append(piece)
        return piece

    def __iter__(self) -> Iterator[bytes | Damage]:
        while self._seen:
            yield self._seen.pop(0)
        while (piece := self._next()) is not None:
            yield piece
