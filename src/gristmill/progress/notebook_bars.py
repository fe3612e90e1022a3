"""Progress in a notebook: a bar for each phase of a run or piece of work, in the cell that called
it.
"""

import html
import time
from collections.abc import Callable
from typing import Any

from gristmill.errors import printable
from gristmill.progress.progress_line import Markup, notebook, state_text

EVERY = 0.2  # seconds between two drawings of a bar
Show = Callable[[dict[str, Any]], None]


def notebook_display() -> Show | None:
    """Return what shows events (counted_work.py) in a notebook; None: this is none."""
    display = notebook()
    return None if display is None else NotebookBars(display).show


class NotebookBars:
    """A bar for each phase, drawn again in its place."""

    def __init__(self, display: Callable[..., Any]) -> None:
        """`display` is IPython's: it draws an object, and gives what can draw it again."""
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
            if time.monotonic() - self._last >= EVERY or event["done"] == event["jobs"]:
                self._draw(event["phase"], event["done"], event["jobs"], state_text(event))
        elif kind == "done":
            self._draw(event["phase"], 1, 1, f"done in {event['seconds']:.1f} s")
        elif kind == "line":
            text = printable(event["text"])
            self._display(Markup(f"<pre>{html.escape(text)}</pre>", text))

    def _draw(self, phase: str, done: int, jobs: int | None, state: str) -> None:
        self._last = time.monotonic()
        value = "" if jobs is None else f" value={done} max={max(jobs, 1)}"
        text = f"{phase} {state}".rstrip()
        bar = Markup(f"<progress{value}></progress> {html.escape(text)}", text)
        if self._handle is None:
            self._handle = self._display(bar, display_id=True)
        else:
            self._handle.update(bar)
