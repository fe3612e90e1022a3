"""Progress of a run in a notebook: a bar for each phase, in the cell that called it."""

import html
import sys
import time
from collections.abc import Callable
from typing import Any

from gristmill.errors import printable

EVERY = 0.2  # seconds between two drawings of a bar
Show = Callable[[dict[str, Any]], None]


def notebook_display() -> Show | None:
    """What shows events (progress.py) in a notebook; None: this is none."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return NotebookBars(display).show


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
                rate = event["bytes"] / 1e6 / max(event["seconds"], 1e-3)
                self._draw(event["phase"], event["done"], event["jobs"], f"{rate:,.1f} MB/s")
        elif kind == "done":
            self._draw(event["phase"], 1, 1, f"done in {event['seconds']:.1f} s")
        elif kind == "line":
            self._display(Markup(f"<pre>{html.escape(printable(event['text']))}</pre>"))

    def _draw(self, phase: str, done: int, jobs: int, said: str) -> None:
        self._last = time.monotonic()
        bar = Markup(
            f"<progress value={done} max={max(jobs, 1)}></progress> {html.escape(phase)} "
            f"{'' if said.startswith('done') else f'{done:,} of {jobs:,} '}{said}"
        )
        if self._handle is None:
            self._handle = self._display(bar, display_id=True)
        else:
            self._handle.update(bar)


class Markup:
    """HTML that a notebook draws."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return html.unescape(self._text.partition("</progress> ")[2] or self._text)
