"""What the command line prints: progress (a bar for each phase on a terminal, plain lines
elsewhere, JSON lines with --json), results and warnings; and Ctrl-C.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gristmill.errors import printable

EVERY = 5.0  # seconds between two plain lines


class Display:
    """Shows the events of phases/running/progress.py. Use it in a `with` statement."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._bar: Any = None
        self._task: Any = None
        self._transfers: dict[str, Any] = {}  # a bar for each current download
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

    def show(self, event: dict[str, Any]) -> None:
        """Show one event."""
        frequent = event["event"] in ("progress", "transfers")
        if self._json:
            if not frequent or "job" in event or self._due():
                print(to_json(event), flush=True)
        elif self._bar is not None:
            self._show_bar(event)
        elif event["event"] == "line":
            warn(event["text"])
        elif event["event"] == "done":
            print(
                f"{event['phase']}: done in {event['seconds']:.1f} s", file=sys.stderr, flush=True
            )
        elif frequent and self._due():
            print(
                f"{event['phase']}: {event['done']} of {event['jobs']}, {_rate(event)}",
                file=sys.stderr,
                flush=True,
            )
            for shard in event.get("shards", []):
                warn(f"  {shard['shard']}: {_transfer(shard)}")

    def line(self, text: str) -> None:
        """Show what a person should know."""
        self.show({"event": "line", "text": text, "time": _now()})

    def transfer(self, phase: str) -> Callable[[int, int], None]:
        """Takes (bytes that are there, of all), and shows how far a transfer is."""
        began = time.monotonic()

        def on_bytes(done: int, total: int) -> None:
            seconds = time.monotonic() - began
            if self._bar is not None and self._task is None:
                self.show({"event": "phase", "phase": phase, "jobs": total})
            event = {"event": "progress", "phase": phase, "time": _now(), "done": done}
            left = (total - done) * seconds / done if done else None
            more = {"jobs": total, "bytes": done, "seconds": seconds, "left_seconds": left}
            self.show(event | more)

        return on_bytes

    def _due(self) -> bool:
        if time.monotonic() - self._last < EVERY:
            return False
        self._last = time.monotonic()
        return True

    def _show_bar(self, event: dict[str, Any]) -> None:
        if event["event"] == "phase":
            self._task = self._bar.add_task(event["phase"], total=event["jobs"], rate="")
        elif event["event"] in ("progress", "transfers"):
            counted = f"{event['done']:,}/{event['jobs']:,}  {_rate(event)}"
            self._bar.update(self._task, completed=event["done"], total=event["jobs"], rate=counted)
            if "shards" in event:
                self._show_transfers(event["shards"])
        elif event["event"] == "done":
            self._show_transfers([])
        elif event["event"] == "line":
            self._bar.console.print(printable(event["text"]), markup=False, highlight=False)

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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _rate(event: dict[str, Any]) -> str:
    seconds = max(event.get("seconds", 0.0), 1e-3)
    left = event.get("left_seconds")
    return f"{event['bytes'] / 1e6:,.0f} MB, {event['bytes'] / 1e6 / seconds:,.1f} MB/s" + (
        f", {left:,.0f} s left" if left is not None else ""
    )


def _transfer(shard: dict[str, Any]) -> str:
    """The progress of a download: bytes, rate, and where it was resumed."""
    of = f" of {shard['size'] / 1e6:,.1f}" if shard["size"] else ""
    rate = (shard["bytes"] - shard["resumed"]) / 1e6 / max(shard["seconds"], 1e-3)
    resumed = f", resumed at {shard['resumed'] / 1e6:,.1f} MB" if shard["resumed"] else ""
    return f"{shard['bytes'] / 1e6:,.1f}{of} MB, {rate:,.1f} MB/s{resumed}"


class CtrlC:
    """A handler of Ctrl-C that is never lost: Python drops a KeyboardInterrupt that is raised
    inside some of its own callbacks (of a weak reference, of an import).
    """

    def __init__(self) -> None:
        self._interrupted = False

    def __call__(self, number: int, frame: Any) -> None:
        self._interrupted = True
        raise KeyboardInterrupt

    def within(self, show: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        """`show`, which raises a KeyboardInterrupt that was dropped at the next event."""

        def checked(event: dict[str, Any]) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            show(event)

        return checked


def exit_on_ctrl_c(number: int, frame: Any) -> None:
    """The handler of Ctrl-C before anything is written, or in a verb that only reads."""
    os.write(2, b"gristmill: interrupted\n")
    os._exit(130)


def handle_ctrl_c() -> CtrlC:
    """Handle Ctrl-C by a KeyboardInterrupt from here on: files that are being written are cleaned
    up.
    """
    handler = CtrlC()
    signal.signal(signal.SIGINT, handler)
    return handler


def print_result(result: Any, as_json: bool, lines: list[str]) -> None:
    """Print a result: with --json as one JSON object, otherwise as lines."""
    print(to_json(result) if as_json else "\n".join(map(printable, lines)))


def to_json(value: Any) -> str:
    """One line of JSON. Control, bidirectional and invisible characters are escaped, so that a
    terminal shows them, and the line is still JSON.
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
