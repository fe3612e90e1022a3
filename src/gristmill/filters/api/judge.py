"""The one place that drops documents.

Steps say why a row should be dropped; here it is, and the sum is checked.

rows in = rows of verdicts = rows kept + rows dropped
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.schema import DOCUMENTS, VERDICTS


class Judgement(NamedTuple):
    """What a step says of the n rows of a batch: its decision, and what it measured
    (filters.api.step).
    """

    reason: pa.Array  # (n,) string, without the step's name; null keeps the row
    value: pa.Array  # (n,) float64
    threshold: pa.Array  # (n,) float64
    measures: Mapping[str, pa.Array]
    text: pa.Array | None = None  # (n,) string: as the step rewrites it
    columns: Mapping[str, pa.Array] = {}  # other columns that it fills
    found: pa.RecordBatch | None = None  # rows of a table of its own


class NamedStep(NamedTuple):
    """A step under the name that its reasons carry."""

    name: str
    call: Callable[[pa.RecordBatch], Judgement]


class Judged(NamedTuple):
    """What became of a batch."""

    kept: pa.RecordBatch  # DOCUMENTS
    verdicts: pa.RecordBatch  # VERDICTS, one a row in, in document order
    # document, and a column for each `step.measure`; null where the document did not get there
    measures: pa.RecordBatch
    # the rows that were dropped, as they came to the step, with `reason` (step.reason) and `value`
    dropped: list[pa.RecordBatch]
    # by step, the rows for its own table, in document order
    found: Mapping[str, Sequence[pa.RecordBatch]] = {}


EMPTY = "empty"  # the reason where a rewriting step leaves nothing
LEFT = "bytes_left"  # a measure of every rewriting step: bytes of the text that it leaves


def judge(
    batch: pa.RecordBatch,
    steps: Sequence[NamedStep],
    measures: pa.Schema,
    *,
    everything: bool = False,
) -> Judged:
    """Send a batch of RAW through the steps, in order.

    `measures` is the schema of all that they measure.

    `everything`: later steps measure, and rewrite, what an earlier one has dropped as well; the
    first one's verdict stands.
    """
    verdicts = _Verdicts(batch)
    # Rows that are no readable document come with their reason.
    rows, _ = verdicts.split(
        batch.select(DOCUMENTS.names),
        batch["reason"],
        batch["value"],
        pa.nulls(len(batch), pa.float64()),
    )
    measured: dict[str, _Column] = {}
    found: dict[str, list[pa.RecordBatch]] = {}
    alive = pa.array(np.ones(len(rows), bool))
    for step in steps:
        if not len(rows):
            break
        said = _of_text(step.call(rows))
        if said.found is not None:
            found.setdefault(step.name, []).append(said.found)
        for name, column in said.measures.items():
            full = f"{step.name}.{name}"
            measured[full] = _Column(batch["document"], measures.field(full).type)
            measured[full].put(rows["document"], column)
        reason = pc.if_else(alive, said.reason, None) if everything else said.reason
        named = pc.binary_join_element_wise(step.name, reason, ".").cast(pa.string())
        left, kept = verdicts.split(rows, named, said.value, said.threshold)
        if everything:
            alive = pc.and_(alive, kept)
            rows = _rewritten(rows, said, None)
        else:
            rows = _rewritten(left, said, None if len(left) == len(rows) else kept)
    if everything:
        rows = rows.filter(alive)
    table = verdicts.table()
    if not len(batch) == len(table) == len(rows) + sum(len(part) for part in verdicts.dropped):
        raise AssertionError(f"{len(batch)} rows in, {len(table)} verdicts, {len(rows)} kept")
    fields = list(measures)[1:]
    filled = [
        measured[field.name].array() if field.name in measured else pa.nulls(len(batch), field.type)
        for field in fields
    ]
    columns = pa.RecordBatch.from_arrays([batch["document"], *filled], schema=measures)
    return Judged(rows, table, columns, verdicts.dropped, found)


def _of_text(said: Judgement) -> Judgement:
    """What a rewriting step says, with the rule that a document without text is dropped."""
    if said.text is None:
        return said
    left = pc.binary_length(said.text).cast(pa.int64())
    empty = pc.and_(pc.equal(left, 0), pc.is_null(said.reason))
    return said._replace(
        reason=pc.if_else(empty, EMPTY, said.reason).cast(pa.string()),
        measures={**said.measures, LEFT: left},
    )


def _rewritten(rows: pa.RecordBatch, said: Judgement, kept: pa.Array | None) -> pa.RecordBatch:
    """Rows with what the step fills in; `kept`: which of the step's rows they are, null: all."""
    new = dict(said.columns) if said.text is None else {"text": said.text, **said.columns}
    for name, column in new.items():
        rows = rows.set_column(
            rows.schema.get_field_index(name),
            rows.schema.field(name),
            column if kept is None else column.filter(kept),
        )
    return rows


class _Verdicts:
    """The verdicts of a batch as they come, and the rows that were dropped."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._reasons = _Column(batch["document"], pa.string())
        self._values = _Column(batch["document"], pa.float64())
        self._thresholds = _Column(batch["document"], pa.float64())
        self.dropped: list[pa.RecordBatch] = []

    def split(
        self, rows: pa.RecordBatch, reason: pa.Array, value: pa.Array, threshold: pa.Array
    ) -> tuple[pa.RecordBatch, pa.Array]:
        """Note the verdicts of rows with a reason; give the others, and which they are."""
        kept = pc.is_null(reason)
        dropped = pc.invert(kept)
        if pc.any(dropped).as_py():
            out = rows.filter(dropped)
            reason, value, threshold = (
                column.filter(dropped) for column in (reason, value, threshold)
            )
            self._reasons.put(out["document"], reason)
            self._values.put(out["document"], value)
            self._thresholds.put(out["document"], threshold)
            self.dropped.append(out.append_column("reason", reason).append_column("value", value))
            rows = rows.filter(kept)
        return rows, kept

    def table(self) -> pa.RecordBatch:
        """VERDICTS, one a row of the batch."""
        rows = len(self._batch)
        return pa.RecordBatch.from_arrays(
            [
                self._batch["document"],
                self._batch["url"],
                self._reasons.array(),
                self._values.array(),
                self._thresholds.array(),
                pa.nulls(rows, pa.int64()),
                pa.nulls(rows, pa.float64()),
                pa.nulls(rows, pa.string()),
            ],
            schema=VERDICTS,
        )


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
