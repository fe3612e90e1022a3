"""What names mean, as `gristmill explain` says."""

import json
import subprocess

import pytest

import gristmill
from gristmill import RecipeError
from gristmill.reports.documents.meanings import lines
from tests.support.command import command_line


def names(asked: str) -> list[str]:
    return [one["name"] for one in gristmill.explain(asked)]


def test_a_key_a_table_a_filter() -> None:
    (key,) = gristmill.explain("tokens.validation")
    assert (key["what"], key["type"], key["default"]) == ("key", "number", "0.0005")
    assert "deduplicate.near.bands" in names("deduplicate.near") == names("[deduplicate.near]")
    assert "simple.min_words" in names("simple")
    assert names("step.simple.min_words") == ["simple.min_words"]
    assert "seed" in names("seed")
    assert "default 0.0005" in lines([key])[0]


def test_reasons_and_measures() -> None:
    (reason,) = gristmill.explain("gopher.short_doc")
    assert reason["what"] == "reason" and "min_words" in reason["meaning"]
    assert [one["what"] for one in gristmill.explain("read.truncated")] == ["reason"]
    assert [one["name"] for one in gristmill.explain("repetition.top_3_gram")] == [
        "repetition.top_N_gram"
    ]
    rules = {one["rules"] for one in gristmill.explain("gopher.min_words")}
    assert rules == {'"lab"', '"datatrove-0.10" or "datatrove-0.2"'}


def test_formats() -> None:
    both = gristmill.explain("parquet")
    assert [one["what"] for one in both] == ["source format", "output format"]
    assert both[0]["meaning"] == "Recognised by: `PAR1`. A row is a row of the table."
    (tokens,) = gristmill.explain("llmc")
    assert "end of text before a document" in tokens["meaning"]


@pytest.mark.parametrize("wrong", ["", "tokens.validaton", "gopher.", "nothing", "a.b.c", "."])
def test_a_name_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(RecipeError, match="no key, filter, reason or measure of that name"):
        gristmill.explain(wrong)


def test_the_verb() -> None:
    said = subprocess.run(
        command_line("explain", "tokens.validation", "--json"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(said.stdout)[0]["name"] == "tokens.validation"
    wrong = subprocess.run(
        command_line("explain", "tokens.validaton"), capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2 and "did you mean 'tokens.validation'?" in wrong.stderr
