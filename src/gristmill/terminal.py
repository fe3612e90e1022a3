"""What passes between people and the command line: progress (a bar a phase on a terminal, plain
lines elsewhere, JSON lines for machines), lines, options, and Ctrl-C.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from gristmill.errors import printable

EVERY = 5.0  # seconds between two plain lines


class Display:
    """Shows what phases/running/progress.py tells; use as a context."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._bar: Any = None
        self._task: Any = None
        self._transfers: dict[str, Any] = {}  # a bar for each download under way
        self._last = 0.0

    def __enter__(self) -> "Display":
        if not self._json and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            columns = (
                TextColumn("{task.description:<9}"),
                BarColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, told: dict[str, Any]) -> None:
        """Show one telling."""
        often = told["event"] in ("progress", "transfers")
        if self._json:
            if not often or "job" in told or self._due():
                print(to_json(told), flush=True)
        elif self._bar is not None:
            self._show_bar(told)
        elif told["event"] == "line":
            warn(told["text"])
        elif told["event"] == "done":
            print(f"{told['phase']}: done in {told['seconds']:.1f} s", file=sys.stderr, flush=True)
        elif often and self._due():
            print(
                f"{told['phase']}: {told['done']} of {told['jobs']}, {_rate(told)}",
                file=sys.stderr,
                flush=True,
            )
            for shard in told.get("shards", []):
                warn(f"  {shard['shard']}: {_transfer(shard)}")

    def _due(self) -> bool:
        if time.monotonic() - self._last < EVERY:
            return False
        self._last = time.monotonic()
        return True

    def _show_bar(self, told: dict[str, Any]) -> None:
        if told["event"] == "phase":
            self._task = self._bar.add_task(told["phase"], total=told["jobs"], rate="")
        elif told["event"] in ("progress", "transfers"):
            counted = f"{told['done']:,}/{told['jobs']:,}  {_rate(told)}"
            self._bar.update(self._task, completed=told["done"], rate=counted)
            if "shards" in told:
                self._show_transfers(told["shards"])
        elif told["event"] == "done":
            self._show_transfers([])
        elif told["event"] == "line":
            self._bar.console.print(printable(told["text"]), markup=False, highlight=False)

    def _show_transfers(self, shards: list[dict[str, Any]]) -> None:
        for name in self._transfers.keys() - {shard["shard"] for shard in shards}:
            self._bar.remove_task(self._transfers.pop(name))
        for shard in shards:
            name = shard["shard"]
            if name not in self._transfers:
                label = "  " + printable(name.rpartition("/")[2])[-32:].replace("[", "(")
                self._transfers[name] = self._bar.add_task(label, total=shard["size"], rate="")
            self._bar.update(
                self._transfers[name],
                completed=shard["bytes"],
                total=shard["size"],
                rate=_transfer(shard),
            )


def _rate(told: dict[str, Any]) -> str:
    seconds = max(told.get("seconds", 0.0), 1e-3)
    left = told.get("left_seconds")
    return f"{told['bytes'] / 1e6:,.0f} MB, {told['bytes'] / 1e6 / seconds:,.1f} MB/s" + (
        f", {left:,.0f} s left" if left is not None else ""
    )


def _transfer(shard: dict[str, Any]) -> str:
    """How far a download is: bytes, rate, and where it was taken up."""
    of = f" of {shard['size'] / 1e6:,.1f}" if shard["size"] else ""
    rate = (shard["bytes"] - shard["resumed"]) / 1e6 / max(shard["seconds"], 1e-3)
    resumed = f", resumed at {shard['resumed'] / 1e6:,.1f} MB" if shard["resumed"] else ""
    return f"{shard['bytes'] / 1e6:,.1f}{of} MB, {rate:,.1f} MB/s{resumed}"


class CtrlC:
    """Ctrl-C, heard surely: Python drops a KeyboardInterrupt that comes inside a callback of its
    own (a weak reference's, an import's).
    """

    def __init__(self) -> None:
        self._asked = False

    def __call__(self, number: int, frame: Any) -> None:
        self._asked = True
        raise KeyboardInterrupt

    def within(self, show: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        """Raise again what was dropped, at the next telling."""

        def tell(told: dict[str, Any]) -> None:
            if self._asked:
                raise KeyboardInterrupt
            show(told)

        return tell


def leave(number: int, frame: Any) -> None:
    """Ctrl-C before anything was begun, or in a verb that only reads."""
    os.write(2, b"gristmill: interrupted\n")
    os._exit(130)


def hear_ctrl_c() -> CtrlC:
    """From here on something is written: Ctrl-C is answered by leaving it in order."""
    heard = CtrlC()
    signal.signal(signal.SIGINT, heard)
    return heard


def say(told: Any, as_json: bool, lines: list[str]) -> None:
    """Print what is told: for machines one JSON object, else lines."""
    print(to_json(told) if as_json else "\n".join(map(printable, lines)))


def to_json(told: Any) -> str:
    """One line of JSON, its controls, bidirectional and invisible characters in its own escapes: a
    terminal shows them, and it is still JSON.
    """
    line = json.dumps(told, ensure_ascii=False)
    return (
        line
        if line.isprintable()
        else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
    )


def warn(line: str) -> None:
    """A line for people, beside the answer."""
    print(printable(line), file=sys.stderr, flush=True)
