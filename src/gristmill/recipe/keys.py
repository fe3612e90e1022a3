"""The keys of a recipe, as the code has them: types, defaults, and what each means.

A key's meaning is the comment of its field, in the class that holds it: before the field, or behind
it on its line. So there is one place for each sentence, beside the type and the default.
docs/reference is written from these (scripts/reference.py).
"""

import ast
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from gristmill.dedup.settings import (
    Deduplicate,
    DeduplicateOfLanguage,
    FrequentLines,
    Near,
    NearOfLanguage,
    Substrings,
)
from gristmill.recipe.languages import LanguageSettings
from gristmill.recipe.mix_settings import Mix, MixStage
from gristmill.recipe.recipe import PHASES, Recipe
from gristmill.recipe.source_settings import Source
from gristmill.tokens.token_settings import Partition, Repeat, TokenSettings

# The tables of a recipe, in the order of the page; `[[step]]` has the parameters of its filter.
TABLES: Mapping[str, type[msgspec.Struct]] = {
    "": Recipe,
    "source": Source,
    "languages": LanguageSettings,
    "deduplicate": Deduplicate,
    "deduplicate.near": Near,
    "deduplicate.by_language.LABEL": DeduplicateOfLanguage,
    "deduplicate.by_language.LABEL.near": NearOfLanguage,
    "deduplicate.lines": FrequentLines,
    "deduplicate.substrings": Substrings,
    "tokens": TokenSettings,
    "tokens.repeat": Repeat,
    "tokens.partition": Partition,
    "mix": Mix,
    "mix.stage": MixStage,
}


def tables() -> dict[str, type[msgspec.Struct]]:
    """Return the tables of a recipe, those of phases as well; this imports the phases."""
    settings = {phase.name: phase.settings for phase in PHASES.built_in()}
    return {**TABLES, **{name: kind for name, kind in settings.items() if kind is not None}}


OWN_OF_A_STAGE = ("name", "tokens", "sequence_length", "batch_size")
LISTS = ("source", "step", "mix.stage")  # written with two brackets, once for each entry
PLAIN: Mapping[Any, str] = {
    str: "string",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "any value",
}
MOST = 60  # characters of a default that is shown whole
REACHED = 1 << 40  # a limit above it is not shown


class Key(NamedTuple):
    """A key of a table."""

    name: str
    kind: str  # its type and its limits, in words
    default: str | None  # as TOML; "unset" where there is none; None: the key must be given
    meaning: str


def table_keys(table: type[msgspec.Struct]) -> list[Key]:
    """Return the keys of a table, in the order of its class. Those of a base class come last."""
    hints = get_type_hints(table, include_extras=True)
    comments = field_comments(table)
    keys = [
        Key(field.encode_name, in_words(hints[field.name]), _default(field), comments[field.name])
        for field in msgspec.structs.fields(table)
        if field.encode_name[0] != "@"
    ]
    own = set(inspect.get_annotations(table))
    own_keys = {field.encode_name for field in msgspec.structs.fields(table) if field.name in own}
    return sorted(keys, key=lambda key: key.name not in own_keys)


def field_comments(table: type[msgspec.Struct]) -> dict[str, str]:
    """Return the comment of each field of a class and of its bases."""
    comments: dict[str, str] = {}
    for kind in reversed(table.__mro__):
        if kind.__module__.startswith("gristmill."):
            comments |= _comments(kind.__module__)[kind.__name__]
    return comments


@cache
def _comments(module: str) -> dict[str, dict[str, str]]:
    """Return the comments of the fields of all classes of a module."""
    path = inspect.getsourcefile(sys.modules[module])
    text = Path(str(path)).read_text("utf-8")
    lines = text.splitlines()
    return {
        node.name: {
            statement.target.id: _comment(
                lines, statement.lineno - 1, statement.end_lineno or statement.lineno
            )
            for statement in node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        }
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    }


def _comment(lines: list[str], first: int, end: int) -> str:
    """Return the comment of what lines `first` to `end` hold: before it, and behind its last
    line.
    """
    start = first
    while lines[start - 1].strip().startswith("#"):
        start -= 1
    said = [line.strip().lstrip("# ") for line in lines[start:first]]
    _, mark, behind = lines[end - 1].partition("  # ")
    return " ".join([*said, behind] if mark else said)


def in_words(hint: Any, *, several: bool = False) -> str:
    """Return a type in words: `"a"` or `"b"`; whole number, at least 1; list of strings."""
    kind, arguments = get_origin(hint), get_args(hint)
    if kind is Annotated:
        what = " characters" if arguments[0] is str else " of them"
        limits = [part for meta in arguments[1:] if (part := _limits(meta, what))]
        return ", ".join([in_words(arguments[0], several=several), *limits])
    if kind in (Union, types.UnionType):
        given = [part for part in arguments if part is not type(None)]
        return " or ".join(in_words(part, several=several) for part in given)
    if kind is Literal:
        *first, last = (f"`{_toml(value)}`" for value in arguments)
        return f"{', '.join(first)} or {last}" if first else last
    if kind in (list, tuple):
        words = dict.fromkeys(in_words(part, several=True) for part in arguments if part is not ...)
        return f"list{'s' * several} of {' or '.join(words)}"
    if kind is dict:
        return f"table{'s' * several} of {in_words(arguments[1], several=True)}"
    word = "table" if is_table(hint) else PLAIN[hint]
    return word + "s" * (several and hint not in (bool, Any))


def is_table(hint: Any) -> bool:
    """Return whether a type is a table of its own."""
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def tables_inside(table: type[msgspec.Struct]) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Yield the keys of a table whose values are tables of a class of their own, with that
    class.
    """
    for name, hint in get_type_hints(table).items():
        waiting = [hint]
        while waiting:
            kind = waiting.pop()
            waiting += get_args(kind)
            if is_table(kind):
                yield name, kind


def _limits(meta: msgspec.Meta, items: str) -> str:
    """Return limits in words, of a length with what it counts; empty: there are none that anybody
    would reach.
    """
    low: float | None = meta.ge
    high: float | None = meta.le
    what = ""
    if meta.min_length is not None or meta.max_length is not None:
        low, high, what = meta.min_length, meta.max_length, items
    high = None if high is not None and high > REACHED else high
    if low is not None and high is not None:
        return f"from {_number(low)} to {_number(high)}{what}"
    below = None if meta.lt is not None and meta.lt > REACHED else meta.lt
    bounds = (("at least", low), ("above", meta.gt), ("at most", high), ("below", below))
    return ", ".join(
        f"{word} {_number(value)}{what}" for word, value in bounds if value is not None
    )


def _number(value: float) -> str:
    return f"{value:_}" if isinstance(value, int) else f"{value:,g}".replace(",", "_")


def _default(field: msgspec.structs.FieldInfo) -> str | None:
    if field.required:
        return None
    factory = field.default_factory
    value = field.default if factory is msgspec.NODEFAULT else factory()
    return "unset" if value is None else _toml(value)


def _toml(value: Any) -> str:
    """Return a value as TOML writes it; a long list is cut."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        written = [_toml(entry) for entry in value]
        while len(", ".join(written)) > MOST:
            written = [*written[: max(len(written) // 2, 1)], "..."]
            if len(written) < 3:
                break
        return f"[{', '.join(written)}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{name} = {_toml(entry)}" for name, entry in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return f"{value:_}" if isinstance(value, int) else repr(value)
