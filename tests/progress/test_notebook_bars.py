"""Bars in a notebook: what is drawn, and where."""

from typing import Any

from gristmill.progress.notebook_bars import NotebookBars, notebook_display
from gristmill.progress.progress_line import Markup


def test_bars() -> None:
    drawn: list[str] = []

    class Handle:
        def update(self, bar: Markup) -> None:
            drawn[-1] = bar._repr_html_()

    def display(bar: Markup, **how: Any) -> Handle:
        drawn.append(bar._repr_html_())
        return Handle()

    bars = NotebookBars(display)
    bars.show({"event": "phase", "phase": "process", "jobs": 2})
    counted = {"event": "progress", "phase": "process", "jobs": 2, "bytes": 3 << 20, "seconds": 1.0}
    bars.show({**counted, "done": 1})  # too soon after the first
    assert drawn == ["<progress value=0 max=2></progress> process"]
    bars.show({**counted, "done": 2})
    assert drawn == ["<progress value=2 max=2></progress> process 2 of 2, 3 MB, 3.1 MB/s"]
    bars.show({"event": "done", "phase": "process", "seconds": 1.5})
    assert drawn == ["<progress value=1 max=1></progress> process done in 1.5 s"]
    bars.show({"event": "phase", "phase": "tokenize", "jobs": 1})
    bars.show({"event": "line", "text": "a <b>\x1b[2J"})
    assert drawn[-1] == "<pre>a &lt;b&gt;\\x1b[2J</pre>"
    assert repr(Markup("<b>a &lt; b</b>", "a < b")) == "a < b"
    assert len(drawn) == 3


def test_elsewhere_nothing_is_drawn() -> None:
    assert notebook_display() is None
