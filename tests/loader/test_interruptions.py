"""Jobs that are stopped again and again, each time with other ranks, workers, batches and threads:
the stream is the one that nobody stopped.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import TokenCorpus
from gristmill.loader import batch_maker
from gristmill.loader.batch import Batch
from gristmill.loader.loader import Loader
from gristmill.loader.plan import LoaderPlan
from tests.support import strategies
from tests.support.loader_jobs import batches_of, job, rows
from tests.support.naive_order import numbered
from tests.support.token_corpora import token_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenCorpus:
    """A corpus of three sources in many shards."""
    root: Path = token_corpus(
        tmp_path_factory.mktemp("interruptions"),
        {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90), "code": numbered(3, 30, 5)},
        tokens_per_shard=100,
    )
    return TokenCorpus.open(root)


def plan_of(corpus: TokenCorpus, data: st.DataObject) -> LoaderPlan:
    """A plan of any length and batch; of two, where a change of the mix comes in the middle."""
    size = data.draw(st.sampled_from((1, 2, 4, 6, 12, 24)))
    weights = data.draw(st.sampled_from((None, {"web": 0.6, "books": 0.4})))
    length = data.draw(st.integers(1, 30))
    plan = LoaderPlan.start(corpus, sequence_length=length, batch_size=size, weights=weights)
    if data.draw(st.booleans()):
        at = size * data.draw(st.integers(1, 6))
        plan = plan.changed(corpus, from_window=at, batch_size=12, weights={"code": 1, "web": 3})
    return plan


def check_interruptions(corpus: TokenCorpus, data: st.DataObject) -> None:
    """With blocks of any size: in which block a worker's batch is must not matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_maker, "BLOCK_BATCHES", data.draw(st.sampled_from((1, 5, 32))))
        check_stream(corpus, data)


def check_stream(corpus: TokenCorpus, data: st.DataObject) -> None:
    plan = plan_of(corpus, data)
    sizes = {segment.batch_size for segment in plan.segments}
    steps = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=5))
    with Loader(corpus, plan=plan, prefetch=0) as loader:
        whole = list(itertools.islice(loader, sum(steps)))
    pieces: list[Batch] = []
    state = None
    for count in steps:
        world = data.draw(st.sampled_from([n for n in (1, 2, 3, 4, 8) if divides(n, sizes)]))
        rank_sizes = {size // world for size in sizes}
        micro = data.draw(st.sampled_from([n for n in (1, 2, 3, 6) if divides(n, rank_sizes)]))
        # A step that a change of the plan ends is not the same for all: batches are counted anew.
        for part in parts(plan, state, count):
            found, states = job(
                corpus,
                world,
                part,
                plan=plan,
                state=state,
                workers=data.draw(st.integers(0, 3)),
                micro_batch_size=micro,
                prefetch=data.draw(st.integers(0, 4)),
                lost=data.draw(st.integers(0, 5)),
            )
            assert all(one == states[0] for one in states)
            assert all(len(batch.windows) == micro for batch in found)
            state = json.loads(json.dumps(states[0]))
            pieces += found
    assert rows(pieces) == rows(whole)
    for field in ("windows", "sources", "padding"):
        assert joined(pieces, field) == joined(whole, field)
    for field in ("documents", "starts", "lengths", "begins", "continues"):
        found, expected = ([one.segments for one in some] for some in (pieces, whole))
        assert joined(found, field) == joined(expected, field)


def divides(number: int, sizes: set[int]) -> bool:
    return all(size % number == 0 for size in sizes)


def parts(plan: LoaderPlan, state: Any, steps: int) -> list[int]:
    """Steps to go, cut where the plan changes."""
    first = plan.step_of(state["windows"]) if state else 0
    change = plan.step_of(plan.segments[-1].from_window)
    return [change - first, first + steps - change] if first < change < first + steps else [steps]


def joined(some: list[Any], field: str) -> list[int]:
    found = [getattr(one, field) for one in some]
    return [int(value) for value in np.concatenate([*found, np.empty(0)])]


@strategies.fuzz(60)
@given(st.data())
def test_fuzz_interrupted_jobs_yield_the_same_stream(
    corpus: TokenCorpus, data: st.DataObject
) -> None:
    check_interruptions(corpus, data)


@pytest.mark.soak
@strategies.fuzz(500)  # `make soak` makes 10,000 of it
@given(st.data())
def test_soak_ten_thousand_interrupted_jobs(corpus: TokenCorpus, data: st.DataObject) -> None:
    check_interruptions(corpus, data)


@strategies.fuzz(60)
@given(st.data(), st.integers(1, 4), st.sampled_from((1, 2, 3)), st.integers(0, 20))
def test_fuzz_each_worker_goes_on_where_it_was(
    corpus: TokenCorpus, data: st.DataObject, workers: int, micro: int, given_: int
) -> None:
    """As StatefulDataLoader resumes: as many workers, each after the batches that it has given."""
    plan = LoaderPlan.start(corpus, sequence_length=7, batch_size=12)
    plan = plan.changed(corpus, from_window=24, batch_size=6)
    origin = data.draw(st.integers(0, 3))
    settings: dict[str, Any] = {"plan": plan, "micro_batch_size": micro}
    with Loader(corpus, **settings, prefetch=0) as loader:
        loader.seek_step(origin)
        state = loader.state_dict()
        whole = rows(list(itertools.islice(loader, given_ + 9)))
    found = []
    shares = [Loader(corpus, **settings, state=state, prefetch=1) for _ in range(workers)]
    for number, loader in enumerate(shares):
        loader.share(number, workers, (given_ + workers - 1 - number) // workers)
    for turn in range(given_, given_ + 9):
        found.append(next(shares[turn % workers]))
    for loader in shares:
        loader.close()
    assert rows(found) == whole[given_ * micro :]


def test_a_state_is_that_before_the_step_that_was_not_finished(corpus: TokenCorpus) -> None:
    settings: dict[str, Any] = {"sequence_length": 5, "batch_size": 12, "micro_batch_size": 2}
    for workers in range(4):
        stream = batches_of(corpus, workers, None, **settings)
        windows = [state["windows"] for _, state in itertools.islice(stream, 14)]
        assert windows == [0] * 5 + [12] * 6 + [24] * 3
        stream.close()  # type: ignore[attr-defined]
