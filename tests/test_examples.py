"""The examples run: training that is killed and goes on has the losses of one that is not."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

WORDS = "--steps 60 --every 5 --length 24 --batch 8 --width 32 --layers 1".split()


def texts(seed: int, count: int) -> list[np.ndarray]:
    """Documents that can be learned: each counts on by a step of its own."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        start, step, length = generator.integers(1, 40), generator.integers(1, 4), 30
        found.append(np.append(1 + (start + step * np.arange(length)) % 40, 0))
    return found


def train(corpus: Path, out: Path, *more: str, ranks: int = 1) -> "subprocess.Popen[bytes]":
    script = [ROOT / "examples/train_nanogpt.py", corpus, "--out", out, *WORDS, *more]
    run = ["-W", "error"]
    if ranks > 1:  # torchrun's; it warns of itself
        run = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return subprocess.Popen(
        [sys.executable, *run, *script],
        # Threads of a model this small wait for each other where the processors are busy.
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.soak
def test_training_that_is_killed_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    if find_spec("torch") is None:
        missing("torch", "torch is not installed (pip install 'gristmill[torch]')")
    corpus = token_corpus(
        tmp_path / "corpus", {"web": texts(1, 300), "books": texts(2, 200)}, vocabulary=42
    )
    whole = train(corpus, tmp_path / "whole")
    said = whole.communicate(timeout=300)[0].decode()
    assert whole.returncode == 0, said
    losses = (tmp_path / "whole/losses.csv").read_text()
    values = [float(line.split(",")[1]) for line in losses.splitlines()]
    assert len(values) == 60
    assert np.mean(values[-10:]) < 3.4 < np.log(41) < np.mean(values[:3])

    killed = train(corpus, tmp_path / "killed")
    until = time.monotonic() + 300
    while not (tmp_path / "killed/checkpoint.pt").exists():
        assert killed.poll() is None, killed.communicate()[0].decode()
        assert time.monotonic() < until
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    if killed.returncode == 0:
        pytest.skip("it ended before it was killed")
    again = train(corpus, tmp_path / "killed")
    said = again.communicate(timeout=300)[0].decode()
    assert again.returncode == 0, said
    assert "going on at step" in said
    assert (tmp_path / "killed/losses.csv").read_text() == losses


@pytest.mark.soak
def test_two_processes_have_the_losses_of_one(tmp_path: Path) -> None:
    """By DDP; and one process goes on where two were stopped."""
    if find_spec("torch") is None:
        missing("torch", "torch is not installed (pip install 'gristmill[torch]')")
    corpus = token_corpus(tmp_path / "corpus", {"web": texts(1, 300)}, vocabulary=42)
    curves = []
    for runs in (((1, 20),), ((2, 10), (1, 20)), ((2, 20),)):
        out = tmp_path / f"run{len(curves)}"
        for ranks, steps in runs:
            started = train(corpus, out, "--steps", str(steps), ranks=ranks)
            said = started.communicate(timeout=300)[0].decode()
            assert started.returncode == 0, said
        lines = (out / "losses.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines] == [str(step) for step in range(20)]
        curves.append([float(line.split(",")[1]) for line in lines])
    for curve in curves[1:]:
        np.testing.assert_allclose(curve, curves[0], rtol=1e-3)
