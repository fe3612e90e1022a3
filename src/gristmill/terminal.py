"""Progress for people: one bar a phase on a terminal, plain lines elsewhere, JSON lines for machines."""

import json
import sys
import time
from typing import Any

EVERY = 5.0  # seconds between two plain lines


class Display:
    """Shows what phases/progress.py tells; use as a context."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._bar: Any = None
        self._task: Any = None
        self._last = 0.0

    def __enter__(self) -> "Display":
        if not self._json and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            columns = (
                TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(), TimeRemainingColumn(),
            )  # fmt: skip
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, told: dict[str, Any]) -> None:
        """Show one telling."""
        if self._json:
            if told["event"] != "progress" or self._due() or "job" in told:
                print(json.dumps(told, ensure_ascii=False), flush=True)
        elif self._bar is not None:
            self._show_bar(told)
        elif told["event"] == "line":
            print(told["text"], file=sys.stderr, flush=True)
        elif told["event"] == "done":
            print(f"{told['phase']}: done in {told['seconds']:.1f} s", file=sys.stderr, flush=True)
        elif told["event"] == "progress" and self._due():
            print(f"{told['phase']}: {told['done']} of {told['jobs']}, {_rate(told)}", file=sys.stderr, flush=True)

    def _due(self) -> bool:
        if time.monotonic() - self._last < EVERY:
            return False
        self._last = time.monotonic()
        return True

    def _show_bar(self, told: dict[str, Any]) -> None:
        if told["event"] == "phase":
            self._task = self._bar.add_task(told["phase"], total=told["jobs"], rate="")
        elif told["event"] == "progress":
            self._bar.update(self._task, completed=told["done"], rate=_rate(told))
        elif told["event"] == "line":
            self._bar.console.print(told["text"], markup=False, highlight=False)


def _rate(told: dict[str, Any]) -> str:
    seconds = max(told.get("seconds", 0.0), 1e-3)
    return f"{told['bytes'] / 1e6:,.0f} MB, {told['bytes'] / 1e6 / seconds:,.1f} MB/s"
