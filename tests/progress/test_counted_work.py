"""Work that is counted: what is reported of it, and to whom."""

import threading
from typing import Any

import pytest

from gristmill.progress import counted_work
from gristmill.progress.counted_work import (
    NotebookBars,
    counted,
    notebook_display,
    seconds_text,
    shown_by,
    size_text,
    state_text,
    time_left,
    timed,
)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr(counted_work, "SECONDS_BETWEEN_EVENTS", 0.0)
    return []


def test_what_is_counted_is_reported(said: list[dict[str, Any]]) -> None:
    with shown_by(said.append), counted("verify", 8, "bytes") as count:
        count.add(2)
        count.at(4)
    begin, first, second, last, done = said
    assert begin == {"event": "phase", "phase": "verify", "jobs": 8, "unit": "bytes"}
    assert [one["done"] for one in (first, second, last)] == [2, 4, 4]
    assert second["left_seconds"] == pytest.approx(second["seconds"])
    assert (done["event"], done["phase"]) == ("done", "verify")


def test_nobody_hears_without_a_receiver(said: list[dict[str, Any]]) -> None:
    with counted("verify", 8, "bytes") as count:
        count.add(8)
    with shown_by(said.append):
        pass
    with counted("verify", 8, "bytes"):
        pass
    assert said == []


def test_failed_work_is_not_said_to_be_done(said: list[dict[str, Any]]) -> None:
    with shown_by(said.append), pytest.raises(ZeroDivisionError), counted("fit", 2, "fits"):
        raise ZeroDivisionError
    assert [one["event"] for one in said] == ["phase", "stopped"]


def test_threads_count_together(said: list[dict[str, Any]]) -> None:
    with shown_by(said.append), counted("count", 400, "tokens") as count:
        threads = [
            threading.Thread(target=lambda: [count.add(1) for _ in range(100)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    done = [one["done"] for one in said if one["event"] == "progress"]
    assert done == sorted(done)
    assert done[-1] == 400


def test_work_that_counts_nothing_still_says_how_long(
    said: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted_work, "SECONDS_BETWEEN_TICKS", 0.01)
    heard = threading.Event()

    def show(event: dict[str, Any]) -> None:
        said.append(event)
        if event["event"] == "progress":
            heard.set()

    with shown_by(show), timed("merges"):
        assert heard.wait(10)
    assert said[0]["jobs"] is None
    assert said[-1]["event"] == "done"


def test_time_that_is_left() -> None:
    assert time_left(10.0, 0.25) == 30.0
    assert time_left(10.0, 0.01) is None
    assert time_left(10.0, 1.0) is None


def test_words() -> None:
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
    assert state_text(run, 1_200_000_000, is_narrow=True) == "25 %, 20.0 MB/s, about 12 s left"
    documents = {"done": 5_000, "jobs": 10_000, "unit": "documents", "seconds": 2.0}
    assert state_text(documents) == "5,000 of 10,000 documents, 2,500 a second"
    assert state_text(documents, is_narrow=True) == "50 %, 2,500 a second"
    unending = {**documents, "jobs": None, "unit": "tokens"}
    assert state_text(unending) == "5,000 tokens, 2,500 a second"
    assert state_text(unending, is_narrow=True) == "5,000, 2,500 a second"
    size = {"done": 2_000_000, "jobs": 8_000_000, "unit": "bytes", "seconds": 2.0}
    assert state_text(size) == "2 MB of 8 MB, 1.0 MB/s"
    uncounted = {"done": 0, "jobs": None, "unit": "", "seconds": 61.0}
    assert state_text(uncounted) == state_text(uncounted, is_narrow=True) == "1 min 1 s"


def test_bars_in_a_notebook() -> None:
    drawn: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], **how: Any) -> None:
            drawn[-1] = data["text/html"]

    def display(data: dict[str, str], **how: Any) -> Handle:
        drawn.append(data["text/html"])
        return Handle()

    bars = NotebookBars(display)
    bars.show({"event": "phase", "phase": "process", "jobs": 2})
    event = {"event": "progress", "phase": "process", "jobs": 2, "bytes": 3 << 20, "seconds": 1.0}
    bars.show({**event, "done": 1})  # too soon after the first
    assert drawn == ["<progress value=0 max=2></progress> process"]
    bars.show({**event, "done": 2})
    assert drawn == ["<progress value=2 max=2></progress> process 2 of 2, 3 MB, 3.1 MB/s"]
    bars.show({"event": "done", "phase": "process", "seconds": 1.5})
    assert drawn == ["<progress value=1 max=1></progress> process done in 1.5 s"]
    bars.show({"event": "phase", "phase": "tokenize", "jobs": 1})
    bars.show({"event": "line", "text": "a <b>\x1b[2J"})
    assert drawn[-1] == "<pre>a &lt;b&gt;\\x1b[2J</pre>"
    assert len(drawn) == 3
    assert notebook_display() is None
