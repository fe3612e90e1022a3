"""`[languages]`: parameters by language from files, in the recipe that is stored; a run judges and
deduplicates each language on its own.
"""

import json
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from gristmill import Funnel, rejudge, run, verify, why
from gristmill.errors import RecipeError
from gristmill.recipe import PRESETS, Recipe, for_files, load, make_step, packaged, parse, stored
from gristmill.store.manifest import decode
from tests.support.corpora import digests, jsonl
from tests.support.every_phase import phases_of

RECIPE = """
[languages]
parameters = "languages"
missing = "drop"
[[source]]
name = "web"
files = ["*.jsonl"]
[[step]]
use = "language"
rules = "script"
keep = ["Latn", "Cyrl", "Grek"]
[[step]]
use = "gopher"
rules = "datatrove-0.10"
min_words = 3
min_word_length = 1.0
min_stop_words = 1
[deduplicate]
near = { shingle = 2, bands = 8, rows = 2, verify = "text" }
scope = "language"
"""
LATIN, CYRILLIC, GREEK = "Latn", "Cyrl", "Grek"
CODE = " ".join(f"{number} = {number * 7}" for number in range(40))  # no letter
TEXTS = {
    "latin": f"the mill {CODE}",
    "cyrillic": f"в реке {CODE}",
    "again": f"the mill {CODE} 5",
    "stopless": "мельница стоит давно",
    "few": "the mill",
    "greek": "ο μύλος και η γη",
}


def lay_out(folder: Path, recipe: str = RECIPE) -> Path:
    (folder / "languages").mkdir(parents=True)
    (folder / "languages/Cyrl.toml").write_text(
        '[language]\nmin_score = 0.5\n[gopher]\nstop_words = ["в"]\nmin_letter_words = 0.0\n'
    )
    (folder / "languages/Latn.toml").write_text("gopher.min_letter_words = 0.01\n")
    rows = [{"url": f"https://{name}.example/", "text": text} for name, text in TEXTS.items()]
    (folder / "a.jsonl").write_bytes(jsonl(rows))
    (folder / "recipe.toml").write_text(recipe)
    return folder / "recipe.toml"


def reasons(corpus: Path) -> dict[str, str | None]:
    table = pq.read_table(corpus / "verdicts").to_pylist()
    names = list(TEXTS)
    return {names[row["document"]]: row["reason"] for row in table}


def test_each_language_is_judged_and_deduplicated_on_its_own(tmp_path: Path) -> None:
    recipe, corpus = lay_out(tmp_path), tmp_path / "c"
    run(recipe, out=corpus, workers=1)
    verify(corpus)
    expected = {
        "latin": None,
        "cyrillic": None,  # most of its shingles are those of `latin`
        "again": "deduplicate.near_duplicate",
        "stopless": "gopher.enough_stop_words",
        "few": "gopher.short_doc",
        "greek": "language.other",  # no parameters: missing = "drop"
    }
    assert reasons(corpus) == expected
    told = decode((corpus / "manifest.json").read_bytes()).recipe
    assert "languages" not in told
    assert told["step"][1]["by_language"][CYRILLIC]["stop_words"] == ["в"]
    assert told["step"][0]["min_score"] == {CYRILLIC: 0.5, LATIN: 0.65}
    whole = {"deduplicate.scope": '"corpus"'}
    run(recipe, out=tmp_path / "one", workers=1, settings=whole)
    assert reasons(tmp_path / "one")["cyrillic"] == "deduplicate.near_duplicate"
    # Thresholds of one language move without a text being read.
    (tmp_path / "languages/Latn.toml").write_text("gopher.min_letter_words = 0.5\n")
    assert rejudge(recipe, out=corpus)["unread"] == 0
    run(recipe, out=corpus, workers=1)
    assert reasons(corpus)["latin"] == "gopher.below_alpha_threshold"
    (answer,) = why(corpus, "0:0")
    assert answer["threshold"] == 0.5 and answer["measures"]["gopher.language"] == LATIN
    run(recipe, out=tmp_path / "fresh", workers=1)
    assert digests(corpus) == digests(tmp_path / "fresh")


def test_languages_without_parameters(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    with pytest.raises(RecipeError, match="no parameters for Grek, which `keep`"):
        load(recipe, {"languages.missing": "refuse"})
    others = load(recipe, {"languages.missing": "defaults"}).recipe
    assert others.step[0]["keep"] == [LATIN, CYRILLIC, GREEK]
    every = {"languages.missing": "defaults", "step.0.keep": '"all"'}
    assert load(recipe, every).recipe.step[0]["min_score"] == {CYRILLIC: 0.5, "all": 0.65}
    with pytest.raises(RecipeError, match="list the languages"):
        load(recipe, every | {"languages.missing": "refuse"})
    with pytest.raises(RecipeError, match=r"none of the languages that `keep` names \(Grek\)"):
        load(recipe, {"step.0.keep": '["Grek"]'})


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("Latn.toml", "goper.min_words = 1", r"Latn: 'goper' is no step.*gopher"),
        ("Latn.toml", "gopher.min_word = 1", "step.1.: Latn: gopher: no parameter .min_word"),
        ("Latn.toml", "gopher = 3", "Latn.gopher: expected a table of parameters or false, got 3"),
        ("Latn.toml", "language.keep = ['x']", "only min_score can differ"),
        ("Latn.toml", "a = [", "not valid TOML"),
    ],
)
def test_bad_parameters_are_refused(tmp_path: Path, file: str, text: str, message: str) -> None:
    recipe = lay_out(tmp_path)
    (tmp_path / "languages" / file).write_text(text)
    with pytest.raises(RecipeError, match=message):
        load(recipe)


def test_bad_places_are_refused(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    (tmp_path / "none").mkdir()
    for place, message in (
        ("none", "holds no .toml file"),
        ("nowhere", "No such file"),
        ("preset:nothing", "no languages 'nothing' comes with"),
    ):
        with pytest.raises(RecipeError, match=message):
            load(recipe, {"languages.parameters": place})
    with pytest.raises(RecipeError, match=r"languages.missing: Invalid enum value"):
        load(recipe, {"languages.missing": "keep"})
    swapped = RECIPE.replace('use = "language"\nrules = "script"', "USE").replace(
        'keep = ["Latn", "Cyrl", "Grek"]\n', ""
    )
    with pytest.raises(RecipeError, match=r'needs a \[\[step\]\] with use = "language"'):
        parse(swapped.replace("[[step]]\nUSE\n", ""), "r", folder=tmp_path)
    with pytest.raises(RecipeError, match="no step before it is 'scores'"):
        load(recipe, {"languages.language_of": "scores.language"})
    with pytest.raises(RecipeError, match="lines and substrings are compared"):
        load(recipe, {"deduplicate.lines": "{most = 2}"})


def test_a_language_that_no_step_keeps_is_refused(tmp_path: Path) -> None:
    """A step with settings for it would use them for no document."""
    text = RECIPE.replace('[languages]\nparameters = "languages"\nmissing = "drop"\n', "")

    def with_entry(label: str, *lines: str) -> str:
        entry = f"by_language = {{ {label} = {{ min_words = 7 }} }}"
        return text.replace('use = "gopher"', "\n".join(('use = "gopher"', entry, *lines)))

    with pytest.raises(RecipeError, match=r"step\[1\].by_language.Cyr: .*did you mean 'Cyrl'"):
        parse(with_entry("Cyr"), "r", folder=tmp_path)
    parse(with_entry("Cyrl"), "r", folder=tmp_path)
    parse(with_entry("Cyr", 'language_of = "language.script"'), "r", folder=tmp_path)


def test_deduplication_from_files(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    with open(tmp_path / "languages/Cyrl.toml", "a") as file:
        file.write("[deduplicate]\nexact = false\nnear.threshold = 0.9\n")
    with open(tmp_path / "languages/Latn.toml", "a") as file:
        file.write("deduplicate = false\n")
    found = load(recipe).recipe.deduplicate
    assert found is not None
    assert msgspec.to_builtins(found.by_language) == {
        CYRILLIC: {"exact": False, "near": {"threshold": 0.9}},
        LATIN: False,
    }
    phases_of(recipe, tmp_path / "c")
    assert reasons(tmp_path / "c")["again"] is None
    own = {"deduplicate.by_language.Latn.near.threshold": "0.75"}
    assert list(load(recipe, own).recipe.deduplicate.by_language) == [LATIN]  # type: ignore[union-attr,arg-type]
    for settings, message in (
        ({"deduplicate.scope": '"corpus"'}, 'deduplicate: by_language: .*set scope = "language"'),
        ({"languages.language_of": "scores.x"}, "documents are compared within language.label"),
    ):
        with pytest.raises(RecipeError, match=message):
            load(recipe, settings)
    text = RECIPE[: RECIPE.index("[deduplicate]")]
    with pytest.raises(RecipeError, match=r"Latn.deduplicate: the recipe has no \[deduplicate\]"):
        parse(text, "r", folder=tmp_path)


def test_documents_judged_by_the_defaults_are_counted(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path, RECIPE.replace('["Latn", "Cyrl", "Grek"]', '"all"'))
    with open(tmp_path / "b.jsonl", "wb") as file:
        file.write(
            jsonl([{"text": text} for text in ("1 2 3", "η γη", "هذه طاحونة قديمة", "", CODE)])
        )
    given = {"languages.missing": "defaults"}
    phases_of(recipe, tmp_path / "c", settings=given)
    funnel = decode((tmp_path / "c/manifest.json").read_bytes()).funnel
    language, gopher = (
        next(step for step in funnel["steps"] if step["step"] == name)
        for name in ("language", "gopher")
    )
    assert "defaults" not in language
    # By plain counting: Greek is in both shards. A text without a letter has no label; the empty
    # one, which the reader drops, is not judged.
    table = pq.read_table(tmp_path / "c/measures").to_pylist()
    plain: dict[str, int] = {}
    for row in table:
        label = row["gopher.language"] or "no label"
        if row["gopher.words"] is not None and label not in (LATIN, CYRILLIC):
            plain[label] = plain.get(label, 0) + 1
    assert gopher["defaults"] == plain == {GREEK: 2, "Arab": 1}
    shown = [line for line in Funnel(funnel).lines() if "judged by the defaults" in line]
    assert [line.split() for line in shown] == [
        "judged by the defaults 3 of languages without parameters: Grek 2, Arab 1".split()
    ]
    # Also with measures of what was dropped before, which was not judged.
    phases_of(recipe, tmp_path / "d", settings=given | {"measure": '"all"'})
    again = decode((tmp_path / "d/manifest.json").read_bytes()).funnel
    assert again["steps"] == funnel["steps"]
    # Nothing is said where every language has parameters.
    phases_of(recipe, tmp_path / "e", settings={"step.0.keep": '["Latn", "Cyrl"]'})
    third = decode((tmp_path / "e/manifest.json").read_bytes()).funnel
    assert third["steps"][2]["defaults"] == {}
    assert not any("defaults" in line for line in Funnel(third).lines())


def test_one_file_for_all_and_labels_as_keep_spells_them(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    (tmp_path / "all.toml").write_text("fra_Latn.gopher.min_words = 7\n")
    text = recipe.read_text().replace('rules = "script"\n', "").replace('"languages"', '"all.toml"')
    for wanted in ("fr", "fra", "fra_Latn"):
        made = parse(
            text.replace('["Latn", "Cyrl", "Grek"]', f'["{wanted}"]'), "r", folder=tmp_path
        )
        assert made.step[0]["keep"] == [wanted]
        assert made.step[1]["by_language"] == {wanted: {"min_words": 7}}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_whole(preset: str, tmp_path: Path) -> None:
    assert packaged(preset).is_file()
    (tmp_path / "a.jsonl").write_text("{}\n")
    recipe = for_files([str(tmp_path / "a.jsonl")], None, None, preset)[0].recipe
    told = json.loads(json.dumps(stored(recipe)))
    assert json.loads(json.dumps(stored(msgspec.convert(told, Recipe)))) == told


def test_fineweb2_has_parameters_of_a_hundred_languages(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    every = {"languages.missing": "drop", "step.1.keep": '"all"'}
    recipe = for_files([str(tmp_path / "a.jsonl")], None, every, "fineweb2")[0].recipe
    assert len(recipe.step[1]["min_score"]) == 100
    french = recipe.step[4]["by_language"]["fra_Latn"]
    assert french["min_letter_words"] == 0.812 and "l'" in french["stop_words"]
    assert (
        make_step(4, recipe.step[4]).content()["by_language"]["tha_Thai"]["max_word_length"] == 10
    )
