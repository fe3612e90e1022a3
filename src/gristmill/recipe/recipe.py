"""TOML to frozen, validated values. The only file that sees TOML.

Flat, ordered, no inheritance, no interpolation: a corpus stores the recipe with the defaults that
store/defaults.py names. An unknown key is an error that names its path, its line and the key that
was probably meant.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from gristmill.dedup.settings import Deduplicate
from gristmill.errors import RecipeError, suggest
from gristmill.filters.api import registry
from gristmill.filters.api.custom import Custom, Unloaded
from gristmill.filters.api.custom_class import load_class
from gristmill.filters.api.step import Input, Step
from gristmill.filters.language.by_language import LANGUAGE_OF, ByLanguage
from gristmill.recipe.explain import explain, find_line
from gristmill.recipe.languages import check_labels, check_languages, with_languages
from gristmill.recipe.mix_settings import Mix
from gristmill.recipe.source_settings import Source, format_location, is_own_format
from gristmill.recipe.token_checks import check_reads, check_tokens
from gristmill.source.source_format import FORMATS
from gristmill.store.defaults import without_defaults
from gristmill.store.http import urls
from gristmill.system.plugins import Plugins
from gristmill.tokens.token_settings import TokenSettings
from gristmill.user_input import recipe_text, set_key

# The key of a [[step]] table for the file of a class of your own (a step.Input), set where code is
# allowed to run. TOML and JSON cannot write such a value.
CODE = "@code"
OF_PHASES = "@phases"
Measure = Literal["needed", "all"]
# Phases, of which a recipe may have tables. They are above this room: their modules are found by
# their names, and imported where a recipe has such a table.
PHASES: Plugins[Any] = Plugins("gristmill.phases", ("Phase",), "--until {}: no such phase")


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a corpus is made of and by."""

    # The folder of the corpus, relative to the recipe's folder; `--out` goes before it.
    output: str | None = None
    # The seed of every random choice: samples, the order of token shards, what is kept in
    # `samples/`.
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 1
    # An e-mail address or URL that is sent to servers with each request, so that they can reach
    # you.
    contact: str | None = None
    source: list[Source]  # Where raw shards come from, one table each.
    # The filters and transforms, one table each, in the order in which they run.
    step: list[dict[str, Any]] = []
    deduplicate: Deduplicate | None = None  # How duplicates are found. Without the table none are.
    # How kept documents become token shards. Without the table the corpus ends with text.
    tokens: TokenSettings | None = None
    # How much of each source a training run reads. It changes no byte of the corpus.
    mix: Mix | None = None
    # With false the folder `documents/`, the texts before deduplication, is removed in the end.
    keep_documents: bool = True
    keep_dropped: bool = False  # With true `samples/` holds every text that a step dropped.
    # How many dropped texts `samples/` holds of each shard and reason.
    samples: Annotated[int, Meta(ge=0)] = 4
    # With `all` later filters also measure documents that an earlier filter has dropped.
    measure: Measure = "needed"
    # Of phases with settings of their own: the tables that the recipe has, by the phase's name.
    phases: dict[str, Any] = msgspec.field(name=OF_PHASES, default_factory=dict)

    def target(self, source: Source) -> int | None:
        """Return the tokens with which a source ends; None: with its last document."""
        if source.target_shards is not None and self.tokens is not None:
            return source.target_shards * self.tokens.tokens_per_shard
        return source.target_tokens

    def targets(self) -> dict[str, int]:
        """Return the targets of the sources that have one, by name."""
        targets = {source.name: self.target(source) for source in self.source}
        return {name: target for name, target in targets.items() if target is not None}

    def steps(self, source: str) -> list[Step]:
        """Return the steps of process that apply to a source, in order."""
        return [step for step in self.all_steps(source) if not is_post_dedup(step)]

    def post_dedup_steps(self, source: str) -> list[Step]:
        """Return the steps that apply to a source after deduplication, in order."""
        return [step for step in self.all_steps(source) if is_post_dedup(step)]

    def all_steps(self, source: str) -> list[Step]:
        """Return the steps that apply to a source, whenever that is."""
        made = [make_step(place, table) for place, table in enumerate(self.step)]
        return [step for step in made if step.sources is None or source in step.sources]

    def inputs(self, source: Source) -> dict[str, str]:
        """Return what the format and the steps of a source read besides raw shards: a name for the
        manifest -> its location.
        """
        location = format_location(source)
        inputs = {} if location is None else {f"source.{source.name}.kind": location}
        for step in self.all_steps(source.name):
            inputs |= step.inputs()
        return inputs


class Loaded(NamedTuple):
    """A recipe, the folder that its paths are relative to, and where it was read."""

    recipe: Recipe
    folder: Path
    name: str = "recipe"  # what errors call it
    text: str = ""


def load(path: Path, settings: dict[str, str] | None = None) -> Loaded:
    """Read a recipe from a file; `settings` are `key.path = value` in TOML's notation, as `--set`
    takes them.
    """
    text = recipe_text(path)
    folder = path.parent.resolve()
    return Loaded(parse(text, str(path), settings, folder), folder, str(path), text)


def parse_tables(text: str, name: str) -> dict[str, Any]:
    """TOML as tables; `name` is what errors call it. Raises RecipeError."""
    try:
        return tomllib.loads(text)
    # ValueError: TOMLDecodeError, or a number of thousands of digits
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{name}: not valid TOML: {error}") from error


def parse(
    text: str, name: str, settings: dict[str, str] | None = None, folder: Path = Path()
) -> Recipe:
    """Read a recipe from TOML; `name` is what errors call it, `folder` where its paths begin."""
    tables = parse_tables(text, name)
    for key, value in (settings or {}).items():
        _set(tables, key, value)
    tables = with_languages(tables, name, text, folder, parse_tables)
    if OF_PHASES in tables:
        raise RecipeError(f"{name}{find_line(text, [OF_PHASES])}: {OF_PHASES}: unknown key")
    own = _phase_settings(tables)
    try:
        recipe = msgspec.convert({key: tables[key] for key in tables if key not in own}, Recipe)
    except msgspec.ValidationError as error:
        raise explain(error, name, text, Recipe, tables) from error
    for key, kind in own.items():
        try:
            recipe.phases[key] = msgspec.convert(tables[key], kind)
        except msgspec.ValidationError as error:
            raise explain(error, name, text, kind, tables[key], [key]) from error
    _check(recipe, name, text)
    return recipe


def _phase_settings(tables: dict[str, Any]) -> dict[str, type[msgspec.Struct]]:
    """Return the keys of a recipe that are tables of phases, with the class of their settings."""
    known = Recipe.__struct_encode_fields__
    phases = {key: PHASES.find(key) for key in tables if key not in known and key in PHASES}
    return {key: phase.settings for key, phase in phases.items() if phase.settings is not None}


def from_stored(table: Mapping[str, Any]) -> Recipe:
    """Return the recipe that a manifest has (`stored`)."""
    own = _phase_settings(dict(table))
    recipe = msgspec.convert({key: table[key] for key in table if key not in own}, Recipe)
    recipe.phases.update({key: msgspec.convert(table[key], kind) for key, kind in own.items()})
    return recipe


def _set(tables: dict[str, Any], key: str, value: str) -> None:
    """Set one key: `tokens.validation=0.01`, `step.gopher.min_words=50`."""
    try:
        parsed: Any = tomllib.loads(f"x = {value}")["x"]
    except (ValueError, RecursionError):
        parsed = value
    set_key(tables, key, parsed)


def make_step(place: int, table: dict[str, Any]) -> Step:
    """Make the step that a `[[step]]` table names.

    A class of your own is imported only where the table has its file under CODE; a function's file
    is run when documents come.
    """
    kind = _kind(place, table)
    given = {key: value for key, value in table.items() if key not in ("use", CODE)}
    if kind is Unloaded:
        sources = {"sources": given.pop("sources", None)}
        given = {"use": table["use"], **sources, "parameters": given}
    elif kind is Custom:
        given["use"] = table["use"]
    elif "by_language" in given:
        kind, given = ByLanguage, ByLanguage.given(str(table["use"]), given)
    step: Step = msgspec.convert(given, kind)
    return step


def is_post_dedup(step: Step) -> bool:
    """Return whether a step waits until duplicates are removed (`after_dedup`, a parameter of steps
    that only rewrite).
    """
    return bool(getattr(step, "after_dedup", False))


def check_pages(recipe: Recipe) -> None:
    """Refuse a source of pages that no step takes the text out of; they can be fetched all the
    same.
    """
    for source in recipe.source:
        said = source.kind is not None and not is_own_format(source)
        pages = said and FORMATS.find(str(source.kind)).pages
        steps = recipe.steps(source.name) if pages else None
        if steps is not None and not any(step.takes_pages for step in steps):
            known = [f'"{step.name}"' for step in registry.all_built_in() if step.takes_pages]
            raise RecipeError(
                f'source {source.name!r} is of pages (kind = "{source.kind}"), and no step '
                f"takes their text out: put a [[step]] with use = {' or '.join(known)} before the "
                "others. `--until fetch` fetches them without it"
            )


def is_custom(table: dict[str, Any]) -> bool:
    """Return whether a `[[step]]` table names code of your own: `package.module:Name`."""
    return isinstance(table.get("use"), str) and ":" in table["use"]


def step_name(table: dict[str, Any]) -> str:
    """Return the step's name, which its verdicts carry."""
    return str(table["use"]).rpartition(":")[2]


def _kind(place: int, table: dict[str, Any]) -> type[Step]:
    use = table.get("use")
    if is_custom(table):
        code = table.get(CODE)
        if isinstance(code, Input):
            return load_class(str(use), code, table) or Custom
        return Custom if table.keys() <= {"use", "sources"} else Unloaded
    kind = registry.find_step(use) if isinstance(use, str) else None
    if kind is None:
        known = registry.STEPS.names()
        raise RecipeError(f"step[{place}].use = {use!r}: no such step{suggest(str(use), known)}")
    return kind.variant(table)


def _check(recipe: Recipe, name: str, text: str) -> None:
    if not recipe.source:
        raise RecipeError(f"{name}: no [[source]]: say where the raw shards are")
    names = [source.name for source in recipe.source]
    for place, source in enumerate(recipe.source):
        where = f"{name}{find_line(text, ['source', place, 'name'])}: source[{place}]"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", source.name):
            raise RecipeError(
                f"{where}.name = {source.name!r}: it becomes a folder; use letters, digits, "
                "'.', '_' and '-'"
            )
        if names.count(source.name) > 1:
            raise RecipeError(f"{where}.name = {source.name!r} is used twice")
        named = (source.urls, source.files, source.paths, source.commoncrawl, source.hub)
        if not any(named):
            raise RecipeError(
                f"{where} ({source.name}) has no shards: give it urls, files, paths, commoncrawl "
                "or hub"
            )
        if not (source.kind is None or is_own_format(source) or source.kind in FORMATS):
            raise RecipeError(
                f"{name}{find_line(text, ['source', place, 'kind'])}: source[{place}].kind = "
                f"{source.kind!r}: there is no such format{suggest(source.kind, FORMATS.names())}"
            )
        if source.commoncrawl and source.kind not in ("wet", "warc"):
            raise RecipeError(
                f"{where} ({source.name}) names a crawl: say which of its files with kind = "
                '"wet" or "warc"'
            )
        if source.sample and not (source.paths or source.commoncrawl):
            raise RecipeError(
                f"{where} ({source.name}): sample is for paths and commoncrawl; it has neither"
            )
        _check_hub(source, f"{where} ({source.name})")
    _check_targets(recipe, name)
    for place, table in enumerate(recipe.step):
        step = checked_step(place, table, name, text)
        for source_name in step.sources or []:
            if source_name not in names:
                raise RecipeError(
                    f"{name}: step[{place}].sources: no source "
                    f"{source_name!r}{suggest(source_name, names)}"
                )
    steps = [make_step(place, table) for place, table in enumerate(recipe.step)]
    check_reads(steps, name)
    for source_name in names:
        scope = recipe.deduplicate.scope if recipe.deduplicate else "corpus"
        check_languages(recipe.steps(source_name), scope, name)
    every = [step for source_name in names for step in recipe.steps(source_name)]
    for place, step in enumerate(steps):
        if isinstance(step, ByLanguage) and step.language_of == LANGUAGE_OF:
            check_labels(step.by_language, every, name, f"step[{place}]")
    if recipe.deduplicate is not None and recipe.deduplicate.by_language:
        check_labels(recipe.deduplicate.by_language, every, name, "deduplicate")
    check_tokens(
        recipe.tokens,
        steps,
        next((one.name for one in recipe.source if one.target_shards or one.target_tokens), None),
        name,
        deduplicates=recipe.deduplicate is not None,
    )
    for source_name in names:
        used = [
            step_name(table)
            for table in recipe.step
            if source_name in (table.get("sources") or names)
        ]
        if len(set(used)) < len(used):
            raise RecipeError(
                f"{name}: a step is used twice for source {source_name!r}: {', '.join(used)}"
            )


def _check_hub(source: Source, where: str) -> None:
    if source.hub is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", source.hub, re.ASCII):
        raise RecipeError(f"{where}: hub = {source.hub!r} is no dataset of the hub: owner/name")
    if source.subset is not None and source.hub is None:
        raise RecipeError(f"{where}: subset is a configuration of a dataset: name it with hub")
    if source.target_shards is not None and source.target_tokens is not None:
        raise RecipeError(f"{where}: target_shards and target_tokens: give one of them")


def _check_targets(recipe: Recipe, name: str) -> None:
    """Refuse what a target cannot be combined with: whatever lets a later document change how many
    tokens the earlier ones have.
    """
    if not any(source.enabled for source in recipe.source):
        raise RecipeError(f"{name}: every source says enabled = false: nothing would be read")
    targets = [one.name for one in recipe.source if one.target_shards or one.target_tokens]
    if not targets:
        return
    where = f"{name}: source {targets[0]!r} has a target"
    if recipe.tokens is None:
        raise RecipeError(f"{where}, and the recipe has no [tokens] to count")
    settings, why = recipe.deduplicate, "a later document would change what is kept before it"
    if settings is not None and settings.order != "plan":
        raise RecipeError(f'{where}, and deduplicate.order = "{settings.order}": {why}')
    if settings is not None and settings.near is not None and settings.near.group != "kept":
        raise RecipeError(f'{where}, and near.group = "{settings.near.group}": {why}')
    if settings is not None and settings.lines is not None:
        raise RecipeError(f"{where}, and [deduplicate.lines] counts lines over the corpus: {why}")
    if settings is not None and settings.substrings is not None:
        raise RecipeError(f"{where}, and [deduplicate.substrings] compares the whole corpus: {why}")
    for place, table in enumerate(recipe.step):
        step = checked_step(place, table, name, "")
        if step.ranks or step.corpus_rules:
            raise RecipeError(f"{where}, and the step {step.name} compares with the corpus: {why}")


def checked_step(place: int, table: dict[str, Any], name: str, text: str) -> Step:
    """Make a step; a RecipeError says where in the recipe's text it is wrong."""
    at: list[str | int] = ["step", place]
    if CODE in table and not isinstance(table[CODE], Input):
        raise RecipeError(
            f"{name}{find_line(text, [*at, CODE])}: step[{place}].{CODE}: unknown key"
        )
    try:
        return make_step(place, table)
    except msgspec.ValidationError as error:
        raise explain(error, name, text, _kind(place, table), table, at) from error
    except RecipeError as error:
        raise RecipeError(f"{name}{find_line(text, [*at, 'use'])}: {error}") from error


def stored(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe as a corpus stores it: what is not at its default (store/defaults.py),
    steps too, secrets taken out of URLs.

    `output`, `contact`, `mix` and `authorization` change no byte and are left out.
    """
    table = without_defaults(recipe)
    for key in ("output", "contact", "mix"):
        table.pop(key, None)
    table |= table.pop(OF_PHASES, {})
    for source in table["source"]:
        source.pop("authorization", None)
        source["urls"] = [stored_url(url) for url in source["urls"]]
        for key in ("paths", "base_url", "sha256sums"):
            source[key] = stored_url(source[key]) if source[key] is not None else None
    if table["tokens"] is not None:
        table["tokens"]["tokenizer"] = stored_url(table["tokens"]["tokenizer"])
    table["step"] = [_store_step(place, step) for place, step in enumerate(recipe.step)]
    return dict(table)


def _store_step(place: int, table: dict[str, Any]) -> dict[str, Any]:
    step = make_step(place, table)
    locations = set(step.inputs().values())

    def clean(value: Any) -> Any:
        if isinstance(value, list):
            return [clean(entry) for entry in value]
        if isinstance(value, dict):
            return {key: clean(entry) for key, entry in value.items()}
        return stored_url(value) if isinstance(value, str) and value in locations else value

    filled = step.content()
    if isinstance(step, Unloaded):
        filled |= filled.pop("parameters")
    return {
        "use": table["use"],
        **{key: clean(value) for key, value in filled.items() if key != "use"},
    }


def stored_url(name: str) -> str:
    """Return a URL without secrets; anything else is itself."""
    return urls.stored(name) if urls.is_url(name) else name


def with_limit(recipe: Recipe, limit: int) -> Recipe:
    """Return the recipe with at most `limit` documents a source."""
    sources = [
        msgspec.structs.replace(source, limit=min(limit, source.limit or limit))
        for source in recipe.source
    ]
    return msgspec.structs.replace(recipe, source=sources)
