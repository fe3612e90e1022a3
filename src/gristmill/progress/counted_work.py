"""How far long work is, for what shows it: the command line, a notebook, or nothing.

    with counted("verify", total, "bytes") as count:
        for part in parts:
            count.add(part.size)

What it counts goes as events to the function that `shown_by` set; without one, a notebook draws a
bar and others see nothing. The events are those of a run (phases/running/progress.py), with `unit`
for `bytes`:

{"event": "phase", "phase": "verify", "jobs": 1024, "unit": "bytes"}
{"event": "progress", "phase": "verify", "done": 512, "jobs": 1024, "unit": "bytes", "seconds": 1.0,
 "left_seconds": 1.0}
{"event": "done", "phase": "verify", "seconds": 2.0}      or, where it failed:
{"event": "stopped", "phase": "verify"}

`jobs` is null where it is not known how much work there is.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gristmill.progress.notebook_bars import notebook_display

Show = Callable[[dict[str, Any]], None]
SECONDS_BETWEEN_EVENTS = 0.1
SECONDS_BETWEEN_TICKS = 1.0
LEAST_SHARE = 0.02  # of the work: before it is done, the time that is left is not estimated

_shown_by: ContextVar[Show | None] = ContextVar("shown_by", default=None)


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Have what this thread counts reported to `show`."""
    before = _shown_by.set(show)
    try:
        yield
    finally:
        _shown_by.reset(before)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Work that cannot say how far it is: only how long it has taken is shown."""
    ended = threading.Event()
    with counted(what, None, "") as count:

        def tick() -> None:
            while not ended.wait(SECONDS_BETWEEN_TICKS):
                count.add(0)

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def counted(what: str, total: int | None, unit: str) -> "Iterator[Count]":
    """Work of which `total` units are to be done; `what` is a word or two for it."""
    show = _shown_by.get() or notebook_display() or (lambda _: None)
    count = Count(what, total, unit, show)
    count.begin()
    try:
        yield count
    except BaseException:
        count.stop()
        raise
    count.end()


class Count:
    """How much of some work is done. Threads may share it."""

    def __init__(self, what: str, total: int | None, unit: str, show: Show) -> None:
        """Use `counted`."""
        self._what, self._total, self._unit, self._show = what, total, unit, show
        self._lock = threading.Lock()
        self._start = self._shown = time.monotonic()
        self._done = 0

    def add(self, more: int) -> None:
        """Count more units."""
        with self._lock:
            self._done += more
            self._look()

    def at(self, done: int) -> None:
        """Say how many units are done."""
        with self._lock:
            self._done = done
            self._look()

    def begin(self) -> None:
        """Say that the work begins."""
        event = {"event": "phase", "phase": self._what, "jobs": self._total, "unit": self._unit}
        self._show(event)

    def end(self) -> None:
        """Say that the work is done."""
        self._report()
        took = time.monotonic() - self._start
        self._show({"event": "done", "phase": self._what, "seconds": took})

    def stop(self) -> None:
        """Say that the work ends before it is done."""
        self._show({"event": "stopped", "phase": self._what})

    def _look(self) -> None:
        if time.monotonic() - self._shown >= SECONDS_BETWEEN_EVENTS:
            self._report()

    def _report(self) -> None:
        self._shown = time.monotonic()
        seconds = self._shown - self._start
        share = self._done / self._total if self._total else 0.0
        self._show(
            {
                "event": "progress",
                "phase": self._what,
                "done": self._done,
                "jobs": self._total,
                "unit": self._unit,
                "seconds": seconds,
                "left_seconds": time_left(seconds, share),
            }
        )


def time_left(seconds: float, share: float) -> float | None:
    """Return the seconds that the rest of the work takes, by those that a share (0 to 1) of it
    took; null: too little is done to say.
    """
    return seconds * (1.0 - share) / share if LEAST_SHARE <= share < 1.0 else None
