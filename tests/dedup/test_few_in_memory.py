"""What is found in memory where there is little: the same that the relations find."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.dedup import equal_hashes, exact
from gristmill.dedup.exact import ExactDuplicates
from gristmill.dedup.near import keeper_rounds
from gristmill.dedup.near.candidates import LIKELY
from gristmill.dedup.near.keeper_rounds import few_pairs
from gristmill.dedup.shard_tables import ShardTables
from gristmill.engine.relations import Relations, duckdb_with
from gristmill.tables.columns import fixed_binary


def relations(folder: Path) -> Callable[[], Relations]:
    return partial(duckdb_with(1, 200), folder / "spill", [folder])


@pytest.mark.parametrize("kinds", [1, 3, 40, 10**6])
def test_equal_texts(tmp_path: Path, kinds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = np.random.default_rng(kinds)
    tables, documents = [], np.empty(0, np.int64)
    for shard, (rows, scope) in enumerate([(40, 0), (0, 0), (60, 0), (50, 1)]):
        path = tmp_path / f"{shard}.parquet"
        own = np.int64(shard << 32) + np.arange(rows) * 3
        # The halves of a hash are chosen apart: one may be equal without the other.
        hashes = fixed_binary(chosen.integers(0, kinds, (rows, 2)).astype(np.uint64))
        pq.write_table(pa.table({"document": own, "text_hash": hashes}), path, row_group_size=17)
        tables.append(ShardTables(path, path, scope))
        documents = np.concatenate([documents, own])
    for dropped in (np.empty(0, np.int64), documents[::7], documents):
        found = []
        for few in (equal_hashes.FEW, 149):  # one less than there are
            monkeypatch.setattr(equal_hashes, "FEW", few)
            equal = ExactDuplicates(relations(tmp_path), tables, [], tmp_path)
            found.append(equal.find("exact", dropped))
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(found[0].documents) > 0 or kinds == 10**6 or len(dropped) == len(documents)


def test_more_are_found_by_a_relation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.parquet"
    hashes = fixed_binary(np.zeros((2, 2), np.uint64))
    pq.write_table(pa.table({"document": [0, 1], "text_hash": hashes}), path)
    asked = []

    def refuse(*_: object) -> None:
        asked.append(1)
        raise KeyError

    equal = ExactDuplicates(refuse, [ShardTables(path, path, 0)], [], tmp_path)  # type: ignore[arg-type]
    assert equal.find("exact", np.empty(0, np.int64)).keepers.tolist() == [0]
    monkeypatch.setattr(exact, "are_few", lambda _: False)
    with pytest.raises(KeyError):
        equal.find("exact", np.empty(0, np.int64))
    assert asked == [1]


@pytest.mark.parametrize("earlier", [0, 1, 2])
def test_pairs_of_a_round(tmp_path: Path, earlier: int) -> None:
    chosen, size = np.random.default_rng(earlier), 30

    def write(name: str, pairs: np.ndarray, similarities: np.ndarray) -> Path:
        path = tmp_path / name
        columns = [pairs // size, pairs % size, similarities]
        pq.write_table(pa.table(columns, schema=LIKELY), path)
        return path

    found = [
        write(f"found-{place}", chosen.integers(0, size * size, 200), np.full(200, np.nan))
        for place in range(3)
    ]
    known = np.sort(chosen.permutation(size * size)[:300])
    compared = [
        write(f"compared-{place}", part, chosen.random(len(part)))
        for place, part in enumerate(np.split(known, [150]))
    ][:earlier]
    if not compared:
        empty = write("none", known[:0], np.empty(0))
    with relations(tmp_path)() as connection:
        connection.table("found", found, "document, candidate, similarity")
        connection.table("compared", compared or [empty], "document, candidate, similarity")
        (written,) = connection.write("keeper_pairs", tmp_path / "written.parquet")
    (expected,) = [keeper_rounds.chunks_of(written)]
    for one, other in zip(few_pairs(found, compared, size), next(expected), strict=True):
        np.testing.assert_array_equal(one, other)
