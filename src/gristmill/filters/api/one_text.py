"""One text in memory through steps, without the tables of a batch: the same verdict in a tenth of
the time (tests/filters/api/test_one_text.py compares them).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from gristmill.filters.api.judge import NamedStep, of_text
from gristmill.filters.api.texts import BatchTexts
from gristmill.tables.columns import well_formed
from gristmill.tables.schema import DOCUMENTS

TEXT = DOCUMENTS.get_field_index("text")


class OneJudged(NamedTuple):
    """What became of a text."""

    reason: str | None  # step.reason; None: kept
    value: float | None
    threshold: float | None
    measures: dict[str, Any]  # by step.measure; None where it did not get there
    text: str | None  # as a step rewrote it; None: none did


def judge_one(text: str, steps: Sequence[tuple[NamedStep, pa.Schema]]) -> OneJudged:
    """Send a text through steps, in order; each comes with the schema of its measures, after
    `document`.
    """
    batch = _row(pa.array([well_formed(text)], pa.string()))
    texts = BatchTexts(batch[TEXT])
    measures: dict[str, Any] = {}
    rewritten: str | None = None
    for place, (step, _) in enumerate(steps):
        decision, said = of_text(*step.call(batch, texts))
        for name, column in said.measures.items():
            measures[f"{step.name}.{name}"] = column[0].as_py()
        reason = decision.reason[0].as_py()
        if reason is not None:
            for _, later in steps[place + 1 :]:
                measures |= dict.fromkeys(later.names[1:])
            value, threshold = decision.value[0].as_py(), decision.threshold[0].as_py()
            return OneJudged(f"{step.name}.{reason}", value, threshold, measures, None)
        if said.text is not None or said.columns:
            new = said.columns if said.text is None else {**said.columns, "text": said.text}
            for name, column in new.items():
                at = DOCUMENTS.get_field_index(name)
                batch = batch.set_column(at, DOCUMENTS.field(at), column)
            if said.text is not None:
                rewritten = said.text[0].as_py()
                texts = said.texts or BatchTexts(batch[TEXT])
    return OneJudged(None, None, None, measures, rewritten)


def _row(text: pa.Array) -> pa.RecordBatch:
    """DOCUMENTS of one row."""
    columns = list(_nothing())
    columns[TEXT] = text
    return pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS)


@cache
def _nothing() -> tuple[pa.Array, ...]:
    """Return the columns of document 0 without anything; that of the text is replaced."""
    known = {"document": pa.array([0], pa.int64())}
    return tuple(known.get(field.name, pa.nulls(1, field.type)) for field in DOCUMENTS)
