"""The loader against the order in plain Python; interruptions, ranks, refusals, threads."""

import gc
import itertools
import pickle
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import TokenCorpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.loader.bench_loader import bench_loader
from gristmill.loader.ledger import seen
from gristmill.loader.loader import Loader
from gristmill.loader.plan import LoaderPlan
from tests.support import strategies
from tests.support.loader_jobs import job, rows
from tests.support.naive_order import numbered, stream
from tests.support.token_corpora import token_corpus


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of three sources in many shards."""
    return token_corpus(
        tmp_path_factory.mktemp("loader"),
        {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90), "code": numbered(3, 30, 5)},
        {"web": numbered(4, 20, 10)},
        tokens_per_shard=100,
    )


@strategies.fuzz(40)
@given(
    length=st.integers(1, 40),
    size=st.integers(1, 12),
    seed=st.integers(0, 9),
    weights=st.sampled_from(
        (None, {"web": 0.7, "books": 0.3}, {"web": 1, "books": 2, "code": 5}, {"code": 0})
    ),
    prefetch=st.integers(0, 2),
)
def test_fuzz_it_yields_the_order_of_the_plan(
    root: Path, length: int, size: int, seed: int, weights: dict[str, float] | None, prefetch: int
) -> None:
    corpus = TokenCorpus.open(root)
    with Loader(
        root, sequence_length=length, batch_size=size, seed=seed, weights=weights, prefetch=prefetch
    ) as loader:
        batches = list(itertools.islice(loader, 30))
        names = loader.sources
        expected = list(stream(corpus, loader.plan, 30 * size))
    assert rows(batches) == [window.tokens for window in expected]
    found = [names[source] for batch in batches for source in batch.sources]
    assert found == [window.source for window in expected]
    assert [w for batch in batches for w in batch.windows.tolist()] == list(range(30 * size))
    for batch in batches:
        assert batch.inputs.shape == batch.targets.shape == (size, length)
        assert batch.inputs.dtype == np.uint16
        assert not batch.padding.any()
        covered = np.zeros(batch.inputs.shape, np.int64)
        for row, start, count in zip(*batch.segments[:3], strict=True):
            covered[row, start : start + count] += 1
        assert np.all(covered == 1)


def test_a_state_within_a_step_is_that_before_it(root: Path) -> None:
    loader = Loader(root, sequence_length=10, batch_size=8, micro_batch_size=2)
    states = [loader.state_dict()["windows"]]
    for _ in range(9):
        next(loader)
        states.append(loader.state_dict()["windows"])
    assert states == [0, 0, 0, 0, 8, 8, 8, 8, 16, 16]
    loader.close()


def test_seeking_is_exact(root: Path) -> None:
    with Loader(root, sequence_length=10, batch_size=8) as loader:
        batches = list(itertools.islice(loader, 60))
        for step in (59, 0, 33, 7):
            loader.seek_step(step)
            assert loader.windows == 8 * step
            assert rows([next(loader)]) == rows([batches[step]])
        loader.seek(8 * 10**12)  # far epochs cost nothing
        next(loader)
        assert loader.step == 10**12 + 1
        for window in (7, -8):
            with pytest.raises(RecipeError, match="is not the first of a step"):
                loader.seek(window)
        with pytest.raises(RecipeError, match="steps are counted from 0"):
            loader.seek_step(-1)


def test_it_ends_where_it_is_asked_to(root: Path) -> None:
    loader = Loader(root, sequence_length=10, batch_size=8, micro_batch_size=4, steps=3)
    assert len(list(loader)) == 6
    assert list(loader) == []


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize(
    "packing",
    ["concat", "best_fit", {"kind": "aligned", "keep_rest": True}],
    ids=["concat", "best_fit", "aligned"],
)
def test_every_packing_is_dealt_out_whole_balanced_or_not(
    root: Path, packing: object, world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_PACKING", str(tmp_path))
    settings = {"sequence_length": 12, "batch_size": 16, "packing": packing}
    whole, _ = job(root, 1, 12, **settings)
    expected = dict(zip(np.concatenate([b.windows for b in whole]), rows(whole), strict=True))
    found, states = job(root, world, 7, **settings, balance=True)
    more, _ = job(root, 2, 5, **settings, state=states[0])
    found += more
    got = dict(zip(np.concatenate([b.windows for b in found]), rows(found), strict=True))
    assert got == expected
    assert sum(len(batch.windows) for batch in found) == len(expected)
    for batch in found:
        used = np.bincount(batch.segments.rows, batch.segments.lengths, len(batch.windows))
        assert np.array_equal(used + batch.padding, np.full(len(batch.windows), 12))
        for row, padding in enumerate(batch.padding.tolist()):
            assert not batch.inputs[row, 12 - padding :].any()


def test_the_validation_split(root: Path) -> None:
    with Loader(root, sequence_length=10, batch_size=2, split="val") as loader:
        assert loader.sources == ["web"]
        expected = stream(loader.corpus, loader.plan, 10)
        found = rows(list(itertools.islice(loader, 5)))
    assert found == [window.tokens for window in expected]


SETTINGS = {"sequence_length": 10, "batch_size": 8}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"world_size": 16}, "16 ranks for a batch of 8 windows: each rank needs one"),
        ({"world_size": 3}, "a batch of 8 windows cannot be divided by 3 ranks: use 6 or 9"),
        ({"world_size": 2, "rank": 2}, "rank 2 of 2: ranks are 0 to 1"),
        ({"world_size": 2, "micro_batch_size": 3}, "a rank has 4 windows of a step (8 for 2"),
        ({"sequence_length": 330}, "source 'code' has 81 tokens, fewer than a window of 330"),
        ({"sequence_length": 0}, "sequence_length = 0: it is a number of 1 or more"),
        ({"batch_size": True}, "batch_size = True: it is a number of 1 or more"),
        ({"batch_size": None}, "batch_size is missing: give it, or a plan"),
        ({"seed": 0.5}, "seed = 0.5: it is a whole number"),
        ({"split": "test"}, "split 'test': it is train or val"),
        ({"packing": "tight"}, "packing 'tight': it is one of concat, best_fit, aligned"),
        ({"packing": {"kind": "concat", "x": 1}}, "packing concat: there is no parameter 'x'"),
        ({"weights": {"wbe": 1}}, "the corpus has no source 'wbe'"),
    ],
)
def test_refusals(root: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(said)):
        Loader(root, **{**SETTINGS, **settings})  # type: ignore[arg-type]


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    root = token_corpus(tmp_path, {"web": numbered(1, 60, 30)})
    with pytest.raises(RecipeError, match="the split 'val' has no tokens"):
        Loader(root, **SETTINGS, split="val")  # type: ignore[arg-type]


def test_a_damaged_shard_is_refused_when_it_is_read_or_verified(tmp_path: Path) -> None:
    root = token_corpus(tmp_path, {"web": numbered(1, 60, 30)}, tokens_per_shard=100)
    path = root / "tokens/web/train_00002.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    for prefetch in (0, 2):
        loader = Loader(root, **SETTINGS, prefetch=prefetch)  # type: ignore[arg-type]
        with pytest.raises(
            VerificationError,
            match="train_00002.bin: not as it was written: 198 bytes, expected 200. Fetch it again",
        ):
            list(itertools.islice(loader, 100))
        loader.close()
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(VerificationError, match="train_00002.bin"):
        Loader(root, **SETTINGS, verify=True)  # type: ignore[arg-type]
    Loader(root, **SETTINGS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 2}, "the state is of another plan: seed is 2, the state's is 0"),
        ({"sequence_length": 5}, "sequence_length is 5, the state's is 10"),
        ({"batch_size": 4}, "batch_size is 4, the state's is 8"),
        ({"weights": {"web": 1}}, "weights is {'web': 1}, the state's is None"),
    ],
)
def test_a_state_of_another_plan_is_refused(
    root: Path, change: dict[str, object], said: str
) -> None:
    state = Loader(root, **SETTINGS).state_dict()  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match=re.escape(said)):
        Loader(root, **{**SETTINGS, **change}, state=state)  # type: ignore[arg-type]


def test_states_that_are_none(root: Path, tmp_path: Path) -> None:
    other = token_corpus(tmp_path, {"web": numbered(9, 60, 30)})
    loader = Loader(root, **SETTINGS)  # type: ignore[arg-type]
    state = loader.state_dict()
    for call in (lambda: Loader(other, state=state), lambda: Loader(other, plan=loader.plan)):
        with pytest.raises(RecipeError, match="the plan is of another corpus"):
            call()
    with pytest.raises(RecipeError, match="the state is of another plan: corpus is"):
        Loader(other, **SETTINGS, state=state)  # type: ignore[arg-type]
    for key, value, said in (
        ("windows", -1, "windows = -1 is not a number of windows"),
        ("windows", 8.0, "windows = 8.0 is not a number"),
        ("format", 0, "format 0, expected 1"),
        ("format", 2, "it has format 2, and this gristmill reads format 1: update gristmill"),
        ("plan", None, "not the state of a loader"),
        (
            "plan",
            state["plan"].replace('"seed": 0', '"seed": 1'),
            "changed after it was written (not as it was written)",
        ),
    ):
        with pytest.raises(VerificationError, match=re.escape(said)):
            loader.load_state_dict({**state, key: value})
    with pytest.raises(RecipeError, match="window 7 is not the first of a step"):
        loader.load_state_dict({**state, "windows": 7})


def test_a_loader_goes_to_another_process(root: Path) -> None:
    loader = Loader(root, **SETTINGS, rank=1, world_size=2)  # type: ignore[arg-type]
    next(loader)
    other = pickle.loads(pickle.dumps(loader))
    assert rows([next(other)]) == rows([next(loader)])
    loader.close()
    other.close()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gristmill-prefetch"]


@pytest.fixture
def no_threads_left() -> Iterator[None]:
    gc.collect()
    before = threads()
    yield
    gc.collect()
    assert set(threads()) <= set(before)


@pytest.mark.usefixtures("no_threads_left")
def test_a_loader_that_nobody_uses_ends_its_thread(root: Path) -> None:
    loader = Loader(root, **SETTINGS)  # type: ignore[arg-type]
    before = threads()
    next(loader)
    assert len(set(threads()) - set(before)) == 1
    del loader


@pytest.mark.usefixtures("no_threads_left")
def test_only_a_few_blocks_wait(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plan = LoaderPlan.start(root, **SETTINGS)  # type: ignore[arg-type]
    with Loader(root, plan=plan, prefetch=2) as loader:
        block = loader._maker.block
        monkeypatch.setattr(loader._maker, "block", lambda at: made.append(at) or block(at))
        next(loader)
        loader._prefetch._thread.join(0.3)  # type: ignore[union-attr]
        assert len(made) <= 4  # one is read, two wait, one has no room


def test_numbers_that_no_run_reaches_are_refused(tmp_path: Path) -> None:
    root = token_corpus(tmp_path / "corpus", {"web": [[1, 2, 0]] * 30})
    settings = {"sequence_length": 10, "batch_size": 2}
    loader = Loader(root, **settings)
    with pytest.raises(RecipeError, match="a run has at most"):
        loader.seek_step(10**18)
    with pytest.raises(VerificationError, match="is not a number of windows"):
        loader.load_state_dict({**loader.state_dict(), "windows": 10**18})
    with pytest.raises(VerificationError, match="it has no plan"):
        Loader(root, state={**loader.state_dict(), "plan": None})
    with pytest.raises(VerificationError, match="format 'int', expected 1"):
        Loader(root, state=3)  # type: ignore[arg-type]
    for name in ("steps", "micro_batch_size"):
        with pytest.raises(RecipeError, match=f"{name} = -1: it is a number of 1 or more"):
            Loader(root, **settings, **{name: -1})
    for question in ({"step": 10**18}, {"steps": (0, 10**15)}):
        with pytest.raises(RecipeError, match="a run has at most|too many to count"):
            seen(root, loader.plan, **question)
    with pytest.raises(RecipeError, match="seconds = nan: at least 0.5"):
        bench_loader(root, 1.0, seconds=float("nan"), **settings)
