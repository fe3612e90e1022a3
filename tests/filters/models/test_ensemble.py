"""Ensembles: combined scores and buckets, as sorting everything in one list gives them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.engine.relations import duckdb_with
from gristmill.errors import RecipeError
from gristmill.filters.models.ensemble import Ensemble
from gristmill.recipe import parse


class Given:
    """A raw shard's documents and what was measured of them."""

    def __init__(self, number: int, rows: list[tuple[float | None, float | None]]) -> None:
        self.documents = (number << 32) + np.arange(len(rows))
        self.columns = {
            f"scores.{name}": np.array([np.nan if r[at] is None else r[at] for r in rows], float)
            for at, name in enumerate("ab")
        }

    def measure(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        known = ~np.isnan(self.columns[name])
        return self.documents[known], self.columns[name][known]

    def rows(self, table: str) -> Iterator[pa.RecordBatch]:
        raise AssertionError(table)


def asked(step: Ensemble, shards: list[Given], work: Path) -> tuple[list[dict[str, Any]], Any]:
    (rule,) = step.corpus_rules
    opener = partial(duckdb_with(1, 200), work / "spill", [work])
    answer = rule.ask(shards, {}, opener, work)
    rows = [
        row for _, path in sorted(answer.tables.items()) for row in pq.read_table(path).to_pylist()
    ]
    return rows, answer


def naive(step: Ensemble, shards: list[Given]) -> list[tuple[int, float, int]]:
    """The same, with everything in one list."""
    every: dict[int, dict[str, float]] = {}
    for shard in shards:
        for name in step.scores:
            for document, value in zip(*shard.measure(name), strict=True):
                signed = -value if name in step.reverse else value
                every.setdefault(int(document), {})[name] = float(signed)
    of = {name: [row[name] for row in every.values() if name in row] for name in step.scores}

    def lower(values: list[float], value: float) -> int:
        return sum(other < value for other in values)

    scores = {}
    for document, row in sorted(every.items()):
        ranks = []
        for name in (name for name in step.scores if name in row):
            below, n = lower(of[name], row[name]), len(of[name])
            if step.combine == "rank_mean":
                ranks.append((below + below + of[name].count(row[name])) / (2 * n))
            elif step.combine == "bucket_max":
                ranks.append(below * step.buckets // n)
            else:
                ranks.append(row[name])
        best = step.combine in ("max", "bucket_max")
        scores[document] = max(ranks) if best else sum(ranks) / len(ranks)
    found = []
    for document, score in scores.items():
        bucket = lower(list(scores.values()), score) * step.buckets // len(scores)
        found.append((document, score, int(score) if step.combine == "bucket_max" else bucket))
    return found


value = st.one_of(st.none(), st.integers(-3, 3).map(float), st.floats(-2, 2))
shard = st.lists(st.tuples(value, value), max_size=12)


@settings(max_examples=10, deadline=None)
@given(
    rows=st.lists(shard, min_size=1, max_size=3),
    combine=st.sampled_from(["max", "mean", "rank_mean", "bucket_max"]),
    buckets=st.integers(1, 7),
    low=st.integers(0, 6),
    reverse=st.sampled_from([[], ["scores.b"]]),
)
def test_as_one_list_sorted(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[tuple[float | None, float | None]]],
    combine: str,
    buckets: int,
    low: int,
    reverse: list[str],
) -> None:
    shards = [Given(number, members) for number, members in enumerate(rows)]
    table = {
        "scores": ["scores.a", "scores.b"],
        "combine": combine,
        "buckets": buckets,
        "min_bucket": min(low, buckets - 1),
        "reverse": reverse,
    }
    step = msgspec.convert(table, Ensemble)
    found, answer = asked(step, shards, tmp_path_factory.mktemp("ask").resolve())
    expected = naive(step, shards)
    assert [(row["document"], row["bucket"]) for row in found] == [(d, b) for d, _, b in expected]
    np.testing.assert_allclose([row["score"] for row in found], [s for _, s, _ in expected], 1e-12)
    dropped = [document for document, _, bucket in expected if bucket < step.min_bucket]
    assert answer.documents.tolist() == dropped
    assert answer.report["documents"] == len(expected)
    assert sum(answer.report["buckets"]) == len(expected)


RECIPE = """
[[source]]
name = "web"
files = ["x"]
[[step]]
use = "{first}"
[[step]]
use = "ensemble"
scores = [{scores}]
"""


def test_parameters_that_are_none() -> None:
    for table, message in (
        ({"scores": ["edu"]}, "no measure of another step"),
        ({"scores": ["ensemble.score"]}, "no measure of another step"),
        ({"scores": ["a.b", "a.b"]}, "named twice"),
        ({"scores": ["a.b"], "reverse": ["a.c"]}, "reverse names 'a.c'"),
        ({"scores": ["a.b"], "buckets": 3, "min_bucket": 3}, "it would drop all"),
        ({"scores": []}, "length >= 1"),
    ):
        with pytest.raises(msgspec.ValidationError, match=message):
            msgspec.convert(table, Ensemble)
    parse(RECIPE.format(first="gopher", scores='"gopher.words"'), "r")
    with pytest.raises(RecipeError, match="no step before it is called 'classifier'"):
        parse(RECIPE.format(first="gopher", scores='"classifier.score"'), "r")


def test_a_measure_that_is_not_there(tmp_path: Path) -> None:
    step = msgspec.convert({"scores": ["scores.c"]}, Ensemble)
    with pytest.raises(RecipeError, match="'scores.c' is no number that a step measures"):
        asked(step, [Given(0, [(1.0, 2.0)])], tmp_path.resolve())
