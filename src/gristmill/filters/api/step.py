"""What a step is: it measures a batch of documents, and decides from the measures alone.

    batch -> load(inputs) -> Measured: the measures, and the text where the step rewrites it
    measures -> decide -> Decision: of each row a reason to drop it, or null

Deciding needs no text, so that other thresholds can be tried on stored measures
(phases/process/rejudge.py).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from gristmill.columns import utf8_buffers


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

    measures: dict[
        str, pa.Array
    ]  # by name, each (n,): exact; null where there is nothing to measure
    text: pa.Array | None = None  # (n,) string without nulls: the texts as the step rewrites them
    columns: Mapping[
        str, pa.Array
    ] = {}  # other columns of DOCUMENTS that the step fills, each (n,)
    # rows of a table of its own, with `document`, in document order; of an empty batch it tells the
    # schema
    found: pa.RecordBatch | None = None


class Decision(NamedTuple):
    """What a filter says of n rows. It drops nothing: filters.api.judge does."""

    reason: pa.Array  # (n,) string, without the step's name; null keeps the row
    value: pa.Array  # (n,) float64: the measured value that the reason is about
    threshold: pa.Array  # (n,) float64: what it was compared with


class Check(NamedTuple):
    """One comparison: a row goes for `reason` where its measure is `broken` against the limit."""

    reason: str
    measure: str
    broken: Literal["<", "<=", ">", ">="]
    limit: float | None  # null: not checked


class Step(Protocol):
    """A frozen value with parameters (a msgspec Struct).

    `name` is the recipe's word, `version` changes whenever the same parameters may measure or
    decide otherwise. `thresholds` names the parameters that only `decide` reads.
    """

    version: ClassVar[int]
    thresholds: ClassVar[frozenset[str]]

    @property
    def name(self) -> str:
        """The step's name, which its verdicts carry."""
        ...

    @property
    def sources(self) -> list[str] | None:
        """The sources that it applies to; null: all."""
        ...

    def inputs(self) -> dict[str, str]:
        """What the step's bytes depend on besides: a name for the manifest -> its location
        (phases/inputs/inputs.py).
        """
        ...

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        """Load what the step needs; the function measures a batch of DOCUMENTS."""
        ...

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        """Judge n rows by their measures."""
        ...


def refuse_nan(parameters: Iterable[object]) -> None:
    """Raise ValueError where a parameter is NaN: compared with it, nothing is broken."""
    if any(isinstance(value, float) and math.isnan(value) for value in parameters):
        raise ValueError("a threshold that is no number decides nothing")


def by_words(
    measure: Callable[[np.ndarray, np.ndarray, Any], Measured],
) -> Callable[[pa.RecordBatch], Measured]:
    """What measures texts by their words (offsets, data, kernels.text.words.Bounds), as what
    measures a batch: the words are ours.
    """
    from gristmill.kernels.text import words

    def measure_batch(batch: pa.RecordBatch) -> Measured:
        offsets, data = utf8_buffers(batch["text"])
        return measure(offsets, data, words.separate(offsets, data, words.find(offsets, data)))

    return measure_batch


def check(checks: Sequence[Check], measures: Mapping[str, pa.Array]) -> Decision:
    """Decide by comparisons, in order: of each row the first that is broken. A null measure breaks
    none.
    """
    rows = len(next(iter(measures.values())))
    failed = np.zeros(rows, np.int8)  # 0: kept; else the check's place, from 1
    value, threshold = np.zeros(rows), np.zeros(rows)
    for place, (_, measure, broken, limit) in enumerate(checks, 1):
        if limit is None:
            continue
        measured = np.asarray(measures[measure].cast(pa.float64()).to_numpy(zero_copy_only=False))
        new = _BROKEN[broken](measured, limit) & (failed == 0)
        failed[new], value[new], threshold[new] = place, measured[new], limit
    kept = failed == 0
    names = pa.array([None, *(check.reason for check in checks)], pa.string())
    return Decision(
        names.take(pa.array(failed)), pa.array(value, mask=kept), pa.array(threshold, mask=kept)
    )


_BROKEN: dict[str, Any] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def keep_all(rows: int) -> Decision:
    """What a step says that judges nothing."""
    return Decision(
        pa.nulls(rows, pa.string()), pa.nulls(rows, pa.float64()), pa.nulls(rows, pa.float64())
    )


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Part over whole, of nothing 0."""
    return np.asarray(part / np.maximum(whole, 1))


def measured(values: Mapping[str, np.ndarray]) -> dict[str, pa.Array]:
    """Arrays as measures; a NaN is a null."""
    return {name: pa.array(array, mask=np.isnan(array)) for name, array in values.items()}
