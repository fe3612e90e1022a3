"""The one place that drops documents. Steps say why a row should go; here it goes, and the sum is checked.

rows in = rows of verdicts = rows kept + rows dropped
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.schema import DOCUMENTS, VERDICTS


class NamedStep(NamedTuple):
    """A step under the name that its reasons carry."""

    name: str
    call: Callable[[pa.RecordBatch], Any]  # gives a Judgement


class Judged(NamedTuple):
    """What became of a batch."""

    kept: pa.RecordBatch  # DOCUMENTS
    verdicts: pa.RecordBatch  # VERDICTS, one a row in, in document order
    measures: (
        pa.RecordBatch
    )  # document, and a column for each `step.measure`; null where the document did not get there
    dropped: list[pa.RecordBatch]  # the rows that went, with `reason` (step.reason) and `value`


def judge(batch: pa.RecordBatch, steps: Sequence[NamedStep], measures: pa.Schema) -> Judged:
    """Send a batch of RAW through the steps, in order. `measures` is the schema of all that they measure."""
    everything = batch["document"]
    reasons = _Column(everything, pa.string())
    values = _Column(everything, pa.float64())
    thresholds = _Column(everything, pa.float64())
    dropped: list[pa.RecordBatch] = []
    measured: dict[str, _Column] = {}

    def split(rows: pa.RecordBatch, reason: pa.Array, value: pa.Array, threshold: pa.Array) -> pa.RecordBatch:
        gone = pc.is_valid(reason)
        if pc.any(gone).as_py():
            out = rows.filter(gone)
            reason, value, threshold = reason.filter(gone), value.filter(gone), threshold.filter(gone)
            reasons.put(out["document"], reason)
            values.put(out["document"], value)
            thresholds.put(out["document"], threshold)
            dropped.append(out.append_column("reason", reason).append_column("value", value))
            rows = rows.filter(pc.invert(gone))
        return rows

    # Rows that are no readable document come with their reason.
    rows = batch.select(DOCUMENTS.names)
    rows = split(rows, batch["reason"], batch["value"], pa.nulls(len(batch), pa.float64()))
    for step in steps:
        if not len(rows):
            break
        said = step.call(rows)
        for name, column in said.measures.items():
            full = f"{step.name}.{name}"
            measured[full] = _Column(everything, measures.field(full).type)
            measured[full].put(rows["document"], column)
        named = pc.binary_join_element_wise(step.name, said.reason, ".").cast(pa.string())
        rows = split(rows, named, said.value, said.threshold)

    verdicts = pa.RecordBatch.from_arrays(
        [
            everything,
            batch["url"],
            reasons.array(),
            values.array(),
            thresholds.array(),
            pa.nulls(len(batch), pa.int64()),
            pa.nulls(len(batch), pa.float64()),
            pa.nulls(len(batch), pa.string()),
        ],
        schema=VERDICTS,
    )
    if not len(batch) == len(verdicts) == len(rows) + sum(len(part) for part in dropped):
        raise AssertionError(f"{len(batch)} rows in, {len(verdicts)} verdicts, {len(rows)} kept")
    columns = [measured[field.name].array() if field.name in measured else None for field in list(measures)[1:]]
    filled = [
        pa.nulls(len(batch), field.type) if column is None else column
        for field, column in zip(list(measures)[1:], columns, strict=True)
    ]
    return Judged(rows, verdicts, pa.RecordBatch.from_arrays([everything, *filled], schema=measures), dropped)


class _Column:
    """A column over all rows of a batch, filled for some of them, null elsewhere."""

    def __init__(self, documents: pa.Array, kind: pa.DataType) -> None:
        self._documents = documents.to_numpy()
        self._kind = kind
        self._places: list[np.ndarray] = []
        self._values: list[pa.Array] = []

    def put(self, documents: pa.Array, values: pa.Array) -> None:
        """Fill the rows of these documents; both are sorted."""
        self._places.append(np.searchsorted(self._documents, documents.to_numpy()))
        self._values.append(values.cast(self._kind))

    def array(self) -> pa.Array:
        if not self._values:
            return pa.nulls(len(self._documents), self._kind)
        order = np.full(len(self._documents), -1, np.int64)
        places = np.concatenate(self._places)
        order[places] = np.arange(len(places))
        return pa.concat_arrays(self._values).take(pa.array(order, mask=order < 0))
