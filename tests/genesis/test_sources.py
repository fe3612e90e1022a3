"""A recipe from Genesis' sources: what each of its values becomes, and files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest
from gristmill_genesis.sources import LONGEST, Converted, from_genesis, main

from gristmill.errors import RecipeError
from gristmill.recipe import Source, load, parse

# As the documentation of the Genesis data pipeline has them, and two that are made up.
SOURCES: list[dict[str, Any]] = [
    {
        "name": "fineweb-edu",
        "hf_path": "HuggingFaceFW/fineweb-edu",
        "hf_name": "sample-10BT",
        "text_field": "text",
        "target_shards": 500_000,
        "priority": 1,
        "enabled": True,
    },
    {"name": "fineweb", "hf_path": "HuggingFaceFW/fineweb", "hf_name": None, "priority": 2},
    {
        "name": "redpajama",
        "hf_path": "togethercomputer/RedPajama",
        "text_field": "raw",
        "target_shards": 3000,
        "priority": 3,
        "enabled": False,
        "colour": "red",
    },
]


def converted(folder: Path, value: Any) -> Converted:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    (folder / "genesis.json").write_bytes(data)
    return from_genesis(folder / "genesis.json", "recipe.toml")


def test_every_value_of_a_source_has_its_place_in_the_recipe(tmp_path: Path) -> None:
    found = converted(tmp_path, {"sources": SOURCES})
    recipe = parse(found.text, "recipe.toml")
    assert recipe.source == [
        Source(
            name="fineweb-edu",
            hub="HuggingFaceFW/fineweb-edu",
            subset="sample-10BT",
            text="text",
            target_shards=500_000,
            priority=3,
        ),
        Source(name="fineweb", hub="HuggingFaceFW/fineweb", text="text", priority=2),
        Source(
            name="redpajama",
            hub="togethercomputer/RedPajama",
            text="raw",
            target_shards=3000,
            priority=1,
            enabled=False,
        ),
    ]
    assert recipe.tokens is not None
    assert (recipe.tokens.tokens_per_shard, recipe.tokens.order) == (2_500_000, "append")
    assert recipe.targets() == {"fineweb-edu": 1_250_000_000_000, "redpajama": 7_500_000_000}
    assert recipe.deduplicate is None
    assert found.lines[0].startswith("redpajama.colour has no counterpart")
    assert "1 to 3 became 3 to 1" in found.lines[1]


def test_the_least_that_a_source_has_is_enough(tmp_path: Path) -> None:
    least = [{"name": "a", "hf_path": "x/y"}]
    for value in (least, {"sources": least, "shards": "s3://bucket"}):
        found = converted(tmp_path, value)
        (source,) = parse(found.text, "recipe.toml").source
        assert source == Source(name="a", hub="x/y", text="text", priority=1)
        assert "[[source]]" in found.text


def with_(**values: Any) -> dict[str, Any]:
    return {"sources": [{"name": "a", "hf_path": "x/y", **values}]}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (json.dumps({"sources": SOURCES}).encode()[:100], "genesis.json: no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b" " * (LONGEST + 1), "more than 16,777,216 bytes"),
        ({"sources": []}, "at least one source"),
        ({"name": "a"}, "at least one source"),
        ([7], "at least one source"),
        ([{"hf_path": "x/y"}], r"sources\[0\]: .*`name`"),
        (with_(name="../../etc"), r"genesis.json: source\[0\].name = '../../etc'"),
        (with_(name='a"]\noutput = "/etc'), "it becomes a folder"),
        (with_(hf_path="../../x"), "no dataset of the hub"),
        (with_(hf_path="https://other.example/x"), "no dataset of the hub"),
        (with_(target_shards=0), ">= 1"),
        (with_(target_shards=10**20), "target_shards"),
        (with_(priority=1.5), "priority"),
        (with_(priority=-(10**10)), "priority"),
        (with_(enabled="yes"), "Expected `bool`"),
        (with_(enabled=False), "nothing would be read"),
        ({"sources": 2 * with_()["sources"]}, "is used twice"),
    ],
)
def test_what_is_no_list_of_sources_is_refused_with_the_reason(
    tmp_path: Path, value: Any, said: str
) -> None:
    with pytest.raises(RecipeError, match=said):
        converted(tmp_path, value)


def test_values_cannot_write_lines_of_the_recipe(tmp_path: Path) -> None:
    hostile = 't"\n[deduplicate]\nurl = true\n'
    recipe = parse(converted(tmp_path, with_(text_field=hostile)).text, "recipe.toml")
    assert recipe.source[0].text == hostile
    assert recipe.deduplicate is None


def test_the_command_writes_a_recipe_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.json").write_text(json.dumps({"sources": SOURCES}))
    recipe = tmp_path / "recipe.toml"
    monkeypatch.setattr("sys.argv", ["gristmill-genesis", str(tmp_path / "in.json"), str(recipe)])
    main()
    assert "redpajama.colour has no counterpart" in capsys.readouterr().out
    assert len(load(recipe).recipe.source) == 3
    with pytest.raises(SystemExit, match="there already"):
        main()
    monkeypatch.setattr("sys.argv", ["gristmill-genesis", str(recipe), str(recipe)])
    with pytest.raises(SystemExit, match="no JSON"):
        main()
