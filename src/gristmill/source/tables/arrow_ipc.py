"""Arrow's IPC formats, a stream or a file (also Feather): a row is a document, as in Parquet.

A file is read as the stream that it contains. A record batch is held in memory whole, so each
message is checked before it is read: one whose decompressed size is over the limit is refused.
Source: Arrow Columnar Format 1.5, Encapsulated message format; Message.fbs; File.fbs.
"""

import struct
from collections.abc import Iterable, Iterator

import pyarrow as pa

from gristmill.errors import SourceError
from gristmill.source.rows import Fields, RowCollector
from gristmill.source.source_format import Head, SourceFormat
from gristmill.source.tables import columnar
from gristmill.store.codecs import Damage

MOST_BYTES = 192 << 20  # of a message, decompressed
MAGIC = b"ARROW1\0\0"
_DICTIONARY, _RECORDS = 2, 3  # MessageHeader


class _Truncated(Exception):
    """The stream ends inside a message."""


class _CheckedMessages:
    """A file of consecutive messages, for pyarrow to read from; each message is checked first."""

    def __init__(self, pieces: Iterable[bytes | Damage]) -> None:
        self._pieces = iter(pieces)
        self._data = b""
        self._out = b""
        self._begun = self._ended = False
        self.closed = False
        self.damage: Damage | None = None
        self.taken = 0  # bytes read so far

    def _take(self, size: int) -> bytes:
        parts, held = [self._data], len(self._data)
        while held < size:
            piece = next(self._pieces, None)
            if piece is None or isinstance(piece, Damage):
                self.damage = piece
                raise _Truncated
            parts.append(piece)
            held += len(piece)
        self._data = b"".join(parts)
        taken, self._data = self._data[:size], self._data[size:]
        self.taken += size
        return taken

    def read(self, size: int = -1) -> bytes:
        """Return bytes of checked messages; fewer only at the end."""
        while len(self._out) < size and not self._ended:
            self._out += self._message()
        taken, self._out = self._out[:size], self._out[size:]
        return taken

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def flush(self) -> None:
        pass

    def _message(self) -> bytes:
        prefix = self._take(4)
        if not self._begun and prefix == MAGIC[:4]:
            self._take(4)
            prefix = self._take(4)
        self._begun = True
        if prefix == b"\xff\xff\xff\xff":
            prefix += self._take(4)
        (size,) = struct.unpack("<i", prefix[-4:])
        if size == 0:
            self._ended = True
            return prefix
        if not 0 < size < MOST_BYTES:
            raise SourceError(
                f"a damaged Arrow stream: a message head of {size:,} bytes", "damaged"
            )
        head = self._take(size)
        try:
            length, unpacked = _lengths(head)
            body = b""
            if 0 <= length <= MOST_BYTES:
                body = self._take(length)
                length = max(length, sum(_unpacked_size(body, start) for start in unpacked))
        except (struct.error, IndexError) as error:
            raise SourceError(f"a damaged Arrow stream: {error}", "damaged") from error
        if not 0 <= length <= MOST_BYTES:
            raise SourceError(
                f"an Arrow record batch of {length:,} bytes; the limit is {MOST_BYTES:,}. Write "
                "smaller batches (max_chunksize of pyarrow's write_table, chunksize of Feather's)",
                "too-large",
            )
        return prefix + head + body


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a FlatBuffers table; 0: it is missing."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, vtable)
    at = 4 + 2 * number
    offset = struct.unpack_from("<H", data, vtable + at)[0] if at + 2 <= size else 0
    return table + offset if offset else 0


def _follow(data: bytes, at: int) -> int:
    """Return the place that the offset at a place refers to."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _lengths(head: bytes) -> tuple[int, list[int]]:
    """Return the length of a message's body, and the places of compressed buffers in it."""
    message = _follow(head, 0)
    at = _field(head, message, 3)
    length = struct.unpack_from("<q", head, at)[0] if at else 0
    at = _field(head, message, 1)
    kind = head[at] if at else 0
    at = _field(head, message, 2)
    if kind not in (_DICTIONARY, _RECORDS) or not at:
        return length, []
    records = _follow(head, at)
    if kind == _DICTIONARY:
        records = _follow(head, _field(head, records, 1))
    buffers = _field(head, records, 2)
    if not _field(head, records, 3) or not buffers:
        return length, []
    vector = _follow(head, buffers)
    (count,) = struct.unpack_from("<I", head, vector)
    places = [struct.unpack_from("<qq", head, vector + 4 + 16 * number) for number in range(count)]
    return length, [start for start, size in places if size >= 8]


def _unpacked_size(body: bytes, start: int) -> int:
    (size,) = struct.unpack_from("<q", body, start)
    return max(int(size), 0)  # -1: it is not compressed


def read(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a shard. Raises SourceError if it is damaged."""
    stream = iter(pieces)
    messages = _CheckedMessages(stream)
    try:
        with pa.ipc.open_stream(pa.PythonFile(messages, "r")) as reader:
            columnar.check_column(reader.schema, fields)
            bound = columnar.BombCheck()
            while not rows.full:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    break
                # Offsets beyond the buffers would read other memory of the process.
                batch.validate(full=True)
                bound.read = messages.taken
                yield from columnar.add_batch(batch, rows, fields, bound)
    except _Truncated:
        damage = messages.damage
        rows.fail(*(("truncated", rows.row) if damage is None else damage))
        if damage is not None and any(isinstance(piece, bytes) and piece for piece in stream):
            raise SourceError(
                (
                    f"{damage.reason} at byte {damage.offset}: an Arrow stream cannot be read "
                    "beyond that"
                ),
                "damaged",
            ) from None
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"not a readable Arrow stream: {error}", "damaged") from error
    if (last := rows.take()) is not None:
        yield last
    if not rows.full:
        for _ in stream:  # the footer: its bytes are counted
            pass


def detect(head: Head, fields: Fields) -> bool:
    """Return whether a shard is a file or a stream of Arrow's."""
    data = head.start
    stream = (
        data.startswith(b"\xff\xff\xff\xff")
        and data[8:9] in (b"\x10", b"\x0c", b"\x14")
        and data[7:8] == b"\0"
    )
    return data.startswith(MAGIC) or stream


ARROW = SourceFormat(
    name="arrow",
    recognised="`ARROW1` or an IPC stream (Feather, too)",
    row="a row of the table",
    read=read,
    detect=detect,
    order=20,
    suffixes={"arrow": "Arrow", "feather": "Feather"},
)
