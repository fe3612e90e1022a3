"""Where in a recipe's file a value is wrong, and which key was probably meant."""

import re
from typing import Any

import msgspec

from gristmill.errors import RecipeError, suggest


def explain(
    error: msgspec.ValidationError,
    name: str,
    text: str,
    kind: Any,
    tables: Any,
    base: list[str | int] | None = None,
) -> RecipeError:
    """Say where in the file a value is wrong, and what was probably meant."""
    message, _, path = str(error).partition(" - at `")
    steps: list[str | int] = list(base or [])
    for word, number in re.findall(
        r"([A-Za-z_0-9]+)|\[(\d+|\.\.\.)\]", path.rstrip("`").lstrip("$")
    ):
        steps.append(word or (int(number) if number.isdecimal() else number))
    if "..." in steps:
        steps[steps.index("...")] = _find_key(str(error), kind, tables, steps[len(base or []) :])
    unknown = re.search(r"unknown field `([^`]+)`", message)
    suggestion = ""
    if unknown:
        steps.append(unknown[1])
        owner = _type_at(kind, steps[len(base or []) : -1])
        known = [key for key in getattr(owner, "__struct_encode_fields__", ()) if key[0] != "@"]
        suggestion = suggest(unknown[1], known) if known else ""
        message = "unknown key"
    shown = "".join(
        f"[{step}]" if isinstance(step, int) or step == "..." else f".{step}" for step in steps
    ).lstrip(".")
    return RecipeError(
        f"{name}{find_line(text, steps)}: {shown or 'recipe'}: {message}{suggestion}"
    )


def _find_key(message: str, kind: Any, tables: Any, steps: list[str | int]) -> str:
    """Return the key that a path calls `[...]`: of the table there the first whose value alone
    gives the same error.
    """
    before = steps[: steps.index("...")]

    def with_one(table: Any, path: list[str | int], key: str) -> Any:
        if not path:
            return {key: table[key]}
        step = path[0]
        inner = with_one(table[step], path[1:], key)
        if isinstance(step, int):
            return [*table[:step], inner, *table[step + 1 :]]
        return {**table, step: inner}

    place = tables
    for step in before:
        place = place[step]
    for key in place:
        try:
            msgspec.convert(with_one(tables, before, key), kind)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return str(key)
    return "..."


def _type_at(kind: Any, steps: list[str | int]) -> Any:
    """Return the Struct that lies at a path below a Struct, through tables of Structs by key."""
    for step in steps:
        if isinstance(step, int):
            continue
        if not hasattr(kind, "__struct_fields__"):  # a table by key
            kind = _struct_in(kind)
        else:
            fields = msgspec.structs.fields(kind)
            field = next((field for field in fields if field.encode_name == step), None)
            if field is None:
                return None
            kind = _struct_in(field.type, tables=True)
        if kind is None:
            return None
    return kind


def _struct_in(kind: Any, *, tables: bool = False) -> Any:
    """Return the Struct that a type holds; with `tables` rather the table of Structs by key."""
    for option in (kind, *getattr(kind, "__args__", ())):
        if hasattr(option, "__struct_fields__"):
            return option
        if tables and getattr(option, "__origin__", None) is dict:
            return option if _struct_in(option) is not None else None
    for option in getattr(kind, "__args__", ()):
        if (struct := _struct_in(option)) is not None:
            return struct
    return None


def find_line(text: str, steps: list[str | int]) -> str:
    """Return `:LINE` of a key, found by its table's header; empty where it was not written (a
    default, or --set).
    """
    header = ""
    counts: dict[str, int] = {}
    names = [step for step in steps if isinstance(step, str)]
    wanted = next((step for step in steps if isinstance(step, int)), 0)
    best = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*\[(\[)?\s*([A-Za-z0-9_.-]+)\s*\]", line)
        if match:
            header = match[2]
            counts[header] = counts.get(header, -1) + 1
        here = header.split(".") if header else []
        if names[: len(here)] != here or counts.get(header, 0) != (wanted if here else 0):
            continue
        rest = names[len(here) :]
        if match and here:
            best = best or number
        if rest and re.match(rf"\s*[\"']?{re.escape(rest[0])}[\"']?\s*[.=]", line):
            best = number
            break
    return f":{best}" if best else ""
