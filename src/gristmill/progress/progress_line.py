"""One line that says how far work is, for a person: written again in its place on a terminal and in
a notebook, and as a new line now and then elsewhere (a log, a pipe, a terminal that moves no
cursor).
"""

import html
import os
import re
import shutil
import sys
import time
from typing import Any, TextIO

from gristmill.errors import printable

EVERY = 10.0  # seconds between two lines of a log
SOON = 0.2  # seconds between two states of a line that is written again


def notebook() -> Any:
    """IPython's `display` in a notebook; None elsewhere."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


def moves_cursor(stream: TextIO) -> bool:
    """Return whether a line on this stream can be written again: a terminal, and none that TERM
    calls dumb.
    """
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


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


def state_text(event: dict[str, Any], memory: int = 0) -> str:
    """Return how far the work of a progress event is (counted_work.py): done, rate, the time that
    is left, memory in bytes (0: not known).
    """
    seconds = max(event.get("seconds", 0.0), 1e-3)
    unit, done, jobs = event.get("unit"), event["done"], event["jobs"]
    if unit == "":  # nothing is counted
        said = [seconds_text(seconds)]
    elif unit not in (None, "bytes"):
        of = "" if jobs is None else f" of {jobs:,}"
        said = [f"{done:,}{of} {unit}", f"{done / seconds:,.0f} a second"]
    else:
        size = event["bytes"] if unit is None else done
        of = "" if unit is None or jobs is None else f" of {size_text(jobs)}"
        said = [f"{done:,} of {jobs:,}"] if unit is None else []
        said += [f"{size_text(size)}{of}", f"{size / 1e6 / seconds:,.1f} MB/s"]
    if (left := event.get("left_seconds")) is not None:
        said.append(f"about {seconds_text(left)} left")
    if memory:
        said.append(f"memory {size_text(memory)}")
    return ", ".join(said)


def short_text(event: dict[str, Any]) -> str:
    """Return the same for a narrow line: `25 %, 20.0 MB/s, 12 s left`."""
    seconds = max(event.get("seconds", 0.0), 1e-3)
    unit, done, jobs = event.get("unit"), event["done"], event["jobs"]
    if unit == "":
        return seconds_text(seconds)
    said = [f"{100 * done // jobs} %" if jobs else f"{done:,}"]
    if unit in (None, "bytes"):
        said.append(f"{(event['bytes'] if unit is None else done) / 1e6 / seconds:,.1f} MB/s")
    else:
        said.append(f"{done / seconds:,.0f} a second")
    if (left := event.get("left_seconds")) is not None:
        said.append(f"{seconds_text(left)} left")
    return ", ".join(said)


class Markup:
    """HTML that a notebook draws, and the same as text."""

    def __init__(self, markup: str, text: str) -> None:
        self._markup, self._text = markup, text

    def _repr_html_(self) -> str:
        return self._markup

    def __repr__(self) -> str:
        return self._text


def shortened(text: str, width: int) -> str:
    """Return a text for a line of this many columns, because one that is wrapped cannot be written
    again: without what is in brackets and the program's name, if it is too long, and then cut.
    """
    if len(text) > width:
        text = re.sub(r" \([^)]*\)", "", text)
    if len(text) > width:
        text = text.removeprefix("gristmill: ")
    return text[:width]


class ProgressLine:
    """The line of one piece of work."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """It is written to `stream` (default: standard error), but in a notebook to the cell."""
        self._stream = sys.stderr if stream is None else stream
        self._display = notebook() if stream is None else None
        self._handle: Any = None
        self._live = moves_cursor(self._stream)
        self._every = SOON if self._live or self._display is not None else EVERY
        self._next = 0.0

    def show(self, text: str) -> None:
        """Show how far the work is, unless the last state was shown a moment ago."""
        if time.monotonic() >= self._next:
            self._write(text)
            self._next = time.monotonic() + self._every

    def end(self, text: str) -> None:
        """Show how the work ended."""
        self._write(text)
        if self._live and self._display is None:
            print(file=self._stream, flush=True)

    def _write(self, text: str) -> None:
        text = printable(text)
        if self._display is not None:
            drawn = Markup(f"<pre>{html.escape(text)}</pre>", text)
            if self._handle is None:
                self._handle = self._display(drawn, display_id=True)
            else:
                self._handle.update(drawn)
        elif self._live:
            text = shortened(text, shutil.get_terminal_size().columns - 1)
            # Erased to its end: the text before may have been longer.
            print(f"\r{text}\x1b[K", end="", file=self._stream, flush=True)
        else:
            print(text, file=self._stream, flush=True)
