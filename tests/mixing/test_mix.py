"""`gristmill mix RECIPE`: epochs before anything runs, the loader's plan, and what it achieves."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import Loader, LoaderPlan
from gristmill.errors import RecipeError
from gristmill.mixing.mix import make_stages, mix, plan_stages
from gristmill.recipe.mix_settings import Mix, MixStage
from tests.support import strategies
from tests.support.command import command_line
from tests.support.token_corpora import token_corpus

SIZES = {"web": 6000, "code": 2000, "books": 600, "math": 400, "many": 1000}
LESSON = {"web": 0.50, "code": 0.25, "books": 0.13, "math": 0.08, "many": 0.04}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of five sources; the tokens of a source are its number."""
    train = {
        name: [np.full(50, number + 1)] * (size // 50)
        for number, (name, size) in enumerate(SIZES.items())
    }
    return token_corpus(tmp_path_factory.mktemp("mix") / "corpus", train)


def recipe(folder: Path, text: str, output: Path | str = "none") -> Path:
    """A recipe of these sources with a `[mix]`."""
    sources = "".join(f'[[source]]\nname = "{name}"\nfiles = ["x"]\n' for name in SIZES)
    path = folder / "recipe.toml"
    path.write_text(f'output = "{output}"\n{sources}[mix]\n{text}\n')
    return path


def weights(shares: dict[str, float]) -> str:
    """A mix of these weights."""
    return "weights = {" + ", ".join(f"{name} = {value}" for name, value in shares.items()) + "}"


def test_the_lessons_mix_is_met_at_every_prefix(corpus: Path, tmp_path: Path) -> None:
    text = f"{weights(LESSON)}\ntokens = 8000\nsequence_length = 20\nbatch_size = 4"
    found = mix(recipe(tmp_path, text, corpus), plan=tmp_path / "plan.json")
    stage = found["stages"][0]
    assert (stage["tokens"], stage["steps"]) == (8000, 100)
    assert stage["sources"]["math"]["epochs"] == pytest.approx(0.08 * 8000 / 400)
    assert found["total"]["web"] == {"tokens": 4000, "epochs": pytest.approx(4000 / 6000)}
    with Loader(corpus, plan=tmp_path / "plan.json", steps=100) as loader:
        rows = np.concatenate([batch.inputs for batch in loader])
    assert rows.shape == (400, 20)
    # The tokens of a row are the number of its source.
    taken = np.cumsum([[(row == number + 1).sum() for number in range(5)] for row in rows], axis=0)
    wanted = 20 * np.arange(1, 401)[:, None] * np.array(list(LESSON.values()))
    assert np.abs(taken - wanted).max() <= 20  # one window


def test_stages_change_shares_and_sequence_length(corpus: Path, tmp_path: Path) -> None:
    text = (
        f"{weights(LESSON)}\ntokens = 4000\nsequence_length = 20\nbatch_size = 4\n"
        '[[mix.stage]]\nname = "annealing"\ntokens = 1600\nsequence_length = 40\n'
        "weights = {books = 0.5, math = 0.5}\n"
    )
    path = recipe(tmp_path, text, corpus)
    found = mix(path, plan=tmp_path / "plan.json")
    assert [stage["steps"] for stage in found["stages"]] == [50, 10]
    plan = LoaderPlan.load(tmp_path / "plan.json")
    assert [one.sequence_length for one in plan.segments] == [20, 40]
    assert plan.segments[1].from_window == 200
    with Loader(corpus, plan=plan, steps=60) as loader:
        batches = [batch.inputs for batch in loader]
    assert [batch.shape for batch in batches] == [(4, 20)] * 50 + [(4, 40)] * 10
    last = np.concatenate(batches[50:])
    assert [int((last == number).sum()) for number in (3, 4)] == [800, 800]
    assert found["total"]["books"]["tokens"] == round(0.13 * 4000 + 800)
    # Another mix from the same recipe: the plan is another one, and says so.
    again = mix(path, plan=tmp_path / "again.json")
    assert again["stages"] == found["stages"]
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "plan.json").read_bytes()


cuts = st.lists(st.integers(0, 100), min_size=4, max_size=4).map(sorted)


@strategies.fuzz(16)
@given(st.lists(cuts, min_size=1, max_size=3))
def test_fuzz_shares_at_every_prefix_of_every_stage(corpus: Path, drawn: list[list[int]]) -> None:
    """Within one window, whatever the stages before it were."""
    rules = [
        dict(zip(SIZES, (np.diff([0, *bounds, 100]) / 100).tolist(), strict=True))
        for bounds in drawn
    ]
    first = Mix(weights=rules[0], tokens=3000, sequence_length=10, batch_size=3)
    later = [
        MixStage(name=str(number), weights=rule, tokens=1000 + 200 * number, sequence_length=20)
        for number, rule in enumerate(rules[1:])
    ]
    stages = make_stages(msgspec.structs.replace(first, stage=later), SIZES)
    plan = plan_stages(stages, corpus, seed=1)
    for stage, segment in zip(stages, plan.segments, strict=True):
        windows = stage.steps * stage.batch_size
        places, _ = segment.mixture.place(np.arange(windows))
        shares = np.array([stage.shares[one.name] for one in segment.sources])
        taken = np.cumsum(places[:, None] == np.arange(len(shares)), axis=0)
        wanted = np.arange(1, windows + 1)[:, None] * shares
        assert np.abs(taken - wanted).max() < 1 + 1e-6


def test_padded_windows_still_give_shares_of_tokens(tmp_path: Path) -> None:
    """Documents of 11 tokens fill a window of 20 to 55 %, those of 20 fill it whole."""
    train = {"half": [np.full(11, 1)] * 400, "full": [np.full(20, 2)] * 400}
    root = token_corpus(tmp_path / "corpus", train)
    shares = {"half": 0.5, "full": 0.5}
    with Loader(
        root, sequence_length=20, batch_size=10, weights=shares, packing="best_fit", steps=30
    ) as loader:
        segments = [batch.segments for batch in loader]
        rows = np.concatenate([one.documents >> 32 for one in segments])
        lengths = np.concatenate([one.lengths for one in segments])
    tokens = [int(lengths[rows == number].sum()) for number in (0, 1)]
    assert tokens[0] / sum(tokens) == pytest.approx(0.5, abs=0.02)


def test_before_there_is_a_corpus(tmp_path: Path) -> None:
    text = 'rule = "unimax"\nmax_epochs = 4\ntokens = 20000'
    with pytest.raises(RecipeError, match="less than one step of 512 windows of 2,048"):
        mix(recipe(tmp_path, text), supply=SIZES)
    path = recipe(tmp_path, text + "\nsequence_length = 10\nbatch_size = 10")
    with pytest.raises(RecipeError, match="how many tokens source 'web' has"):
        mix(path)
    found = mix(path, supply=SIZES)
    epochs = {name: round(row["epochs"], 2) for name, row in found["total"].items()}
    assert (epochs["math"], epochs["books"], epochs["many"]) == (4.0, 4.0, 4.0)
    assert epochs["web"] < 1.1
    with pytest.raises(RecipeError, match="a loader's plan is of a finished corpus"):
        mix(path, supply=SIZES, plan=tmp_path / "plan.json")
    with pytest.raises(RecipeError, match="no source 'wep'"):
        mix(path, supply=SIZES | {"wep": 5})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "targets = {books = 700}",
            "source 'books' cannot supply what stage 'train' asks for: 700",
        ),
        (f"{weights(LESSON)}\nmax_epochs = 2\ntokens = 20000", "source 'code' cannot supply"),
        ("targets = {books = 70}\ntokens = 60", "its targets are 70: leave tokens out"),
        (
            'tokens = 9000\nmax_epochs = 1\n[[mix.stage]]\nname = "end"\ntargets = {math = 500}',
            "source 'math' cannot supply what stage 'end' asks for: 860 tokens in all",
        ),
        (f'{weights(LESSON)}\n[[mix.stage]]\nname = "end"', "stage 'end' says no tokens"),
        ('tokens = 9\n[[mix.stage]]\nname = "train"\ntokens = 9', "two stages have one name"),
    ],
)
def test_what_sources_cannot_supply(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(said)):
        mix(recipe(tmp_path, f"sequence_length = 1\nbatch_size = 1\n{text}"), supply=SIZES)


def test_without_tokens_a_stage_ends_with_its_first_source(tmp_path: Path) -> None:
    path = recipe(tmp_path, f"{weights(LESSON)}\nsequence_length = 1\nbatch_size = 1")
    found = mix(path, supply=SIZES)
    assert found["stages"][0]["tokens"] == 600 / 0.13 // 1
    assert max(row["epochs"] for row in found["total"].values()) <= 1


def verb(*words: object) -> "subprocess.CompletedProcess[str]":
    """`gristmill mix WORDS`, to its end."""
    command = command_line("mix", *words)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_verb(corpus: Path, tmp_path: Path) -> None:
    path = recipe(
        tmp_path, weights(LESSON) + "\ntokens = 8000\nsequence_length = 20\nbatch_size = 4", corpus
    )
    said = verb(path)
    assert said.returncode == 0, said.stderr
    assert re.search(r"web +0\.5000 +\d", said.stdout)
    answer: dict[str, Any] = json.loads(verb(path, "--json").stdout)
    assert answer == mix(path)
    # Before anything runs: tokens and epochs of what the sources will have.
    early = recipe(tmp_path, "tokens = 2000\nsequence_length = 10\nbatch_size = 10")
    supplies = [word for name, size in SIZES.items() for word in ("--supply", f"{name}={size}")]
    said = verb(early, *supplies)
    assert (said.returncode, said.stderr) == (0, "")
    assert re.search(r"math +0\.0400 +80 +0\.20\n", said.stdout)
    assert "there is no corpus yet" in said.stdout
    wrong = verb(path, "--supply", "web=many")
    assert (wrong.returncode, "write SOURCE=N" in wrong.stderr) == (2, True)
