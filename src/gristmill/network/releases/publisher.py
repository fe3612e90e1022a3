"""One publisher at a target: uploads objects, then makes a release of them and points to it.

    upload      objects that the target lacks, several at once, read back and compared
    release     releases/N.json, only if nobody wrote a release N
    sign        TUF metadata, where a key signs
    point       latest.json, only over the pointer that was read in the beginning
    invalidate  the CDN's copies of the names that changed

Readers go from the pointer down, so they see the release before or this one: nothing that a release
names is written after it, or ever again.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gristmill.errors import RecipeError, VerificationError
from gristmill.network.releases import layout
from gristmill.network.releases.cdn import CloudFront
from gristmill.network.releases.layout import IMMUTABLE, Pointer, Release, WithdrawnDocument
from gristmill.network.releases.targets import Target, TargetChangedError, changed
from gristmill.network.trust.drafts import read_draft, refuse_existing, write_draft
from gristmill.network.trust.trust import Trust
from gristmill.network.trust.trust_metadata import FIXED, JSON, TIMESTAMP
from gristmill.store import manifest as manifests
from gristmill.store.bucket.bucket import Version

if TYPE_CHECKING:
    from securesystemslib.signer import Signer

HEADERS = {"Content-Type": "application/octet-stream", "Cache-Control": IMMUTABLE}
CONNECTIONS = 4  # uploads at once

OnUpload = Callable[[int, int], None]  # bytes that are there, of all that were missing


class UploadSettings(NamedTuple):
    """How a publisher uploads."""

    connections: int = CONNECTIONS
    read_back: bool = True  # compare what was uploaded with its sha256, by reading it
    check_all: bool = False  # read and compare what the target had as well
    max_age: int = layout.MAX_AGE  # seconds that caches may show an old pointer
    # until signatures expire, by role; the others as trust_metadata.DAYS
    days: Mapping[str, int] = {}
    draft: Path | None = None  # write the targets there, for others to sign; point to nothing
    signed: Path | None = None  # a draft that has enough signatures


class Uploaded(NamedTuple):
    """What an upload did."""

    objects: int
    bytes: int
    present: int  # objects that the target had


class Publisher:
    """One publisher at a target; the state of the target is read once, in the beginning, and
    every later step is refused if another publisher changed it. Close it in the end.
    """

    def __init__(
        self,
        target: Target,
        signers: Sequence["Signer"] = (),
        settings: UploadSettings | None = None,
        cdn: CloudFront | None = None,
    ) -> None:
        """Reads the pointer, the release and the metadata. Raises VerificationError, MachineError,
        RecipeError if the target is none, or is signed and no key was given.
        """
        self.target, self.cdn = target, cdn
        self.waiting: dict[str, Any] | None = (
            None  # a draft that was written (network/trust/drafts.py)
        )
        self.settings = settings or UploadSettings()
        self._signers = list(signers)
        self._version: Version = None  # of the pointer
        self.pointer = self._read_pointer()
        self.trust = self._read_trust()
        self.current = self._current()

    def _read_pointer(self) -> Pointer | None:
        where = f"{self.target.url}/{layout.POINTER}"
        pointer = self.target.get(layout.POINTER, layout.LARGEST_POINTER)
        if pointer is None:
            return None
        self._version = pointer.version
        return layout.decode_pointer(pointer.data, where)

    def _read_trust(self) -> Trust | None:
        settings = self.settings
        refuse_existing(settings.draft)
        first = f"{layout.TRUST}/1.root.json"
        signed = self.target.get(first, layout.LARGEST_RELEASE) is not None
        if signed and not self._signers and settings.draft is None:
            raise RecipeError(
                f"{self.target.url}: its releases are signed, and readers who pinned its root "
                "refuse unsigned ones: add --key"
            )
        if settings.draft is not None and not signed:
            raise RecipeError(
                f"{self.target.url}: its releases are not signed: make a root first "
                "(`gristmill release rotate`)"
            )
        if not signed and not self._signers:
            return None
        trust = Trust(self.target, self._signers, days=settings.days, max_age=settings.max_age)
        if settings.signed is not None:
            trust.take(read_draft(settings.signed, "targets"))
        if trust.exists and settings.draft is None:
            trust.check_signers_at_hand(("targets", "snapshot", "timestamp"))
        return trust

    def _current(self) -> tuple[Release, str] | None:
        """Return the newest release and its sha256: the highest one that is in the store, and
        signed where releases are. The pointer may be lost, or an old one was put back; what was
        withdrawn since must not come back with it.
        """
        named = [(self.pointer.release, self.pointer.sha256)] if self.pointer else []
        if self.trust is not None and self.trust.exists:
            named += [signed] if (signed := self.trust.signed_release()) else []
            named += self.trust.stored_releases()
        else:
            named += self._highest_release(max(named)[0] if named else 0)
        if not named:
            return None
        number, sha256 = max(named)
        key = layout.release_key(number)
        where = f"{self.target.url}/{key}"
        blob = self.target.get(key, layout.LARGEST_RELEASE)
        if blob is None:
            raise VerificationError(f"{where}: is named as the newest release, and is not there")
        layout.check_digest(blob.data, sha256, where)
        release = layout.decode_release(blob.data, where)
        if release.number != number:
            raise VerificationError(
                f"{where}: it says that it is release {release.number}. The store was altered"
            )
        return release, sha256

    def _highest_release(self, above: int) -> list[tuple[int, str]]:
        """Return the number and sha256 of the highest release in the store that is above a number,
        as a list of one; empty if there is none.
        """
        keys = [
            key for key in self.target.sizes(f"{layout.RELEASES}/") if layout.release_number(key)
        ]
        if not keys or (number := layout.release_number(max(keys)) or 0) <= above:
            return []
        blob = self.target.get(max(keys), layout.LARGEST_RELEASE)
        return [] if blob is None else [(number, hashlib.sha256(blob.data).hexdigest())]

    # -- objects

    def upload(
        self, files: Iterable[tuple[Path, str, int]], on_upload: OnUpload = lambda *_: None
    ) -> Uploaded:
        """Write objects that the target lacks: (file, sha256, bytes) each. What is written is read
        back and compared. Raises VerificationError, MachineError.
        """
        wanted = {sha256: (path, size) for path, sha256, size in files}
        there = self.target.sizes(f"{layout.OBJECTS}/")
        missing: dict[str, tuple[Path, int]] = {}
        for sha256, (path, size) in wanted.items():
            has = there.get(layout.object_key(sha256))
            if has is not None and has != size:
                raise VerificationError(
                    f"{self.target.url}/{layout.object_key(sha256)}: {has:,} bytes, expected "
                    f"{size:,}: an object was altered in the target. Remove it, and run the same "
                    "command again"
                )
            if has is None:
                missing[sha256] = (path, size)
        total, done = sum(size for _, size in missing.values()), 0
        present = [sha256 for sha256 in wanted if sha256 not in missing]
        with ThreadPoolExecutor(self.settings.connections) as pool:
            futures = [
                pool.submit(self._put, path, sha256, size)
                for sha256, (path, size) in missing.items()
            ]
            if self.settings.check_all:
                futures += [
                    pool.submit(self.compare, sha256, wanted[sha256][1]) for sha256 in present
                ]
            try:
                for future in futures:
                    done += future.result()
                    on_upload(done, total)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return Uploaded(len(missing), total, len(present))

    def _put(self, path: Path, sha256: str, size: int) -> int:
        key = layout.object_key(sha256)
        self.target.put_file(key, path, sha256, size, HEADERS)
        if self.settings.read_back:
            self.compare(sha256, size)
        return size

    def put_bytes(self, data: bytes) -> str:
        """Write a small object; returns its sha256."""
        sha256 = hashlib.sha256(data).hexdigest()
        self.target.put_new(layout.object_key(sha256), data, HEADERS)
        if self.settings.read_back:
            self.compare(sha256, len(data))
        return sha256

    def compare(self, sha256: str, size: int) -> int:
        """Compare an object with its name; remove it if it differs. Returns 0."""
        key = layout.object_key(sha256)
        digest, came = hashlib.sha256(), 0
        for block in self.target.blocks(key):
            digest.update(block)
            came += len(block)
        if came != size or digest.hexdigest() != sha256:
            self.target.delete(key)
            raise VerificationError(
                f"{self.target.url}/{key}: expected {size:,} bytes with sha256 {sha256}, got "
                f"{came:,} with {digest.hexdigest()}: the target altered it. It was removed: run "
                "the same command again"
            )
        return 0

    # -- the release

    def release(
        self,
        manifest: bytes,
        included: Sequence[str],
        *,
        withdrawn: Sequence[WithdrawnDocument] | None = None,
        raise_minimum: bool = False,
        state: tuple[str | None, int] = (None, 0),
    ) -> Release:
        """Make a release of a manifest whose objects are there, and point to it.

        `withdrawn`: all documents withdrawn so far (default: those of the release before);
        `raise_minimum`: readers refuse every earlier release; `state`: sha256 and size of the list
        of what the next run needs, which is there. With `settings.draft` it waits for signatures,
        and nobody is pointed to it. Raises TargetChangedError if another
        publisher was faster.
        """
        sha256 = self.put_bytes(manifest)
        for small in (layout.lock_for(sha256), manifests.sums(manifests.decode(manifest).parts)):
            self.put_bytes(small)
        previous, minimum = None, 0
        if self.current is not None:
            before, previous = self.current
            minimum = before.minimum
            withdrawn = before.withdrawn if withdrawn is None else withdrawn

        def made(number: int) -> Release:
            return Release(
                number=number,
                manifest=sha256,
                manifest_size=len(manifest),
                previous=previous,
                included=sorted(included),
                withdrawn=list(withdrawn or ()),
                minimum=number if raise_minimum else minimum,
                state=state[0],
                state_size=state[1],
            )

        release = self._claim(made)
        if self.settings.draft is None:
            self.sign(release)
            self.point(release)
        else:
            self._draft(release, self.settings.draft)
        return release

    def _draft(self, release: Release, path: Path) -> None:
        """Write the targets that name a release, for others to sign; readers see nothing of it."""
        assert self.trust is not None
        lock = layout.lock_for(release.manifest)
        targets = self.trust.draft_targets(release.number, layout.encode(release), lock)
        self.waiting = write_draft(path, targets, self._signers, [self.trust.root])

    def complete(self) -> bool:
        """Sign the newest release and point to it, where a publisher was stopped before that;
        whether anything was left to do.
        """
        assert self.current is not None
        release, sha256 = self.current
        newest = (release.number, sha256)
        unsigned = self.trust is not None and self.trust.signed_release() != newest
        behind = self.pointer is None or self.pointer.release != release.number
        if unsigned:
            self.sign(release)
        if behind:
            self.point(release)
        return behind or unsigned

    def sign(self, release: Release) -> None:
        """Sign a release as the newest, where there are keys. The first signature of a target makes
        its root.
        """
        if self.trust is None:
            return
        if not self.trust.exists:
            self.trust.rotate({})
        lock = layout.lock_for(release.manifest)
        self.trust.sign_release(release.number, layout.encode(release), lock)

    def _claim(self, made: Callable[[int], Release]) -> Release:
        """Write the release under the first free number. One that another publisher, killed or
        slow, wrote and never pointed to is stepped over; our own is used again.
        """
        number = self.current[0].number + 1 if self.current else 1
        while True:
            key, data = layout.release_key(number), layout.encode(made(number))
            blob = self.target.get(key, layout.LARGEST_RELEASE)
            if blob is None:
                break
            if blob.data == data:
                return made(number)
            self._refuse_changed()
            number += 1
        if not self.target.put_new(key, data, FIXED):
            blob = self.target.get(key, layout.LARGEST_RELEASE)
            if blob is None or blob.data != data:
                raise TargetChangedError(changed(self.target.url, key))
        return made(number)

    def _refuse_changed(self) -> None:
        """Raise TargetChangedError if the pointer is another than in the beginning."""
        pointer = self.target.get(layout.POINTER, layout.LARGEST_POINTER)
        if (pointer.version if pointer else None) != self._version:
            raise TargetChangedError(changed(self.target.url, layout.POINTER))

    def point(self, release: Release) -> None:
        """Make a release that is whole, and signed where a key signs, the one that readers see."""
        data = layout.encode(release)
        pointer = Pointer(release=release.number, sha256=hashlib.sha256(data).hexdigest())
        headers = {**JSON, "Cache-Control": f"public, max-age={self.settings.max_age}"}
        bytes_ = layout.encode(pointer)
        try:
            self.target.put_pointer(layout.POINTER, bytes_, self._version, headers)
        except TargetChangedError:
            blob = self.target.get(layout.POINTER, layout.LARGEST_POINTER)
            if blob is None or blob.data != bytes_:
                raise
        blob = self.target.get(layout.POINTER, layout.LARGEST_POINTER)
        self._version = blob.version if blob else None
        self.pointer, self.current = pointer, (release, pointer.sha256)

    def invalidate(self, more: Sequence[str] = ()) -> list[str]:
        """Have the CDN forget the names that changed, and `more`. Raises MachineError."""
        if self.cdn is None or self.waiting is not None:
            return []
        signed = [TIMESTAMP, f"{layout.TRUST}/root.json"] if self.trust is not None else []
        return self.cdn.invalidate([layout.POINTER, *signed, *more])

    def close(self) -> None:
        """Let go of the target."""
        self.target.close()
