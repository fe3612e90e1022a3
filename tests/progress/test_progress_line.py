"""One line of progress: on terminals, dumb ones, pipes; and its words."""

import io
import sys
import types
from typing import Any

import pytest

from gristmill.progress import progress_line
from gristmill.progress.progress_line import (
    Markup,
    ProgressLine,
    moves_cursor,
    seconds_text,
    short_text,
    shortened,
    size_text,
    state_text,
)

LONG = "gristmill: compiling kernels (once on this machine): 12 of 149, about 40 s left"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def plain_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress_line, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_terminal_line_is_written_again(
    monkeypatch: pytest.MonkeyPatch, plain_clock: list[float]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    line = ProgressLine(stream)
    line.show(LONG)
    line.show("too soon")
    plain_clock[0] += 0.3
    line.show("short\x1b[2J")
    line.end("done")
    shown = stream.getvalue().split("\r")[1:]
    assert shown == [
        "compiling kernels: 12 of 149, about 40 \x1b[K",
        "short\\x1b[2J\x1b[K",
        "done\x1b[K\n",
    ]
    assert all(len(one.removesuffix("\x1b[K")) < 40 for one in shown[:2])


@pytest.mark.parametrize(("terminal", "term"), [(True, "dumb"), (True, ""), (False, "xterm")])
def test_elsewhere_lines_are_plain_and_few(
    monkeypatch: pytest.MonkeyPatch, plain_clock: list[float], terminal: bool, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    stream = Terminal() if terminal else io.StringIO()
    assert not moves_cursor(stream)
    line = ProgressLine(stream)
    for second in range(25):
        plain_clock[0] = 100.0 + second
        line.show(f"{second} of 25")
    line.end("done")
    assert stream.getvalue() == "0 of 25\n10 of 25\n20 of 25\ndone\n"


def test_notebook_line_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    class Handle:
        def update(self, one: Markup) -> None:
            drawn[-1] = one._repr_html_()

    def display(one: Markup, **how: Any) -> Handle:
        drawn.append(one._repr_html_())
        return Handle()

    monkeypatch.setattr(progress_line, "notebook", lambda: display)
    line = ProgressLine()
    line.show("1 of 2 <b>")
    line.end("2 of 2")
    assert drawn == ["<pre>2 of 2</pre>"]
    assert "IPython" not in sys.modules or progress_line.notebook() is display


def test_words() -> None:
    assert shortened(LONG, 100) == LONG
    assert shortened(LONG, 70) == "gristmill: compiling kernels: 12 of 149, about 40 s left"
    assert shortened(LONG, 10) == "compiling "
    times = (0, 8.4, 60, 200, 7500, 273_600)
    assert list(map(seconds_text, times)) == [
        *("0 s", "8 s", "1 min", "3 min 20 s", "2 h 5 min", "3 d 4 h")
    ]
    assert list(map(size_text, (0, 4_000, 81e6, 1.25e9, 3e12))) == [
        *("0 kB", "4 kB", "81 MB", "1.2 GB", "3.0 TB")
    ]


def test_states() -> None:
    run = {"done": 3, "jobs": 12, "bytes": 81_000_000, "seconds": 4.05, "left_seconds": 12.2}
    assert state_text(run, 1_200_000_000) == (
        "3 of 12, 81 MB, 20.0 MB/s, about 12 s left, memory 1.2 GB"
    )
    counted = {"done": 5_000, "jobs": 10_000, "unit": "documents", "seconds": 2.0}
    assert state_text(counted) == "5,000 of 10,000 documents, 2,500 a second"
    assert state_text({**counted, "jobs": None, "unit": "tokens"}) == (
        "5,000 tokens, 2,500 a second"
    )
    assert short_text(run) == "25 %, 20.0 MB/s, 12 s left"
    assert short_text(counted) == "50 %, 2,500 a second"
    assert short_text({**counted, "jobs": None}) == "5,000, 2,500 a second"
    size = {"done": 2_000_000, "jobs": 8_000_000, "unit": "bytes", "seconds": 2.0}
    assert state_text(size) == "2 MB of 8 MB, 1.0 MB/s"
    uncounted = {"done": 0, "jobs": None, "unit": "", "seconds": 61.0}
    assert state_text(uncounted) == short_text(uncounted) == "1 min 1 s"
    assert short_text(size) == "25 %, 1.0 MB/s"
