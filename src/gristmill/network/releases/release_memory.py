"""Which releases a reader has seen, so that nobody can show it an older one.

    STATE/<key>/seen.json    the newest release that was seen, under each of its keys
    STATE/chains.json        the first release of each release that was seen, by their sha256

A corpus is known by its first release, which every later one names through `previous`: a mirror, or
the same addresses in another order, are the same corpus. Each address is a key as well: it may not
go back either. With a pinned root the root alone is the key: what others signed counts for nothing.

One folder may serve any number of corpora. `seen.json` right in STATE is of an earlier version, and
still counts.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from gristmill.errors import NO_JSON, MachineError, VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.layout import Release
from gristmill.store.parts import write_bytes

SEEN, CHAINS = "seen.json", "chains.json"
T = TypeVar("T")
LONGEST = 100_000  # releases that are walked back, and then no more

# Returns the bytes of a release by its number; None: it is not there.
ReadRelease = Callable[[int], bytes | None]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered under one key."""

    format: int = 1
    release: int = 0
    sha256: str | None = None
    minimum: int = 0


def key_for(name: bytes | str) -> str:
    """Return the folder of a key: an address, without its query, or a pinned root."""
    named = name.partition("?")[0].encode() if isinstance(name, str) else name
    return hashlib.sha256(named).hexdigest()[:16]


class ReleaseMemory:
    """The memory of one reader. The caller holds a lock of the folder."""

    def __init__(self, state: Path, names: Sequence[str | bytes]) -> None:
        """`names`: the addresses of the reader, or its pinned root. Opens nothing."""
        self.state, self._keys = state, [key_for(name) for name in names]

    def refuse_older(self, number: int, sha256: str, first: str | None, shown: str) -> None:
        """Raise VerificationError if a later release of this corpus was seen, or this one with
        another digest. `first`: the sha256 of its first release, where it is known; `shown`: the
        address.
        """
        for path in self._paths(first):
            _refuse_older(path, number, sha256, shown)

    def remember(self, release: Release, sha256: str, first: str | None) -> None:
        """Write that a release was seen, under all keys."""
        for path in self._paths(first):
            if path.parent == self.state:
                continue  # of an earlier version
            before = _read(path, Seen)
            minimum = max(before.minimum, release.minimum)
            seen = Seen(release=release.number, sha256=sha256, minimum=minimum)
            if seen != before:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(path.parent, SEEN, msgspec.json.encode(seen) + b"\n")

    def _paths(self, first: str | None) -> list[Path]:
        keys = [*self._keys, *([] if first is None else [first[:16]])]
        paths = [self.state / key / SEEN for key in dict.fromkeys(keys)]
        return [*paths, *([self.state / SEEN] if (self.state / SEEN).exists() else [])]

    def first_release(self, release: Release, sha256: str, read: ReadRelease) -> str:
        """Return the sha256 of the first release of a corpus: the end of the chain of `previous`,
        as far as it can be read. Each release is read once; what was found is remembered.
        """
        chains = _read(self.state / CHAINS, dict[str, str])
        walked: list[str] = []
        while sha256 not in chains and release.previous is not None and len(walked) < LONGEST:
            walked.append(sha256)
            sha256 = release.previous
            before = _before(release, read)
            if before is None:
                break
            release = before
        first = chains.get(sha256, sha256)
        new = {digest: first for digest in (*walked, sha256) if digest not in chains}
        if new:
            self.state.mkdir(parents=True, exist_ok=True)
            write_bytes(self.state, CHAINS, msgspec.json.encode(chains | new))
        return first


def _refuse_older(path: Path, number: int, sha256: str, shown: str) -> None:
    seen = _read(path, Seen)
    if number < max(seen.release, seen.minimum):
        raise VerificationError(
            f"{shown}: shows release {number}, and release {max(seen.release, seen.minimum)} "
            f"was seen before ({path}). A cache shows an old pointer, or somebody "
            "put an older release back: wait for the cache, or use another address"
        )
    if number == seen.release and sha256 != seen.sha256:
        raise VerificationError(
            f"{shown}: release {number} has sha256 {sha256}, and was seen with {seen.sha256} "
            f"({path}). A release never changes: the store was altered"
        )


def _before(release: Release, read: ReadRelease) -> Release | None:
    """Return the release that `previous` names; None if it cannot be read any more. Numbers may be
    left out, so those below are tried in turn.
    """
    for number in range(release.number - 1, 0, -1):
        data = read(number)
        if data is not None and hashlib.sha256(data).hexdigest() == release.previous:
            try:
                return layout.decode_release(data, layout.release_key(number))
            except VerificationError:
                return None
    return None


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return kind()
    except (OSError, *NO_JSON) as error:
        raise MachineError(
            f"{path}: cannot be read: it remembers which releases were seen. "
            "Remove it only if you know that no older release is being shown to you"
        ) from error
