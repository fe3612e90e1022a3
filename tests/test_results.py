"""benchmarks/RESULTS.md is what bench.py makes of benchmarks/results.json: no figure by hand."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_the_page_is_made_from_the_results() -> None:
    call = [sys.executable, str(BENCHMARKS / "bench.py"), "--page"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stdout == (BENCHMARKS / "RESULTS.md").read_text("utf-8")


def processor() -> ModuleType:
    """benchmarks/processor.py; the folder is no package."""
    spec = importlib.util.spec_from_file_location("processor", BENCHMARKS / "processor.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_more_cores_by_amdahls_law() -> None:
    module = processor()
    even = module.Costs(start=0.0, worker=0.0, shard=0.0, alone=0.0, divided=0.04)
    assert module.speed_up(even, 160, 100.0, 16) == pytest.approx(16)
    assert module.speed_up(even, 17, 100.0, 16) == pytest.approx(17 / 2), "one does two"
    # A twentieth is done by one process: 1 / (0.05 + 0.95 / 16).
    twentieth = even._replace(alone=0.002, divided=0.038)
    assert module.speed_up(twentieth, 160, 100.0, 16) == pytest.approx(1 / (0.05 + 0.95 / 16))
    # 1 s of start, 10 ms a shard: 640 + 1 + 1.6 s on one core.
    costs = even._replace(start=0.4, worker=0.6, shard=0.01)
    assert module.speed_up(costs, 160, 100.0, 16) == pytest.approx(642.6 / (40 + 2.6))


def test_costs_are_those_that_runs_were_made_of() -> None:
    module = processor()
    costs = module.Costs(start=0.8, worker=0.6, shard=0.01, alone=0.003, divided=0.03)

    def run(shards: int, megabytes: float, workers: int) -> Any:
        return module.Run(
            shards=shards,
            megabytes=megabytes,
            workers=workers,
            caller=costs.start - 0.3 + shards * costs.shard,
            alone=0.3 + costs.alone * megabytes,
            divided=costs.worker * workers + costs.divided * megabytes,
        )

    small = [run(shards, 0.0, 2) for shards in (8, 64)]
    found = module.costs(*small, run(8, 1000.0, 2), run(16, 2000.0, 2))
    assert found == pytest.approx(costs)


def test_processes_are_counted_apart() -> None:
    events = [
        ("phase", "fetch", (0.4, 0.4, 0.1, 0.0, {})),
        ("done", "fetch", (0.9, 0.8, 0.4, 0.0, {})),
        ("phase", "process", (1.0, 0.9, 0.5, 0.0, {})),
        ("progress", "process", (1.0, 0.9, 0.5, 7.0, {"1": 3.5, "2": 3.5})),
        ("done", "process", (1.1, 1.0, 0.7, 8.0, {"1": 4.0, "2": 3.5})),
        ("phase", "deduplicate", (1.2, 1.1, 0.7, 8.0, {"1": 4.0, "2": 3.5})),
        ("progress", "deduplicate", (1.2, 1.1, 0.7, 11.0, {"3": 1.0})),
        ("done", "deduplicate", (1.2, 1.1, 0.7, 11.0, {})),
        ("done", "", (2.0, 1.25, 0.7, 11.0, {})),
    ]
    found = processor().by_phase(events)
    assert found["process"] == pytest.approx({"alone": 0.1, "divided": 8.0})
    assert found["deduplicate"] == pytest.approx({"alone": 1.1, "divided": 2.0})
    assert found.keys() == {processor().START, "process", "deduplicate"}
    assert found[processor().START] == pytest.approx({"alone": 1.75, "divided": 0.75})
