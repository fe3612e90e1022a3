"""Runs of tokens and their documents against the twins, over shards of any form."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.loading.runs import DONE, Runs, Shards, find_spans, gather
from tests.support import naive_loading, strategies


class World:
    """Shards in memory, as kernels read them."""

    def __init__(self, shards: list[naive_loading.Shard], dtype: type) -> None:
        self.tokens = [np.array(tokens, dtype) for tokens, _, _ in shards]
        self.tables = [np.array([*documents, *ends], np.int64) for _, documents, ends in shards]
        self.dtype = dtype
        self.shards = Shards(
            np.cumsum([0, *map(len, self.tokens)]).astype(np.int64),
            np.zeros(len(shards), np.int64),
            np.zeros(len(shards), np.int64),
            np.array([len(documents) for _, documents, _ in shards], np.int64),
        )

    def map(self, shard: int) -> None:
        assert self.shards.tokens[shard] == 0
        self.shards.tokens[shard] = self.tokens[shard].ctypes.data
        self.shards.documents[shard] = self.tables[shard].ctypes.data


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[naive_loading.Shard], list[naive_loading.Run]]:
    """Shards whose documents run on over seams, some of no tokens; runs within them."""
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=25))
    owner = [document for document, length in enumerate(lengths) for _ in range(length)]
    if not owner:
        owner = [0]
        lengths[0] = 1
    cuts = sorted({0, len(owner), *draw(st.lists(st.integers(1, len(owner)), max_size=4))})
    shards: list[naive_loading.Shard] = []
    for low, high in itertools.pairwise(cuts):
        documents, ends = [], []
        for at in range(low, high):
            if not documents or documents[-1] != owner[at]:
                # Documents of no tokens, which stand between others.
                last = documents[-1] if documents else owner[at] - 1
                for empty in range(last + 1, owner[at]):
                    documents.append(empty)
                    ends.append(at - low)
                documents.append(owner[at])
                ends.append(at - low)
            ends[-1] = at - low + 1
        shards.append((list(range(low, high)), documents, ends))
    runs = []
    for row in range(draw(st.integers(0, 4))):
        column = 0
        for _ in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(owner) - 1))
            length = draw(st.integers(1, min(len(owner) - start, 20)))
            runs.append((row, column, start, length))
            column += length
    return shards, runs


def as_runs(runs: list[naive_loading.Run]) -> Runs:
    columns = np.array(runs, np.int64).reshape(-1, 4).T
    return Runs(*(np.ascontiguousarray(column) for column in columns))


@strategies.fuzz(300)
@given(worlds(), st.sampled_from((np.uint16, np.uint32)))
def test_fuzz_gather(
    drawn: tuple[list[naive_loading.Shard], list[naive_loading.Run]], dtype: type
) -> None:
    shards, runs = drawn
    world = World(shards, dtype)
    out = np.full((4, 61), 7, dtype)
    while (missing := gather(world.shards, as_runs(runs), out)) != DONE:
        world.map(missing)
    expected = [[7] * 61 for _ in range(4)]
    naive_loading.gather(shards, runs, expected)
    assert out.tolist() == expected


@strategies.fuzz(500)
@given(worlds())
def test_fuzz_find_spans(drawn: tuple[list[naive_loading.Shard], list[naive_loading.Run]]) -> None:
    shards, runs = drawn
    world = World(shards, np.uint16)
    while (found := find_spans(world.shards, as_runs(runs)))[0] != DONE:
        world.map(found[0])
    assert found[1] == DONE
    got = list(zip(*(field.tolist() for field in found[2]), strict=True))
    assert got == naive_loading.find_spans(shards, runs)


def test_a_table_that_ends_before_its_tokens_is_named() -> None:
    world = World([([1, 2, 3], [0], [3]), ([4, 5, 6], [1], [2])], np.uint16)
    world.map(0)
    world.map(1)
    missing, broken, _ = find_spans(world.shards, as_runs([(0, 0, 1, 5)]))
    assert (missing, broken) == (DONE, 1)


@pytest.mark.parametrize("documents", [1, 500])
def test_spans_of_any_number(documents: int) -> None:
    """More than the first guess of their number."""
    ends = list(range(1, documents + 1))
    world = World([(ends, ends, ends)], np.uint16)
    world.map(0)
    *_, spans = find_spans(world.shards, as_runs([(0, 0, 0, documents)]))
    assert spans.documents.tolist() == ends
