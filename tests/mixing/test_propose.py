"""`gristmill mix propose`: a seeded swarm, its file, and the loader's plans."""

from pathlib import Path

import numpy as np
import pytest

from gristmill import LoaderPlan
from gristmill.errors import RecipeError
from gristmill.mixing.propose import propose_mixes
from tests.support.token_corpora import token_corpus

SIZES = {"web": 6000, "code": 2000, "books": 600}


def recipe(folder: Path, output: object = "none") -> Path:
    """A recipe of three sources, without `[mix]`."""
    sources = "".join(f'[[source]]\nname = "{name}"\nfiles = ["x"]\n' for name in SIZES)
    (folder / "recipe.toml").write_text(f'output = "{output}"\n{sources}')
    return folder / "recipe.toml"


def test_a_swarm_is_drawn_from_the_seed(tmp_path: Path) -> None:
    path = recipe(tmp_path)
    found = propose_mixes(path, runs=40, out=tmp_path / "a", supply=SIZES)
    again = propose_mixes(path, runs=40, out=tmp_path / "b", supply=SIZES)
    other = propose_mixes(path, runs=40, out=tmp_path / "c", supply=SIZES, seed=2)
    files = [(tmp_path / name / "ratios.csv").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]
    assert found["runs"] == again["runs"] != other["runs"]
    mixes = np.array([list(mix.values()) for mix in found["runs"].values()])
    assert mixes[0] == pytest.approx(np.array(list(SIZES.values())) / 8600, abs=1e-6)
    assert np.round(mixes.sum(axis=1), 9).tolist() == [1.0] * 40
    # Round the natural mix, and wide enough to learn from.
    assert mixes.mean(axis=0) == pytest.approx(mixes[0], abs=0.15)
    assert mixes.std(axis=0).min() > 0.05
    assert not ((mixes > 0) & (mixes < 0.001)).any()


def test_a_proxy_run_reads_no_source_too_often(tmp_path: Path) -> None:
    found = propose_mixes(
        recipe(tmp_path), runs=50, out=tmp_path / "a", supply=SIZES, tokens=8000, max_epochs=2.0
    )
    assert max(mix["books"] for mix in found["runs"].values()) <= 2 * 600 / 8000 + 1e-6
    with pytest.raises(RecipeError, match="more than all sources read 2 times"):
        propose_mixes(recipe(tmp_path), runs=5, supply=SIZES, tokens=20_000, max_epochs=2.0)


def test_plans_of_a_finished_corpus(tmp_path: Path) -> None:
    train = {name: [np.full(50, 1)] * (size // 50) for name, size in SIZES.items()}
    root = token_corpus(tmp_path / "corpus", train)
    path = recipe(tmp_path, root)
    found = propose_mixes(path, runs=3, out=tmp_path / "swarm", sequence_length=10, batch_size=2)
    assert len(found["plans"]) == 3
    for name, file in zip(found["runs"], found["plans"], strict=True):
        weights = LoaderPlan.load(file).segments[0].weights
        assert weights == pytest.approx(found["runs"][name])


def test_one_source_is_no_mix(tmp_path: Path) -> None:
    supply = {"web": 5, "code": 0, "books": 0}
    with pytest.raises(RecipeError, match="a mix has two sources or more; 1 has tokens"):
        propose_mixes(recipe(tmp_path), runs=3, supply=supply)
    with pytest.raises(RecipeError, match="runs"):
        propose_mixes(recipe(tmp_path), runs=0, supply=SIZES)
