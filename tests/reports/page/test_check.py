"""`gristmill check`: each figure is named where it is unusual, and only there."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gristmill
from gristmill.cli.app import app
from tests.support.table_corpora import table_corpus

USUAL = {"shards_made": 4, "hosts_made": 40, "copies": (3, 2, 1)}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "steps": ({"shares": (0.03, 0.47, 0.47, 0.02, 0.01)}, "gopher drops 9"),
    "silent": ({"shares": (0.8, 0.1, 0.1, 0.0, 0.0)}, "language drops none of 2,000"),
    "kept": ({"shares": (0.004, 0.4, 0.3, 0.2, 0.096)}, "of 2,000 documents are kept"),
    "sources": ({"shares": (0.0, 0.4, 0.3, 0.2, 0.1)}, "and none is kept"),
    "duplicates": ({"copies": (400,)}, "one cluster has 401 of"),
    "hosts": ({"hosts_made": 2}, "of the kept documents are from host"),
    "languages": ({"shares": (0.1, 0.05, 0.05, 0.75, 0.05)}, "in other languages than en"),
    "lines": (
        {"characters": 100, "lines": {"characters": 900, "listed": 2, "cut": 9, "documents": 5}},
        "90.0% of the characters",
    ),
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_corpus(tmp_path_factory.mktemp("check") / "corpus", 500, **USUAL)


@pytest.mark.parametrize("name", CASES)
def test_a_figure_is_named_where_it_is_unusual(name: str, usual: Path, tmp_path: Path) -> None:
    changed, words = CASES[name]
    found = gristmill.check(table_corpus(tmp_path / "corpus", 500, **{**USUAL, **changed}))
    named = [one for one in found["findings"] if words in one["figure"]]
    assert named, found["findings"]
    assert all(one["usual"] and one["why"] for one in named)
    assert all(one["command"].startswith("gristmill ") for one in named)
    before = gristmill.check(usual)["findings"]
    assert not any(words in one["figure"] for one in before), before


def test_exit_codes(tmp_path: Path) -> None:
    odd = table_corpus(tmp_path / "odd", 500, **{**USUAL, "hosts_made": 2})
    for options, code in (([], 0), (["--strict"], 1)):
        done = CliRunner().invoke(app, ["check", str(odd), "--json", *options])
        assert done.exit_code == code
        assert json.loads(done.stdout)["findings"]
