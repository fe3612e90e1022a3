"""A phase as a value: what it reads and writes, what it depends on, and what does it.

    Phase    the value; phases/all_phases.py finds all of them, in order
    a task   a frozen msgspec Struct: all that one call of the phase's function needs
    State    what the tasks are made of: the run's plan, recipe and the records of earlier phases

**The content key of a task is derived.** Every field of a task is in it, but for those declared as
`Runtime` (paths, and what changes no byte) and those at their default (store/defaults.py): what was
finished before there was such a field stays finished. The recipe comes to `Phase.tasks`
narrowed: a field that the phase does not declare has its default there, so that nothing undeclared
can reach a task. Of libraries and of gristmill itself a key holds format versions
(corpus/formats.py), nothing else.
"""

import copy
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from gristmill.corpus.corpus import Corpus, Record, content_key
from gristmill.corpus.formats import FORMAT_VERSIONS
from gristmill.dedup.reference_corpus import ReferenceCorpus
from gristmill.errors import GristmillError
from gristmill.filters.api.step import Input
from gristmill.phases.inputs.fetch import label
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.running.progress import Progress
from gristmill.recipe import Recipe
from gristmill.store.defaults import stored_keys, without_defaults
from gristmill.store.parts import Part
from gristmill.tables.schema import shard_name
from gristmill.tokens.tokenizer import Tokenizer

Counts = TypeVar("Counts")
Value = TypeVar("Value")

# A field of a task that is in no key: `root: Runtime[str]`.
Runtime = Annotated[Value, Meta(extra={"runtime": True})]
Scope = Literal["shard", "source", "corpus"]
WHOLE = "all"  # the name of the one task about the whole corpus


class Output(NamedTuple):
    """What a phase's function gives back."""

    counts: Any  # of the phase's `counts`
    parts: Sequence[Part] = ()
    work: Sequence[Part] = ()  # files that later phases read and no corpus holds: paths from work/


class Phase(msgspec.Struct, Generic[Counts], frozen=True, kw_only=True):
    """One phase of a run."""

    name: str
    scope: Scope  # a task for each raw shard, for each source, or one for the whole corpus
    stop: str = ""  # the name that --until stops by, behind the last phase of it; "": its own
    # The recipe's fields that it depends on, as in `deduplicate.near.shingle`; a table's name
    # stands for all of its fields.
    recipe: tuple[str, ...]
    reads: tuple[str, ...]  # folders of a corpus, or of work/ (`work/process`)
    writes: tuple[str, ...]
    formats: tuple[str, ...]  # of FORMAT_VERSIONS: those of its bytes
    counts: type[Counts]  # what its records count
    # (task, on_progress) -> Output; but for scope "shard" (task, on_progress, session) -> Output
    function: Callable[..., Output]
    # Tasks by number (of the shard, or the source's place in the recipe, or 0), in rounds. Tasks of
    # a round run side by side; its records are in the state before the next round is asked for.
    tasks: Callable[["State"], Iterable[dict[int, Any]]]
    # Of `reads`, the folders that a task opens, where that depends on the task; null: all.
    opens: Callable[[Any], Iterable[str]] | None = None
    # Asked when all tasks are done: tasks whose result is refused, and why. May raise.
    check: Callable[["State"], dict[int, GristmillError]] | None = None
    # The class of its own table in a recipe, which has its name; null: it has none. The table is in
    # `State.settings`, and in no phase's tasks but its own.
    settings: type[msgspec.Struct] | None = None
    example: str = ""  # of that table as TOML, for docs/reference
    # null: a recipe asks for it by its table; every recipe does where there is none
    is_asked: Callable[[Recipe], bool] | None = None
    # About how many bytes a task will report by `on_progress`, for estimates of time.
    size: Callable[[Any], int] | None = None

    @property
    def stops_by(self) -> str:
        """Return the name for --until."""
        return self.stop or self.name

    def is_asked_by(self, recipe: Recipe) -> bool:
        """Return whether a recipe asks for it."""
        if self.is_asked is None:
            return self.settings is None or self.name in recipe.phases
        return self.is_asked(recipe)

    def key(self, task: Any) -> str:
        """Return the content key of a task, 64 hexadecimal digits."""
        formats = format_versions(self.formats)
        return content_key(self.name, formats=formats, task=key_fields(task))

    def record_name(self, number: int, recipe: Recipe) -> str:
        """Return the name of a task's record under work/state/<phase>/."""
        if self.scope == "shard":
            return shard_name(number)
        return recipe.source[number].name if self.scope == "source" else WHOLE

    def label(self, number: int, state: "State") -> str:
        """Return what messages call a task."""
        if self.scope == "shard":
            return label(state.plan.shards[number])
        return f"{self.name} {self.record_name(number, state.recipe)}"

    def check_folders(self, output: Output) -> None:
        """Refuse files in folders that the phase does not declare."""
        paths = [part.path for part in output.parts]
        paths += [f"work/{part.path}" for part in output.work]
        for path in paths:
            if not path.startswith(tuple(f"{folder}/" for folder in self.writes)):
                raise AssertionError(f"{self.name} wrote {path}, in a folder it does not declare")


class State(NamedTuple):
    """What a run knows when a phase's tasks are made."""

    corpus: Corpus
    recipe: Recipe
    folder: Path  # that the recipe's paths are relative to
    plan: Plan
    paths: dict[int, Path]  # of the raw shards, by number
    inputs: dict[str, Input]  # of the steps, by location
    tokenizer: Tokenizer | None  # null: the recipe has no [tokens]
    older: list[ReferenceCorpus]
    progress: Progress
    records: dict[str, dict[int, Record[Any]]]  # by phase, and by the task's number
    phase: Phase[Any] | None = None  # whose tasks are made; null: all is to be seen

    def of_phase(self, phase: Phase[Any]) -> "State":
        """Return the state as a phase sees it: the recipe's fields that it declares, the others
        with their defaults.
        """
        recipe = narrow(self.recipe, phase.recipe)
        if phase.name in self.recipe.phases:
            recipe.phases[phase.name] = self.recipe.phases[phase.name]
        return self._replace(recipe=recipe, phase=phase)

    @property
    def settings(self) -> Any:
        """Return the phase's own table of the recipe."""
        assert self.phase is not None
        return self.recipe.phases[self.phase.name]

    def of(self, phase: Phase[Counts]) -> dict[int, Record[Counts]]:
        """Return the records of an earlier phase that this one reads from."""
        reader = self.phase
        if reader is not None and reader != phase and not set(reader.reads) & set(phase.writes):
            raise AssertionError(f"{reader.name} declares nothing that {phase.name} writes")
        return self.records.get(phase.name, {})

    def one(self, phase: Phase[Counts]) -> Record[Counts] | None:
        """Return the record of an earlier phase about the whole corpus; null: it was not asked
        for.
        """
        return self.of(phase).get(0)


def format_versions(names: Iterable[str]) -> dict[str, str]:
    """Format versions by name; what corpus/formats.py does not name has its first."""
    return {name: FORMAT_VERSIONS.get(name, "1") for name in names}


def key_fields(task: Any) -> dict[str, Any]:
    """Return the fields of a task that its key is made of. A value with a method `key` says itself
    what of it counts.
    """
    hints = typing.get_type_hints(type(task), include_extras=True)
    names = [name for name in stored_keys(task) if not _is_runtime(hints[name])]
    return {name: _content(getattr(task, name)) for name in names}


def _is_runtime(hint: Any) -> bool:
    return any(
        (getattr(meta, "extra", None) or {}).get("runtime")
        for meta in getattr(hint, "__metadata__", ())
    )


def _content(value: Any) -> Any:
    if isinstance(value, list):
        return [_content(entry) for entry in value]
    if isinstance(value, dict) and not all(isinstance(name, str) for name in value):
        return [[number, _content(entry)] for number, entry in sorted(value.items())]
    return value.key() if hasattr(value, "key") else without_defaults(value)


def narrow(recipe: Recipe, fields: Iterable[str]) -> Recipe:
    """Return a recipe whose other fields have their defaults, or null where they have none."""
    tree: dict[str, Any] = {}
    for field in fields:
        *tables, last = field.split(".")
        branch = tree
        for table in tables:
            branch = branch.setdefault(table, {})
        branch.setdefault(last, {})
    narrowed: Recipe = _narrow(recipe, tree)
    return narrowed


def _narrow(value: Any, tree: dict[str, Any]) -> Any:
    if isinstance(value, list) and tree:
        return [_narrow(entry, tree) for entry in value]
    if not isinstance(value, msgspec.Struct) or not tree:
        return value
    unknown = set(tree) - set(value.__struct_fields__)
    if unknown:
        raise AssertionError(f"{type(value).__name__} has no field {sorted(unknown)}")
    made = copy.copy(value)
    for field in msgspec.structs.fields(value):
        if field.name in tree:
            new = _narrow(getattr(value, field.name), tree[field.name])
        elif field.default_factory is not msgspec.NODEFAULT:
            new = field.default_factory()
        else:
            new = None if field.default is msgspec.NODEFAULT else field.default
        msgspec.structs.force_setattr(made, field.name, new)
    return made
