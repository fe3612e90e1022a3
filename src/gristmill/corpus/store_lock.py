"""Who may change a corpus in an object store: one run, by an object that it renews while it works.

    work/lock.json    the host, the process, since when; written only where it is absent, and then
                      over the version that this run wrote

A run that was killed leaves its lock. It is taken over at once if its process was of this machine
and is gone, else when nobody renewed it for STALE seconds by the clock of the store. A run whose
lock was taken over nevertheless (its machine slept) notices it at its next renewal and stops before
it writes anything that counts.
"""

import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gristmill.errors import NO_JSON, MachineError
from gristmill.store.bucket.bucket import Bucket, ChangedError, StoredFile, Version
from gristmill.store.parts import to_json

KEY = "work/lock.json"
RENEW = 20.0  # seconds between two renewals
STALE = 180.0  # seconds without a renewal until another run may take the lock
LARGEST = 1 << 16


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lock."""

    token: str  # of one run
    host: str
    machine: str  # of a host as it was started, and the name space of its processes; "": unknown
    process: int
    since: str


def this_machine() -> str:
    """Return what tells this machine, as it was started, from others that have its name; "":
    nothing.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


class StoreLock:
    """The lock of one corpus, for one run."""

    def __init__(self, bucket: Bucket) -> None:
        """Send no request."""
        self._bucket = bucket
        self._holder = LockHolder(
            token=secrets.token_hex(8),
            host=socket.gethostname(),
            machine=this_machine(),
            process=os.getpid(),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._version: Version = None
        self._lost: str | None = None
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, on_line: Callable[[str], None] = lambda _: None) -> None:
        """Hold the lock. Raises MachineError if another run holds it."""
        lock = self._bucket.get(KEY, LARGEST)
        before: Version = None
        if lock is not None:
            holder, idle = _holder(lock), self._idle(lock)
            if not (_is_gone(holder) or idle > STALE):
                raise MachineError(self._busy(holder, idle))
            on_line(f"{self._bucket.url}: {_name(holder)} left its lock: it is taken over")
            before = lock.version
        try:
            self._version = self._bucket.put_over(KEY, to_json(self._holder), before, {})
        except ChangedError:
            lock = self._bucket.get(KEY, LARGEST)
            raise MachineError(self._busy(_holder(lock) if lock else None, 0.0)) from None
        self._thread = threading.Thread(target=self._renew, name="gristmill-lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise MachineError if another run has taken the lock."""
        if self._lost is not None:
            raise MachineError(self._lost)

    def release(self) -> None:
        """Let go of the lock."""
        if self._thread is None:
            return
        self._end.set()
        self._thread.join()
        self._thread = None
        if self._lost is None:
            with suppress(MachineError):  # the next run says that it takes it over
                self._bucket.delete(KEY)

    def _renew(self) -> None:
        while not self._end.wait(RENEW):
            try:
                self._version = self._bucket.put_over(KEY, to_json(self._holder), self._version, {})
            except ChangedError:
                self._changed()
            except Exception:  # noqa: BLE001, S112 (the store may answer the next time)
                continue

    def _changed(self) -> None:
        """Another version is there: that of another run, or our own whose answer was lost."""
        try:
            lock = self._bucket.get(KEY, LARGEST)
        except Exception:  # noqa: BLE001 (asked again at the next renewal)
            return
        holder = _holder(lock) if lock is not None else None
        if lock is not None and holder is not None and holder.token == self._holder.token:
            self._version = lock.version
            return
        self._lost = (
            f"{self._bucket.url}: {_name(holder)} took over the lock of this run, which had not "
            f"renewed it for {STALE:.0f} seconds. This run stops; what it did is kept"
        )
        self._end.set()

    def _idle(self, found: StoredFile) -> float:
        """Return seconds since a lock was written, by the clock of the store: that of machines
        differ.
        """
        probe = f"work/clock.{self._holder.token}"
        self._bucket.put(probe, b"")
        now = self._bucket.get(probe, LARGEST)
        self._bucket.delete(probe)
        if now is None or now.modified is None or found.modified is None:
            return 0.0
        return (now.modified - found.modified).total_seconds()

    def _busy(self, holder: LockHolder | None, idle: float) -> str:
        return (
            f"{self._bucket.url}: another run is at work on this corpus: {_name(holder)}, which "
            f"renewed its lock {idle:.0f} seconds ago. Wait for it, or choose another prefix. If "
            f"it is gone, run again when the lock is {STALE / 60:.0f} minutes old, or remove "
            f"{KEY} there"
        )


def _holder(found: StoredFile) -> LockHolder | None:
    try:
        return msgspec.json.decode(found.data, type=LockHolder)
    except NO_JSON:
        return None


def _name(holder: LockHolder | None) -> str:
    if holder is None:
        return "an unknown run"
    return f"process {holder.process} on {holder.host} (since {holder.since})"


def _is_gone(holder: LockHolder | None) -> bool:
    """Return whether the process of a lock was one of this machine, and has ended."""
    if holder is None or not holder.machine or holder.machine != this_machine():
        return False
    if holder.host != socket.gethostname() or holder.process == os.getpid():
        return False
    try:
        os.kill(holder.process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
