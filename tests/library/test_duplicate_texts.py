"""`gristmill.deduplicate` and `gristmill.MinHash`: the result of a run, from memory."""

import doctest
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill.errors import ArgumentError
from gristmill.library import duplicate_texts
from gristmill.tables.columns import view_rows
from tests.support.corpora import article, jsonl


def texts(count: int) -> list[str | None]:
    """Articles, some of them copied, some with a few words changed."""
    pick = random.Random(7)
    found: list[str | None] = [article(f"memory {number}", 6) for number in range(count)]
    for _ in range(count // 2):
        words = str(pick.choice(found)).split(" ")
        if exact := pick.random() < 0.3:
            words = [f"\u200b{word}" for word in words]  # invisible
        words[pick.randrange(len(words))] += "" if exact else f"x{pick.random()}"
        found.append(" ".join(words))
    pick.shuffle(found)
    return [*found, None, "!!!"]  # an empty text is `read.empty` in a run


@pytest.fixture(scope="module")
def given() -> list[str | None]:
    return texts(120)


def test_it_is_what_a_run_finds(given: list[str | None], tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(jsonl([{"text": text} for text in given]))
    (tmp_path / "recipe.toml").write_text(
        'output = "corpus"\n[[source]]\nname = "web"\nfiles = ["rows.jsonl"]\n[deduplicate]\n'
        "near = {}\n"
    )
    gristmill.run(tmp_path / "recipe.toml", workers=1)
    verdicts = pq.read_table(tmp_path / "corpus/verdicts/00000.parquet")
    found = gristmill.deduplicate(given)
    for name in ("reason", "keeper", "similarity"):
        assert found[name].to_pylist() == verdicts[name].to_pylist()
    reasons = set(found["reason"].to_pylist())
    assert {"deduplicate.near_duplicate", "deduplicate.exact_duplicate", None} <= reasons
    signed = pq.read_table(tmp_path / "corpus/signatures/00000.parquet")
    rows = gristmill.MinHash()(given)[signed["document"].to_numpy()]
    whole = signed["signature"].combine_chunks()
    known = whole.is_valid().to_numpy(zero_copy_only=False)
    assert np.array_equal(rows[known], view_rows(whole.drop_null(), np.uint32))
    assert (rows[~known] == 0xFFFFFFFF).all()


def test_what_is_given() -> None:
    table = pa.table({"text": ["a", "b", "c"], "url": ["http://h/1", "http://h/2", "http://h/1"]})
    found = gristmill.deduplicate(table, url=True, near=False)
    assert found["reason"].to_pylist() == [None, None, "deduplicate.same_url"]
    longest = gristmill.deduplicate(["one two", "one  two!", "three"], keep="longest")
    assert longest["keeper"].to_pylist() == [1, None, None]
    for nothing in ([], [None]):
        assert gristmill.deduplicate(nothing)["keeper"].to_pylist() == [None] * len(nothing)
    assert gristmill.MinHash({"bands": 2, "rows": 3})([]).shape == (0, 6)
    assert len(gristmill.deduplicate(["a", "a"], exact=False, near=None).drop_null()) == 0
    for bad, message in (
        ({"keep": "last"}, "'first' or 'longest'"),
        ({"near": {"bands": 0}}, "bands and rows must be at least 1"),
        ({"near": {"bnads": 1}}, "bnads"),
        ({"near": 5}, "near"),
    ):
        with pytest.raises(ArgumentError, match=message):
            gristmill.deduplicate(["a"], **bad)
    with pytest.raises(ArgumentError, match="a int was given"):
        gristmill.deduplicate(5)


def test_it_works_in_threads(given: list[str | None]) -> None:
    once = gristmill.deduplicate(given, threads=1)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: gristmill.deduplicate(given, threads=2), range(2)):
            assert found.equals(once)
    assert threading.active_count() < 20


def test_the_examples_are_true() -> None:
    assert doctest.testmod(duplicate_texts).failed == 0
    assert doctest.testmod(duplicate_texts).attempted
