"""How much of a phase is done, by its jobs and what those under way have counted."""

from typing import Any

import pytest

from gristmill.phases.running.progress import DoneShare, Progress


def test_share_by_jobs_alone() -> None:
    share = DoneShare(4, {})
    share.count("a", 100)
    assert share.done == 0.0, "nothing ended: what a job will count is not known"
    share.end("a")
    assert share.done == 0.25
    share.count("b", 50)
    assert share.done == pytest.approx(0.375), "half of what the first job counted"
    share.count("b", 500)
    assert share.done == 0.5, "never more than one job"
    for job in "bcd":
        share.end(job)
    assert share.done == 1.0


def test_share_by_sizes() -> None:
    share = DoneShare(2, {"small": 100, "large": 300})
    share.count("large", 150)
    assert share.done == pytest.approx(0.375)
    share.count("small", 50)
    share.end("small")  # it counted half of what was expected, so the large one may too
    assert share.done == 1.0
    share.count("large", 0)
    share.fail("large")
    assert share.done == 1.0


def test_failed_jobs_are_no_work_any_more() -> None:
    share = DoneShare(2, {"a": 100, "b": 300})
    share.fail("b")
    share.count("a", 50)
    assert share.done == pytest.approx(0.5)


def test_events_say_what_is_left() -> None:
    said: list[dict[str, Any]] = []
    progress = Progress(said.append)
    with progress.phase("process", 2, {"a": 100, "b": 100}) as phase:
        phase.bytes(50, "a")
        phase.done("a")
        phase.failed("b", "web b.gz")
    first, done, failed = [event for event in said if event["event"] == "progress"]
    assert first["left_seconds"] == pytest.approx(3 * first["seconds"])
    assert (done["done"], done["job"], failed["job"]) == (1, "a", "web b.gz")
    assert failed["left_seconds"] is None
