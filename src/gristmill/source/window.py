"""The decoded bytes of an archive, stretch by stretch between damage, and the search for where
records start.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from gristmill.source.rows import Rows
from gristmill.store.codecs import Damage


class Framing(NamedTuple):
    """How records of a format begin."""

    find: Callable[
        [bytes, int, int], int
    ]  # (data, from, to): where a record's first line starts, or the line's end before; -1: nowhere
    starts: Callable[[bytes, int], bool]  # (data, at): whether a record starts right there
    # no record's first line, with the line's end before it, is longer than this many bytes
    overlap: int


class Window:
    """The decoded bytes not yet consumed, one stretch without damage."""

    def __init__(self, pieces: Iterator[bytes | Damage], framing: Framing) -> None:
        self._pieces = pieces
        self._framing = framing
        self.data = b""
        self.at = 0  # the next byte to consume
        self.offset = 0  # of data[0] in the decoded shard
        self.damage: Damage | None = None  # what follows the data; None: the end, or unknown yet
        self.ended = False  # no more bytes follow the data, because of damage or the end

    def more(self) -> bool:
        """Read another piece behind the data; False where the stretch ends."""
        if self.ended:
            return False
        piece = next(self._pieces, None)
        if piece is None or isinstance(piece, Damage):
            self.damage = piece
            self.ended = True
            return False
        self.data = self.data[self.at :] + piece
        self.offset += self.at
        self.at = 0
        return True

    def have(self, count: int) -> bool:
        """Whether so many bytes follow; reads what it takes."""
        size = len(self.data) - self.at
        if size >= count:
            return True
        parts = [self.data[self.at :]]
        while size < count and not self.ended:
            piece = next(self._pieces, None)
            if piece is None or isinstance(piece, Damage):
                self.damage = piece
                self.ended = True
            else:
                parts.append(piece)
                size += len(piece)
        self.offset += self.at
        self.at = 0
        self.data = b"".join(parts)
        return size >= count

    def skip_blank_lines(self) -> bool:
        """Step over empty lines; False at the end of the stretch."""
        while True:
            while self.at < len(self.data) and self.data[self.at] in b"\r\n":
                self.at += 1
            if self.at < len(self.data):
                return True
            if not self.more():
                return False

    def seek_record(self, *, here: bool = False) -> None:
        """Step to the next record's first line, or to the end of the stretch; it may start right
        `here`.
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
        """Whether a record starts somewhere in the bytes that are held."""
        return (
            self._framing.starts(self.data, self.at)
            or self._framing.find(self.data, self.at, len(self.data)) >= 0
        )

    def pass_over(self, count: int) -> str:
        """Step over a block without holding it.

        Returns "whole", or "cut" where the stretch ends in it, or "lied" where a record starts in
        it, at which the window then stands.
        """
        left = count
        while left > 0:
            found = self._framing.find(self.data, self.at, min(self.at + left, len(self.data)))
            if found >= 0:
                self.at = found
                return "lied"
            # The start of a record may lie across two pieces.
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
    rows: Rows,
    framing: Framing,
    read_record: Callable[[Window], bool],
) -> Iterator[pa.RecordBatch]:
    """Read the records of all stretches; `read_record` reads one, and is False where the stretch
    ended inside it.
    """
    stream = iter(pieces)
    while True:
        window = Window(stream, framing)
        complete = True
        while window.skip_blank_lines() and not rows.full:
            complete = read_record(window)
            if rows.ready and (batch := rows.take()) is not None:
                yield batch
        if rows.full:
            break
        # A record cut by damage and the damage itself are one loss: one row.
        if window.damage is not None:
            rows.fail(window.damage.reason, window.damage.offset)
        elif not complete:
            rows.fail("truncated", window.offset + len(window.data))
        if window.damage is None:
            break
    if (batch := rows.take()) is not None:
        yield batch
