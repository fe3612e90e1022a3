"""The recipe: what is wrong in it is told with its path, its line and the word that was probably
meant.
"""

from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import RecipeError
from gristmill.recipe import (
    PRESETS,
    Recipe,
    for_files,
    load,
    make_step,
    packaged,
    parse,
    stored,
    with_limit,
)

GOOD = """\
output = "corpus"
seed = 3

[[source]]
name = "web"
files = ["raw/*.wet.gz"]

[[source]]
name = "books"
urls = ["https://books.example/a.jsonl.zst"]
kind = "jsonl"

[[step]]
use = "language"
keep = ["en"]
sources = ["web"]

[[step]]
use = "gopher"
min_words = 20

[deduplicate]
scope = "source"
[deduplicate.near]
threshold = 0.9

[tokens]
tokenizer = "gpt2"
"""


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def refused(text: str, settings: dict[str, str] | None = None) -> str:
    with pytest.raises(RecipeError) as error:
        parse(text, "recipe.toml", settings)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_sound_recipe_is_read() -> None:
    recipe = parse(GOOD, "recipe.toml")
    assert (recipe.seed, recipe.output, [source.name for source in recipe.source]) == (
        3,
        "corpus",
        ["web", "books"],
    )
    assert [step.name for step in recipe.steps("web")] == ["language", "gopher"]
    assert [step.name for step in recipe.steps("books")] == ["gopher"]


@pytest.mark.parametrize(
    ("old", "new", "path", "suggestion"),
    [
        ("seed = 3", "sead = 3", "sead", "seed"),
        ("[deduplicate]", "[deduplicat]", "deduplicat", "deduplicate"),
        ("[tokens]", "[token]", "token", "tokens"),
        ('urls = ["https', 'url_s = ["https', "source[1].url_s", "urls"),
        ('files = ["raw', 'file = ["raw', "source[0].file", "files"),
        ("min_words = 20", "min_word = 20", "step[1].min_word", "min_words"),
        ('keep = ["en"]', 'keep = ["en"]\nmin_scor = 0.5', "step[0].min_scor", "min_score"),
        ('scope = "source"', 'scop = "source"', "deduplicate.scop", "scope"),
        ("threshold = 0.9", "treshold = 0.9", "deduplicate.near.treshold", "threshold"),
        (
            'tokenizer = "gpt2"',
            'tokenizer = "gpt2"\ntokens_pr_shard = 5',
            "tokens.tokens_pr_shard",
            "tokens_per_shard",
        ),
    ],
)
def test_an_unknown_key_is_told_with_path_line_and_suggestion(
    old: str, new: str, path: str, suggestion: str
) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    key = path.rpartition(".")[2]
    line = line_of(text, f"[{key}]" if new.startswith("[") else f"{key} =")
    assert refused(text) == f"recipe.toml:{line}: {path}: unknown key; did you mean {suggestion!r}?"


def test_an_unknown_key_like_no_other_lists_those_that_there_are() -> None:
    message = refused(GOOD.replace("[tokens]", "[tokens]\nxyzzy = 1"))
    assert (
        "tokens.xyzzy: unknown key; there are: tokenizer, end_of_text, begin_of_text, "
        "tokens_per_shard, validation, order"
    ) in message


def test_an_unknown_key_of_an_inline_table_is_told_with_its_line() -> None:
    text = GOOD.replace(
        'scope = "source"\n[deduplicate.near]\nthreshold = 0.9', "near = { treshold = 0.9 }"
    )
    line = line_of(text, "near =")
    assert (
        refused(text)
        == f"recipe.toml:{line}: deduplicate.near.treshold: unknown key; did you mean 'threshold'?"
    )


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        ("seed = 3", 'seed = "three"', "seed", "Expected `int`, got `str`"),
        ("seed = 3", "keep_documents = 1", "keep_documents", "Expected `bool`, got `int`"),
        (
            'files = ["raw/*.wet.gz"]',
            'files = "raw/*.wet.gz"',
            "source[0].files",
            "Expected `array`, got `str`",
        ),
        ('files = ["raw/*.wet.gz"]', "files = [1]", "source[0].files", "Expected `str`, got `int`"),
        ('kind = "jsonl"', 'kind = "docx"', "source[1].kind", "'docx': there is no such format"),
        ("min_words = 20", "min_words = 2.5", "step[1].min_words", "Expected `int`, got `float`"),
        ('keep = ["en"]', "keep = 1", "step[0].keep", "Expected `str | array`, got `int`"),
        ('scope = "source"', 'scope = "shard"', "deduplicate.scope", "Invalid enum value 'shard'"),
        ("threshold = 0.9", 'verify = "no"', "deduplicate.near.verify", "Invalid enum value 'no'"),
        (
            'tokenizer = "gpt2"',
            'tokenizer = "gpt2"\norder = "random"',
            "tokens.order",
            "Invalid enum value 'random'",
        ),
    ],
)
def test_a_wrong_type_is_told_with_path_and_line(
    old: str, new: str, path: str, message: str
) -> None:
    text = GOOD.replace(old, new, 1)
    told = refused(text)
    line = line_of(text, new.splitlines()[-1])
    assert told.startswith(f"recipe.toml:{line}: {path}")
    assert message in told


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "deduplicate.near.threshold",
            "0.0",
            "threshold is a similarity: greater than 0, at most 1",
        ),
        (
            "deduplicate.near.threshold",
            "1.5",
            "threshold is a similarity: greater than 0, at most 1",
        ),
        (
            "deduplicate.near.threshold",
            "nan",
            "threshold is a similarity: greater than 0, at most 1",
        ),
        ("deduplicate.near.bands", "0", "bands and rows must be at least 1"),
        ("deduplicate.near.rows", "1000", "bands * rows (the permutations) at most 4096"),
        ("deduplicate.near.shingle", "0", "shingle is a number of words"),
        ("tokens.validation", "1.5", "validation is a share of documents, from 0 to 1"),
        ("tokens.validation", "-0.1", "validation is a share of documents, from 0 to 1"),
        ("tokens.validation", "nan", "validation is a share of documents, from 0 to 1"),
        ("tokens.tokens_per_shard", "0", "tokens_per_shard must be at least 1"),
    ],
)
def test_a_threshold_out_of_its_range_is_told(key: str, value: str, message: str) -> None:
    told = refused(GOOD, {key: value})
    assert key.rpartition(".")[0] in told
    assert message in told


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source.0.limit", "-5"),
        ("source.0.limit", "0"),
        ("source.0.max_document_bytes", "0"),
        ("source.0.max_document_bytes", "-1"),
        ("source.0.shards", "-1"),
        ("samples", "-1"),
        ("step.0.min_score", "65"),
        ("step.0.characters", "0"),
        ("step.0.keep", "[]"),
        ("step.1.min_words", "200000"),
        ("step.1.max_symbol_ratio", "nan"),
        ("seed", "99999999999999999999999"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(key: str, value: str) -> None:
    refused(GOOD, {key: value})


def test_an_unknown_step_is_told_with_a_suggestion() -> None:
    text = GOOD.replace('use = "gopher"', 'use = "gofer"')
    assert refused(text) == (
        f"recipe.toml:{line_of(text, 'gofer')}: step[1].use = 'gofer': no such step; did you "
        "mean 'gopher'?"
    )
    assert (
        "there are: c4, classifier, decontaminate, ensemble, extract, fineweb, gopher, language,"
        in refused(GOOD.replace('use = "gopher"', 'use = "xyzzy"'))
    )
    assert "step[1].use" in refused(GOOD.replace('use = "gopher"\n', ""))
    assert "step[1].use" in refused(GOOD.replace('use = "gopher"', "use = 7"))


def test_a_step_without_what_it_needs_is_told() -> None:
    text = GOOD.replace('keep = ["en"]\n', "")
    told = refused(text)
    assert told.startswith(f"recipe.toml:{line_of(text, '[[step]]')}: step[0]")
    assert "keep" in told


def test_a_step_for_a_source_that_is_not_there_is_told() -> None:
    assert "step[0].sources: no source 'wep'; did you mean 'web'?" in refused(
        GOOD.replace('sources = ["web"]', 'sources = ["wep"]')
    )


def test_a_step_that_stands_twice_for_a_source_is_refused() -> None:
    again = '\n[[step]]\nuse = "gopher"\nsources = ["books"]\n'
    assert "a step is used twice for source 'books'" in refused(GOOD + again)
    parse(GOOD.replace("min_words = 20", 'sources = ["web"]') + again, "recipe.toml")


@pytest.mark.parametrize(
    "text",
    [
        "seed = ",
        "seed 3",
        '[[source]\nname = "a"',
        'name = "unended',
        "a = 1\na = 2",
        "[source]\n[[source]]",
        "\x00",
        "= 1",
    ],
)
def test_what_is_no_toml_is_told_with_its_place(text: str) -> None:
    told = refused(text)
    assert told.startswith("recipe.toml: not valid TOML: ")
    assert "(at " in told  # line and column, or the end


def test_a_recipe_without_sources_is_told() -> None:
    assert "source" in refused("")
    assert "no [[source]]" in refused("source = []")
    told = refused('[source]\nname = "web"\nfiles = ["a"]\n')
    assert told.startswith("recipe.toml")
    assert "source" in told


def test_a_source_without_shards_is_told_with_its_line() -> None:
    text = GOOD.replace('files = ["raw/*.wet.gz"]\n', "")
    assert refused(text) == (
        f"recipe.toml:{line_of(text, 'name')}: source[0] (web) has no shards: give it urls, "
        "files, paths, commoncrawl or hub"
    )
    assert "source[0].name" in refused(GOOD.replace('name = "web"\n', "")) or "name" in refused(
        GOOD.replace('name = "web"\n', "")
    )


def test_two_sources_of_one_name_are_refused() -> None:
    assert "'web' is used twice" in refused(GOOD.replace('"books"', '"web"'))


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/b",
        "/etc",
        ".",
        "..",
        "",
        ".hidden",
        "-x",
        "a b",
        "a\\nb",
        "é",
        "x" * 101,
        "a\\u0000",
    ],
)
def test_a_source_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    text = GOOD.replace('name = "books"', f'name = "{name}"')
    told = refused(text)
    assert told.startswith(f"recipe.toml:{line_of(text, 'name = ') + 4}: source[1].name = ")
    assert "it becomes a folder" in told


def test_settings_of_the_command_line() -> None:
    recipe = parse(
        GOOD,
        "recipe.toml",
        {
            "seed": "9",
            "tokens.validation": "0.25",
            "tokens.tokenizer": "my/tokenizer.json",
            "step.1.min_words": "7",
            "source.0.limit": "5",
            "deduplicate.near.bands": "16",
        },
    )
    assert (recipe.seed, recipe.step[1]["min_words"], recipe.source[0].limit) == (9, 7, 5)
    assert recipe.tokens
    assert (recipe.tokens.validation, recipe.tokens.tokenizer) == (0.25, "my/tokenizer.json")
    assert recipe.deduplicate
    assert recipe.deduplicate.near
    assert (recipe.deduplicate.near.bands, recipe.deduplicate.near.threshold) == (16, 0.9)
    # A table that the recipe does not have.
    assert parse(GOOD.partition("[tokens]")[0], "recipe.toml", {"tokens.tokenizer": "gpt2"}).tokens


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tokens.validaton", "0.1", "tokens.validaton: unknown key; did you mean 'validation'?"),
        ("step.7.min_words", "1", "there are 2 tables at '7'"),
        ("step.one.min_words", "1", "there is no step 'one'; there are step.0 (language)"),
        ("source.0", "1", "name one of several tables: source.0 (web)"),
        ("seed.deeper", "1", "there is no such table"),
        ("", "1", "unknown"),
        ("seed", "", "seed"),
    ],
)
def test_settings_that_cannot_be_are_told(key: str, value: str, message: str) -> None:
    assert message in refused(GOOD, {key: value})


def test_a_setting_far_below_a_number_is_told() -> None:
    assert "there is no such table" in refused(GOOD, {"seed.deeper.still": "1"})


def test_the_stored_recipe_has_every_default_and_no_output() -> None:
    recipe = parse(GOOD, "recipe.toml")
    table = stored(recipe)
    assert "output" not in table
    assert set(table) == set(Recipe.__struct_fields__) - {"output", "contact", "mix", "phases"}
    assert table["source"][0]["max_document_bytes"] == 16 << 20
    assert table["step"][1] == {
        "use": "gopher",
        **{
            name: getattr(make_step(1, recipe.step[1]), name)
            for name in make_step(1, recipe.step[1]).__struct_fields__
        },
    }  # type: ignore[attr-defined]
    assert table["step"][0]["min_score"] == 0.65
    assert table["deduplicate"]["near"] == {
        "shingle": 5,
        "unit": "words",
        "permutations": 128,
        "bands": 32,
        "rows": 4,
        "threshold": 0.9,
        "floor": 0.7,
        "candidates": 8,
        "keepers": 64,
        "verify": "text",
        "group": "kept",
    }
    assert table["tokens"]["tokens_per_shard"] == 100_000_000
    # Stored and read again it is the same.
    from gristmill.phases.output.write_manifest import recipe_bytes

    again = parse(recipe_bytes(table).decode(), "stored.toml")
    assert stored(again) == table
    assert recipe_bytes(stored(parse(GOOD, "x", {"output": '"elsewhere"'}))) == recipe_bytes(table)


def test_a_limit_lowers_each_sources_own() -> None:
    recipe = parse(GOOD, "recipe.toml", {"source.0.limit": "5"})
    assert [source.limit for source in with_limit(recipe, 7).source] == [5, 7]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'output = "caf\xe9"')
    (tmp_path / "folder.toml").mkdir()
    for name, said in {
        "none": "there is no such file",
        "latin": "not UTF-8 text",
        "folder": "a folder",
    }.items():
        with pytest.raises(RecipeError, match=f"{name}.toml: {said}"):
            load(tmp_path / f"{name}.toml")


def test_recipes_that_come_with_it_are_sound() -> None:
    for name in ("start", *PRESETS):
        text = packaged(name).read_text()
        parse(text.replace("files = []", 'files = ["a"]'), name)
    with pytest.raises(RecipeError, match="no preset 'none'"):
        packaged("none")


def test_files_of_any_name_become_a_recipe(tmp_path: Path) -> None:
    names = [
        "plain.jsonl",
        'quote".jsonl',
        "back\\slash.jsonl",
        "star*[a].jsonl",
        "new\nline.jsonl",
        "ünï.jsonl",
        "deep/er.jsonl",
    ]
    (tmp_path / "deep").mkdir()
    for name in names:
        (tmp_path / name).write_text("x")
    loaded, _ = for_files([str(tmp_path / name) for name in names], None, None)
    assert (loaded.recipe.source[0].files, loaded.folder) == (names, tmp_path)
    with pytest.raises(RecipeError, match="none.jsonl: no such file"):
        for_files([str(tmp_path / "none.jsonl")], None, None)


def test_no_recipe_gives_anything_but_a_recipe_or_a_recipe_error() -> None:
    pieces: list[Any] = [
        "1",
        '"a"',
        "[]",
        "{}",
        "[1]",
        "[{}]",
        "true",
        "1.5",
        '{name = "a"}',
        "[{name = 1}]",
        '[{use = "gopher", sources = 3}]',
        '[{name = "a", files = ["b"]}]',
    ]
    for key in Recipe.__struct_fields__:
        for piece in pieces:
            for start in ("", 'source = [{name = "a", files = ["b"]}]\n'):
                try:
                    parse(f"{start if key != 'source' else ''}{key} = {piece}\n", "recipe.toml")
                except RecipeError:
                    pass
