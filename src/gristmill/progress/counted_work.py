"""How far long work is, for what shows it: the command line, a notebook, or nothing.

    with counted("verify", total, "bytes") as count:
        for part in parts:
            count.add(part.size)

What it counts goes as events to the function that `shown_by` set; without one, a notebook draws
bars (NotebookBars) and others see nothing. The events are those of a run
(phases/running/progress.py), with `unit` for `bytes`:

{"event": "phase", "phase": "verify", "jobs": 1024, "unit": "bytes"}
{"event": "progress", "phase": "verify", "done": 512, "jobs": 1024, "unit": "bytes", "seconds": 1.0,
 "left_seconds": 1.0}
{"event": "done", "phase": "verify", "seconds": 2.0}      or, where it failed:
{"event": "stopped", "phase": "verify"}

`jobs` is null where it is not known how much work there is.
"""

import html
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gristmill.errors import printable

Show = Callable[[dict[str, Any]], None]
SECONDS_BETWEEN_EVENTS = 0.1
SECONDS_BETWEEN_TICKS = 1.0
SECONDS_BETWEEN_DRAWINGS = 0.2  # of a notebook's bar
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


def receiver() -> Show | None:
    """Return what gets the events of this thread's work; None: nothing does."""
    return _shown_by.get() or notebook_display()


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
    show = receiver() or (lambda _: None)
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


def seconds_text(seconds: float) -> str:
    """Return a length of time, as a person says it: `8 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    whole = max(round(seconds), 0)
    for size, name, smaller, smaller_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{whole} s"


def size_text(size: float) -> str:
    """Return bytes, as a person says them: `4 kB`, `81 MB`, `1.2 GB`."""
    for scale, name in ((1e12, "TB"), (1e9, "GB")):
        if size >= scale:
            return f"{size / scale:,.1f} {name}"
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def state_text(event: dict[str, Any], memory: int = 0, *, is_narrow: bool = False) -> str:
    """Return how far the work of a progress event is: done, rate, the time that is left, memory in
    bytes (0: not known). For a narrow line: `25 %, 20.0 MB/s, about 12 s left`.
    """
    seconds = max(event.get("seconds", 0.0), 1e-3)
    unit, done, jobs = event.get("unit"), event["done"], event["jobs"]
    if unit == "":  # nothing is counted
        said = [seconds_text(seconds)]
    else:
        number = size_text if unit == "bytes" else "{:,}".format
        said = [number(done) + ("" if jobs is None else f" of {number(jobs)}")]
        if is_narrow:
            said = [f"{100 * done // jobs} %" if jobs else number(done)]
        elif unit is None:
            said.append(size_text(event["bytes"]))
        elif unit != "bytes":
            said[0] += f" {unit}"
        if unit in (None, "bytes"):
            said.append(f"{event.get('bytes', done) / 1e6 / seconds:,.1f} MB/s")
        else:
            rate = done / seconds
            said.append(f"{rate:,.{0 if rate >= 10 else 1}f} a second")
    if (left := event.get("left_seconds")) is not None:
        said.append(f"about {seconds_text(left)} left")
    if memory and not is_narrow:
        said.append(f"memory {size_text(memory)}")
    return ", ".join(said)


def notebook_display() -> Show | None:
    """Return what shows events in a notebook, in the cell that is run; None: this is none."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return NotebookBars(display).show


class NotebookBars:
    """A bar for each phase, drawn again in its place."""

    def __init__(self, display: Callable[..., Any]) -> None:
        """`display` is IPython's: it draws data by their MIME type, and gives what draws them
        again.
        """
        self._display = display
        self._handle: Any = None
        self._last = 0.0

    def show(self, event: dict[str, Any]) -> None:
        """Show one event."""
        kind = event["event"]
        if kind == "phase":
            self._handle = None
            self._draw(event["phase"], 0, event["jobs"], "")
        elif kind in ("progress", "transfers"):
            is_due = time.monotonic() - self._last >= SECONDS_BETWEEN_DRAWINGS
            if is_due or event["done"] == event["jobs"]:
                self._draw(event["phase"], event["done"], event["jobs"], state_text(event))
        elif kind == "done":
            self._draw(event["phase"], 1, 1, f"done in {event['seconds']:.1f} s")
        elif kind == "line":
            text = printable(event["text"])
            markup = f"<pre>{html.escape(text)}</pre>"
            self._display({"text/html": markup, "text/plain": text}, raw=True)

    def _draw(self, phase: str, done: int, jobs: int | None, state: str) -> None:
        self._last = time.monotonic()
        value = "" if jobs is None else f" value={done} max={max(jobs, 1)}"
        text = f"{phase} {state}".rstrip()
        markup = f"<progress{value}></progress> {html.escape(text)}"
        data = {"text/html": markup, "text/plain": text}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
