"""A raw shard to batches of documents: the format is told by the decoded bytes.

    WARC/ at the start -> warc where pages come first in it, else wet;  filedesc:// -> warc, framed as ARC;  PAR1 -> parquet;
    the first line that is not blank is a JSON object -> jsonl;  else -> text

Memory is a block of the file and a batch of text, whatever the file's size.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from gristmill.errors import SourceError, reason_of_file
from gristmill.source import arc, lines, table, warc
from gristmill.source.rows import Fields, Rows
from gristmill.store.codecs import Damage, Pieces

KINDS = ("wet", "warc", "jsonl", "parquet", "text")


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
            raise SourceError(
                f"{self._path}: cannot be read: {error.strerror or error}", reason_of_file(error)
            ) from error

    def _read(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        hashed = _Hashed(file)
        pieces = Pieces(hashed, self._fields.max_shard_bytes)  # type: ignore[arg-type]
        replay = _Replay(pieces)
        kind = self._kind or _tell_kind(replay, self._fields.max_document_bytes)
        if self._rows.full:
            pass  # the source's limit was reached before this shard
        elif kind in ("wet", "warc"):
            archive = arc if arc.is_arc(replay.first()) else warc
            yield from archive.read(replay, self._rows, self._fields)
        elif kind == "jsonl":
            yield from lines.read(replay, self._rows, self._fields)
        elif kind == "text":
            yield from lines.read_text(replay, self._rows, self._fields)
        elif pieces.codec == "none":
            yield from table.read(str(self._path), self._rows, self._fields)
            pieces.decoded_bytes = file.seek(0, 2)
        else:
            # Parquet is read from its end: decode it to a file first.
            with tempfile.NamedTemporaryFile(suffix=".parquet") as whole:
                for piece in replay:
                    if isinstance(piece, Damage):
                        raise SourceError(
                            f"{self._path}: {piece.reason} {pieces.codec} at byte {piece.offset}", "damaged"
                        )
                    whole.write(piece)
                whole.flush()
                yield from table.read(whole.name, self._rows, self._fields)
        found = hashed.hexdigest()
        if self._sha256 is not None and found != self._sha256:
            raise SourceError(
                f"{self._path}: changed since the plan pinned it: expected sha256 {self._sha256}, got {found}. "
                "Bring the old file back, or start a new corpus",
                "changed",
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

    def first(self) -> bytes:
        """The first bytes that there are, behind damage too."""
        held = next((piece for piece in self._seen if isinstance(piece, bytes) and piece), None)
        while held is None and (piece := next(self._pieces, None)) is not None:
            self._seen.append(piece)
            held = piece if isinstance(piece, bytes) and piece else None
        return held or b""

    def __iter__(self) -> Iterator[bytes | Damage]:
        while self._seen:
            yield self._seen.pop(0)
        yield from self._pieces


def _tell_kind(replay: _Replay, most: int) -> str:
    peek = replay.peek
    head = b""
    while len(head) < len(arc.MAGIC) and (piece := peek()) is not None:
        head += piece
    if head.startswith(b"WARC/"):
        while len(head) < warc.PEEK and (piece := peek()) is not None:
            head += piece
        return warc.kind_of(head[: warc.PEEK])
    if head.startswith(arc.MAGIC):
        return "warc"
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
