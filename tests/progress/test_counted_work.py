"""Work that is counted: what is reported of it, and to whom."""

import threading
from typing import Any

import pytest

from gristmill.progress import counted_work
from gristmill.progress.counted_work import counted, shown_by, time_left, timed


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
