"""What a step is: a filter of gristmill's or of your own, with its parameters.

    batch -> load(inputs) -> Measured: the measures, and the text where the step rewrites it
    measures -> decide -> Decision: of each row a reason to drop it, or null

Deciding needs no text, so that other thresholds can be tried on stored measures
(phases/process/redecide.py).

A step is a frozen msgspec Struct below `Step`; its fields are the parameters that a [[step]] table
of a recipe may set. `Step` says what it may declare besides; only `name`, `version` and `load` must
be there. filters/api/registry.py finds built-in ones and those of packages, filters/api/custom.py
those of your own.
"""

import difflib
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, overload

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.errors import ArgumentError
from gristmill.store.defaults import without_defaults

if TYPE_CHECKING:
    from gristmill.filters.api.corpus_rules import CorpusRule
    from gristmill.filters.api.in_memory import Texts, TextVerdict
    from gristmill.filters.api.texts import BatchTexts


class Input(NamedTuple):
    """What a step's bytes depend on besides documents: a file that it reads (a model, a list), or a
    library's version.
    """

    name: str  # its file name, or the package and its version, as the manifest shows it
    path: str  # where it lies on this machine; of a version empty
    sha256: str  # of the file; of a version that of the name


Inputs = Mapping[str, Input]  # by the location that the recipe names


class Measured(NamedTuple):
    """What a step finds in the n rows of a batch."""

    # by name, each (n,): exact; null where there is nothing to measure
    measures: dict[str, pa.Array]
    text: pa.Array | None = None  # (n,) string without nulls: the texts as the step rewrites them
    # other columns of DOCUMENTS that the step fills, each (n,)
    columns: Mapping[str, pa.Array] = {}
    # rows for the step's own table, with `document`, in document order; an empty batch shows the
    # schema
    found: pa.RecordBatch | None = None
    texts: "BatchTexts | None" = None  # of `text`: what the step has found in it already


class Decision(NamedTuple):
    """What a filter says of n rows. It drops nothing: filters.api.judge does."""

    reason: pa.Array  # (n,) string, without the step's name; null keeps the row
    value: pa.Array  # (n,) float64: the measured value that the reason is about
    threshold: pa.Array  # (n,) float64: what it was compared with


class Check(NamedTuple):
    """One comparison: `reason` drops a row where its measure is `broken` against the limit."""

    reason: str
    measure: str
    broken: Literal["<", "<=", ">", ">="]
    limit: float | None  # null: not checked


class Rank(NamedTuple):
    """A question about the whole corpus: the share of documents at one end of a measure is dropped.

    The verdict is `NAME.lowest` or `NAME.highest`, its threshold the quantile.
    """

    measure: str  # a measure of the step's own
    end: Literal["lowest", "highest"]
    share: float  # of the documents that have the measure, above 0 and below 1


class StepMeta(msgspec.StructMeta):
    """Checks the parameters of a step that is made in Python as a recipe's are checked."""

    if not TYPE_CHECKING:  # a type checker sees the parameters themselves

        def __call__(cls, *args: Any, **parameters: Any) -> Any:  # noqa: N805
            """Make a step. Raises ArgumentError."""
            return checked(cls, super().__call__, args, parameters)


class Step(
    msgspec.Struct, metaclass=StepMeta, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """The base of all steps: what they may declare, and what holds where they do not.

    A step is called with texts (filters/api/in_memory.py): `Gopher(min_words=50)(texts)`.

    A step with a parameter `after_dedup` that is true waits until duplicates are removed. It then
    rewrites texts and drops nothing: `decide` is not called.
    """

    # The recipe's word, which verdicts and measures carry. A built-in step's is its module's name,
    # a step of your own has its class's name, whatever is said here.
    name: ClassVar[str]
    # One more whenever the same parameters may measure, rewrite or decide otherwise.
    version: ClassVar[int]
    # The parameters that only `decide` and `ranks` read: `rejudge` can change them.
    thresholds: ClassVar[frozenset[str]] = frozenset()
    # The folder of its own table (`Measured.found`), one file a raw shard; null: it has none. A
    # step of your own that names any has tables/NAME.
    table: ClassVar[str | None] = None
    # Parameters as TOML, for docs/reference.
    example: ClassVar[str] = ""
    # What each reason says of a document that it drops, and what each measure is: `gristmill why`
    # and docs/reference show it. NAME and N are filled in by parameters.
    reasons: ClassVar[Mapping[str, str]] = {}
    measures: ClassVar[Mapping[str, str]] = {}
    # It takes the text out of pages: sources of HTML and WARC need such a step.
    takes_pages: ClassVar[bool] = False
    # What it takes out is not to be read again: where it waits, a run says where it can be.
    redacts: ClassVar[bool] = False

    # The names of the sources that the step applies to. Unset: all.
    sources: list[str] | None = None

    @classmethod
    def variant(cls, table: Mapping[str, Any]) -> type["Step"]:  # noqa: ARG003
        """Return the class that a [[step]] table means: `rules` may mean one of its own."""
        return cls

    @classmethod
    def example_table(cls) -> str:
        """Return the [[step]] table of its example, as TOML."""
        return f'[[step]]\nuse = "{cls.name}"\n{cls.example}'

    @property
    def corpus_rules(self) -> "Sequence[CorpusRule]":
        """Return what it asks about the whole corpus by its own table; asked before `ranks`."""
        return ()

    @property
    def ranks(self) -> Sequence[Rank]:
        """Return what is dropped by its rank in the whole corpus."""
        return ()

    @property
    def by_number(self) -> bool:
        """Return whether it knows documents by their numbers, which `size`'s sample has not."""
        return False

    @property
    def reads(self) -> Sequence[str]:
        """Measures of earlier steps that its corpus rules read, as `step.measure`."""
        return ()

    def content(self) -> dict[str, Any]:
        """Return the parameters by name, as a stored recipe has them."""
        found: dict[str, Any] = without_defaults(self)
        return found

    def measuring(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Of parameters by name those that measures depend on, whatever is then decided."""
        return {name: value for name, value in content.items() if name not in self.thresholds}

    def inputs(self) -> dict[str, str]:
        """Return what the step's results depend on besides text: a name for the manifest -> its
        location, as phases/inputs/inputs.py reads it (a path, a URL, `version:PACKAGE`).
        """
        return {}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        """Load what the step needs; the function measures a batch of DOCUMENTS, of no row too.

        Measures must not depend on the other rows. Raises RecipeError where an input is unusable.
        """
        raise NotImplementedError(f"{type(self).__name__}.load")

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        """Judge n rows by their measures alone. A step that drops nothing leaves this out; one that
        measures nothing is not asked.
        """
        return keep_all(len(next(iter(measures.values()))))

    @overload
    def __call__(self, texts: str, *, text: str = ...) -> "TextVerdict": ...
    @overload
    def __call__(self, texts: Mapping[str, Any], *, text: str = ...) -> dict[str, Any]: ...
    @overload
    def __call__(self, texts: "Texts", *, text: str = ...) -> pa.Table: ...
    def __call__(self, texts: Any, *, text: str = "text") -> Any:
        """Judge texts in memory by this step alone: `gristmill.filters.judge`."""
        from gristmill.filters.api import in_memory

        return in_memory.judge(texts, [self], text=text)


def checked(
    kind: Any, make: Callable[..., Any], args: Sequence[Any], parameters: Mapping[str, Any]
) -> Any:
    """Return a step of a class, its parameters checked and of the types that they are said to be: a
    path as a string, an int as a float. Raises ArgumentError.
    """
    known = kind.__struct_fields__
    for name in parameters:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ArgumentError(
                f"{kind.__name__}: there is no parameter {name!r}"
                + (f"; did you mean {near[0]!r}?" if near else f": it has {', '.join(known)}")
            )
    try:
        if args:
            make(*args)  # there are only keywords: this says so
        # Types come first: what a step checks itself relies on them.
        return msgspec.convert(msgspec.to_builtins(dict(parameters), enc_hook=os.fspath), kind)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        message = str(error).replace("`$.", "`").replace("Object missing", "missing")
        raise ArgumentError(f"{kind.__name__}: {message}") from error


def refuse_nan(parameters: Iterable[object]) -> None:
    """Raise ValueError where a parameter is NaN: compared with it, nothing is broken."""
    if any(isinstance(value, float) and math.isnan(value) for value in parameters):
        raise ValueError("a threshold that is no number decides nothing")


def check(checks: Sequence[Check], measures: Mapping[str, pa.Array]) -> Decision:
    """Decide by comparisons, in order: of each row the first broken one. A null breaks none."""
    if (asked := _ASKED.get()) is not None:
        asked.extend(checks)
    rows = len(next(iter(measures.values())))
    if rows == 1:
        return _check_one(checks, measures)
    failed = np.zeros(rows, np.int8)  # 0: kept; else the check's place, from 1
    value, threshold = np.zeros(rows), np.zeros(rows)
    numbers: dict[str, np.ndarray] = {}
    for place, (_, measure, broken, limit) in enumerate(checks, 1):
        if limit is None:
            continue
        if measure not in numbers:
            numbers[measure] = _numbers(measures[measure])
        measured = numbers[measure]
        new = _BROKEN[broken](measured, limit) & (failed == 0)
        if new.any():
            failed[new], value[new], threshold[new] = place, measured[new], limit
    kept = failed == 0
    if kept.all():
        return keep_all(rows)
    names = pa.array([None, *(check.reason for check in checks)], pa.string())
    return Decision(
        names.take(pa.array(failed)), pa.array(value, mask=kept), pa.array(threshold, mask=kept)
    )


# The comparisons that a step's `decide` makes, while `active_checks` asks for them.
_ASKED: ContextVar[list[Check] | None] = ContextVar("asked", default=None)


def active_checks(step: Step, measures: Mapping[str, pa.Array]) -> list[Check]:
    """Return the comparisons by which a step decides, in order, those that are switched off left
    out; none where it decides in another way. `measures` are its own, of no row: they only have
    their types.
    """
    asked: list[Check] = []
    token = _ASKED.set(asked)
    try:
        step.decide(measures)
    finally:
        _ASKED.reset(token)
    return [one for one in asked if one.limit is not None]


def _check_one(checks: Sequence[Check], measures: Mapping[str, pa.Array]) -> Decision:
    """Return the same for one row: numpy's calls would take longer than the text."""
    values: dict[str, float] = {}
    for reason, measure, broken, limit in checks:
        if limit is None:
            continue
        if measure not in values:
            value = measures[measure][0].as_py()
            values[measure] = math.nan if value is None else float(value)
        if _ONE_BROKEN[broken](values[measure], limit):
            return Decision(
                pa.array([reason], pa.string()),
                pa.array([values[measure]], pa.float64()),
                pa.array([limit], pa.float64()),
            )
    return keep_all(1)


def _numbers(column: pa.Array) -> np.ndarray:
    """Return a measure as float64, NaN where it is null."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


_ONE_BROKEN: dict[str, Any] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_BROKEN: dict[str, Any] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def keep_all(rows: int) -> Decision:
    """Return what a step says that judges nothing."""
    return Decision(
        pa.nulls(rows, pa.string()), pa.nulls(rows, pa.float64()), pa.nulls(rows, pa.float64())
    )


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Part over whole, of nothing 0."""
    return np.asarray(part / np.maximum(whole, 1))


def measured(values: Mapping[str, np.ndarray]) -> dict[str, pa.Array]:
    """Return arrays as measures; a NaN is a null."""
    # what came of pandas has NaN for null
    return {name: pa.array(array, from_pandas=True) for name, array in values.items()}
