"""The differences between two corpora that differ in everything."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import diff, report, run
from gristmill.reports.diff import _tree, lines
from tests.support.corpora import jsonl, pages
from tests.support.strategies import fuzz
from tests.support.token_corpora import token_corpus

ONE = """
[[source]]
name = "w"
files = ["a.jsonl"]
[[step]]
use = "gopher"
[[step]]
use = "c4"
"""
OTHER = """
seed = 3
[[source]]
name = "w"
files = ["a.jsonl", "b.jsonl"]
[[source]]
name = "x"
files = ["c.jsonl"]
[[step]]
use = "gopher"
min_words = 20
[deduplicate]
exact = true
"""


def made(folder: Path, recipe: str) -> Path:
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.jsonl").write_bytes(jsonl(pages(8, f"{folder.name}{name}")))
    (folder / "recipe.toml").write_text(recipe)
    run(folder / "recipe.toml", out=folder / "corpus", cache_dir=folder / "cache")
    return folder / "corpus"


def test_lists_of_other_lengths_are_compared() -> None:
    assert _tree([1, 2], [1]) == {"(order)": [["0", "1"], ["0"]], "1": [2, None]}
    one = [{"name": "a", "x": 1}, {"name": "b"}]
    other = [{"name": "b"}, {"name": "a", "x": 2}, {"name": "a"}]
    assert _tree(one, other, "p") == {
        "p.(order)": [["a", "b"], ["b", "a", "a#2"]],
        "p.a.x": [1, 2],
        "p.a#2": [None, {"name": "a"}],
    }
    assert _tree([[1, [2]]], [[1, [2, 3]], 4])["0.1.1"] == [None, 3]


JSON = st.recursive(
    st.integers(0, 3) | st.sampled_from(["a", "(order)"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "use", "(order)", "b"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@fuzz(200)
@given(JSON, JSON)
def test_any_two_values_are_compared(one: object, other: object) -> None:
    assert (_tree(one, other) == {}) == (one == other)


@pytest.mark.parametrize("verb", ["diff", "report"])
def test_verbs_of_two_corpora_take_any_two(tmp_path: Path, verb: str) -> None:
    one, other = made(tmp_path / "one", ONE), made(tmp_path / "other", OTHER)
    imported = token_corpus(tmp_path / "tokens", {"web": [[1, 2, 3]]})
    for a, b in ((one, other), (other, one), (one, imported), (imported, other)):
        if verb == "diff":
            found = diff(a, b)
            assert not found["equal"]
            assert found["recipe"]
            assert lines(found)
        else:
            assert report(a, b, out=tmp_path / "page.html")["bytes"] > 0
            (tmp_path / "page.html").unlink()
