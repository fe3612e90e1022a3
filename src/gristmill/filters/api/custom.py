"""A custom filter: `use = "package.module:function"` in a recipe that is run with
--allow-code.

The function says why a document is dropped, or null to keep it:

    def too_shouted(text: str) -> str | None:                a document at a time
    def too_shouted(batch: pa.RecordBatch) -> pa.Array:      a batch of DOCUMENTS at a time: n
                                                             strings or nulls

A first parameter annotated as pyarrow.RecordBatch makes it one for batches; any other, or none, one
for texts. The verdict is `too_shouted.<reason>`. An error in the function ends the run with
an error that names the function and the document: nothing is skipped. docs/custom-filters.md says
what is promised.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Decision, Inputs, Measured, Step, keep_all
from gristmill.system.own_code import USE, OwnFile, load
from gristmill.tables.schema import document_name

RESERVED = ("deduplicate", "read", "target")
REASON = "^[a-z0-9_]{1,64}$"
REASONS = "is no reason: null keeps a document; a reason has up to 64 of a-z, 0-9 and _"


class Custom(Step, frozen=True, kw_only=True):
    """Drop documents for the reasons that a function gives."""

    version: ClassVar[int] = 1

    use: Annotated[str, Meta(pattern=USE)]

    def __post_init__(self) -> None:
        if self.name in RESERVED:
            raise ValueError(
                f"a filter cannot be called {self.name!r}: gristmill's own verdicts are"
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the function's name."""
        return self.use.partition(":")[2]

    @property
    def module(self) -> str:
        """Return the module that holds the function."""
        return self.use.partition(":")[0]

    def inputs(self) -> dict[str, str]:
        return {f"own.{self.name}": f"code:{self.module}"}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        file = inputs[f"code:{self.module}"]
        function = load(self.use, OwnFile(file.path, file.sha256))
        if not callable(function):
            raise RecipeError(f"{self.use}: {file.path} has no function {self.name}")
        return function_measure(self.use, function)

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        reason = measures["reason"]
        return Decision(reason.cast(pa.string()), *keep_all(len(reason))[1:])


class Unloaded(Step, frozen=True, kw_only=True):
    """A custom class that was not imported, because --allow-code was not given."""

    version: ClassVar[int] = 0

    use: Annotated[str, Meta(pattern=USE)]
    parameters: dict[str, Any]  # unchecked

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the class's name."""
        return self.use.partition(":")[2]

    @property
    def after_dedup(self) -> bool:
        """Return whether it waits until duplicates are removed."""
        return self.parameters.get("after_dedup") is True

    def inputs(self) -> dict[str, str]:
        return {f"own.{self.name}": f"code:{self.use.partition(':')[0]}"}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        raise RecipeError(f"{self.use}: its code was not allowed to run: say --allow-code")

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        raise RecipeError(f"{self.use}: its code was not allowed to run: say --allow-code")


def function_measure(
    use: str, function: Callable[..., Any]
) -> Callable[[pa.RecordBatch], Measured]:
    """Return what measures the reasons of a function that `use` names, for texts or for batches.
    Raises RecipeError where it takes neither.
    """
    find = _of_batch if _takes_batches(use, function) else _of_texts
    return lambda batch: Measured({"reason": find(use, function, batch)})


def _takes_batches(use: str, function: Callable[..., Any]) -> bool:
    """Return whether a function's first parameter is annotated as pyarrow.RecordBatch."""
    try:
        signature = inspect.signature(function, eval_str=True)
        signature.bind(None)
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError) as error:
        raise RecipeError(
            f"{use}: it must take one argument, a text or a pyarrow.RecordBatch: {error}"
        ) from error
    first = next(iter(signature.parameters.values()))
    return first.annotation is pa.RecordBatch


def _of_texts(use: str, function: Callable[[str], Any], batch: pa.RecordBatch) -> pa.Array:
    """Return the reasons of a function for texts, (n,) string."""
    reasons: list[str | None] = []
    for row, text in enumerate(batch["text"]):
        try:
            reason = function(text.as_py())
        except (Exception, SystemExit) as error:
            raise RecipeError(
                f"{use}: {_document(batch, row)}: {type(error).__name__}: {error}"
            ) from error
        if reason is not None and not (isinstance(reason, str) and re.fullmatch(REASON, reason)):
            raise RecipeError(f"{use}: {_document(batch, row)}: {_bad(reason)}")
        reasons.append(reason)
    return pa.array(reasons, pa.string())


def _of_batch(
    use: str, function: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch
) -> pa.Array:
    """Return the reasons of a function for batches, (n,) string."""
    where = name_rows(batch)
    try:
        reasons = function(batch)
    except (Exception, SystemExit) as error:
        raise RecipeError(f"{use}: {where}: {type(error).__name__}: {error}") from error
    if not isinstance(reasons, pa.Array):
        raise RecipeError(
            f"{use}: {where}: it gave a {type(reasons).__name__}; it must give a pyarrow.Array"
        )
    if len(reasons) != len(batch):
        raise RecipeError(
            f"{use}: {where}: it gave {len(reasons)} reasons for {len(batch)} documents"
        )
    if not (
        pa.types.is_string(reasons.type)
        or pa.types.is_large_string(reasons.type)
        or pa.types.is_null(reasons.type)
    ):
        raise RecipeError(
            f"{use}: {where}: it gave reasons of type {reasons.type}; they must be strings"
        )
    reasons = reasons.cast(pa.string())
    bad = pc.index(pc.match_substring_regex(reasons, REASON), False).as_py()
    if bad >= 0:
        raise RecipeError(f"{use}: {_document(batch, bad)}: {_bad(reasons[bad].as_py())}")
    return reasons


def name_rows(batch: pa.RecordBatch) -> str:
    """Return the documents of a batch, for an error."""
    if not len(batch):
        return "no document"
    return f"{_document(batch, 0)} to {_document(batch, len(batch) - 1)}"


def _document(batch: pa.RecordBatch, row: int) -> str:
    return f"document {document_name(batch['document'][row].as_py())}"


def _bad(reason: object) -> str:
    return f"{reason!r:.100} {REASONS}"
