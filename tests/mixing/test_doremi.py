"""DoReMi on sources of known difficulty; it is killed and goes on; what it refuses. Losses and bits
per byte of its models.
"""

import csv
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gristmill import losses
from gristmill.errors import GristmillError, MachineError, RecipeError, VerificationError
from gristmill.mixing import doremi as doremi_module
from gristmill.mixing import proxy
from gristmill.mixing.doremi import doremi, lines
from gristmill.system.ownership import MARKER
from tests.support.token_corpora import texts_of_sizes, token_corpus

VOCABULARY = 32
SHAPE: dict[str, Any] = {"size": "nano", "batch_size": 12, "sequence_length": 16, "every": 20}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """The same sums in the same order, whatever runs beside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise that nobody can learn, one token again and again, and a rule that takes a while: each
    token says which one is next.
    """
    random = np.random.default_rng(3)
    successor = random.permutation(np.arange(2, VOCABULARY))

    def learnable() -> np.ndarray:
        at, found = int(random.integers(2, VOCABULARY)), []
        for _ in range(64):
            found.append(at)
            at = int(successor[at - 2])
        return np.array(found)

    train = {
        "noise": [random.integers(2, VOCABULARY, 64) for _ in range(100)],
        "repeats": [np.full(64, 1) for _ in range(100)],
        "learnable": [learnable() for _ in range(100)],
    }
    val = {name: documents[:10] for name, documents in train.items()}
    return token_corpus(
        tmp_path_factory.mktemp("doremi") / "corpus", train, val, vocabulary=VOCABULARY
    )


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run to its end: its folder, and its answer."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, doremi(corpus, out=out, steps=80, plot=out / "weights.svg", **SHAPE)


def test_weights_go_where_there_is_something_to_learn(whole: tuple[Path, dict[str, Any]]) -> None:
    out, found = whole
    weights = found["weights"]
    assert sum(weights.values()) == pytest.approx(1)
    assert max(weights, key=lambda name: weights[name]) == "learnable"
    # The smallest of a step is c / k; the mean over steps cannot be below it.
    assert min(weights.values()) >= 1e-3 / 3
    assert found["proxy_losses"]["noise"] > math.log(20)
    assert found["proxy_losses"]["repeats"] < 0.5
    with (out / "weights.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 80
    for name, weight in weights.items():
        assert np.mean([float(row[f"weight {name}"]) for row in rows]) == pytest.approx(weight)
    assert b"<svg" in (out / "weights.svg").read_bytes()
    assert any("below 15,000,000" in warning for warning in found["warnings"])
    assert (out / "weights.toml").read_text().startswith("[mix.weights]\n")
    assert any("weights.toml" in line for line in lines(found))


@pytest.mark.parametrize("phase", ["reference", "proxy"])
def test_a_run_that_is_stopped_goes_on_exactly(
    corpus: Path,
    tmp_path: Path,
    whole: tuple[Path, dict[str, Any]],
    phase: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = doremi_module._check

    def stops(run: Any, at: str, step: int, found: np.ndarray) -> None:
        check(run, at, step, found)
        if (at, step) == (phase, 47):
            raise KeyboardInterrupt

    monkeypatch.setattr(doremi_module, "_check", stops)
    with pytest.raises(KeyboardInterrupt):
        doremi(corpus, out=tmp_path / "run", steps=80, **SHAPE)
    monkeypatch.setattr(doremi_module, "_check", check)
    said: list[str] = []
    found = doremi(corpus, out=tmp_path / "run", steps=80, on_line=said.append, **SHAPE)
    assert said[0] == f"{phase}: going on at step 40"
    # Weights are shown as they move.
    assert re.search(r"proxy: step 80 of 80; .*; weights learnable 0\.\d+, noise", said[-1])
    out, expected = whole
    assert found["weights"] == expected["weights"]
    assert (tmp_path / "run/weights.csv").read_bytes() == (out / "weights.csv").read_bytes()


def test_the_excess_is_clipped_token_by_token() -> None:
    """A token that the proxy knows better makes up for none that it knows worse."""
    batch: Any = SimpleNamespace(sources=np.array([1, 0, 1]))
    losses = torch.tensor([[3.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    reference = torch.tensor([[1.0, 3.0], [2.0, 2.0], [1.0, 5.0]])
    found = doremi_module._excess(losses, reference, batch, 3)
    assert found.tolist() == [0.0, (2 + 0 + 1 + 0) / 4, 0.0]


def test_what_is_refused(
    corpus: Path, tmp_path: Path, whole: tuple[Path, dict[str, Any]], monkeypatch: Any
) -> None:
    out, _ = whole
    with pytest.raises(RecipeError, match="a run with other settings"):
        doremi(corpus, out=out, steps=81, **SHAPE)
    with pytest.raises(RecipeError, match="size 'huge': it is one of nano"):
        doremi(corpus, out=tmp_path, size="huge")
    alone = token_corpus(tmp_path / "alone", {"web": [np.full(64, 1)] * 9}, vocabulary=VOCABULARY)
    with pytest.raises(RecipeError, match="two sources or more"):
        doremi(alone, out=tmp_path / "run")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/state.pt").write_bytes((out / "state.pt").read_bytes()[:-1000])
    # A folder without a marker is a run's if its state says so, and this one says nothing.
    with pytest.raises(MachineError, match=r"holds 'state\.pt', and no \.gristmill\.json"):
        doremi(corpus, out=tmp_path / "damaged", steps=80, **SHAPE)
    (tmp_path / "damaged" / MARKER).write_bytes((out / MARKER).read_bytes())
    with pytest.raises(VerificationError, match="cannot be read as tensors"):
        doremi(corpus, out=tmp_path / "damaged", steps=80, **SHAPE)
    monkeypatch.setattr(proxy, "free_memory", lambda: 1_000_000)
    with pytest.raises(MachineError, match="needs about"):
        doremi(corpus, out=tmp_path / "large", **SHAPE)


def test_a_loss_that_is_not_finite_stops_with_its_step(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(GristmillError, match=r"reference, step [\d,]+: the loss of source .* nan"):
        doremi(corpus, out=tmp_path, steps=80, rate=1e30, **SHAPE)


def test_losses_by_source(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that knows nothing has log2(vocabulary) bits a token, whatever the source."""
    texts = texts_of_sizes([0, 1] + [3] * (VOCABULARY - 2))
    monkeypatch.setattr("gristmill.reports.tokens.losses.token_texts", lambda corpus: texts)
    found = losses(corpus, lambda tokens: torch.zeros(*tokens.shape, VOCABULARY))
    rows = found["sources"]
    assert rows["noise"]["loss"] == pytest.approx(math.log(VOCABULARY))
    assert rows["noise"]["bits_per_byte"] == pytest.approx(5 / 3)
    assert rows["repeats"]["bits_per_byte"] == pytest.approx(5)
    # 640 tokens, of which the first is given.
    assert (rows["noise"]["tokens"], rows["repeats"]["bytes"]) == (639, 639)
    short = losses(corpus, lambda tokens: torch.zeros(*tokens.shape, VOCABULARY), limit=100)
    assert short["sources"]["noise"]["tokens"] == 99
    with pytest.raises(GristmillError, match=r"source '\w+', tokens 0 to"):
        losses(corpus, lambda tokens: torch.full((*tokens.shape, VOCABULARY), math.nan))


def test_losses_of_a_trained_model(
    corpus: Path, whole: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = texts_of_sizes([0] + [1] * (VOCABULARY - 1))
    monkeypatch.setattr("gristmill.reports.tokens.losses.token_texts", lambda corpus: texts)
    out, _ = whole
    rows = losses(corpus, out / "proxy")["sources"]
    assert rows["repeats"]["bits_per_byte"] < 0.8
    assert 4 < rows["noise"]["bits_per_byte"] < 5.5
    with pytest.raises(RecipeError, match="the model has 16 positions"):
        losses(corpus, out / "proxy", sequence_length=17)
    with pytest.raises(RecipeError, match="no model: a folder with"):
        losses(corpus, out / "nowhere")
