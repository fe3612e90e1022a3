"""The decoded bytes of an archive, in stretches without damage, and the search for the starts of
records.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from gristmill.source.rows import RowCollector
from gristmill.store.codecs import Damage


class Framing(NamedTuple):
    """How records of a format begin."""

    # (data, from, to): the place of a record's first line, or of the line end before it; -1: none
    find: Callable[[bytes, int, int], int]
    starts: Callable[[bytes, int], bool]  # (data, at): whether a record starts at this place
    overlap: int  # bytes that a record's first line, with the line end before it, has at most


class Window:
    """The decoded bytes that were not consumed yet, of one stretch without damage."""

    def __init__(self, pieces: Iterator[bytes | Damage], framing: Framing) -> None:
        self._pieces = pieces
        self._framing = framing
        self._coming: bytes | Damage | None = None  # a piece that was looked at
        self.data = b""
        self.at = 0  # the next byte to consume
        self.offset = 0  # of data[0] in the decoded shard
        self.damage: Damage | None = None  # what follows the data; None: the end, or not known yet
        self.ended = False  # no bytes follow the data: damage, or the end of the shard

    def _next(self) -> bytes | None:
        """The next piece; None: the stretch has ended."""
        piece, self._coming = self._coming, None
        if piece is None and not self.ended:
            piece = next(self._pieces, None)
        if piece is None or isinstance(piece, Damage):
            self.damage = piece if piece is not None else self.damage
            self.ended = True
            return None
        return piece

    def is_followed_by(self, start: bytes) -> bool:
        """Whether bytes follow the data, and begin like this."""
        if self._coming is None and not self.ended:
            self._coming = next(self._pieces, None)
            self.ended = self._coming is None
        return isinstance(self._coming, bytes) and self._coming.startswith(start)

    def more(self) -> bool:
        """Read another piece; False: the stretch has ended."""
        piece = self._next()
        if piece is None:
            return False
        self.data = self.data[self.at :] + piece
        self.offset += self.at
        self.at = 0
        return True

    def have(self, count: int) -> bool:
        """Whether `count` bytes follow; reads pieces until they do."""
        size = len(self.data) - self.at
        if size >= count:
            return True
        parts = [self.data[self.at :]]
        while size < count and (piece := self._next()) is not None:
            parts.append(piece)
            size += len(piece)
        self.offset += self.at
        self.at = 0
        self.data = b"".join(parts)
        return size >= count

    def skip_blank_lines(self) -> bool:
        """Skip empty lines; False: the stretch has ended."""
        while True:
            while self.at < len(self.data) and self.data[self.at] in b"\r\n":
                self.at += 1
            if self.at < len(self.data):
                return True
            if not self.more():
                return False

    def seek_record(self, *, here: bool = False) -> None:
        """Go to the next record's first line, or to the end of the stretch. `here`: the record may
        start at the current place.
        """
        if here:
            self.have(self._framing.overlap)
            if self._framing.starts(self.data, self.at):
                return
        while True:
            found = self._framing.find(self.data, self.at, len(self.data))
            if found >= 0:
                self.at = found
                return
            self.at = max(self.at, len(self.data) - self._framing.overlap)
            if not self.more():
                self.at = len(self.data)
                return

    def holds_record(self) -> bool:
        """Whether a record starts anywhere in the bytes that are in memory."""
        return (
            self._framing.starts(self.data, self.at)
            or self._framing.find(self.data, self.at, len(self.data)) >= 0
        )

    def skip(self, count: int) -> str:
        """Skip a block without holding it in memory.

        Returns "whole"; "cut" if the stretch ends in the block; or "wrong" if a record starts in
        it, so that the length is wrong: the window is then at the start of that record.
        """
        left = count
        while left > 0:
            found = self._framing.find(self.data, self.at, min(self.at + left, len(self.data)))
            if found >= 0:
                self.at = found
                return "wrong"
            # The start of a record may be in two pieces.
            step = min(left, max(len(self.data) - self.at - self._framing.overlap, 0))
            self.at += step
            left -= step
            if left <= len(self.data) - self.at:
                self.at += left
                break
            if not self.more():
                self.at = len(self.data)
                return "cut"
        return "whole"


def read_stretches(
    pieces: Iterable[bytes | Damage],
    rows: RowCollector,
    framing: Framing,
    read_record: Callable[[Window], bool],
) -> Iterator[pa.RecordBatch]:
    """Read the records of all stretches. `read_record` reads one record, or some; it returns False
    if the stretch ended inside it.
    """
    stream = iter(pieces)
    while True:
        window = Window(stream, framing)
        complete = True
        while window.skip_blank_lines() and not rows.full:
            complete = read_record(window)
            if rows.ready and (batch := rows.take()) is not None:
                yield batch
                del batch
        if rows.full:
            break
        # A record that damage cuts off and the damage itself are one loss, and take one row.
        if window.damage is not None:
            rows.fail(window.damage.reason, window.damage.offset)
        elif not complete:
            rows.fail("truncated", window.offset + len(window.data))
        if window.damage is None:
            break
    if (batch := rows.take()) is not None:
        yield batch
