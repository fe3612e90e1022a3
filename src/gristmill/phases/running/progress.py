"""What a run reports while it works: dictionaries, for the program that shows them.

{"event": "phase", "phase": "process", "jobs": 12}
{"event": "progress", "phase": "process", "done": 3, "jobs": 12, "bytes": 81000000, "seconds": 4.1,
 "left_seconds": 12.0}
{"event": "transfers", "phase": "fetch", "bytes": 81000000, "seconds": 4.1, "left_seconds": 60.2,
 "shards": [
    {"shard": "https://host/a.gz", "bytes": 512, "size": 1024, "resumed": 256, "seconds": 1.0}]}
{"event": "line", "text": "..."}
{"event": "done", "phase": "process", "seconds": 19.0}
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gristmill.progress.counted_work import time_left


class Progress:
    """Reports what a run does to `show`; without it, nothing is reported."""

    def __init__(self, show: Callable[[dict[str, Any]], None] | None) -> None:
        self._show = show or (lambda _: None)
        self.seconds: dict[str, float] = {}

    def line(self, text: str) -> None:
        """Something that should be read."""
        self._show({"event": "line", "text": text})

    @contextmanager
    def phase(
        self, name: str, jobs: int, sizes: Mapping[str, int] | None = None
    ) -> "Iterator[PhaseProgress]":
        """A phase under way; silent where it has nothing to do. `sizes`: about how many bytes each
        of its jobs will count, where that is known.
        """
        start = time.monotonic()
        if jobs:
            self._show({"event": "phase", "phase": name, "jobs": jobs})
        yield PhaseProgress(self._show, name, jobs, start, sizes or {})
        took = time.monotonic() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + took
        if jobs:
            self._show({"event": "done", "phase": name, "seconds": took})


class PhaseProgress:
    """Counts the jobs and bytes of one phase."""

    def __init__(
        self,
        show: Callable[[dict[str, Any]], None],
        name: str,
        jobs: int,
        start: float,
        sizes: Mapping[str, int],
    ) -> None:
        self._show, self._name, self._jobs, self._start = show, name, jobs, start
        self._share = DoneShare(jobs, sizes)
        self._done = 0
        self._bytes = 0

    def bytes(self, count: int, job: str = "") -> None:
        """Count more bytes, of a job that is under way."""
        self._bytes += count
        self._share.count(job, count)
        self._report()

    def done(self, job: str) -> None:
        """Count a job that is done."""
        self._done += 1
        self._share.end(job)
        self._report(job)

    def failed(self, job: str, label: str) -> None:
        """Count a job that failed; `label` is what messages call it."""
        self._done += 1
        self._share.fail(job)
        self._report(label)

    def line(self, text: str) -> None:
        """Something that should be read."""
        self._show({"event": "line", "text": text})

    def transfers(self, shards: list[dict[str, Any]], came: int, left: int | None) -> None:
        """How far downloads are: each that is under way, the bytes that came in all, about how many
        are still to come.
        """
        self._bytes = came
        seconds = time.monotonic() - self._start
        self._show(
            {
                "event": "transfers",
                "phase": self._name,
                "done": self._done,
                "jobs": self._jobs,
                "bytes": came,
                "seconds": seconds,
                "left_seconds": None if left is None or not came else left * seconds / came,
                "shards": shards,
            }
        )

    def _report(self, job: str | None = None) -> None:
        seconds = time.monotonic() - self._start
        self._show(
            {
                "event": "progress",
                "phase": self._name,
                "done": self._done,
                "jobs": self._jobs,
                "bytes": self._bytes,
                "seconds": seconds,
                "left_seconds": time_left(seconds, self._share.done),
                **({"job": job} if job else {}),
            }
        )


class DoneShare:
    """Which share of a phase is done, by its jobs and what those under way have counted.

    A job counts by its size where that is known, and all alike otherwise. What a job under way will
    count in all is expected to be in proportion to its size as it was in those that ended; before
    one has, it is its size.
    """

    def __init__(self, jobs: int, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._all = max(sum(sizes.values()) if sizes else jobs, 1)
        self._ended = 0  # the sizes of jobs that ended
        self._counted = 0  # what they counted
        self._current: dict[str, int] = {}  # by job under way, what it has counted

    def count(self, job: str, more: int) -> None:
        """Count more bytes of a job."""
        self._current[job] = self._current.get(job, 0) + more

    def end(self, job: str) -> None:
        """A job is done."""
        self._counted += self._current.pop(job, 0)
        self._ended += self._sizes.get(job, 1)

    def fail(self, job: str) -> None:
        """A job failed: it is no work any more."""
        self._current.pop(job, None)
        self._all = max(self._all - self._sizes.get(job, 1), 1)

    @property
    def done(self) -> float:
        """Return the share, 0 to 1."""
        begun = 0.0
        each = self._counted / self._ended if self._ended else 1.0 if self._sizes else 0.0
        if each:
            for job, counted in self._current.items():
                size = self._sizes.get(job, 1)
                begun += min(counted / each, size)
        return min((self._ended + begun) / self._all, 1.0)
