"""A raw shard to batches of documents.

Its kind is detected from its decoded bytes (kinds.py), unless the recipe names it. Memory is a
block of the file and a batch of text, whatever the size of the file.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from gristmill.errors import SourceError, reason_of_file
from gristmill.source import kinds
from gristmill.source.path_columns import with_columns
from gristmill.source.rows import Fields, RowCollector, without_empty
from gristmill.source.source_format import FORMATS, FileReader, SourceFormat, not_text
from gristmill.store.codecs import Damage, DecodedPieces, Proof
from gristmill.system.own_code import OwnFile

# The most rows without a text that a shard may have: in all, or for each byte of its file.
HOLLOW_ROWS, HOLLOW_ROWS_PER_BYTE = 100_000, 4
TOGETHER = 2 << 20  # bytes decoded at a time, about


class _DigestReader:
    """A file that hashes all its bytes in order, as they are read; `hexdigest` reads the rest."""

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
        """Return the digest of the whole file; reads the bytes that were not read yet."""
        self._file.seek(self._hashed)
        buffer = memoryview(bytearray(1 << 18))
        while size := self._file.readinto(buffer):  # type: ignore[attr-defined]
            self._digest.update(buffer[:size])
            self._hashed += size
        return self._digest.hexdigest()


class ShardReader:
    """The documents of one raw shard. Iterate once; `counts` is complete afterwards."""

    def __init__(
        self,
        path: Path,
        number: int,
        *,
        kind: str | None = None,
        own: OwnFile | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        sha256: str | None = None,
        name: str | None = None,
        proof: Proof | None = None,
        first_row: int = 0,
    ) -> None:
        """Read a file as shard `number`, its rows numbered from `first_row` on. `kind` replaces the
        detected kind, `own` is its file where it is `module:VALUE`; `sha256` is the expected
        digest; `name` is the original file name, or the URL. `proof`: as of DecodedPieces; null:
        "ahead", and with a limit "behind", as little of a file may be needed.

        Iteration raises SourceError if the file cannot be read, is of no known kind, or has another
        digest; UnprovedMember if what was given must be forgotten (`proof`).
        """
        self._proof: Proof = proof or ("ahead" if limit is None else "behind")
        self._path = path
        self._name = path.name if name is None else name
        self._kind, self._own = kind, own
        self._fields = fields or Fields()
        self._rows = RowCollector(number, limit, self._fields.max_replaced, first_row)
        self._sha256 = sha256
        known = self._fields.text, self._fields.url
        self._columns = {name: at for name, at in self._fields.columns if name not in known}
        self.counts: dict[str, Any] = {}

    @property
    def rows(self) -> int:
        """Return the number of the row behind those that were read."""
        return self._rows.row

    @property
    def documents(self) -> int:
        """Return how many rows with a verdict were read."""
        return self._rows.documents

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            with open(self._path, "rb") as file:
                if not self._columns:
                    yield from self._read(file)
                for batch in self._read(file) if self._columns else ():
                    yield with_columns(batch, self._columns)
        except OSError as error:
            raise SourceError(
                f"{self._path}: cannot be read: {error.strerror or error}", reason_of_file(error)
            ) from error

    def _read(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        hashed = _DigestReader(file)
        pieces = DecodedPieces(hashed, self._fields.max_shard_bytes)  # type: ignore[arg-type]
        pieces.proof, pieces.member_starts = self._proof, []
        peeked = _PeekedPieces(pieces)
        try:
            kind = self._detect(peeked, pieces)
        except SourceError:
            if not self._rows.full:
                raise
            kind = FORMATS.find(self._kind or "text", self._own)
        # With a limit the number of decoded bytes, which is counted, would depend on how many are
        # decoded together.
        if pieces.codec == "gzip" and self._rows.left is None:
            from gristmill.source.libdeflate import member_inflater

            pieces.inflate = member_inflater()
        if self._rows.left is None:
            pieces.together = TOGETHER
        if not kind.members:
            pieces.member_starts = None
        if self._rows.full:
            pass  # the source's limit was reached before this shard
        elif kind.read_file is not None:
            read_file = kind.read_file
            yield from self._bounded(self._read_file(read_file, peeked, pieces, file), file)
        else:
            read = kind.read if self._kind is None else kind.read_named or kind.read
            assert read is not None
            yield from self._bounded(read(peeked, self._rows, self._fields), file)
        digest = hashed.hexdigest()
        if self._sha256 is not None and digest != self._sha256:
            raise SourceError(
                f"{self._path}: changed since the plan pinned it: expected sha256 "
                f"{self._sha256}, got {digest}. "
                "Restore the old file, or start a new corpus",
                "changed",
            )
        self.counts = {
            "kind": kind.counted or kind.name,
            "codec": pieces.codec,
            "compressed_bytes": file.seek(0, 2),
            "decompressed_bytes": pieces.decoded_bytes,
            "documents": self._rows.documents,
            "records_skipped": dict(sorted(self._rows.skipped.items())),
            "decoding": dict(sorted(self._rows.decoding.items())),
        }

    def _bounded(
        self, batches: Iterator[pa.RecordBatch], file: BinaryIO
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches, until far more rows without a text came than a file of this size has:
        a few bytes of a table or a packed file may stand for millions of them, each with its
        verdict.
        """
        most = max(HOLLOW_ROWS, HOLLOW_ROWS_PER_BYTE * os.fstat(file.fileno()).st_size)
        hollow = 0
        for batch in batches:
            if not self._fields.keep_empty:
                batch = without_empty(batch)
            hollow += len(batch) - batch["reason"].null_count
            yield batch
            del batch
            if hollow > most:
                self._rows.fail("bomb", self._rows.row)
                last = self._rows.take()
                if last is not None:
                    yield last
                return

    def _detect(self, peeked: "_PeekedPieces", pieces: DecodedPieces) -> SourceFormat:
        """Return the format that the recipe names, or that is detected."""
        if self._kind is not None:
            kind = FORMATS.find(self._kind, self._own)
            return FORMATS.find(kind.named(kinds.peek(peeked, 0))) if kind.named else kind
        first = pieces.first
        lost = (
            pieces.codec == "none"
            and kinds.is_unknown(first, self._fields)
            and pieces.find_member()
        )
        head = kinds.peek(peeked, self._fields.max_document_bytes)
        if not lost:
            return FORMATS.find(kinds.detect(head._replace(name=self._name), self._fields))
        # The first member's beginning is damaged: the members after it decide, if they are of
        # an archive or of lines.
        try:
            kind = FORMATS.find(kinds.detect(head, self._fields))
        except SourceError:
            kind = FORMATS.find("text")
        if not kind.after_damage:
            raise not_text(f"binary data (it begins with {first[:8].hex(' ')})")
        return kind

    def _read_file(
        self, read: FileReader, peeked: "_PeekedPieces", pieces: DecodedPieces, file: BinaryIO
    ) -> Iterator[pa.RecordBatch]:
        """Read a file by its path; a compressed one is decoded to a temporary file first."""
        if pieces.codec == "none":
            yield from read(str(self._path), self._rows, self._fields)
            pieces.decoded_bytes = file.seek(0, 2)
            return
        with tempfile.NamedTemporaryFile() as whole:
            for piece in peeked:
                if isinstance(piece, Damage):
                    raise SourceError(
                        f"{self._path}: {piece.reason} {pieces.codec} at byte {piece.offset}",
                        "damaged",
                    )
                whole.write(piece)
            whole.flush()
            yield from read(whole.name, self._rows, self._fields)


class _PeekedPieces:
    """Pieces that can be peeked at, and then read from the first on."""

    def __init__(self, pieces: DecodedPieces) -> None:
        self._pieces: Iterator[bytes | Damage] | None = None
        self._from = pieces
        self._seen: list[bytes | Damage] = []

    @property
    def member_starts(self) -> list[int] | None:
        return self._from.member_starts

    def _next(self) -> bytes | Damage | None:
        if self._pieces is None:
            self._pieces = iter(self._from)
        return next(self._pieces, None)

    def peek(self) -> bytes | Damage | None:
        """Return another piece, which stays to be read; None: the end."""
        piece = self._next()
        if piece is not None:
            self._seen.append(piece)
        return piece

    def __iter__(self) -> Iterator[bytes | Damage]:
        while self._seen:
            yield self._seen.pop(0)
        while (piece := self._next()) is not None:
            yield piece
