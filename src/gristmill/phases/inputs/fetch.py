"""Fetch: have every raw shard here, several at once, and pin it by its sha256.

Threads download and hash; the calling thread reports progress and writes the plan as it fills, so
that what was pinned is pinned after a crash too. A shard that cannot be had is reported when the
others are done.
"""

import queue
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from gristmill.errors import SourceError, error_reason
from gristmill.phases.inputs.fetch_on_nodes import FetchOnNodes
from gristmill.phases.inputs.local_inputs import looks
from gristmill.phases.inputs.packs import pin
from gristmill.phases.inputs.plan import Plan, PlannedShard, Sources, absent
from gristmill.phases.running.progress import PhaseProgress, Progress
from gristmill.store.http.download import Promise
from gristmill.store.http.remotes import Remote
from gristmill.store.http.transfer import Fetched, Transfer
from gristmill.store.http.urls import is_url, shown
from gristmill.store.manifest import PackedFile, pack_digest
from gristmill.tables.schema import shard_name

TELL_EVERY = 0.2  # seconds
STEP = 0.02  # seconds between two looks at what is done meanwhile
KEEP_EVERY = 5.0  # seconds between two writings of the plan

Ended: TypeAlias = "queue.SimpleQueue[tuple[PlannedShard, Future[Fetched]]]"


class Asked(NamedTuple):
    """What the command line asks of a fetch."""

    allow_missing: bool = False
    check_inputs: bool = False
    replace: bool = False  # files that changed are read again
    remove: bool = False  # what the recipe no longer names leaves the corpus


class Meanwhile(Protocol):
    """What is done with shards while others are fetched."""

    def shard_is_here(self, shard: PlannedShard, path: Path) -> None:
        """Begin with a pinned shard."""

    def go_on(self) -> bool:
        """Go on, without waiting; whether anything is under way."""
        ...


class Result(NamedTuple):
    """A plan with its shards pinned, where each lies, and why some are not here."""

    plan: Plan
    paths: dict[int, Path]
    failed: dict[str, SourceError]


class Row(NamedTuple):
    """What a dry run lists of a raw shard: bytes here, bytes in all where they are known."""

    shard: PlannedShard
    state: str  # here, begun, to fetch, absent
    here: int
    size: int | None


def printable_name(shard: PlannedShard) -> str:
    """Return a raw shard's name as it may be printed."""
    return shown(shard.url) if is_url(shard.url) else shard.url


def label(shard: PlannedShard) -> str:
    """Return a raw shard, as messages name it."""
    return f"shard {shard_name(shard.number)} ({printable_name(shard)})"


class Fetch:
    """The fetch of one run."""

    def __init__(
        self,
        plan: Plan,
        sources: Sources,
        folder: Path,
        transfer: Transfer,
        asked: Asked,
        wanted: Collection[int] | None = None,
        nodes: "FetchOnNodes | None" = None,
        meanwhile: "Meanwhile | None" = None,
    ) -> None:
        """`folder` is what local paths are relative to; `wanted` are the numbers of the shards to
        fetch (None: all that are not absent). `nodes` fetch what needs no secret of this machine;
        `meanwhile` gets the shards that come from the network.
        """
        self._plan, self._sources, self._folder = plan, sources, folder
        present = [shard for shard in plan.shards if shard.missing is None]
        self._wanted = [entry for entry in present if wanted is None or entry.number in wanted]
        self._transfer, self._asked = transfer, asked
        self._under_way: dict[int, dict[str, Any]] = {}
        self._came = 0  # bytes from the network of what is finished
        self._sizes: list[int] = []  # of what was downloaded
        self._waiting = 0  # shards that are not finished
        self._packed: dict[int, tuple[PackedFile, ...]] = {}  # the files of packs, pinned
        self._meanwhile, self._nodes = meanwhile, nodes

    # -- before anything is fetched

    def preview(self) -> list[Row]:
        """Return what would be fetched, and how much; servers are asked for sizes, and nothing is
        written.
        """
        with ThreadPoolExecutor(self._transfer.client.settings.connections) as threads:
            return list(threads.map(self._preview, self._plan.shards))

    def _preview(self, shard: PlannedShard) -> Row:
        if shard.missing is not None:
            return Row(shard, "absent", 0, None)
        if shard.files:
            here = sum(look.size for look in looks(shard.urls(), self._folder).values())
            return Row(shard, "here", here, here)
        remote = self._sources.remote(shard) or self._local(shard)
        copy = self._transfer.look(
            remote, shard.sha256 or self._sources.sha256(shard.source, shard.url)
        )
        if copy.whole:
            return Row(shard, "here", copy.here, copy.size)
        size = copy.size
        if size is None:
            try:
                size = self._transfer.ask(remote)[0]
            except SourceError:
                size = None
        return Row(shard, "begun" if copy.here else "to fetch", copy.here, size)

    def refuse_new(self) -> None:
        """With --resume-only: nothing is fetched where a shard is neither here nor begun."""
        new = []
        for shard in self._wanted:
            remote = self._sources.remote(shard)
            if remote is None:
                continue
            copy = self._transfer.look(
                remote, shard.sha256 or self._sources.sha256(shard.source, shard.url)
            )
            if not copy.whole and not copy.here:
                new.append(printable_name(shard))
        if new:
            more = f" and {len(new) - 5} more" if len(new) > 5 else ""
            raise SourceError(
                f"--resume-only: {len(new)} raw shards are neither in the cache "
                f"({self._transfer.cache.root}) nor begun: "
                f"{', '.join(new[:5])}{more}. Nothing was fetched"
            )

    def not_here(self, numbers: Collection[int]) -> list[int]:
        """Return which of these pinned shards are neither on this machine nor in the cache."""
        gaps = []
        for shard in self._wanted:
            if shard.number in numbers and shard.sha256 is not None:
                remote = self._sources.remote(shard)
                here = (
                    all((self._folder / file.url).is_file() for file in shard.parts())
                    if remote is None
                    else self._transfer.look(remote, shard.sha256).whole
                )
                gaps += [] if here else [shard.number]
        return gaps

    # -- the fetch

    def all(self, corpus: Path, progress: Progress, keep: Callable[[Plan], None]) -> Result:
        """Run the phase, registered in the cache, so that no run evicts what is needed."""
        remote = [
            shard.url
            for shard in self._wanted
            if is_url(shard.url) and not shard.url.startswith("file://")
        ]

        def hold(plan: Plan) -> None:
            """Keep what is needed from every eviction: by URL, and by digest once that is known."""
            if remote:
                known = [
                    shard.sha256 or self._sources.sha256(shard.source, shard.url)
                    for shard in plan.shards
                ]
                self._transfer.cache.register(
                    corpus, remote, [sha256 for sha256 in known if sha256]
                )

        def keep_both(plan: Plan) -> None:
            hold(plan)
            keep(plan)

        hold(self._plan)
        with progress.phase("fetch", len(self._wanted)) as phase:
            got = self.run(phase, keep_both)
        hold(got.plan)
        return got

    def check(self, progress: Progress) -> dict[str, SourceError]:
        """Ask of all pinned shards whether they are still what they were; fetches nothing. Returns
        why some are not.
        """
        present = [
            shard
            for shard in self._plan.shards
            if shard.missing is None and shard.sha256 is not None
        ]
        failed = {}
        with (
            progress.phase("check inputs", len(present)) as phase,
            ThreadPoolExecutor(self._transfer.client.settings.connections) as threads,
        ):
            for shard, wrong in zip(present, threads.map(self._check, present), strict=True):
                if wrong is not None:
                    failed[shard.url] = wrong
                phase.done(printable_name(shard))
        return failed

    def _check(self, shard: PlannedShard) -> SourceError | None:
        remote = self._sources.remote(shard)
        try:
            if shard.files:
                self._pack(shard)
            elif remote is None:
                self._transfer.fetch(self._local(shard), Promise(shard.sha256, shard.size))
            else:
                self._check_remote(remote, shard)
        except SourceError as error:
            return error
        return None

    def run(self, progress: PhaseProgress, keep: Callable[[Plan], None]) -> Result:
        """Have all shards here.

        `keep` writes a plan down. Raises MachineError; what a shard fails of is in the result.
        """
        if self._transfer.resume_only:
            self.refuse_new()
        pinned = list(self._plan.shards)
        paths: dict[int, Path] = {}
        failed: dict[str, SourceError] = {}
        ended: Ended = queue.SimpleQueue()
        threads = ThreadPoolExecutor(
            self._transfer.client.settings.connections, thread_name_prefix="gristmill-fetch"
        )
        kept = time.monotonic()
        try:
            for shard in self._wanted:
                threads.submit(self._one, shard).add_done_callback(partial(_put, ended, shard))
            waiting = len(self._wanted)
            for self._waiting in range(waiting, 0, -1):
                shard, future = self._next(ended, progress)
                try:
                    got = future.result()
                except SourceError as error:
                    failed[shard.url] = error
                    pinned[shard.number] = (
                        absent(shard, error_reason(error)) if self._asked.allow_missing else shard
                    )
                else:
                    paths[shard.number] = got.path
                    files = self._packed.get(shard.number, shard.files)
                    pinned[shard.number] = msgspec.structs.replace(
                        shard, sha256=got.sha256, size=got.size, files=files
                    )
                    if self._meanwhile is not None and self._sources.remote(shard) is not None:
                        self._meanwhile.shard_is_here(pinned[shard.number], got.path)
                self._finish(shard)
                progress.transfers(*self._transfers())
                progress.done(printable_name(shard))
                if time.monotonic() - kept > KEEP_EVERY:
                    keep(Plan(shards=pinned))
                    kept = time.monotonic()
        except BaseException:
            # Also on Ctrl-C: what is under way is checkpointed by its own thread, which then ends.
            self._transfer.client.end()
            if self._nodes is not None:
                self._nodes.stop()
            raise
        finally:
            threads.shutdown(cancel_futures=True)
        return Result(
            Plan(shards=_without_returned(pinned, bool(failed), self._asked)), paths, failed
        )

    def _next(
        self, ended: Ended, progress: PhaseProgress
    ) -> tuple[PlannedShard, "Future[Fetched]"]:
        shown_at = time.monotonic()
        while True:
            busy = self._meanwhile is not None and self._meanwhile.go_on()
            try:
                return ended.get(timeout=STEP if busy else TELL_EVERY)
            except queue.Empty:
                if time.monotonic() < shown_at + TELL_EVERY:
                    continue
                shown_at = time.monotonic()
                while not self._transfer.client.messages.empty():
                    progress.line(self._transfer.client.messages.get())
                progress.transfers(*self._transfers())

    def _finish(self, shard: PlannedShard) -> None:
        transfer = self._under_way.pop(shard.number, None)
        if transfer is not None:
            self._came += transfer["bytes"] - transfer["resumed"]
            self._sizes.append(transfer["bytes"])

    def _transfers(self) -> tuple[list[dict[str, Any]], int, int | None]:
        """Return (what is under way, bytes that came, about how many are still to come: those not
        begun count as the mean).
        """
        shards = list(self._under_way.values())
        came = self._came + sum(transfer["bytes"] - transfer["resumed"] for transfer in shards)
        sizes = self._sizes + [transfer["size"] for transfer in shards if transfer["size"]]
        if not sizes:
            return shards, came, None
        mean = sum(sizes) / len(sizes)
        rest = sum((transfer["size"] or mean) - transfer["bytes"] for transfer in shards)
        return shards, came, int(rest + mean * max(0, self._waiting - len(shards)))

    def _one(self, shard: PlannedShard) -> Fetched:
        """Have one shard here; a local file that was pinned before is not hashed again."""
        if shard.files:
            return self._pack(shard)
        remote = self._sources.remote(shard)
        said = self._sources.sha256(shard.source, shard.url)
        if shard.sha256 is not None and said not in (None, shard.sha256):
            raise SourceError(
                f"{printable_name(shard)}: the plan pinned sha256 {shard.sha256}, but its source's "
                f"sha256sums say {said}. "
                "Start a new corpus for the new bytes",
                "changed",
            )
        promise = (
            Promise(shard.sha256, shard.size)
            if shard.sha256
            else Promise(said, by="its source's sha256sums")
        )
        promise = promise._replace(
            most=self._sources.most.get(shard.source), limit="its source's max_shard_bytes allows"
        )
        if remote is None:
            path = self._folder / shard.url
            same = shard.sha256 is not None and path.is_file() and path.stat().st_size == shard.size
            if same and not self._asked.check_inputs:
                # process hashes what it reads, and compares
                return Fetched(path, shard.size or 0, shard.sha256 or "")
            return self._transfer.fetch(self._local(shard), promise)
        if self._asked.check_inputs and shard.sha256 is not None:
            self._check_remote(remote, shard)
        if self._nodes is not None and self._nodes.may(remote):
            return self._nodes.fetch(remote, promise)
        return self._transfer.fetch(remote, promise, self._teller(shard))

    def _pack(self, shard: PlannedShard) -> Fetched:
        """Pin the files of a pack; one that was pinned before is hashed when it is processed."""
        if shard.sha256 not in (None, pack_digest(shard.files)):  # of a plan from elsewhere
            raise SourceError(
                f"{shard.url}: the plan's digests of its files do not give the sha256 "
                f"{shard.sha256}, which the plan says: take the plan again from who made it",
                "digest",
            )
        if shard.sha256 is not None and not self._asked.check_inputs:
            return Fetched(self._folder, shard.size or 0, shard.sha256)
        files = pin(shard.files, self._folder)
        for file, then in zip(files, shard.files, strict=True):
            said = self._sources.sha256(shard.source, file.url)
            if file.sha256 != (then.sha256 or said or file.sha256):
                raise SourceError(
                    f"{file.url}: sha256 {file.sha256}, and {then.sha256 or said} is expected",
                    "changed" if then.sha256 else "digest",
                )
        self._packed[shard.number] = files
        return Fetched(self._folder, sum(file.size or 0 for file in files), pack_digest(files))

    def _local(self, shard: PlannedShard) -> Remote:
        return Remote((self._folder / shard.url).resolve().as_uri())

    def _check_remote(self, remote: Remote, shard: PlannedShard) -> None:
        """Ask whether a pinned shard is still what it was. Raises SourceError."""
        size, sha256 = self._transfer.ask(remote)
        known = self._transfer.cache.known(remote.url)
        if (sha256 or shard.sha256) != shard.sha256 or (size is not None and size != shard.size):
            raise SourceError(
                (
                    f"{remote.shown}: changed since the plan pinned it with {shard.size:,} "
                    f"bytes, sha256 {shard.sha256}"
                ),
                "changed",
            )
        if (
            known is not None
            and known.sha256 == shard.sha256
            and not self._transfer.is_unchanged(remote, known)
        ):
            raise SourceError(
                f"{remote.shown}: changed since it was fetched: its ETag or date is another",
                "changed",
            )

    def _teller(self, shard: PlannedShard) -> Callable[[int, int | None, int], None]:
        begun = time.monotonic()

        def on_bytes(here: int, size: int | None, resumed: int) -> None:
            self._under_way[shard.number] = {
                "shard": printable_name(shard),
                "bytes": here,
                "size": size,
                "resumed": resumed,
                "seconds": time.monotonic() - begun,
            }

        return on_bytes


def _put(ended: Ended, shard: PlannedShard, future: "Future[Fetched]") -> None:
    ended.put((shard, future))


def _without_returned(pinned: list[PlannedShard], failed: bool, asked: Asked) -> list[PlannedShard]:
    """Return what was absent before, was planned once more and failed again keeps its old number
    only.
    """
    shards = list(pinned)
    if failed and not asked.allow_missing:
        missing = {(shard.source, shard.url) for shard in shards if shard.missing is not None}
        while (
            (last := shards[-1]).sha256 is None
            and last.missing is None
            and (last.source, last.url) in missing
        ):
            shards.pop()
    return shards
