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


Comparison = Literal["<", "<=", ">", ">="]


class Check(NamedTuple):
    """One comparison: `reason` drops a row where its measure is `broken` against the limit."""

    reason: str
    measure: str
    broken: Comparison
    limit: float | None  # null: not checked


class Rule(NamedTuple):
    """A row of a step's `checks` (`decide_by`)."""

    measure: str
    broken: Comparison
    limit: str  # a parameter or property of the step, a place in it, or a number
    reason: str
    meaning: str  # what the reason says of a document; empty: another row or `reasons` says it

    @property
    def parameter(self) -> str:
        """Return the name of the parameter; of a number it is none."""
        return self.limit.partition("[")[0]

    def check(self, step: "Step") -> Check:
        """Return the comparison with what the step has."""
        name, _, place = self.limit.rstrip("]").partition("[")
        value: Any = getattr(step, name) if name.isidentifier() else float(name)
        return Check(self.reason, self.measure, self.broken, value[int(place)] if place else value)


def decide_by(*rows: str) -> tuple[Rule, ...]:
    """Return rows of a step's `checks`, each `words < min_words -> reason: What it says of a
    document.` The limit may also be a place in a parameter, `max_top[0]`, or a number. Without the
    colon another row, or `reasons`, says what the reason means.
    """
    read = []
    for row in rows:
        comparison, _, said = row.partition(" -> ")
        reason, _, meaning = said.partition(": ")
        measure, broken, limit = comparison.split()
        if broken not in _BROKEN:
            raise AssertionError(f"{row}: a comparison is one of {', '.join(_BROKEN)}")
        read.append(Rule(measure, broken, limit, reason, meaning))  # type: ignore[arg-type]
    return tuple(read)


class Rank(NamedTuple):
    """A question about the whole corpus: the share of documents at one end of a measure is dropped.

    The verdict is `NAME.lowest` or `NAME.highest`, its threshold the quantile.
    """

    measure: str  # a measure of the step's own
    end: Literal["lowest", "highest"]
    share: float  # of the documents that have the measure, above 0 and below 1


class StepMeta(msgspec.StructMeta):
    """Checks the parameters of a step that is made in Python as a recipe's are checked, and gives a
    class the `thresholds` and `reasons` that its `checks` say.
    """

    if not TYPE_CHECKING:  # a type checker sees the parameters themselves

        def __new__(
            cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
        ) -> Any:
            """Make a class of steps."""
            made = super().__new__(cls, name, bases, body, **options)
            rows = body.get("checks")
            if isinstance(rows, tuple) and rows:
                said = {row.reason: row.meaning for row in rows if row.meaning}
                made.reasons = said | dict(made.reasons)
                compared = {row.parameter for row in rows} & set(made.__struct_fields__)
                made.thresholds = made.thresholds | compared - made.fixed
            return made

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
    # How it drops documents, in order, if it compares measures with parameters: `decide_by(...)`.
    checks: ClassVar[tuple[Rule, ...]] = ()
    # Parameters of `checks` that measures depend on as well.
    fixed: ClassVar[frozenset[str]] = frozenset()
    # The parameters that only `decide` and `ranks` read, besides those of `checks`: `rejudge` can
    # change them.
    thresholds: ClassVar[frozenset[str]] = frozenset()
    # The folder of its own table (`Measured.found`), one file a raw shard; null: it has none. A
    # step of your own that names any has tables/NAME.
    table: ClassVar[str | None] = None
    # Parameters as TOML, for docs/reference.
    example: ClassVar[str] = ""
    # What each reason says of a document that it drops, besides `checks`, and what each measure is:
    # `gristmill why` and docs/reference show it. NAME and N are filled in by parameters.
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
        """Return the class that a [[step]] table means: another one where `rules` changes the
        parameters.
        """
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
        """Return whether it knows documents by their numbers, which `size` has not in its
        sample.
        """
        return False

    @property
    def reads(self) -> Sequence[str]:
        """Measures of earlier steps that its corpus rules read, as `step.measure`."""
        return ()

    def content(self) -> dict[str, Any]:
        """Return the parameters by name, as a stored recipe has them."""
        parameters: dict[str, Any] = without_defaults(self)
        return parameters

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

    @property
    def comparisons(self) -> Sequence[Check]:
        """Return the comparisons by which it decides, in order."""
        return [row.check(self) for row in self.checks]

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        """Judge n rows by their measures alone. A step that only compares, or drops nothing, leaves
        this out; one that measures nothing is not asked.
        """
        return check(self.comparisons, measures)

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
    """Decide by comparisons, in order: of each row the first that is broken. A null measure breaks
    none.
    """
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
