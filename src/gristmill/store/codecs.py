"""Decoding gzip, zstd, xz, bzip2, lz4 or nothing, by magic bytes, as a stream that
survives damage.

    file -> pieces of decoded bytes, and `Damage` where bytes were lost

Each gzip member, zstd or lz4 frame, xz or bzip2 stream is decoded on its own. A member that does
not decode ends with a Damage that holds its offset; the search continues behind it.
Memory is one block, whatever the file and whatever it claims: output is taken in bounded steps, and
a shard that grows beyond all likelihood, or beyond its limit, is cut off as a bomb.
"""

import bz2
import lzma
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

import lz4.frame
from isal import igzip_lib

from gristmill.errors import SourceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK = 1 << 18  # bytes read, and about most bytes given, at a time
AHEAD = 1 << 20  # bytes read at a time where whole members are decoded together
MOST_WAIT = 64  # members left to the decoder after one that could not be decoded with others
FEED = 1 << 14  # bytes given to a decoder at a time
ZSTD_WINDOW_LOG = 27  # 128 MiB, what zstd --long=27 makes
# A bomb: beyond this many bytes, more than this many times what was read. Real text reaches 20,
# gzip's limit is 1032.
BOMB_BYTES = 256 << 20
DICTIONARY_FRAME = b"\x5d\x2a\x4d\x18"  # a skippable frame of zstd
MOST_DICTIONARY = 16 << 20  # bytes
BOMB_RATIO = 300

# What a decoder raises over bytes that are not what they should be.
BROKEN: tuple[type[Exception], ...] = (
    igzip_lib.error,
    lzma.LZMAError,
    zstd.ZstdError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,  # the last three of bz2 and lz4
)  # type: ignore[assignment]

MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"BZh": "bzip2",
}
_BZIP2 = (
    b"1AY&SY",
    b"\x17rE8P\x90",
)  # what follows BZh and a digit: a block, or the end of a stream without one


# Whether a member that is longer than a block is sound is known at its end, where its checksum is.
# "none": its bytes are given before, and damage is given where it is. "ahead": it is decoded to its
# end first, and then again to be given; of a broken one nothing comes out. "behind": its bytes are
# given, and UnprovedMember is raised where it proves broken: who asks for that begins again, with
# "ahead".
Proof = Literal["none", "ahead", "behind"]


class Damage(NamedTuple):
    """Bytes were lost here.

    `reason` is the name in the verdict; `offset` counts bytes of the file as it is stored.
    """

    reason: str  # corrupt, truncated, bomb, window_too_large
    offset: int


class _Decoder(Protocol):
    """One member's decoder: bounded output, an end, and what lay behind it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class Inflate(Protocol):
    """Decodes whole gzip members together, much faster than one after another."""

    def __call__(self, data: bytes, at: int, *, ended: bool) -> tuple[bytes, int, list[int]]:
        """Decode members of `data` from a place on; stop before one that is not whole, sound, and
        followed by another (or by the end: `ended`).

        Returns the decoded bytes, the place behind the last member, and where each member ends in
        the bytes.
        """
        ...


class _Lz4:
    """lz4's decoder, with the properties of the others."""

    def __init__(self) -> None:
        self._inner: Any = lz4.frame.LZ4FrameDecompressor()

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def needs_input(self) -> bool:
        return bool(self._inner.needs_input)

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data or b""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return bytes(self._inner.decompress(data, max_length))


def _decoder(codec: str, dictionary: Any = None) -> _Decoder:
    if codec == "gzip":
        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    if codec == "zstd":
        options: dict[Any, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
        return zstd.ZstdDecompressor(dictionary, options=options)
    if codec == "bzip2":
        return bz2.BZ2Decompressor()
    if codec == "lz4":
        return _Lz4()
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ)


def detect_codec(head: bytes) -> str:
    """Return the codec by the first bytes of a file: gzip, zstd, xz, lz4, bzip2 or none."""
    for magic, name in MAGIC.items():
        # Words begin with BZh too.
        if head.startswith(magic) and (
            name != "bzip2"
            or (len(head) > 3 and any(mark.startswith(head[4:10]) for mark in _BZIP2))
        ):
            return name
    # zstd's skippable frames
    if len(head) >= 4 and 0x50 <= head[0] <= 0x5F and head[1:4] == b"\x2a\x4d\x18":
        return "zstd"
    return "none"


class UnprovedMember(SourceError):
    """A member is broken, and bytes of it were given before that was known (`proof = "behind"`)."""


class _GatheredPieces:
    """Pieces that are held back, to be given as one."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        self._parts.append(piece)
        self.size += len(piece)

    def take(self) -> bytes:
        """Return all of them, which are held no longer."""
        whole = b"".join(self._parts)
        self._parts, self.size = [], 0
        return whole


class DecodedPieces:
    """The decoded pieces of a file, and how much went in and came out."""

    def __init__(self, file: BinaryIO, most: int = 1 << 40) -> None:
        """Look at the first bytes of a file; nothing more is read until the iteration. `most`:
        decoded bytes of a packed file.
        """
        self._most = most
        self._file = file
        self._data = file.read(BLOCK)
        self._at = 0  # of the next byte in _data
        self._start = 0  # of _data in the file
        self._member_at = 0  # of the member under way in the file
        self._unmarked = True  # its start is not among member_starts
        self._dictionary: Any = None  # of all frames of zstd
        self._given = 0  # decoded bytes
        self.codec = detect_codec(self._data)
        self.read_bytes = len(self._data)  # as stored
        self.decoded_bytes = 0
        self._lost = False  # the first bytes are none of the codec's
        self.together = BLOCK  # bytes of a piece, about, where members are small
        self.inflate: Inflate | None = None  # for gzip, of a seekable file
        self.proof: Proof = "none"
        # Where members begin in the bytes that are given; null: nobody asks.
        self.member_starts: list[int] | None = None

    @property
    def first(self) -> bytes:
        """Return the first block of the file, as it is stored."""
        return self._data

    def _more(self) -> bytes:
        block = self._file.read(BLOCK)
        self.read_bytes += len(block)
        return block

    def _fill(self) -> bool:
        """Have bytes to go on with; False at the end of the file."""
        if self._at == len(self._data):
            self._start += self._at
            self._data, self._at = self._more(), 0
        return bool(self._data)

    def __iter__(self) -> Iterator[bytes | Damage]:
        """Give the pieces. Raises UnprovedMember where `proof` is "behind"."""
        for piece in self._pieces():
            if isinstance(piece, bytes):
                self._given += len(piece)
            yield piece

    def _pieces(self) -> Iterator[bytes | Damage]:
        if self.codec == "none":
            while self._fill():
                block, self._at = self._data, len(self._data)
                self.decoded_bytes += len(block)
                yield block
            return
        if self._lost:
            yield Damage("corrupt", 0)
        self._take_dictionary()
        gathered = _GatheredPieces()  # what small members give becomes larger pieces
        wait = attempts = 0  # members until whole ones are tried together again, and tries in vain
        while self._fill():
            if self._skip_padding():
                continue
            if self.inflate is not None and self.codec == "gzip":
                if wait:
                    wait -= 1
                else:
                    if gathered.size:
                        yield gathered.take()
                    before = self._start + self._at
                    yield from self._whole_members(self.inflate)
                    attempts = 0 if self._start + self._at > before else attempts + 1
                    wait = min(1 << attempts, MOST_WAIT)
                    continue
            damage = None
            for piece in self._prove_member(gathered):
                if isinstance(piece, Damage):
                    damage = piece
                else:
                    yield piece
            if damage is not None:
                if gathered.size:
                    yield gathered.take()
                yield damage
                if damage.reason == "bomb":
                    return
        if gathered.size:
            yield gathered.take()

    def _prove_member(self, gathered: _GatheredPieces) -> Iterator[bytes | Damage]:
        """Decode one member, whose bytes are gathered; what is wrong with it comes last, and then
        the next member is at hand.

        Of a broken one nothing comes out: what fits into a block is held until its end, and for
        more of it see Proof.
        """
        own = _GatheredPieces()  # of this member, what is held
        begun = False  # bytes of it came out
        damage = None
        for piece in self._member():
            if isinstance(piece, Damage):
                damage = piece
                break
            own.add(piece)
            if own.size < BLOCK:
                continue
            if not begun and self.proof == "ahead":
                damage = self._look_ahead()
                if damage is not None:
                    break
            begun = True
            self._gather(own, gathered)
            if gathered.size >= self.together:
                yield gathered.take()
        broken = damage is not None and damage.offset == self._member_at
        if damage is not None and damage.reason != "bomb":
            # Also behind a truncated one: a changed byte can make a member seem to run on to the
            # end of the file.
            self._seek_member(damage.offset)
            if damage.reason == "truncated" and self._data:
                damage = Damage("corrupt", damage.offset)
        broken = broken and damage is not None and damage.reason == "corrupt"
        if broken and begun and self.proof == "behind":
            raise UnprovedMember(
                f"a damaged part of the {self.codec} file begins at its byte {self._member_at:,}, "
                "and what was read of it cannot be trusted. Fetch or copy the file again",
                "damaged",
            )
        if not broken:
            self._gather(own, gathered)
        if damage is not None:
            yield damage
        elif gathered.size >= self.together:
            yield gathered.take()

    def _gather(self, own: _GatheredPieces, gathered: _GatheredPieces) -> None:
        """Have what is held of a member among what is given next."""
        place = self._given + gathered.size
        if own.size and self.member_starts is not None and self._unmarked:
            self.member_starts.append(place)
            self._unmarked = False
        gathered.add(own.take())

    def _look_ahead(self) -> Damage | None:
        """Decode all of the member at hand and be where it was; the damage that makes it broken."""
        if not self._file.seekable():
            return None
        kept = self._data, self._start, self._at, self.read_bytes, self.decoded_bytes
        self._go_to_start()
        damage = None
        for piece in self._member():
            if isinstance(piece, Damage):
                damage = piece
        if damage is not None and damage.reason == "truncated":
            self._seek_member(damage.offset)
            damage = Damage("corrupt", damage.offset) if self._data else None
        self._data, self._start, self._at, self.read_bytes, self.decoded_bytes = kept
        self._file.seek(self._start + len(self._data))
        is_broken = damage is not None and damage == ("corrupt", self._member_at)
        return damage if is_broken else None

    def _go_to_start(self) -> None:
        """Be at the start of the member at hand."""
        self._file.seek(self._member_at)
        self._data, self._start, self._at = self._file.read(BLOCK), self._member_at, 0

    def _take_dictionary(self) -> None:
        """Step over the first frame of zstd if it holds the dictionary of the others (IIPC,
        Zstandard compression of WARC files, 1.0).
        """
        head = self._data[:8]
        if self.codec != "zstd" or len(head) < 8 or not head.startswith(DICTIONARY_FRAME):
            return
        end = 8 + int.from_bytes(head[4:], "little")
        while end <= MOST_DICTIONARY and len(self._data) < end and (block := self._more()):
            self._data += block
        content = self._data[8:end]
        try:
            if content.startswith(b"\x28\xb5\x2f\xfd"):
                content = _decoder("zstd").decompress(content, MOST_DICTIONARY)
            self._dictionary = zstd.ZstdDict(content) if len(self._data) >= end else None
        except BROKEN:
            return  # a skippable frame as others are, or a damaged one
        self._at = end if self._dictionary is not None else 0

    def _whole_members(self, inflate: Inflate) -> Iterator[bytes]:
        """Decode members together until one must be left to the decoder; then be where the decoder
        would be, had it decoded them.
        """
        first, data, start = self._start + len(self._data), self._data, self._start
        at, ended = self._at, False
        while True:
            piece, stop, ends = inflate(data, at, ended=ended)
            given = self.decoded_bytes + len(piece)
            if given > self._most or (given > BOMB_BYTES and given > BOMB_RATIO * (start + stop)):
                self.inflate = None  # perhaps a bomb
                break
            if piece or stop > at:
                at, self.decoded_bytes = stop, given
                if self.member_starts is not None:
                    self.member_starts += [self._given + place for place in (0, *ends[:-1])]
                yield piece
            elif ended or len(data) - at >= BLOCK:
                break
            if not ended and len(data) - at < BLOCK:
                block = self._file.read(AHEAD)
                ended = not block
                data, start, at = data[at:] + block, start + at, 0
        self._go_to(start + at, first)

    def _go_to(self, place: int, first: int) -> None:
        """Be at a place of the file, with the block around it: blocks follow each other from
        `first` on, the end of the one at hand.
        """
        self._file.seek(first)
        if place < first or place == self._start + self._at:
            self._at = place - self._start
            return
        begin = first + (place - first) // BLOCK * BLOCK
        self._file.seek(begin)
        self._data = b"" if begin == place else self._file.read(BLOCK)
        self._start, self._at = begin, place - begin
        self.read_bytes += begin + len(self._data) - first

    def _member(self) -> Iterator[bytes | Damage]:
        """Decode one member; what is wrong with it, or right behind it, comes last."""
        decoder = _decoder(self.codec, self._dictionary)
        member = self._member_at = self._start + self._at
        self._unmarked = True
        fed = b""
        while not decoder.eof:
            if not fed and decoder.needs_input:
                if not self._fill():
                    yield Damage("truncated", member)
                    return
                # Little at a time: what a decoder has not used it copies back, for every member.
                fed = self._data[self._at : self._at + FEED]
                self._at += len(fed)
            try:
                piece = decoder.decompress(fed, BLOCK)
            except BROKEN as error:
                window = "window" in str(error).lower() or "memory" in str(error).lower()
                yield Damage(
                    "window_too_large" if self.codec == "zstd" and window else "corrupt", member
                )
                return
            fed = b""
            self.decoded_bytes += len(piece)
            if piece:
                yield piece
            ratio = (
                self.decoded_bytes > BOMB_BYTES
                and self.decoded_bytes > BOMB_RATIO * self.read_bytes
            )
            if ratio or self.decoded_bytes > self._most:
                yield Damage("bomb", member)
                return
        self._at -= len(decoder.unused_data)
        self._skip_padding()
        head = self._data[self._at : self._at + 8]
        if head and not self._continues(head) and self._data[self._at :].strip(b"\0"):
            yield Damage("corrupt", self._start + self._at)

    def _skip_padding(self) -> bool:
        """Step over zeros behind a member: tapes leave them behind the last, and xz allows them
        between streams.
        """
        if self._at < len(self._data) and self._data[self._at] != 0:
            return False  # without a copy of what follows, for every member
        behind = self._data[self._at :]
        rest = behind.lstrip(b"\0")
        if self.codec == "zstd" or len(rest) == len(behind) or (rest and self.codec == "gzip"):
            return False
        self._at = len(self._data) - len(rest)
        return True

    def _continues(self, head: bytes) -> bool:
        """Return whether another member starts here; a head that the block cuts off is given the
        benefit.
        """
        return detect_codec(head) == self.codec or any(magic.startswith(head) for magic in MAGIC)

    def _seek_member(self, broken: int) -> None:
        """Go on behind a broken member, at the next that decodes, or at the end."""
        magic = next(magic for magic, name in MAGIC.items() if name == self.codec)
        data, start = b"", broken + 1
        if self._file.seekable():
            self._file.seek(start)
            data = self._more()
        while data:
            at = data.find(magic)
            while at >= 0:
                if len(data) - at < BLOCK:
                    data = data[at:] + self._more()
                    start += at
                    at = 0
                # Chance makes two or four bytes look like a magic.
                if _decodes(self.codec, data[at:], self._dictionary):
                    self._data, self._start, self._at = data[at:], start + at, 0
                    return
                at = data.find(magic, at + 1)
            # The magic may lie across two blocks.
            tail = data[1 - len(magic) :]
            block = self._more()
            start += len(data) - len(tail)
            data = tail + block if block else b""
        self._data, self._start, self._at = b"", start, 0

    def find_member(self) -> bool:
        """Look for a codec's first member behind bytes that are none of its: what damage has done
        to the first. Whether there is one.
        """
        for magic, codec in MAGIC.items():
            at = self._data.find(magic, 1)
            while at >= 0:
                if detect_codec(self._data[at : at + 16]) == codec and _decodes(
                    codec, self._data[at:]
                ):
                    self.codec, self._lost, self._at = codec, True, at
                    return True
                at = self._data.find(magic, at + 1)
        return False


def _decodes(codec: str, data: bytes, dictionary: Any = None) -> bool:
    """Return whether the first bytes behind a magic decode; blocks of bzip2 and lz4 are too long to
    see the end of, but have marked heads.
    """
    try:
        return bool(_decoder(codec, dictionary).decompress(data[:BLOCK], 1 << 14)) or (
            codec in ("bzip2", "lz4") and len(data) > 16
        )
    except BROKEN:
        return False
