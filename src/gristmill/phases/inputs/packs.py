"""Small local files of a source become one raw shard together: a raw shard has its tables, records
and digests, which cost some hundred times what a short text does.

A source that brings more than MANY files below SMALL bytes has them packed, in its own order, into
raw shards of about PACK bytes. A pack stays as it is: files that come later are in a later one, and
where a file of it changes or goes away, the others are read again with it, under a new number.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gristmill.errors import SourceError, reason_of_file
from gristmill.phases.inputs.sources import Listed
from gristmill.store.manifest import PackedFile
from gristmill.store.parts import hash_file

MANY = 64  # files
SMALL = 1 << 20  # bytes of a file
PACK = 16 << 20  # bytes of the files of a pack, about
MOST = 1 << 14  # files of a pack


def in_packs(listed: Sequence[Listed], folder: Path) -> Iterator[list[str]]:
    """Give the names of the files of each raw shard, most of them alone: new files of one source,
    in its order, a pack where its first file is. `folder` is the recipe's.
    """
    sizes = {file.url: size for file in listed if (size := _small(file, folder)) is not None}
    if len(sizes) <= MANY:
        yield from ([file.url] for file in listed)
        return
    shards: list[list[str]] = []
    pack: list[str] = []
    filled = 0
    for file in listed:
        if file.url not in sizes:
            shards.append([file.url])
            continue
        if not pack or filled >= PACK or len(pack) == MOST:
            pack, filled = [], 0
            shards.append(pack)
        pack.append(file.url)
        filled += sizes[file.url]
    yield from shards


def _small(file: Listed, folder: Path) -> int | None:
    """Return the size of a file that may be packed; null: it may not. One that cannot be read is a
    raw shard alone, and so is one whose name `sha256sum` would escape.
    """
    if file.remote is not None or "\n" in file.url or "\\" in file.url:
        return None
    path = folder / file.url
    try:
        size = path.stat().st_size
    except OSError:
        return None
    return size if size < SMALL and os.access(path, os.R_OK) else None


def pack_name(urls: Sequence[str]) -> str:
    """Name a raw shard by its first file, for people."""
    return urls[0] if len(urls) == 1 else f"{urls[0]} and {len(urls) - 1:,} more files"


def pin(files: Sequence[PackedFile], folder: Path) -> tuple[PackedFile, ...]:
    """Hash files. Raises SourceError where one cannot be read."""
    pinned = []
    for file in files:
        try:
            size, sha256 = hash_file(folder / file.url)
        except OSError as error:
            raise SourceError(
                f"{folder / file.url}: cannot be read: {error.strerror or error}",
                reason_of_file(error),
            ) from error
        pinned.append(PackedFile(url=file.url, size=size, sha256=sha256))
    return tuple(pinned)
