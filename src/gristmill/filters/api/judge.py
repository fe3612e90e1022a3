"""The one place that drops documents.

Steps say why a row should be dropped; here it is, and the sum is checked.

rows in = rows of verdicts = rows kept + rows dropped
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.filters.api.step import Decision, Measured, Step, keep_all
from gristmill.filters.api.texts import BatchMeasure, BatchTexts, TextMeasure
from gristmill.tables.schema import DOCUMENTS, VERDICTS


class NamedStep(NamedTuple):
    """A step under the name that its reasons carry."""

    name: str
    # of a batch and the texts of its rows
    call: Callable[[pa.RecordBatch, BatchTexts], tuple[Decision, Measured]]
    texts_only: bool = False  # it looks at nothing but texts, and costs little
    reads: str | None = None  # the measure of an earlier step that it is given as texts.labels


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
    # of what was judged before: the signatures that are there, and the rows of `kept` without one;
    # null: none, and all
    signatures: pa.RecordBatch | None = None
    unsigned: pa.RecordBatch | None = None


# Of a batch's bytes: dropped texts of as many are still measured by steps that look at texts only,
# which costs less than to take them out.
FEW = 1 / 8
EMPTY = "empty"  # the reason where a rewriting step leaves nothing
LEFT = "bytes_left"  # a measure of every rewriting step: bytes of the text that it leaves


def named(
    step: Step, measure: Callable[[pa.RecordBatch], Measured], name: str | None = None
) -> NamedStep:
    """Return a step with what it has loaded, as the judge calls it; `name` if it is not the step's
    own.
    """

    def call(batch: pa.RecordBatch, texts: BatchTexts) -> tuple[Decision, Measured]:
        if isinstance(measure, TextMeasure):
            result = measure.measure(texts)
        elif isinstance(measure, BatchMeasure):
            result = measure.measure(batch, texts)
        else:
            result = measure(batch)
        return (step.decide(result.measures) if result.measures else keep_all(len(batch))), result

    if isinstance(measure, BatchMeasure):
        return NamedStep(name or step.name, call, measure.texts_only, measure.reads)
    return NamedStep(name or step.name, call, isinstance(measure, TextMeasure))


def make_schemas(steps: list[NamedStep]) -> tuple[pa.Schema, dict[str, pa.Schema]]:
    """Return the schemas of all that the steps measure, and by step of its own table: an empty
    batch shows the types.
    """
    nothing = pa.RecordBatch.from_pylist([], DOCUMENTS)
    fields = []
    schemas = {}
    for step in steps:
        _, said = step.call(nothing, BatchTexts(nothing["text"]))
        if said.found is not None:
            schemas[step.name] = said.found.schema
        fields += [
            pa.field(f"{step.name}.{name}", column.type) for name, column in said.measures.items()
        ]
        if said.text is not None:
            fields.append(pa.field(f"{step.name}.{LEFT}", pa.int64()))
    return pa.schema([DOCUMENTS.field("document"), *fields]), schemas


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
    rows = _JudgedRows(batch.select(DOCUMENTS.names))
    # Rows that are no readable document come with their reason.
    rows.drop(
        verdicts.note(
            rows.batch, batch["reason"], batch["value"], pa.nulls(len(batch), pa.float64())
        )
    )
    rows.take_out()
    measured: dict[str, pa.Array] = {}
    own_tables: dict[str, list[pa.RecordBatch]] = {}
    for step in steps:
        if not everything and not (step.texts_only and rows.few_dropped()):
            rows.take_out()
        if not len(rows.batch):
            break
        if step.reads is not None:
            rows.texts.labels = rows.of_batch(batch["document"], measured.get(step.reads))
        decision, own = of_text(*step.call(rows.batch, rows.texts))
        if own.found is not None:
            own_tables.setdefault(step.name, []).append(own.found)
        places = rows.places_in(batch["document"], only_kept=not everything)
        for name, column in own.measures.items():
            full = f"{step.name}.{name}"
            column = column.cast(measures.field(full).type)
            measured[full] = column if places is None else column.take(places)
        named = pc.binary_join_element_wise(step.name, rows.of_kept(decision.reason), ".")
        rows.drop(
            verdicts.note(rows.batch, named.cast(pa.string()), decision.value, decision.threshold)
        )
        rows.rewrite(own)
    rows.take_out()
    table = verdicts.table()
    kept = rows.batch
    if not len(batch) == len(table) == len(kept) + sum(len(part) for part in verdicts.dropped):
        raise AssertionError(f"{len(batch)} rows in, {len(table)} verdicts, {len(kept)} kept")
    fields = list(measures)[1:]
    filled = [
        measured[field.name] if field.name in measured else pa.nulls(len(batch), field.type)
        for field in fields
    ]
    columns = pa.RecordBatch.from_arrays([batch["document"], *filled], schema=measures)
    return Judged(kept, table, columns, verdicts.dropped, own_tables)


def of_text(decision: Decision, found: Measured) -> tuple[Decision, Measured]:
    """Return what a step says, with the rule that a document left without text is dropped."""
    if found.text is None:
        return decision, found
    left = pc.binary_length(found.text).cast(pa.int64())
    empty = pc.and_(pc.equal(left, 0), pc.is_null(decision.reason))
    reason = pc.if_else(empty, EMPTY, decision.reason).cast(pa.string())
    measures = {**found.measures, LEFT: left}
    return decision._replace(reason=reason), found._replace(measures=measures)


class _JudgedRows:
    """Rows on their way through the steps.

    Those that are dropped stay among the others for a while: taking them out copies all texts, and
    what was found in these is lost. No step's word about them counts.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.dropped = 0  # rows of the batch that are no longer kept
        self._kept = pa.array(np.ones(len(batch), bool))
        self._texts: BatchTexts | None = None

    @property
    def texts(self) -> BatchTexts:
        if self._texts is None:
            self._texts = BatchTexts(self.batch["text"])
        return self._texts

    def few_dropped(self) -> bool:
        """Return whether the texts that are no longer kept are small among all."""
        if not self.dropped:
            return True
        sizes = np.diff(self.texts.offsets)
        dropped = sizes[~self._kept.to_numpy(zero_copy_only=False)]
        return int(dropped.sum()) < FEW * int(sizes.sum())

    def of_kept(self, column: pa.Array) -> pa.Array:
        """Return a column of the rows, null where a row is no longer kept."""
        return pc.if_else(self._kept, column, None) if self.dropped else column

    def places_in(self, documents: pa.Array, *, only_kept: bool) -> pa.Array | None:
        """Of all documents of the batch in which row each is; null where in none, or in one that is
        no longer kept. None: each is in its own.
        """
        if len(self.batch) == len(documents) and not (only_kept and self.dropped):
            return None
        rows = np.full(len(documents), -1, np.int64)
        at = np.searchsorted(documents.to_numpy(), self.batch["document"].to_numpy())
        rows[at] = np.arange(len(at))
        if only_kept:
            rows[at[~self._kept.to_numpy(zero_copy_only=False)]] = -1
        return pa.array(rows, mask=rows < 0)

    def of_batch(self, documents: pa.Array, column: pa.Array | None) -> pa.Array | None:
        """Return a column over all documents of the batch, of these rows."""
        if column is None or len(self.batch) == len(documents):
            return column
        at = np.searchsorted(documents.to_numpy(), self.batch["document"].to_numpy())
        return column.take(pa.array(at))

    def drop(self, kept: pa.Array | None) -> None:
        """Keep these rows only, of those that were kept; null: all."""
        if kept is not None:
            self._kept = pc.and_(self._kept, kept)
            self.dropped = len(self.batch) - (pc.sum(self._kept).as_py() or 0)

    def take_out(self) -> None:
        """Take out the rows that are no longer kept."""
        if self.dropped:
            self.batch = self.batch.filter(self._kept)
            self.dropped = 0
            self._kept = pa.array(np.ones(len(self.batch), bool))
            self._texts = None

    def rewrite(self, said: Measured) -> None:
        """Fill in what a step rewrites."""
        new = dict(said.columns) if said.text is None else {"text": said.text, **said.columns}
        for name, column in new.items():
            place = self.batch.schema.get_field_index(name)
            self.batch = self.batch.set_column(place, self.batch.schema.field(name), column)
        if said.text is not None:
            self._texts = said.texts


class _Verdicts:
    """The verdicts of a batch as they come, and the rows that were dropped."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._reasons = _Column(batch["document"], pa.string())
        self._values = _Column(batch["document"], pa.float64())
        self._thresholds = _Column(batch["document"], pa.float64())
        self.dropped: list[pa.RecordBatch] = []

    def note(
        self, rows: pa.RecordBatch, reason: pa.Array, value: pa.Array, threshold: pa.Array
    ) -> pa.Array | None:
        """Note the verdicts of rows with a reason; which rows have none, or null: all."""
        if reason.null_count == len(reason):
            return None
        kept = pc.is_null(reason)
        dropped = pc.invert(kept)
        out = rows.filter(dropped)
        reason, value, threshold = (column.filter(dropped) for column in (reason, value, threshold))
        self._reasons.put(out["document"], reason)
        self._values.put(out["document"], value)
        self._thresholds.put(out["document"], threshold)
        self.dropped.append(out.append_column("reason", reason).append_column("value", value))
        return kept

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
