"""Lists that steps read: a file of one entry a line, or an archive in the way of UT1's block lists.

    domains         plain, or packed with gzip, zstd or xz
    lists.tar.gz    of its members those with the base name that the step asks for: adult/domains,
                    malware/domains

Lines that start with `#` are comments. (UT1: the block lists of Université Toulouse 1 Capitole,
dsi.ut-capitole.fr/blacklists.) What is no list, or an empty one, is refused: a filter without
entries would drop nothing in silence.
"""

import tarfile
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Input, Inputs
from gristmill.store.codecs import BLOCK, Damage, DecodedPieces

MOST_BYTES = (1 << 31) - 1  # of lists when decoded: positions are int32
_TAR_AT, _TAR = 257, b"ustar"  # where a tar archive has its mark (POSIX.1-1988, GNU)
_PAGE = (b"<!doctype", b"<html", b"<head", b"<?xml")
_MARK = b"\xef\xbb\xbf"  # a byte order mark


class Entries(NamedTuple):
    """The n entries of one or more lists, in order."""

    offsets: np.ndarray  # (n + 1,) int32 into data
    data: np.ndarray  # (bytes,) uint8

    def text(self, number: int) -> str:
        """Return an entry as a string; ill-formed UTF-8 becomes U+FFFD."""
        return (
            self.data[self.offsets[number] : self.offsets[number + 1]]
            .tobytes()
            .decode("utf-8", "replace")
        )

    def all(self) -> list[bytes]:
        """Return every entry: for short lists."""
        data, bounds = self.data.tobytes(), self.offsets.tolist()
        return [data[start:stop] for start, stop in pairwise(bounds)]


def read_all(
    what: str,
    locations: Sequence[str],
    inputs: Inputs,
    *,
    member: str | None = None,
    form: int | None = None,
) -> Entries:
    """Return the entries of several lists, one behind another; `what` is the key of the recipe, for
    errors.
    """
    parts = [
        read(f"{what}.{place}", inputs[location], member=member, form=form)
        for place, location in enumerate(locations)
    ]
    return join(what, parts)


def join(what: str, parts: Sequence[Entries]) -> Entries:
    """Return the entries of several lists, one behind another."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.data) for part in parts)])
    if starts[-1] > MOST_BYTES:
        raise RecipeError(
            f"{what}: the lists hold {starts[-1]:,} bytes in all; at most {MOST_BYTES:,} can "
            "be looked up"
        )
    offsets = [part.offsets[:-1] + start for part, start in zip(parts, starts[:-1], strict=True)]
    return Entries(
        np.concatenate([*offsets, starts[-1:]]).astype(np.int32),
        np.concatenate([np.empty(0, np.uint8), *(part.data for part in parts)]),
    )


def read(what: str, given: Input, *, member: str | None = None, form: int | None = None) -> Entries:
    """Return the entries of one list; of an archive, those of all members whose base name is
    `member`.

    `form` is what becomes of a line (kernels.lists.entries); null: it stays as it is written.
    Raises RecipeError for what is no list.
    """
    from gristmill.kernels.lists.entries import AS_WRITTEN, gather

    name = f"{what}: {given.name}"
    data = read_bytes(name, given.path, member=member)
    entries = gather(np.frombuffer(data, np.uint8), AS_WRITTEN if form is None else form)
    if entries.nuls:
        raise RecipeError(
            f"{name}: is no list of lines but binary: it holds {entries.nuls:,} bytes 0"
        )
    if 2 * entries.ill_formed > entries.lines:
        raise RecipeError(
            f"{name}: {entries.ill_formed:,} of {entries.lines:,} lines are not UTF-8: save the "
            "list as UTF-8"
        )
    if len(entries.offsets) == 1:
        raise RecipeError(
            f"{name}: holds no entry: one is expected a line, and lines that start with # "
            "are comments"
        )
    return Entries(entries.offsets, entries.data)


def read_bytes(name: str, path: str, *, member: str | None = None) -> bytearray:
    """Return a file's bytes, unpacked, without a byte order mark; `name` is what errors call it.
    Raises RecipeError for a web page.
    """
    try:
        with open(path, "rb") as file:
            data = _decode(name, DecodedPieces(file, MOST_BYTES), member)
    except OSError as error:
        raise RecipeError(f"{name}: cannot be read: {error.strerror or error}") from error
    if data.startswith(_MARK):
        del data[: len(_MARK)]
    head = bytes(data[:1024]).lstrip().lower()
    if head.startswith(_PAGE):
        raise RecipeError(
            f"{name}: is a web page and no list: is the address that of the list itself?"
        )
    return data


class _Decoded:
    """Decoded pieces as a file to read from, which is what tarfile takes."""

    def __init__(self, name: str, pieces: DecodedPieces) -> None:
        self._name, self._pieces, self._held = name, iter(pieces), b""

    def blocks(self) -> Iterator[bytes]:
        """Yield what is left, as it comes."""
        for piece in chain((self._held,), self._pieces):
            if isinstance(piece, Damage):
                raise RecipeError(
                    f"{self._name}: {piece.reason} at byte {piece.offset:,}: fetch or pack it again"
                )
            yield piece

    def read(self, size: int) -> bytes:
        parts, there = [], 0
        for piece in self.blocks():
            parts.append(piece)
            there += len(piece)
            if there >= size:
                break
        data = b"".join(parts)
        self._held = data[size:]
        return data[:size]

    def peek(self, size: int) -> bytes:
        head = self.read(size)
        self._held = head + self._held
        return head


def _decode(name: str, pieces: DecodedPieces, member: str | None) -> bytearray:
    """Return a list's bytes, out of whatever holds them."""
    file = _Decoded(name, pieces)
    head = file.peek(_TAR_AT + len(_TAR))
    if head[_TAR_AT:] == _TAR:
        return _members(name, file, member)
    data = bytearray()
    for block in file.blocks():
        _extend(name, data, block)
    return data


def _members(name: str, file: _Decoded, member: str | None) -> bytearray:
    """Return the contents of an archive's members with a base name, one behind another."""
    if member is None:
        raise RecipeError(f"{name}: is an archive, and a plain list is expected here: unpack it")
    others: list[str] = []
    data, count = bytearray(), 0
    try:
        # A stream: nothing is unpacked to the disk, and no name in the archive is a path of ours.
        with tarfile.open(fileobj=cast("Any", file), mode="r|", bufsize=BLOCK) as archive:
            for entry in archive:
                if (
                    entry.isreg()
                    and Path(entry.name).name == member
                    and (reader := archive.extractfile(entry))
                ):
                    count += 1
                    while block := reader.read(BLOCK):
                        _extend(name, data, block)
                    _extend(name, data, b"\n")
                elif entry.isreg() and len(others) < 8:
                    others.append(entry.name)
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise RecipeError(
            f"{name}: is a damaged archive: {error}: fetch or pack it again"
        ) from error
    if not count:
        there = ", ".join(others) or "nothing"
        raise RecipeError(f"{name}: is an archive without a member {member!r}; it holds {there}")
    return data


def _extend(name: str, data: bytearray, block: bytes) -> None:
    if len(data) + len(block) > MOST_BYTES:
        raise RecipeError(
            f"{name}: holds more than {MOST_BYTES:,} bytes when decoded; no list is that "
            "long: split it"
        )
    data += block
