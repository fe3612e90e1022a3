"""What the command line shows of long work: on terminals of any width, dumb ones, in logs."""

import fcntl
import io
import itertools
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from typing import Any

import pytest

from gristmill.progress import terminal
from gristmill.progress.counted_work import counted
from gristmill.progress.terminal import Display, moves_cursor, say

WORK = """
import sys, time
from gristmill.progress import terminal
from gristmill.progress.counted_work import counted
terminal.PATIENCE = 0.05
with terminal.Display(patience=terminal.PATIENCE):
    with counted("verify", 100, "documents") as count:
        for _ in range(4):
            time.sleep(0.15)
            count.add(25)
print("the result")
"""


def on_terminal(columns: int, **environment: str) -> str:
    """What WORK writes to a terminal."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-c", WORK],
        stdin=side,
        stdout=side,
        stderr=side,
        env={**plain, "TERM": "xterm", **environment},
    ) as running:
        os.close(side)
        shown = b""
        try:
            while more := os.read(main, 65536):
                shown += more
        except OSError:  # the other side is closed
            pass
        assert running.wait(60) == 0, shown
    os.close(main)
    return shown.decode()


@pytest.mark.parametrize("columns", [40, 100])
def test_bar_fits_into_a_terminal(columns: int) -> None:
    shown = on_terminal(columns)
    assert ("100 %, " if columns == 40 else "100 of 100 documents, ") in shown
    # Cursor and colour sequences aside, no line is longer than the terminal is wide.
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert max(len(line) for line in re.split(r"[\r\n]+", text)) <= columns
    assert text.rstrip().endswith("the result")
    coloured = re.search(r"\x1b\[(3|4|9)[0-9;]*m", shown) is not None
    assert coloured == (columns == 100), "the bar is coloured, and a narrow one has none"


def test_dumb_terminal_and_no_colour() -> None:
    assert on_terminal(80, TERM="dumb") == "the result\r\n", "five seconds pass before a line"
    plain = on_terminal(80, NO_COLOR="1")
    assert "100 of 100 documents" in plain
    assert not re.search(r"\x1b\[(3|4|9)[0-9;]*m", plain)


def test_log_gets_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "EVERY", 0.0)
    monkeypatch.setattr("gristmill.progress.counted_work.SECONDS_BETWEEN_EVENTS", 0.0)
    with Display(patience=1.0), counted("verify", 4, "documents") as count:
        count.add(1)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("verify: 1 of 4 documents, ")
    assert said[0].endswith("B") == ("memory" in said[0])
    assert re.fullmatch(r"verify: done in 0\.\d s", said[-1])
    assert all(line.isprintable() for line in said)


def test_quick_work_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(patience=1.0), counted("verify", 4, "documents") as count:
        count.add(4)
    assert capsys.readouterr() == ("", "")


def test_lines_become_fewer_the_longer_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(terminal, "memory_of_all", lambda: 0)
    said: list[str] = []
    monkeypatch.setattr(terminal, "warn", said.append)
    display = Display()
    now[0] = 1.0
    display.show({"event": "phase", "phase": "process", "jobs": 10})
    event: dict[str, Any] = {"event": "progress", "phase": "process", "done": 1, "jobs": 10}
    times = []
    for second in range(1, 4_000):
        now[0] = float(second)
        before = len(said)
        display.show({**event, "bytes": 1, "seconds": second})
        if len(said) > before:
            times.append(second)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps[0] == 5
    assert gaps == sorted(gaps)
    assert gaps[-1] == 60


@pytest.mark.parametrize(("terminal", "term"), [(True, "dumb"), (True, ""), (False, "xterm")])
def test_no_cursor_is_moved_elsewhere(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    assert not moves_cursor(stream)


def test_work_within_work_has_its_own_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "EVERY", 0.0)
    monkeypatch.setattr("gristmill.progress.counted_work.SECONDS_BETWEEN_EVENTS", 0.0)
    with Display(), counted("process", 2, "tasks") as outer:
        with counted("kernels", 4, "kernels") as inner:
            inner.add(4)
            say("kept")
        outer.add(1)
    said = [line.partition(" ")[0] for line in capsys.readouterr().err.splitlines()]
    assert list(dict.fromkeys(said)) == ["kernels:", "kept", "process:"]


def test_one_line_without_work(capsys: pytest.CaptureFixture[str]) -> None:
    say("a line\x1b[2J")
    assert capsys.readouterr().err == "a line\\x1b[2J\n"
