"""What a run reports while it works: dictionaries, for the program that shows them.

{"event": "phase", "phase": "process", "jobs": 12} {"event": "progress", "phase": "process", "done":
3, "jobs": 12, "bytes": 81000000, "seconds": 4.1} {"event": "transfers", "phase": "fetch", "bytes":
81000000, "seconds": 4.1, "left_seconds": 60.2, "shards": [
    {"shard": "https://host/a.gz", "bytes": 512, "size": 1024, "resumed": 256, "seconds": 1.0}]}
{"event": "line", "text": "..."}
{"event": "done", "phase": "process", "seconds": 19.0}
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Progress:
    """Reports what a run does to `show`; without it, nothing is reported."""

    def __init__(self, show: Callable[[dict[str, Any]], None] | None) -> None:
        self._show = show or (lambda _: None)
        self.seconds: dict[str, float] = {}

    def line(self, text: str) -> None:
        """Something that should be read."""
        self._show({"event": "line", "text": text})

    @contextmanager
    def phase(self, name: str, jobs: int) -> "Iterator[PhaseProgress]":
        """A phase under way; silent where it has nothing to do."""
        start = time.monotonic()
        if jobs:
            self._show({"event": "phase", "phase": name, "jobs": jobs})
        yield PhaseProgress(self._show, name, jobs, start)
        took = time.monotonic() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + took
        if jobs:
            self._show({"event": "done", "phase": name, "seconds": took})


class PhaseProgress:
    """Counts the jobs and bytes of one phase."""

    def __init__(
        self, show: Callable[[dict[str, Any]], None], name: str, jobs: int, start: float
    ) -> None:
        self._show, self._name, self._jobs, self._start = show, name, jobs, start
        self._done = 0
        self._bytes = 0

    def bytes(self, count: int) -> None:
        """Count more bytes."""
        self._bytes += count
        self._report()

    def done(self, job: str) -> None:
        """Count a job that is done."""
        self._done += 1
        self._report(job)

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
        self._show(
            {
                "event": "progress",
                "phase": self._name,
                "done": self._done,
                "jobs": self._jobs,
                "bytes": self._bytes,
                "seconds": time.monotonic() - self._start,
                **({"job": job} if job else {}),
            }
        )
