"""DDP: jobs of several processes (gloo), saved by torch.distributed.checkpoint and started again
with another world size; together the ranks see the stream that nobody interrupted.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gristmill.loader.loader import Loader
from tests.support import ROOT
from tests.support.naive_order import numbered
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

SETTINGS = {"sequence_length": 10, "batch_size": 12, "micro_batch_size": 2, "seed": 3}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("torch") is None:
        missing("torch", "torch is not installed (pip install 'gristmill[torch]')")
    return token_corpus(
        tmp_path_factory.mktemp("distributed"),
        {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90)},
        tokens_per_shard=100,
    )


def check(root: Path, folder: Path, runs: list[dict[str, Any]]) -> None:
    """Run a job, and compare what its ranks saw with one loader's stream."""
    job = {"corpus": str(root), "settings": SETTINGS, "folder": str(folder), "runs": runs}
    (folder / "job.json").write_text(json.dumps({**job, "vocabulary": 1000}))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.distributed_job", folder / "job.json"],
        cwd=ROOT,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[int, Any] = {}
    weights: set[tuple[int, str]] = set()
    step_rows, first = SETTINGS["batch_size"], 0
    for number, run in enumerate(runs):
        rows = []
        for rank in range(run["world"]):
            report = json.loads((folder / f"{number}-{rank}.json").read_text())
            seen, _ = report["seen"], weights.add((number, report["weights"]))
            assert len(seen) == run["batches"]
            mine = [window for windows, _, _ in seen for window in windows]
            assert mine == sorted(mine)  # each rank in the order of the stream
            rows += [row for batch in seen for row in zip(*batch, strict=True)]
        assert not found.keys() & {row[0] for row in rows}  # nothing twice
        found.update({row[0]: row[1:] for row in rows})
        if not run.get("stateful"):  # whole steps
            first += run["batches"] * run["world"] * SETTINGS["micro_batch_size"] // step_rows
            assert sorted(found) == list(range(first * step_rows))
    assert sorted(found) == list(range(len(found)))
    assert len(weights) == len(runs)  # the ranks of a run have the same model
    with Loader(root, **SETTINGS, prefetch=0) as loader:  # type: ignore[arg-type]
        for _ in range(len(found) // SETTINGS["micro_batch_size"]):
            batch = next(loader)
            for window, *row in zip(
                batch.windows.tolist(), batch.inputs.tolist(), batch.targets.tolist(), strict=True
            ):
                assert list(found[window]) == row


def test_a_job_that_is_started_again_with_other_ranks(root: Path, tmp_path: Path) -> None:
    # 2 ranks x 3 batches a step, 3 ranks x 2, 1 rank x 6; what was trained on behind a checkpoint
    # is lost with the job, and is seen again.
    runs = [
        {"world": 2, "batches": 6, "workers": 1, "lost": 2},
        {"world": 3, "batches": 4},
        {"world": 1, "batches": 12, "workers": 2},
    ]
    check(root, tmp_path, runs)


@pytest.mark.soak
def test_soak_jobs_of_many_runs(root: Path, tmp_path: Path) -> None:
    if find_spec("torchdata") is None:
        missing("torchdata", "torchdata is not installed")
    runs: list[dict[str, Any]] = []
    for turn, world in enumerate((1, 2, 3, 6, 2, 3, 1, 2)):
        per_step = 6 // world
        runs.append(
            {"world": world, "batches": 5 * per_step, "workers": turn % 3, "lost": turn % per_step}
        )
    check(root, tmp_path, runs)
    # StatefulDataLoader: the same number of ranks and workers, in the middle of a step.
    for workers in (0, 2):
        (tmp_path / f"stateful{workers}").mkdir()
        runs = [
            {"world": 2, "batches": count, "workers": workers, "stateful": True}
            for count in (4, 7, 1, 9)
        ]
        check(root, tmp_path / f"stateful{workers}", runs)
