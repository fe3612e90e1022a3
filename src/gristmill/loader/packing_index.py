"""Positions in a source's tokens, made once and kept in a cache: pieces sorted by length, or where
windows begin.

CACHE/.gristmill.json      says that the folder is such a cache (ownership.py)
CACHE/<key>/index.json     what it was made from, and a digest of itself
CACHE/<key>/positions      int64, little-endian; mapped into memory
CACHE/<key>/counts         int64: how many pieces there are of each length, 0 to L
CACHE/<key>/checks         uint32: CRC-32 of each BLOCK bytes of `positions`
CACHE/<key>.lock           held (flock) by who makes it

The key is a digest of what it was made from: the corpus' manifest, the source, the split, the
sequence length and the packing. A folder is written beside its place and renamed when it is whole.
It is checked when it is opened, but `positions`, which may have gigabytes: a block of it is checked
when it is first used. A folder that is damaged is removed, and made again at the next start.
"""

import fcntl
import hashlib
import mmap
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gristmill.errors import Damaged, MachineError
from gristmill.kernels.packing.lengths import sort_block
from gristmill.store.parts import TEMPORARY, hash_file, machine_errors, sync_folder
from gristmill.store.proof import seal, unseal
from gristmill.system.ownership import claim_folder

FORMAT = 1  # raised when files differ, or documents are cut or packed in another way
CACHE = "GRISTMILL_PACKING"  # the environment variable that names the folder of the cache
EARLIER = re.compile(r"[0-9a-f]{32}(\.lock|\.[0-9a-f]{8}\.writing)?")  # what it makes
BLOCK = 1 << 16  # bytes
PIECES = 1 << 22  # that are sorted in memory together


class IndexRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """index.json."""

    made_from: dict[str, Any]
    positions: int  # how many
    counts: str  # sha256 of the file
    checks: str  # sha256 of the file


def default_cache() -> Path:
    """Return the folder where indexes are if none is named: $GRISTMILL_PACKING, or under
    ~/.cache.
    """
    if named := os.environ.get(CACHE):
        return Path(named)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "gristmill" / "packing"


class PackingIndex:
    """An index that is whole. Threads may share it."""

    def __init__(self, folder: Path, positions: np.ndarray, counts: np.ndarray) -> None:
        """Use `opened`."""
        self.folder = folder
        self.positions = positions  # (n,) int64, read-only
        self.counts = counts  # (L + 1,) int64; empty where positions are not of pieces
        self._checks = np.fromfile(folder / "checks", "<u4")
        self._checked = np.zeros(len(self._checks), np.bool_)

    def check(self, items: np.ndarray) -> None:
        """Check the blocks that have these positions, each once. Raises Damaged."""
        blocks = items // (BLOCK // 8)
        if self._checked[blocks].all():
            return
        for block in np.unique(blocks[~self._checked[blocks]]).tolist():
            data = self.positions[block * (BLOCK // 8) : (block + 1) * (BLOCK // 8)]
            if zlib.crc32(data.data) != int(self._checks[block]):
                shutil.rmtree(self.folder, ignore_errors=True)
                raise Damaged(
                    f"{self.folder}/positions: byte {block * BLOCK:,} or one of the {BLOCK - 1:,} "
                    "behind it is not as it was written. The folder is removed: start again, and "
                    "the index is made again"
                )
            self._checked[block] = True


class IndexWriter(NamedTuple):
    """The folder in which an index is made."""

    folder: Path
    made_from: dict[str, Any]

    def finish(self, counts: np.ndarray) -> None:
        """Write what stands beside `positions`."""
        (self.folder / "counts").write_bytes(counts.astype("<i8").data)
        checks = []
        with open(self.folder / "positions", "rb") as file:
            while block := file.read(BLOCK):
                checks.append(zlib.crc32(block))
            size = file.tell()
            os.fsync(file.fileno())
        (self.folder / "checks").write_bytes(np.array(checks, "<u4").data)
        record = IndexRecord(
            made_from=self.made_from,
            positions=size // 8,
            counts=hash_file(self.folder / "counts")[1],
            checks=hash_file(self.folder / "checks")[1],
        )
        (self.folder / "index.json").write_bytes(seal(record))
        for name in ("counts", "checks", "index.json"):
            with open(self.folder / name, "rb") as file:
                os.fsync(file.fileno())
        sync_folder(self.folder)

    def sort(self, pieces: Iterator[np.ndarray], limit: int) -> np.ndarray:
        """Write the positions of pieces that follow one another, (n,) uint32 lengths each, sorted
        by length; those of one length ascend. Returns how many there are of each, (limit + 1,).

        An external counting sort: lengths go to a file and are counted; then blocks of PIECES are
        sorted in memory, and each length's part of a block is written to its place.
        """
        counts = np.zeros(limit + 1, np.int64)
        spool = self.folder / "lengths"
        with open(spool, "wb") as file:
            for some in pieces:
                counts += np.bincount(some, minlength=limit + 1)
                file.write(some.astype("<u4", copy=False).data)
        places = 8 * (np.cumsum(counts) - counts)
        position = 0
        with open(spool, "rb") as file, open(self.folder / "positions", "wb") as out:
            while len(some := np.fromfile(file, "<u4", PIECES)):
                tally, block = sort_block(some, position, limit)
                position += int(some.sum(dtype=np.int64))
                ends = np.cumsum(tally)
                view = block.data.cast("B")
                for length in np.flatnonzero(tally).tolist():
                    end, count = 8 * int(ends[length]), 8 * int(tally[length])
                    _write_at(out.fileno(), view[end - count : end], int(places[length]))
                    places[length] += count
        spool.unlink()
        return counts


def opened(cache: Path, made_from: dict[str, Any], make: Any) -> PackingIndex:
    """Return the index of these things; where there is none, or a damaged one, `make` makes it: it
    writes `positions` into the folder of an IndexWriter and returns the counts.

    Of several processes one makes it, the others wait. Raises MachineError.
    """
    made_from = {"format": FORMAT, **made_from}
    key = hashlib.sha256(msgspec.json.encode(made_from, order="sorted")).hexdigest()[:32]
    place = cache / key
    if (index := _read(place, made_from)) is not None:
        return index
    with _locked(cache, key):
        if (index := _read(place, made_from)) is not None:
            return index
        # What an earlier maker left when it was killed; the lock says that none is at work.
        for left in (place, *cache.glob(f"{key}.*{TEMPORARY}")):
            shutil.rmtree(left, ignore_errors=True)
        folder = cache / f"{key}.{secrets.token_hex(4)}{TEMPORARY}"
        try:
            with machine_errors(folder):
                folder.mkdir(parents=True)
                writer = IndexWriter(folder, made_from)
                writer.finish(make(writer))
                folder.rename(place)
                sync_folder(cache)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        index = _read(place, made_from)
        assert index is not None
        return index


def _read(place: Path, made_from: dict[str, Any]) -> PackingIndex | None:
    """Return the index of a folder; None: there is none that is whole."""
    try:
        record = msgspec.convert(unseal((place / "index.json").read_bytes()), IndexRecord)
        if record.made_from != made_from:
            return None
        for name in ("counts", "checks"):
            if hash_file(place / name)[1] != getattr(record, name):
                return None
        with open(place / "positions", "rb") as file:
            if os.fstat(file.fileno()).st_size != 8 * record.positions:
                return None
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if record.positions else b""
        counts = np.fromfile(place / "counts", "<i8")
        return PackingIndex(place, np.frombuffer(data, "<i8"), counts)
    except (OSError, ValueError):
        return None


def _is_earlier(names: set[str]) -> bool:
    """Return whether these are the names in a cache of an earlier version."""
    return all(EARLIER.fullmatch(name) for name in names)


@contextmanager
def _locked(cache: Path, key: str) -> Iterator[None]:
    """Be the only process that makes an index."""
    path = cache / f"{key}.lock"
    try:
        claim_folder(cache, "packing", _is_earlier, 0o755)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise MachineError(
            f"{path}: cannot be written ({error.strerror}): name another folder for the indexes of "
            f"packings in the environment variable {CACHE}"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_at(handle: int, data: memoryview, place: int) -> None:
    """Write all of it at a place of a file; a full disk may take a part."""
    while len(data):
        written = os.pwrite(handle, data, place)
        data, place = data[written:], place + written
