"""`[languages]`: parameters of steps for each language, from a file or a folder, as `by_language`
of the `[[step]]` tables that they are about.

    [languages]
    parameters = "languages"     # LABEL.toml in a folder, or one file with a table for each label
    missing = "drop"             # or "defaults", "refuse": languages without parameters
    language_of = "language.label"

The recipe that is checked and stored has the parameters themselves, in its steps, and no
`[languages]`. Of the step `language` they set `keep` and `min_score`. Those of `deduplicate` become
`by_language` of `[deduplicate]`.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from gristmill.errors import RecipeError, suggest
from gristmill.filters.api.step import Step
from gristmill.filters.language import codes
from gristmill.filters.language.by_language import LANGUAGE_OF, ByLanguage
from gristmill.filters.language.language import Language
from gristmill.recipe.explain import explain
from gristmill.recipe.packaged import packaged

PRESET = "preset:"  # before the name of parameters that come with gristmill
DEDUPLICATE = "deduplicate"  # in the parameters of a language: the table, which is no step
ALL = "all"  # `keep` of the step language: every label
Read = Callable[[str, str], dict[str, Any]]
Tables = dict[str, dict[str, Any]]  # by label, by step: parameters, or false


class LanguageSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of steps that differ by language, from a file or a folder."""

    # A folder with a file for each language (`fra_Latn.toml`), one file with a table for each, or
    # `preset:fineweb2`.
    parameters: str
    # What is done with a language of `keep` that has no parameters: stop, drop its documents, or
    # use those of the steps.
    missing: Literal["refuse", "drop", "defaults"] = "refuse"
    language_of: str = LANGUAGE_OF  # The measure that says a document's language.


def with_languages(
    tables: dict[str, Any], name: str, text: str, folder: Path, read: Read
) -> dict[str, Any]:
    """Return a recipe's tables with the parameters of each language in its steps.

    `read` parses TOML, and is given what errors call it. Raises RecipeError.
    """
    if "languages" not in tables:
        return tables
    try:
        settings = msgspec.convert(tables["languages"], LanguageSettings)
    except msgspec.ValidationError as error:
        at: list[str | int] = ["languages"]
        raise explain(error, name, text, LanguageSettings, tables["languages"], at) from error
    entries = _read(settings.parameters, folder, name, read)
    steps = tables.get("step")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        steps = []
    entries = _wanted(settings, entries, steps, name)
    made = [_with_entries(step, entries, settings) for step in steps]
    deduplicate = _deduplicate(tables.get(DEDUPLICATE), entries, settings, name)
    used = {str(step.get("use")) for step in steps} | set(deduplicate)
    for language, entry in entries.items():
        if unknown := sorted(set(entry) - used):
            raise RecipeError(
                f"{name}: languages: {language}: {unknown[0]!r} is no step of this recipe"
                f"{suggest(unknown[0], sorted(used))}"
            )
    rest = {key: table for key, table in tables.items() if key != "languages"}
    return {**rest, "step": made, **deduplicate}


def _read(location: str, folder: Path, name: str, read: Read) -> Tables:
    """Return the parameters by label. Raises RecipeError."""
    where = f"{name}: languages.parameters = {location!r}"
    if location.startswith(PRESET):
        entries = _parse(packaged(location.removeprefix(PRESET), "languages"), where, read)
    elif (path := _there(location, folder)).is_dir():
        entries = {file.stem: _parse(file, where, read) for file in sorted(path.glob("*.toml"))}
        if not entries:
            raise RecipeError(f"{where}: {path} holds no .toml file: name them by label, en.toml")
    else:
        entries = _parse(path, where, read)
    for label, entry in entries.items():
        if not isinstance(entry, dict):
            raise RecipeError(f"{where}: {label}: expected a table of steps, got {entry!r}")
        for step, parameters in entry.items():
            if parameters is not False and not isinstance(parameters, dict):
                raise RecipeError(
                    f"{where}: {label}.{step}: expected a table of parameters or false, got "
                    f"{parameters!r}"
                )
    if not entries:
        raise RecipeError(f"{where}: no language is in it")
    return entries


def _there(location: str, folder: Path) -> Path:
    here = folder / location
    return here if here.exists() or not Path(location).exists() else Path(location)


def _parse(path: Path, where: str, read: Read) -> dict[str, Any]:
    try:
        return read(path.read_text("utf-8"), f"{where}: {path}")
    except OSError as error:
        raise RecipeError(f"{where}: {path}: {error.strerror}") from error
    except ValueError as error:
        raise RecipeError(f"{where}: {path}: not UTF-8: {error}") from error


def _wanted(settings: LanguageSettings, entries: Tables, steps: list[Any], name: str) -> Tables:
    """Return the entries that `keep` of the step language asks for, all where it asks for all."""
    language = next((step for step in steps if step.get("use") == "language"), None)
    if language is None and settings.missing != "defaults":
        raise RecipeError(
            f'{name}: languages.missing = "{settings.missing}" needs a [[step]] with use = '
            '"language"; without one say missing = "defaults"'
        )
    keep = ALL if language is None else language.get("keep", ALL)
    if not isinstance(keep, list):
        if settings.missing == "refuse":
            raise RecipeError(
                f'{name}: languages.missing = "refuse": list the languages in `keep` of the step '
                'language, or say missing = "drop" or "defaults"'
            )
        return entries
    subset: Tables = {}
    without = []
    for wanted in map(str, keep):
        meant = [label for label in entries if codes.place(label, [wanted]) is not None]
        if wanted in entries or len(meant) == 1:
            # Spelt as `keep` does: fastText's lid.176 says "fr" where GlotLID says "fra_Latn".
            subset[wanted] = entries[wanted if wanted in entries else meant[0]]
        elif meant:
            subset |= {label: entries[label] for label in meant}
        elif (place := codes.place(wanted, list(entries))) is not None:
            subset[wanted] = entries[list(entries)[place]]  # it is one of those that an entry means
        else:
            without.append(wanted)
    if without and settings.missing == "refuse":
        raise RecipeError(
            f"{name}: languages: no parameters for {', '.join(without)}, which `keep` of the step "
            'language names: add them, or say missing = "drop" or "defaults"'
        )
    if not subset:
        raise RecipeError(
            f"{name}: languages: none of the languages that `keep` names ({', '.join(without)}) "
            "has parameters"
        )
    return subset


def _with_entries(
    table: dict[str, Any], entries: Tables, settings: LanguageSettings
) -> dict[str, Any]:
    """Return a step's table with the parameters of each language."""
    use = table.get("use")
    if use == "language":
        return _language(table, entries, settings)
    own = {
        label: parameters
        for label, entry in entries.items()
        if (parameters := entry.get(str(use))) is not None and parameters != {}
    }
    if not own or "by_language" in table:
        return table
    place = {} if settings.language_of == LANGUAGE_OF else {"language_of": settings.language_of}
    return {**table, "by_language": own, **place}


def _language(table: dict[str, Any], entries: Tables, settings: LanguageSettings) -> dict[str, Any]:
    """Return the step language, that keeps what has parameters, each with its own least score."""
    keep = table.get("keep", ALL)
    scores = {}
    for label, entry in entries.items():
        own = entry.get("language", {})
        if not isinstance(own, dict) or set(own) - {"min_score"}:
            raise RecipeError(f"languages: {label}.language: only min_score can differ by language")
        if "min_score" in own:
            scores[label] = own["min_score"]
    kept: Any = list(entries)
    if settings.missing == "defaults":
        kept = ALL if not isinstance(keep, list) else [*kept, *_left(keep, kept)]
    plain = table.get("min_score", 0.65)
    if not scores or isinstance(plain, dict):
        return {**table, "keep": kept}
    others = [ALL] if kept == ALL else [language for language in kept if language not in scores]
    return {**table, "keep": kept, "min_score": {**scores, **dict.fromkeys(others, plain)}}


def _deduplicate(
    table: Any, entries: Tables, settings: LanguageSettings, name: str
) -> dict[str, Any]:
    """[deduplicate] with the parameters of each language; empty where no language has some."""
    own = {
        label: entry[DEDUPLICATE]
        for label, entry in entries.items()
        if entry.get(DEDUPLICATE, {}) != {}
    }
    if not own:
        return {}
    label = next(iter(own))
    if not isinstance(table, dict):
        raise RecipeError(
            f"{name}: languages: {label}.deduplicate: the recipe has no [deduplicate]; "
            'add it, with scope = "language"'
        )
    if settings.language_of != LANGUAGE_OF:
        raise RecipeError(
            f"{name}: languages: {label}.deduplicate: documents are compared within "
            f"{LANGUAGE_OF}, and language_of is {settings.language_of!r}"
        )
    return {DEDUPLICATE: table if "by_language" in table else {**table, "by_language": own}}


def _left(keep: list[str], known: list[str]) -> list[str]:
    """Return the languages of `keep` that have no parameters."""
    return [
        language
        for language in keep
        if all(codes.place(label, [language]) is None for label in known)
    ]


def check_languages(steps: list[Step], scope: str, name: str) -> None:
    """Refuse steps that differ by a language that no step before them says, and deduplication
    within languages without them.
    """
    said: set[str] = set()
    for step in steps:
        if isinstance(step, ByLanguage):
            before, _, _ = step.language_of.partition(".")
            if before not in said:
                raise RecipeError(
                    f"{name}: {step.name} differs by language ({step.language_of}), and no step "
                    f"before it is {before!r}: put that step first"
                )
        said.add(step.name)
    if scope == "language" and "language" not in said:
        raise RecipeError(
            f'{name}: deduplicate.scope = "language" needs a [[step]] with use = "language"'
        )


def check_labels(labels: Iterable[str], steps: Iterable[Step], name: str, key: str) -> None:
    """Refuse settings (`key`) for a language that no step `language` keeps. `steps` are those of
    all sources.
    """
    kept: list[str] = []
    for step in steps:
        if isinstance(step, Language):
            if not isinstance(step.keep, list):
                return
            kept += step.keep
    for label in labels:
        if codes.place(label, kept) is None and all(
            codes.place(language, [label]) is None for language in kept
        ):
            raise RecipeError(
                f"{name}: {key}.by_language.{label}: `keep` of the step language has no language "
                f"that it means{suggest(label, kept)}"
            )
