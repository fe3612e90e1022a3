"""Deduplication by settings of each language: as each language alone with its settings."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import Near, rejudge, run, verify, why
from gristmill.dedup.settings import Deduplicate
from gristmill.dedup.shard_tables import ShardTables
from gristmill.errors import RecipeError
from gristmill.network.hub.corpus_card import about
from gristmill.phases.relations.differing_languages import find_differing
from gristmill.recipe import load, parse
from gristmill.reports.page.figures import similarities
from gristmill.reports.page.tables import CorpusTables
from gristmill.store.defaults import without_defaults
from gristmill.store.manifest import decode
from tests.support.corpora import digests, jsonl
from tests.support.every_phase import phases_of
from tests.support.four_languages import ENTRIES, RECIPE, WORDS, asked, lay_out


def expected(rows: list[tuple[str, str]], entries: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    """Reason, threshold and similarity of each document, by all pairs in plain Python."""
    found: list[tuple[Any, Any, Any]] = []
    kept: list[int] = []
    exactly: dict[tuple[str, str], int] = {}
    for place, (language, text) in enumerate(rows):
        entry = entries.get(language, {})
        exact = entry is not False and entry.get("exact", True)
        near: Any = False if entry is False else entry.get("near", {"threshold": 0.8})
        if exact and (language, text) in exactly:
            found.append(("deduplicate.exact_duplicate", 1.0, 1.0))
            continue
        if exact:
            exactly[language, text] = place
        best = 0.0
        for other in kept if near else ():
            if rows[other][0] == language:
                one, two = set(text.split()), set(rows[other][1].split())
                best = max(best, len(one & two) / len(one | two))
        if near and best >= near["threshold"]:
            found.append(("deduplicate.near_duplicate", near["threshold"], best))
        else:
            kept.append(place)
            found.append((None, None, None))
    return found


def verdicts(corpus: Path) -> list[tuple[Any, Any, Any]]:
    rows = pq.read_table(corpus / "verdicts").to_pylist()
    return [(row["reason"], row["threshold"], row["similarity"]) for row in rows]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str]]]:
    """A folder with a recipe, its corpus in `corpus`, and its documents."""
    folder = tmp_path_factory.mktemp("made")
    rows = lay_out(folder)
    phases_of(folder / "recipe.toml", folder / "corpus", settings=asked(ENTRIES))
    return folder, rows


def test_each_language_has_its_settings(made: tuple[Path, list[tuple[str, str]]]) -> None:
    folder, rows = made
    want, got = expected(rows, ENTRIES), verdicts(folder / "corpus")
    for one, other in zip(want, got, strict=True):
        if one[0] == "deduplicate.exact_duplicate" != other[0]:
            # A copy of a near duplicate is one as well.
            assert other[0] == "deduplicate.near_duplicate"
        else:
            assert one == pytest.approx(other)
    verify(folder / "corpus")
    limits = {entry[1] for entry in got}
    assert limits == {None, 1.0, 0.8, 0.5, 0.95}
    by_language = {
        language: {
            verdict[0] for (other, _), verdict in zip(rows, got, strict=True) if other == language
        }
        for language in WORDS
    }
    assert "deduplicate.exact_duplicate" not in by_language["Grek"]
    assert by_language["Arab"] == {None, "deduplicate.exact_duplicate"}


def test_why_and_the_manifest_say_the_threshold(made: tuple[Path, list[tuple[str, str]]]) -> None:
    corpus, rows = made[0] / "corpus", made[1]
    dropped = next(
        place
        for place, verdict in enumerate(verdicts(corpus))
        if verdict[0] == "deduplicate.near_duplicate" and rows[place][0] == "Cyrl"
    )
    document = pq.read_table(corpus / "verdicts")["document"][dropped].as_py()
    (answer,) = why(corpus, str(document))
    assert answer["threshold"] == 0.5 and answer["measures"]["language.label"] == "Cyrl"
    stored = decode((corpus / "manifest.json").read_bytes()).recipe["deduplicate"]
    assert stored["by_language"] == {
        "Cyrl": {"near": {"threshold": 0.5}},
        "Grek": {"exact": False, "near": {"threshold": 0.95}},
        "Arab": {"near": False},
    }


def test_the_card_and_the_page_say_it(made: tuple[Path, list[tuple[str, str]]]) -> None:
    corpus = made[0] / "corpus"
    text = "\n".join(about(decode((corpus / "manifest.json").read_bytes())))
    for line in (
        "| in Cyrl | similar texts are dropped from 0.5 on |",
        "| in Grek | equal texts are kept, similar texts are dropped from 0.95 on |",
        "| in Arab | similar texts are kept |",
    ):
        assert line in text
    with CorpusTables(corpus) as tables:
        found = similarities(tables)
    assert found is not None and found.rules == []  # there is no limit of all pairs


def test_another_threshold_runs_no_step_again_and_rejudge_foretells_it(
    made: tuple[Path, list[tuple[str, str]]], tmp_path: Path
) -> None:
    folder, rows = made
    shutil.copytree(folder / "corpus", tmp_path / "corpus")
    entries = {
        "Cyrl": False,
        "Grek": {"near": {"threshold": 0.6}},
        "Arab": {"near": {"threshold": 0.7}},
    }
    recipe, corpus = folder / "recipe.toml", tmp_path / "corpus"
    foretold = rejudge(recipe, out=corpus, settings=asked(entries))
    with pytest.raises(RecipeError, match="deduplicate: measures something else"):
        rejudge(recipe, out=corpus, settings={"deduplicate.scope": '"corpus"'})
    assert foretold["unread"] == foretold["anew"] == 0
    ran = phases_of(recipe, corpus, settings=asked(entries))
    assert ran == ["deduplicate", "write_verdicts", "tokenize"]
    assert sum(verdict[0] is None for verdict in verdicts(corpus)) == foretold["kept"]["now"]
    want = [one[0] is None for one in expected(rows, entries)]
    assert want == [verdict[0] is None for verdict in verdicts(corpus)]
    assert phases_of(recipe, corpus, settings=asked(entries)) == []
    # Another number of workers, and of shards at a time, are no matter.
    run(recipe, out=tmp_path / "two", workers=2, settings=asked(entries))
    assert digests(tmp_path / "two") == digests(corpus)


@pytest.mark.parametrize("group", ["kept", "components"])
def test_a_language_is_as_if_it_were_alone(group: str, tmp_path: Path) -> None:
    rows, settings = lay_out(tmp_path, seed=1), {"deduplicate.near.group": f'"{group}"'}
    recipe = tmp_path / "recipe.toml"
    phases_of(recipe, tmp_path / "all", settings=asked(ENTRIES) | settings)
    got = verdicts(tmp_path / "all")
    for language, limit in (("Cyrl", 0.5), ("Latn", 0.8)):
        alone = tmp_path / language
        alone.mkdir()
        texts = [text for other, text in rows if other == language]
        (alone / "a.jsonl").write_bytes(jsonl([{"text": text} for text in texts]))
        plain = settings | {"deduplicate.near.threshold": str(limit)}
        (alone / "recipe.toml").write_text(RECIPE)
        phases_of(alone / "recipe.toml", alone / "corpus", settings=plain)
        own = [one for (other, _), one in zip(rows, got, strict=True) if other == language]
        assert verdicts(alone / "corpus") == own


@pytest.mark.parametrize(
    ("entries", "settings", "message"),
    [
        ({"Cyrl": False}, {"deduplicate.scope": '"corpus"'}, 'set scope = "language"'),
        ({"Cyrl": False}, {"deduplicate.scope": '"source"'}, 'set scope = "language"'),
        ({"Cyrl": {"near": {"threshold": 0.4}}}, {}, "below near.floor = 0.5: .* set near.floor"),
        ({"Cyrl": {"near": {"threshold": 1.5}}}, {}, "threshold: Expected `float` <= 1.0"),
        (
            {"Cyrl": {"near": {"threshold": 0.6}}},
            {"deduplicate.near.verify": '"none"'},
            "no similarity is measured",
        ),
        ({"Cyr": False}, {}, "by_language.Cyr: `keep` .*; did you mean 'Cyrl'"),
        ({"Cyrl": {"near": True}}, {}, "by_language.Cyrl.near: Invalid enum value True"),
        ({"Latn": False, "Cyrl": {"exact": "no"}}, {}, "by_language.Cyrl.exact: Expected `bool"),
        ({"Cyrl": {"lines": False}}, {}, "Cyrl.lines: unknown key; there are: exact, near"),
    ],
)
def test_bad_settings_are_refused(
    entries: dict[str, Any], settings: dict[str, str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    with pytest.raises(RecipeError, match=message):
        load(tmp_path / "recipe.toml", asked(entries) | settings)


def test_a_threshold_needs_near_and_keys_are_as_before_without_languages() -> None:
    text = RECIPE.replace("near =", "# near =")
    assert parse(text, "r")
    with pytest.raises(RecipeError, match=r"Cyrl.near: there is no \[deduplicate.near\]"):
        parse(text, "r", asked({"Cyrl": {"near": {"threshold": 0.9}}}))
    assert parse(text, "r", asked({"Cyrl": {"near": False}}))
    settings = Deduplicate(near=Near(), scope="language")
    assert "by_language" not in without_defaults(settings)
    assert "by_language" in without_defaults(
        Deduplicate(scope="language", by_language={"en": False})
    )


def test_a_language_may_be_looked_at_alone(tmp_path: Path) -> None:
    """`exact` only where a language asks for it."""
    rows, settings = lay_out(tmp_path), {"deduplicate.exact": "false"}
    (tmp_path / "recipe.toml").write_text(RECIPE.replace("near =", "# near ="))
    given = settings | asked({"Grek": {"exact": True}})
    phases_of(tmp_path / "recipe.toml", tmp_path / "corpus", settings=given)
    seen: set[str] = set()
    for (language, text), verdict in zip(rows, verdicts(tmp_path / "corpus"), strict=True):
        assert (verdict[0] is not None) == (language == "Grek" and text in seen)
        seen.add(text)


def test_labels_are_read_from_measures(tmp_path: Path) -> None:
    """Codes mean labels, documents come in any order of languages, and a label may be missing."""
    labels = ["fra_Latn", None, "deu_Latn", "fra_Latn", "rus_Cyrl", "fra_Latn", "deu_Latn"]
    table = pa.table({"document": np.arange(7), "language.label": pa.array(labels)})
    pq.write_table(table, tmp_path / "m.parquet", row_group_size=3)
    shard = ShardTables(tmp_path / "s", tmp_path / "d", 0, tmp_path / "m.parquet")
    settings = msgspec.convert(
        {
            "scope": "language",
            "near": {},
            "by_language": {"fr": {"near": {"threshold": 0.9}}, "deu_Latn": False, "ru": {}},
        },
        Deduplicate,
    )
    found = find_differing(settings, [shard])
    assert [column.tolist() for column in found] == [[2, 6], [2, 6], [0, 3, 5], [0.9] * 3]
    assert found.thresholds_of(np.array([5, 1, 4]), 0.8).tolist() == [0.9, 0.8, 0.8]  # type: ignore[union-attr]
    none = table.drop_columns("language.label")
    pq.write_table(none, tmp_path / "m.parquet")
    with pytest.raises(RecipeError, match="no step measured 'language.label'"):
        find_differing(settings, [shard])
