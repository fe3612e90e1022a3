"""What a name means: a key or a table of a recipe, a filter, its parameters, reasons and measures,
a format.
It answers from the code, as docs/reference does, and needs no corpus.
"""

from collections.abc import Iterator
from typing import Any

from gristmill.errors import RecipeError, suggest
from gristmill.filters.api import registry
from gristmill.recipe.keys import Key, table_keys, tables
from gristmill.reports.documents.reasons import ROOMS, matches
from gristmill.source.source_format import FORMATS as SOURCE_FORMATS
from gristmill.trainer_formats import FORMATS


def explain(name: str) -> list[dict[str, Any]]:
    """Return what a name means, as `tokens.validation`, `deduplicate.near`, `gopher`,
    `gopher.min_words`, `gopher.short_doc`, `read.truncated` or `parquet`.

    Each answer has `name`, `what` (key, parameter, reason, measure or format) and `meaning`; a key
    and a parameter also `type` and `default` (null: it must be given), and what is of one of
    several rules of a filter `rules`. Raises RecipeError if there is no such name.
    """
    asked = name.strip().strip("[]").removeprefix("step.")
    entries = list(_all(asked.partition(".")[0]))
    answers = [entry for entry in entries if entry["name"] == asked or _is_in(entry, asked)]
    answers = answers or [entry for entry in entries if matches(entry["name"], asked)]
    if not answers:
        known = {entry["name"] for entry in entries} or {
            *tables(),
            *ROOMS,
            *SOURCE_FORMATS.names(),
            *FORMATS.names(),
            *(key.name for key in table_keys(tables()[""])),
            *(step.name for step in registry.all_built_in()),
        }
        raise RecipeError(
            f"{name!r}: no key, filter, reason or measure of that name"
            f"{suggest(asked, sorted(known))}"
        )
    return answers


def _is_in(answer: dict[str, Any], table: str) -> bool:
    """Return whether an answer is about a key of a table, or anything of a filter."""
    return bool(answer["name"].rpartition(".")[0] == table)


def _all(first: str) -> Iterator[dict[str, Any]]:
    """Yield all that has a name that begins with a word."""
    for place, table in tables().items():
        for key in table_keys(table):
            full = f"{place}.{key.name}" if place else key.name
            if full.partition(".")[0] == first:
                yield _of_key(full, "key", key)
    for what, formats in (("source format", SOURCE_FORMATS), ("output format", FORMATS)):
        if first in formats:
            yield {"name": first, "what": what, "meaning": formats.find(first).meaning}
    for word, said in ROOMS.get(first, {}).items():
        meaning = f"{said.meaning} {said.remedy}".strip()
        yield {"name": f"{first}.{word}", "what": "reason", "meaning": meaning}
    kind = registry.find_step(first)
    variants = registry.variants(kind) if kind is not None else []
    for variant in variants:
        keys = table_keys(variant)
        rules = next((key.kind.replace("`", "") for key in keys if key.name == "rules"), None)
        more = {"rules": rules} if len(variants) > 1 and rules is not None else {}
        for key in keys:
            yield _of_key(f"{first}.{key.name}", "parameter", key) | more
        for what, sentences in (("reason", variant.reasons), ("measure", variant.measures)):
            for word, meaning in sentences.items():
                yield {"name": f"{first}.{word}", "what": what, "meaning": meaning, **more}


def _of_key(name: str, what: str, key: Key) -> dict[str, Any]:
    kind = key.kind.replace("`", "")
    return {
        "name": name,
        "what": what,
        "type": kind,
        "default": key.default,
        "meaning": key.meaning,
    }


def lines(answers: list[dict[str, Any]]) -> list[str]:
    """Return answers as lines of text."""
    rows = []
    for answer in answers:
        said = [answer["what"]]
        if "type" in answer:
            default = answer["default"]
            said += [answer["type"], "required" if default is None else f"default {default}"]
        if "rules" in answer:
            said.append(f"with rules = {answer['rules']}")
        rows += [f"{answer['name']}   ({'; '.join(said)})", f"  {answer['meaning']}"]
    return rows
