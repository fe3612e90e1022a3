"""A key at its default is in no stored recipe and no content key: a new key changes no digest."""

import tomllib
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest

from gristmill.corpus.corpus import content_key
from gristmill.filters.api import registry
from gristmill.filters.api.step import Step
from gristmill.phases.phase import Runtime, key_fields
from gristmill.phases.process.process_task import Signing
from gristmill.recipe import Source, parse
from gristmill.recipe.keys import TABLES
from gristmill.recipe.recipe import stored
from gristmill.source.rows import Fields
from gristmill.store.defaults import ALWAYS, without_defaults

KINDS = [kind for step in registry.all_built_in() for kind in registry.variants(step)]
REQUIRED = {
    "source": {"name": "web"},
    "languages": {"parameters": "preset:fineweb2"},
    "deduplicate.by_language.LABEL.near": {"threshold": 0.9},
    "deduplicate.lines": {"most": 2},
    "tokens": {"tokenizer": "gpt2"},
    "tokens.repeat": {"by": "copies", "table": {"1": 2.0}},
    "tokens.partition": {"by": ["language.label"]},
    "mix.stage": {"name": "decay"},
    "": {"source": [{"name": "web"}]},
}


def with_a_new_key(kind: Any) -> Any:
    """A copy of a settings class with one more key."""
    body = {"__annotations__": {"new_key": int}, "new_key": 7, "__module__": kind.__module__}
    return type(kind)(kind.__name__, (kind,), body, kw_only=True, frozen=True)


def check_a_new_key(kind: Any, given: dict[str, Any]) -> None:
    copy = with_a_new_key(kind)
    before = without_defaults(msgspec.convert(given, kind))
    assert without_defaults(msgspec.convert(given, copy)) == before
    assert without_defaults(msgspec.convert({**given, "new_key": 7}, copy)) == before
    assert without_defaults(msgspec.convert({**given, "new_key": 8}, copy)) == before | {
        "new_key": 8
    }


@pytest.mark.parametrize("place", TABLES)
def test_a_new_key_of_a_table_changes_nothing_that_is_stored(place: str) -> None:
    check_a_new_key(TABLES[place], REQUIRED.get(place, {}))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_new_key_of_a_step_changes_nothing_that_is_stored(kind: type[Step]) -> None:
    given = tomllib.loads(kind.example)
    check_a_new_key(kind, given)
    step, copy = (msgspec.convert(given, each) for each in (kind, with_a_new_key(kind)))
    assert copy.content() == step.content()
    assert copy.measuring(copy.content()) == step.measuring(step.content())


def test_a_new_key_of_a_source_changes_no_digest_of_a_recipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = '[[source]]\nname = "web"\nfiles = ["a"]\n'
    recipe = parse(text, "recipe.toml")
    copy = with_a_new_key(Source)
    grown = [msgspec.convert(msgspec.to_builtins(recipe.source[0]), copy)]
    assert stored(msgspec.structs.replace(recipe, source=grown)) == stored(recipe)


def test_a_new_field_of_a_task_changes_no_key() -> None:
    class Task(msgspec.Struct, frozen=True, kw_only=True):
        root: Runtime[str]
        signing: Signing
        fields: Fields
        cut: list[int]

    class Grown(Task, frozen=True, kw_only=True):
        rows: list[int] = []  # noqa: RUF012
        within: str | None = None

    Task.__module__ = Grown.__module__ = "gristmill.made"

    class MoreFields(NamedTuple):
        text: str = "text"
        new_key: int = 7

    given = {"signing": Signing(), "fields": Fields(), "cut": []}
    task, grown = Task(root="a", **given), Grown(root="b", **given)
    assert content_key("a", task=key_fields(grown)) == content_key("a", task=key_fields(task))
    assert key_fields(Grown(root="a", **given, within="a")) == key_fields(task) | {"within": "a"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ALWAYS, "MoreFields", "text")
        assert without_defaults(MoreFields("a")) == ["a"]
        assert without_defaults(MoreFields("a", 8)) == ["a", ["new_key", 8]]
    assert without_defaults(MoreFields("a")) == ["a", 7]


def test_a_class_of_a_users_own_stores_all_its_keys() -> None:
    class Mine(Step, frozen=True, kw_only=True):
        version: ClassVar[int] = 1
        most: int = 3

    assert Mine().content() == {"sources": None, "most": 3}


def test_the_table_of_keys_that_are_always_stored_is_closed() -> None:
    """Do not add a new key: it is stored where it is set."""
    assert sum(len(names.split()) for names in ALWAYS.values()) == 270
