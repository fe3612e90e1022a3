"""A filter of your own as a class: `use = "package.module:Class"`, in a recipe that is run with
--allow-code.

The class is below `gristmill.filters.api.step.Step`, as a built-in filter's is, and the recipe sets
its parameters. It is imported from exactly the file that was hashed when the run was planned. What
the recipe gets is a subclass with the class's name as the step's, with the file among `inputs`, and
with errors that name the class: nothing is skipped. docs/custom-filters.md says what is promised.
"""

import ast
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import RecipeError
from gristmill.filters.api.custom import REASON, REASONS, name_rows
from gristmill.filters.api.step import Decision, Input, Inputs, Measured, Step
from gristmill.system.own_code import OwnFile, find_source, load

TAKEN = (
    "name",
    "use",
    "version",
    "thresholds",
    "table",
    "checks",
    "fixed",
    "comparisons",
)  # no parameter can be called so


def find_class(use: str, folder: Path) -> Input | None:
    """Return the file of the class that `use` names; None where it names a function, whose file is
    not run.

    Raises RecipeError where there is no such module.
    """
    module, _, wanted = use.partition(":")
    path = find_source(module, folder)
    try:
        data = path.read_bytes()
        tree = ast.parse(data)
    except (OSError, SyntaxError, ValueError) as error:
        raise RecipeError(f"{use}: {path}: {error}") from error
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if wanted in [function.name for function in functions]:
        return None
    return Input(path.name, str(path), sha256(data).hexdigest())


def load_class(use: str, file: Input, table: Mapping[str, Any]) -> type[Step] | None:
    """Return the class that `use` names, as a [[step]] table means it; None where it is a function
    after all. The file runs once in a process.

    Raises RecipeError where it is no step.
    """
    definition = _loaded(use, file)
    if not isinstance(definition, type):
        return None
    if not issubclass(definition, Step):
        raise RecipeError(f"{use}: a class must be below gristmill.filters.api.step.Step")
    module, _, name = use.partition(":")
    return as_named(name, f"code:{module}", definition.variant(table))


@cache
def _loaded(use: str, file: Input) -> Any:
    return load(use, OwnFile(file.path, file.sha256))


@cache
def as_named(name: str, location: str, found: type[Step]) -> type[Step]:
    """Return a class under the recipe's name for it, with the file or package that has it,
    `code:MODULE` or `version:PACKAGE`, among its inputs.
    """
    use = f"{location.partition(':')[2]}:{name}"
    _check(use, found)

    def variant(cls: type[Step], table: Mapping[str, Any]) -> type[Step]:
        chosen = found.variant(table)
        return cls if chosen is found else as_named(name, location, chosen)

    def inputs(self: Step) -> dict[str, str]:
        return {f"own.{name}": location, **found.inputs(self)}

    def ready(self: Step, given: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        call = _loud(use, "load", found.load, self, given)

        def measure(batch: pa.RecordBatch) -> Measured:
            measured = _loud(use, name_rows(batch), call, batch)
            return _checked(use, batch, measured, own_table=found.table is not None)

        return measure

    def decide(self: Step, measures: Mapping[str, pa.Array]) -> Decision:
        said = _loud(use, "decide", found.decide, self, measures)
        rows = len(next(iter(measures.values())))
        if not isinstance(said, Decision) or {len(column) for column in said} != {rows}:
            raise RecipeError(
                f"{use}: decide must give a Decision of {rows} rows, got {said!r:.100}"
            )
        reason = said.reason.cast(pa.string())
        bad = pc.index(pc.match_substring_regex(reason, REASON), False).as_py()
        if bad >= 0:
            raise RecipeError(f"{use}: {reason[bad].as_py()!r:.100} {REASONS}")
        floats = (column.cast(pa.float64()) for column in (said.value, said.threshold))
        return Decision(reason, *floats)

    table = None if found.table is None else f"tables/{name}"
    body = {
        "variant": classmethod(variant),
        "name": name,
        "table": table,
        "inputs": inputs,
        "load": ready,
        "decide": decide,
    }
    kind: Any = type(found)
    made: type[Step] = kind(
        found.__name__,
        (found,),
        {**body, "__doc__": found.__doc__, "__module__": found.__module__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return made


def _check(use: str, found: type[Step]) -> None:
    """Refuse what a step cannot declare."""
    fields = found.__struct_fields__
    taken = [name for name in TAKEN if name in fields]
    if taken:
        raise RecipeError(f"{use}: a parameter cannot be called {taken[0]!r}")
    if not isinstance(getattr(found, "version", None), int):
        raise RecipeError(f"{use}: it needs a version: `version: ClassVar[int] = 1`")
    unknown = sorted(set(found.thresholds) - set(fields))
    if unknown:
        raise RecipeError(f"{use}: thresholds names {unknown[0]!r}, which is no parameter")
    if "after_dedup" not in fields and hasattr(found, "after_dedup"):
        raise RecipeError(f"{use}: after_dedup must be a parameter, `after_dedup: bool = True`")


def _loud(use: str, where: str, call: Callable[..., Any], *given: Any) -> Any:
    """Return what a call of the class gives; its errors name it."""
    try:
        return call(*given)
    except RecipeError:
        raise
    except (Exception, SystemExit) as error:
        raise RecipeError(f"{use}: {where}: {type(error).__name__}: {error}") from error


def _checked(use: str, batch: pa.RecordBatch, found: Any, *, own_table: bool) -> Measured:
    """Refuse measures that are not one a row, and rows without a table."""
    if not isinstance(found, Measured):
        raise RecipeError(f"{use}: it gave a {type(found).__name__}; it must give a Measured")
    if not found.measures:
        raise RecipeError(f"{use}: it must measure something: Measured(measures) is empty")
    columns = dict(found.measures) | ({} if found.text is None else {"text": found.text})
    for name, column in columns.items():
        if not isinstance(column, pa.Array) or len(column) != len(batch):
            raise RecipeError(
                f"{use}: {name_rows(batch)}: {name} must be a pyarrow.Array of {len(batch)} rows"
            )
    if (found.found is not None) != own_table:
        raise RecipeError(
            f"{use}: `table` and Measured.found belong together: one without the other was given"
        )
    text = found.text
    if text is not None and (text.type != pa.string() or text.null_count):
        raise RecipeError(f"{use}: {name_rows(batch)}: text must be strings without nulls")
    return found
