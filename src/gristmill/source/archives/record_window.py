"""The decoded bytes of an archive, in stretches without damage, and the search for the starts of
records.

The heads of records are counted as the bytes come, whatever is then read of them: a head that took
no row shows in the funnel.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from gristmill.source.rows import RowCollector
from gristmill.store.codecs import Damage

MOST_STARTS = 1 << 14  # of members and heads that are behind, and not forgotten
WITHOUT_ROW = "heads_without_row"  # the count of such heads


class Framing(NamedTuple):
    """How records of a format begin."""

    # (data, from, to): the place of a record's first line, or of the line end before it; -1: none
    find: Callable[[bytes, int, int], int]
    starts: Callable[[bytes, int], bool]  # (data, at): whether a record starts at this place
    # The same of a place that `find` gave, with more evidence: texts about archives have such
    # lines too.
    surely: Callable[[bytes, int], bool]
    # Bytes of a record's first line, with the line end before it and what `surely` looks at.
    overlap: int
    # The first line of a head, with what must follow it within `overlap` bytes; null: heads are not
    # counted.
    first_line: re.Pattern[bytes] | None = None


class Window:
    """The decoded bytes that were not consumed yet, of one stretch without damage."""

    def __init__(
        self,
        pieces: Iterator[bytes | Damage],
        framing: Framing,
        member_starts: list[int] | None = None,
        before: int = 0,
    ) -> None:
        """`member_starts`: where members of a packed file begin, in all bytes that `pieces` give,
        in order; `before`: how many of these the reader of the stretches before had.
        """
        self._pieces = pieces
        self._framing = framing
        self._member_starts = [] if member_starts is None else member_starts
        self._before = before
        self.taken = before  # bytes of `pieces`
        self._coming: bytes | Damage | None = None  # a piece that was looked at
        self.data = b""
        self.at = 0  # the next byte to consume
        self.offset = 0  # of data[0] in the decoded shard
        self.damage: Damage | None = None  # what follows the data; None: the end, or not known yet
        self.ended = False  # no bytes follow the data: damage, or the end of the shard
        self.heads = 0  # first lines of records in all bytes that came
        self._places: list[int] = []  # where those of them begin that are not behind, from 0 on
        self._end = b""  # the last bytes that came

    def _next(self) -> bytes | None:
        """Return the next piece; None: the stretch has ended."""
        piece, self._coming = self._coming, None
        if piece is None and not self.ended:
            piece = next(self._pieces, None)
        if piece is None or isinstance(piece, Damage):
            self.damage = piece if piece is not None else self.damage
            self.ended = True
            return None
        self._count_heads(piece)
        self.taken += len(piece)
        return piece

    def _count_heads(self, piece: bytes) -> None:
        """Note the first lines of records in the bytes that come; one may be in two pieces."""
        first_line, overlap, end = self._framing.first_line, self._framing.overlap, self._end
        if first_line is None:
            return
        before = self.taken - self._before
        known = {line.start() for line in first_line.finditer(end)}
        between = [line.start() for line in first_line.finditer(end + piece[:overlap])]
        new = [before - len(end) + at for at in between if at < len(end) and at not in known]
        new += [before + line.start() for line in first_line.finditer(piece)]
        self._places += new
        self.heads += len(new)
        self._end = (end + piece)[-overlap:] if len(piece) < overlap else piece[-overlap:]

    def heads_before(self, stop: int) -> int:
        """Count the first lines of records from the next byte to consume to below `stop`."""
        first = bisect_left(self._places, self.offset + self.at)
        if first > MOST_STARTS:  # they are behind
            del self._places[:first]
            first = 0
        return bisect_left(self._places, self.offset + stop) - first

    def members(self, begin: int, end: int) -> list[int]:
        """Return the places in data, from `begin` to below `end`, at which a member of the packed
        file begins. Where each record is a member, as it should be, these are records.
        """
        starts, base = self._member_starts, self._before + self.offset
        first = bisect_left(starts, base + begin)
        if first > MOST_STARTS:  # they are behind
            del starts[:first]
            first = 0
        return [place - base for place in starts[first : bisect_left(starts, base + end)]]

    def member_records(self, begin: int, end: int) -> list[int]:
        """Return those of `members` at which a record starts."""
        return [at for at in self.members(begin, end) if self._framing.starts(self.data, at)]

    def is_followed_by(self, start: bytes) -> bool:
        """Return whether bytes follow the data, and begin like this."""
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
        """Return whether `count` bytes follow; reads pieces until they do."""
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
            place = self._framing.find(self.data, self.at, len(self.data))
            stop = len(self.data) if place < 0 else place
            place = min(self.member_records(self.at + (not here), stop), default=place)
            if place >= 0:
                self.at = place
                return
            self.at = max(self.at, len(self.data) - self._framing.overlap)
            if not self.more():
                self.at = len(self.data)
                return

    def holds_record(self) -> bool:
        """Return whether a record starts anywhere in the bytes that are in memory."""
        at = self.at
        if self._framing.starts(self.data, at) or self.member_records(at, len(self.data)):
            return True
        while (at := self._framing.find(self.data, at, len(self.data))) >= 0:
            if self._framing.surely(self.data, at):
                return True
            at += 1
        return False

    def skip(self, count: int) -> str:
        """Skip a block without holding it in memory.

        Returns "whole"; "cut" if the stretch ends in the block; or "wrong" if a record starts in
        it, so that the length is wrong: the window is then at the start of that record.
        """
        left = count
        while left > 0:
            place = self._framing.find(self.data, self.at, min(self.at + left, len(self.data)))
            if place >= 0:
                left -= place - self.at
                self.at = place
                self.have(self._framing.overlap)
                if self._framing.surely(self.data, self.at):
                    return "wrong"
                self.at += 1
                left -= 1
                continue
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
    member_starts = getattr(pieces, "member_starts", None)
    before = heads = 0
    first_row = rows.row
    while True:
        window = Window(stream, framing, member_starts, before)
        complete = True
        while window.skip_blank_lines() and not rows.full:
            complete = read_record(window)
            if rows.ready and (batch := rows.take()) is not None:
                yield batch
                del batch
        heads += window.heads
        if rows.full:
            break
        # A record that damage cuts off and the damage itself are one loss, and take one row.
        if window.damage is not None:
            rows.fail(window.damage.reason, window.damage.offset)
        elif not complete:
            rows.fail("truncated", window.offset + len(window.data))
        before = window.taken
        if window.damage is None:
            break
    if not rows.full and heads > rows.row - first_row:
        rows.decoding[WITHOUT_ROW] = heads - (rows.row - first_row)
    if (batch := rows.take()) is not None:
        yield batch
