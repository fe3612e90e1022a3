"""Scores that cost much, kept until their raw shard is done: a crash loses one batch.

    CACHE/../scores/journal/<key>/<shard>     records: digest of a text, its scores, a check

A record is 16 bytes of BLAKE2b of the text, k float64, and 8 bytes of BLAKE2b of both. Records are
appended and fsynced batch by batch; one that was cut off or damaged is as if it were not there. The
key says all that a score depends on besides the text. The files may be deleted at any time.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from gristmill.store.cache import default_cache
from gristmill.store.parts import machine_errors
from gristmill.system.ownership import claim_folder

EARLIER = re.compile(r"journal|[0-9a-f]{64}(\.lock|\.making)?")
Score = Callable[[pa.Array], Iterable[tuple[np.ndarray, np.ndarray]]]


def scores_folder() -> Path:
    """Return the folder of all scores that are kept, which is gristmill's. Raises MachineError."""
    folder = default_cache().parent / "scores"
    with machine_errors(folder):
        claim_folder(folder, "scores", lambda names: all(map(EARLIER.fullmatch, names)))
    return folder


class ScoreJournal:
    """The journals of one model, by raw shard; the last one is in memory."""

    def __init__(self, key: str, width: int) -> None:
        """`width` is how many numbers a score has."""
        self._key = key
        self._width = width
        self._number = -1
        self._held: HeldScores | None = None

    @contextmanager
    def shard(self, number: int) -> Iterator["HeldScores"]:
        """The scores of a raw shard."""
        folder = scores_folder() / "journal" / self._key
        if self._held is None or number != self._number:
            self._number = number
            self._held = HeldScores(folder / f"{number:05d}", self._width)
        with machine_errors(folder):
            yield self._held


class HeldScores:
    """Scores by the digests of their texts."""

    def __init__(self, path: Path, width: int) -> None:
        self._path, self._width = path, width
        self._known: dict[bytes, np.ndarray] = {}
        size = 16 + 8 * width + 8
        data = path.read_bytes() if path.is_file() else b""
        at = 0
        while at + size <= len(data):
            record = data[at : at + size]
            if _check(record[:-8]) == record[-8:]:
                self._known[record[:16]] = np.frombuffer(record[16:-8], "<f8")
                at += size
            else:
                at += 1  # behind what was cut off the next whole record begins

    def scores(self, digests: np.ndarray, texts: pa.Array, score: Score) -> np.ndarray:
        """Return the scores (n, width) of n texts with digests (n, 2); `score` gives those of texts
        that are not known, batch by batch, each of which is kept before the next.
        """
        names = [row.tobytes() for row in digests.astype(">u8")]
        new = list(dict.fromkeys(name for name in names if name not in self._known))
        if new:
            places = {name: place for place, name in enumerate(names)}
            wanted = texts.take(pa.array([places[name] for name in new]))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab") as file:
                for rows, matrix in score(wanted):
                    records = []
                    for row, values in zip(rows.tolist(), matrix.astype("<f8"), strict=True):
                        self._known[new[row]] = values
                        record = new[row] + values.tobytes()
                        records.append(record + _check(record))
                    file.write(b"".join(records))
                    file.flush()
                    os.fsync(file.fileno())
        known = [self._known[name] for name in names]
        return np.array(known, np.float64).reshape(len(names), self._width)


def _check(record: bytes) -> bytes:
    return hashlib.blake2b(record, digest_size=8).digest()
