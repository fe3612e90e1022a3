"""A raw shard to batches of documents: the format is told by the decoded bytes.

    WARC/ at the start -> wet;  PAR1 -> parquet;  the first line that is not blank is a JSON object -> jsonl;  else -> text

Memory is a block of the file and a batch of text, whatever the file's size.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from gristmill.errors import SourceError
from gristmill.source import lines, table, wet
from gristmill.source.codecs import Damage, Pieces
from gristmill.source.rows import Fields, Rows

KINDS = ("wet", "jsonl", "parquet", "text")


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
    ) -> None:
        """Read a file as shard `number`; `kind` overrides what the bytes tell; `sha256` is what they must be."""
        self._path = path
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
            raise SourceError(f"{self._path}: cannot be read: {error.strerror or error}") from error

    def _read(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        hashed = _Hashed(file)
        pieces = Pieces(hashed, self._fields.max_shard_bytes)  # type: ignore[arg-type]
        kind, stream = self._kind, pieces
        replay = _Replay(pieces)
        if kind is None:
            kind = _tell_kind(replay.peek, self._fields.max_document_bytes)
        stream = replay  # type: ignore[assignment]
        if self._rows.full:
            pass  # the source's limit was reached before this shard
        elif kind == "wet":
            yield from wet.read(stream, self._rows, self._fields)
        elif kind == "jsonl":
            yield from lines.read(stream, self._rows, self._fields)
        elif kind == "text":
            yield from lines.read_text(stream, self._rows, self._fields)
        elif pieces.codec == "none":
            yield from table.read(str(self._path), self._rows, self._fields)
            pieces.decoded_bytes = file.seek(0, 2)
        else:
            # Parquet is read from its end: decode it to a file first.
            with tempfile.NamedTemporaryFile(suffix=".parquet") as whole:
                for piece in stream:
                    if isinstance(piece, Damage):
                        raise SourceError(f"{self._path}: {piece.reason} {pieces.codec} at byte {piece.offset}")
                    whole.write(piece)
                whole.flush()
                yield from table.read(whole.name, self._rows, self._fields)
        found = hashed.hexdigest()
        if self._sha256 is not None and found != self._sha256:
            raise SourceError(
                f"{self._path}: changed since the plan pinned it: expected sha256 {self._sha256}, got {found}. "
                "Bring the old file back, or start a new corpus"
            )
        self.counts = {
            "kind": kind,
            "codec": pieces.codec,
            "compressed_bytes": file.seek(0, 2),
            "decompressed_bytes": pieces.decoded_bytes,
            "documents": self._rows.documents,
            "records_skipped": dict(sorted(self._rows.skipped.items())),
        }


class _Replay:
    """Pieces that were looked at, and then the rest."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = iter(pieces)
        self._seen: list[bytes | Damage] = []

    def peek(self) -> bytes | None:
        """Look at another piece of bytes; None at damage or the end."""
        piece = next(self._pieces, None)
        if piece is None:
            return None
        self._seen.append(piece)
        return piece if isinstance(piece, bytes) else None

    def __iter__(self) -> Iterator[bytes | Damage]:
        while self._seen:
            yield self._seen.pop(0)
        yield from self._pieces


def _tell_kind(peek: Any, most: int) -> str:
    head = b""
    while len(head) < 5 and (piece := peek()) is not None:
        head += piece
    if head.startswith(b"WARC/"):
        return "wet"
    if head.startswith(b"PAR1"):
        return "parquet"
    while len(head) < 2 * most:
        stripped = head.removeprefix(lines.BYTE_ORDER_MARK).lstrip()
        if stripped and not stripped.startswith(b"{"):
            return "text"
        if stripped and b"\n" in stripped:
            break
        piece = peek()
        if piece is None:
            break
        head += piece
    line = head.removeprefix(lines.BYTE_ORDER_MARK).lstrip().partition(b"\n")[0]
    return "jsonl" if line and lines.parse(line) is not None else "text"
