"""What the command line prints: progress (a bar for each phase on a terminal, plain lines
elsewhere, JSON lines with --json), results and warnings.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from gristmill.errors import printable
from gristmill.progress.counted_work import receiver, shown_by, state_text, time_left
from gristmill.system.memory_use import memory_of_all

EVERY = 5.0  # seconds between two plain lines; of long work SELDOM
SELDOM = 60.0
PATIENCE = 1.0  # seconds that a verb takes before it shows how far it is
SECONDS_BETWEEN_READINGS = 1.0  # of memory
NARROW = 60  # columns: a terminal with fewer has no room for a bar
FREQUENT = ("progress", "transfers")


class Display:
    """Shows the events of phases/running/progress.py and counted_work.py. Use it in a `with`
    statement.
    """

    def __init__(self, as_json: bool = False, *, patience: float = 0.0) -> None:
        """`patience`: seconds that work must take before anything of it is shown."""
        self._json, self._patience = as_json, patience
        self._live = not as_json and moves_cursor(sys.stderr)
        self._bars: Any = None  # rich's
        self._tasks: dict[str, Any] = {}  # a bar for each phase under way that is shown
        self._transfers: dict[str, Any] = {}  # a bar for each current download
        self._began: dict[str, float] = {}  # by phase under way
        self._last = self._read = 0.0  # when a line was shown, when memory was read
        self._memory_bytes = 0
        self._outer: Any = None

    def __enter__(self) -> "Display":
        if not self._json:
            self._outer = shown_by(self.show)
            self._outer.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._outer is not None:
            self._outer.__exit__(*error)
        self._stop_bars()

    def show(self, event: dict[str, Any]) -> None:
        """Show one event."""
        kind, phase = event["event"], event.get("phase", "")
        if kind == "phase":
            self._began[phase] = time.monotonic()
            self._last = self._began[phase] if self._patience else self._last
        if self._json:
            if kind not in FREQUENT or "job" in event or self._due(phase):
                print(to_json(event), flush=True)
        elif kind == "line" and self._bars is not None:
            self._bars.console.print(printable(event["text"]), markup=False, highlight=False)
        elif kind == "line":
            warn(event["text"])
        elif self._live:
            self._show_bar(event)
        elif kind == "done":
            if self._tasks.pop(phase, None) or not self._patience:
                warn(f"{phase}: done in {event['seconds']:.1f} s")
        elif kind in FREQUENT and self._due(phase):
            self._tasks[phase] = True
            warn(f"{phase}: {state_text(event, self._memory())}")
            for shard in event.get("shards", []):
                warn(f"  {shard['shard']}: {_transfer(shard)}")

    def line(self, text: str) -> None:
        """Show what a person should know."""
        self.show({"event": "line", "text": text, "time": _now()})

    def transfer(self, phase: str) -> Callable[[int, int], None]:
        """Take (bytes that are there, of all), and shows how far a transfer is."""
        began = time.monotonic()

        def on_bytes(done: int, total: int) -> None:
            seconds = time.monotonic() - began
            if phase not in self._began and not self._json:
                self.show({"event": "phase", "phase": phase, "jobs": total, "unit": "bytes"})
            event = {"event": "progress", "phase": phase, "time": _now(), "done": done}
            left = time_left(seconds, done / total if total else 0.0)
            more = {"jobs": total, "bytes": done, "seconds": seconds, "left_seconds": left}
            self.show(event | more | ({} if self._json else {"unit": "bytes"}))

        return on_bytes

    def _due(self, phase: str) -> bool:
        """Return whether a further line is due: the longer the work takes, the longer between
        two.
        """
        now = time.monotonic()
        every = max(EVERY, (now - self._began.get(phase, now)) / 20)
        if now - self._last < min(every, SELDOM):
            return False
        self._last = now
        return True

    def _memory(self) -> int:
        """Return the memory of all processes, read once in a while; 0: not known here."""
        if time.monotonic() - self._read >= SECONDS_BETWEEN_READINGS:
            self._memory_bytes, self._read = memory_of_all(), time.monotonic()
        return self._memory_bytes

    # -- bars on a terminal

    def _show_bar(self, event: dict[str, Any]) -> None:
        kind, phase = event["event"], event["phase"]
        if kind in ("done", "stopped"):
            self._show_transfers([])
            self._began.pop(phase, None)
            self._tasks.pop(phase, None)
            if self._patience and not self._began:
                self._stop_bars()
        elif time.monotonic() - self._began.get(phase, 0.0) >= self._patience:
            if self._bars is None:
                self._bars = _bars()
                self._bars.start()
            if phase not in self._tasks or kind == "phase":
                self._tasks[phase] = self._bars.add_task(phase, total=event["jobs"], state="")
            if kind in FREQUENT:
                is_narrow = self._bars.console.width < NARROW
                state = state_text(event, self._memory(), is_narrow=is_narrow)
                self._bars.update(
                    self._tasks[phase], completed=event["done"], total=event["jobs"], state=state
                )
                self._show_transfers(event.get("shards", []))

    def _stop_bars(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars = None
        self._tasks.clear()

    def _show_transfers(self, shards: list[dict[str, Any]]) -> None:
        for name in self._transfers.keys() - {shard["shard"] for shard in shards}:
            self._bars.remove_task(self._transfers.pop(name))
        for shard in shards:
            name = shard["shard"]
            if name not in self._transfers:
                label = "  " + printable(name.rpartition("/")[2])[-32:].replace("[", "(")
                self._transfers[name] = self._bars.add_task(label, total=shard["size"], state="")
            self._bars.update(
                self._transfers[name],
                completed=shard["bytes"],
                total=shard["size"],
                state=_transfer(shard),
            )


def moves_cursor(stream: TextIO) -> bool:
    """Return whether a line on this stream can be written again: a terminal, and none that TERM
    calls dumb.
    """
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def say(line: str) -> None:
    """Show a line where this thread's work is shown, otherwise on standard error."""
    (receiver() or Display().show)({"event": "line", "text": line})


def _bars() -> Any:
    """Return bars by rich for this terminal: on a narrow one, text alone."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)
    state = TextColumn("{task.fields[state]}", table_column=Column(no_wrap=True, ratio=1))
    name = TextColumn("{task.description:<9}", table_column=Column(no_wrap=True, max_width=34))
    if console.width < NARROW:
        return Progress(name, state, console=console, expand=True, redirect_stdout=False)
    bar = BarColumn(bar_width=20 if console.width < 2 * NARROW else 40)
    columns = (name, bar, TimeElapsedColumn(), state)
    # What is printed to standard output stays there; what goes to standard error is put above.
    return Progress(*columns, console=console, expand=True, redirect_stdout=False)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _transfer(shard: dict[str, Any]) -> str:
    """Return the progress of a download: bytes, rate, and where it was resumed."""
    of = f" of {shard['size'] / 1e6:,.1f}" if shard["size"] else ""
    rate = (shard["bytes"] - shard["resumed"]) / 1e6 / max(shard["seconds"], 1e-3)
    resumed = f", resumed at {shard['resumed'] / 1e6:,.1f} MB" if shard["resumed"] else ""
    return f"{shard['bytes'] / 1e6:,.1f}{of} MB, {rate:,.1f} MB/s{resumed}"


def print_result(result: Any, as_json: bool, lines: list[str]) -> None:
    """Print a result: with --json as one JSON object, otherwise as lines."""
    print(to_json(result) if as_json else "\n".join(map(printable, lines)))


def to_json(value: Any) -> str:
    """Return one line of JSON. Control, bidirectional and invisible characters are escaped, so that
    a terminal shows them, and the line is still JSON.
    """
    line = json.dumps(value, ensure_ascii=False)
    return (
        line
        if line.isprintable()
        else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
    )


def warn(line: str) -> None:
    """Print a line to standard error."""
    print(printable(line), file=sys.stderr, flush=True)
