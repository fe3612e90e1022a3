"""What the command line prints: progress (a bar for each phase on a terminal, plain lines
elsewhere, JSON lines with --json), results and warnings.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gristmill.errors import printable
from gristmill.progress.counted_work import shown_by, time_left
from gristmill.progress.memory_use import memory_of_all
from gristmill.progress.progress_line import moves_cursor, short_text, state_text

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
        self._task: Any = None
        self._transfers: dict[str, Any] = {}  # a bar for each current download
        self._phase: dict[str, Any] = {}  # the event that began what is under way
        self._began = self._last = 0.0
        self._is_shown = False
        self._memory = MemoryNow()
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
        kind = event["event"]
        if kind == "phase":
            self._phase, self._is_shown = event, False
            self._began = time.monotonic()
            self._last = self._began if self._patience else self._last
        if self._json:
            if kind not in FREQUENT or "job" in event or self._due():
                print(to_json(event), flush=True)
        elif self._live:
            self._show_bar(event)
        elif kind == "line":
            warn(event["text"])
        elif kind == "done":
            if self._is_shown or not self._patience:
                warn(f"{event['phase']}: done in {event['seconds']:.1f} s")
        elif kind in FREQUENT and self._due():
            self._is_shown = True
            warn(f"{event['phase']}: {state_text(event, self._memory.bytes)}")
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
            if self._phase.get("phase") != phase and not self._json:
                self.show({"event": "phase", "phase": phase, "jobs": total, "unit": "bytes"})
            event = {"event": "progress", "phase": phase, "time": _now(), "done": done}
            left = time_left(seconds, done / total if total else 0.0)
            more = {"jobs": total, "bytes": done, "seconds": seconds, "left_seconds": left}
            self.show(event | more | ({} if self._json else {"unit": "bytes"}))

        return on_bytes

    def _due(self) -> bool:
        """Return whether a further line is due: the longer the work takes, the longer between
        two.
        """
        now = time.monotonic()
        every = max(EVERY, (now - self._began) / 20 if self._began else 0.0)
        if now - self._last < min(every, SELDOM):
            return False
        self._last = now
        return True

    # -- bars on a terminal

    def _show_bar(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "line":
            if self._bars is None:
                warn(event["text"])
            else:
                self._bars.console.print(printable(event["text"]), markup=False, highlight=False)
        elif kind in ("done", "stopped"):
            self._show_transfers([])
            if self._patience:
                self._stop_bars()
        elif time.monotonic() - self._began >= self._patience:
            if not self._is_shown:
                self._is_shown = True
                self._begin_bar()
            if kind in FREQUENT:
                narrow = self._bars.console.width < NARROW
                state = short_text(event) if narrow else state_text(event, self._memory.bytes)
                self._bars.update(
                    self._task, completed=event["done"], total=event["jobs"], state=state
                )
                self._show_transfers(event.get("shards", []))

    def _begin_bar(self) -> None:
        if self._bars is None:
            self._bars = _bars()
            self._bars.start()
        self._task = self._bars.add_task(self._phase["phase"], total=self._phase["jobs"], state="")

    def _stop_bars(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars = None

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


class MemoryNow:
    """The memory of this process and of those that descend from it, read once in a while."""

    def __init__(self) -> None:
        self._bytes, self._read = 0, 0.0

    @property
    def bytes(self) -> int:
        """Return bytes; 0: not known here."""
        if time.monotonic() - self._read >= SECONDS_BETWEEN_READINGS:
            self._bytes, self._read = memory_of_all(), time.monotonic()
        return self._bytes


def _bars() -> Any:
    """Return bars by rich for this terminal: on a narrow one, text alone."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)
    state = TextColumn("{task.fields[state]}", table_column=Column(no_wrap=True, ratio=1))
    name = TextColumn("{task.description:<9}", table_column=Column(no_wrap=True))
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
