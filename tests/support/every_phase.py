"""A small recipe that asks for every phase, and runs of it in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gristmill import run, train_tokenizer
from gristmill.engine import engine as engines
from gristmill.engine.engine import Event, Job
from gristmill.engine.local import LocalSession, run_here
from gristmill.phases.all_phases import PHASES
from tests.support.corpora import article, jsonl, pages

RECIPE = """
seed = 7
[[source]]
name = "web"
files = ["raw/a*", "raw/b*"]
[[source]]
name = "docs"
files = ["raw/c*"]
[[step]]
use = "gopher"
[[step]]
use = "decontaminate"
benchmarks = [{ name = "made", file = "items.jsonl", fields = ["text"] }]
common = 8
[[step]]
use = "private"
after_dedup = true
[deduplicate]
near = {}
lines = { most = 8 }
substrings = { bytes = 20 }
index = false
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 5_000
validation = 0.1
"""
# Of phases with a table of their own.
EXAMPLES = "".join(f"[{phase.name}]\n{phase.example}\n" for phase in PHASES if phase.settings)


def lay_out_all(folder: Path) -> Path:
    """Three raw shards of two sources, a benchmark, a tokenizer and the recipe; returns the
    recipe.
    """
    raw = folder / "raw"
    raw.mkdir(parents=True)
    footer = "\nAll rights are reserved by the harbour.\nPrint this page"
    for name, seed in (("a", "a"), ("b", "b"), ("c", "c")):
        rows = pages(30, seed) + pages(10, "a")
        for number, row in enumerate(rows):
            mail = f"\nWrite to me{number}@mill.org" if number % 10 == 3 else ""
            row["text"] = f"{row['text']}{footer}{mail}"
            row["link"] = f"https://other.example/{seed}/{number}"
            row["body"] = article(f"body {seed} {number}", 20)
        (raw / f"{name}.jsonl").write_bytes(jsonl(rows))
    items = [{"text": " ".join(str(row["text"]).split()[:60])} for row in pages(30, "a")[:5]]
    (folder / "items.jsonl").write_bytes(jsonl(items))
    train_tokenizer([raw / "a.jsonl"], folder / "tokenizer.json", vocabulary=600)
    train_tokenizer([raw / "c.jsonl"], folder / "other.json", vocabulary=500)
    (folder / "recipe.toml").write_text(RECIPE + EXAMPLES, "utf-8")
    return folder / "recipe.toml"


class InProcess:
    """An engine that runs all jobs in this process, one after another."""

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *error: object) -> None: ...

    def run(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs."""
        return run_here(jobs)

    def begin(self) -> None:
        """Jobs are run when all are known."""

    def other_machines(self) -> None:
        """All work is in this process."""

    def run_whole(self, jobs: list[Job]) -> Iterator[Event]:
        """Run jobs with DuckDB and one thread."""

        def with_session(job: Job) -> Job:
            def function(task: Any, on_progress: Any) -> Any:
                return job.function(task, on_progress, session=LocalSession(1))

            return job._replace(function=function)

        return run_here([with_session(job) for job in jobs])


@contextmanager
def in_process() -> Iterator[None]:
    """All runs within it run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "start", lambda *given, **more: InProcess())
        yield


def phases_of(recipe: Path, out: Path, **more: Any) -> list[str]:
    """Run in this process; the phases that did something, but for fetch, in order."""
    events: list[dict[str, Any]] = []
    with in_process():
        run(
            recipe,
            out=out,
            workers=1,
            cache_dir=recipe.parent / "cache",
            show=events.append,
            **more,
        )
    ran = [event["phase"] for event in events if event["event"] == "phase"]
    return [phase for phase in dict.fromkeys(ran) if phase != "fetch"]
