"""The judge: what steps share of a batch, and what becomes of rows that are dropped."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gristmill.filters.api.judge import Judged, NamedStep, judge
from gristmill.filters.api.texts import BatchTexts
from gristmill.filters.rules.c4 import C4
from gristmill.filters.rules.fineweb import FineWeb
from gristmill.filters.rules.gopher import Quality
from gristmill.filters.rules.repetition import Repetition
from gristmill.kernels.text import words
from gristmill.phases.process.process import named
from gristmill.tables import schema
from tests.support.corpora import article

STEPS = [
    Repetition(),
    Quality(rules="datatrove-0.10"),
    C4(line_stops=False, min_sentences=2),
    FineWeb(rules="datatrove-0.2", max_newlines=0.0001),
]


@pytest.fixture(scope="module")
def documents() -> pa.RecordBatch:
    """Long texts, of which the last rule drops one, and short ones for the others to drop."""
    texts = [article(number, 100).replace("\n", " ") for number in range(12)]
    texts[11] = article(11, 100)
    texts[2:2] = ["Buy now. " * 40]
    texts[5:5] = [" ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")]
    texts[7:7] = [article(100, 20).replace("\n", " ") + " Lorem ipsum dolor."]
    columns = {
        "document": pa.array(np.arange(len(texts)) * 3),
        "text": pa.array(texts, pa.string()),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(len(texts), field.type)) for field in schema.RAW],
        schema=schema.RAW,
    )


def judged(documents: pa.RecordBatch, calls: list[NamedStep], **options: Any) -> Judged:
    fields = [schema.DOCUMENTS.field("document")]
    for call in calls:
        _, said = call.call(documents.slice(0, 0), BatchTexts(documents["text"].slice(0, 0)))
        fields += [
            pa.field(f"{call.name}.{name}", column.type) for name, column in said.measures.items()
        ]
        if said.text is not None:
            fields.append(pa.field(f"{call.name}.bytes_left", pa.int64()))
    return judge(documents, calls, pa.schema(fields), **options)


def rows_of(found: Judged) -> list[Any]:
    dropped = [row for part in found.dropped for row in part.to_pylist()]
    parts = found.kept, found.verdicts, found.measures
    return [*(part.to_pylist() for part in parts), dropped]


def test_steps_that_share_words_say_what_each_says_alone(documents: pa.RecordBatch) -> None:
    """Dropped rows stay in the batch for a while; nothing is said of them."""
    shared = [named(step, step.load({})) for step in STEPS]
    assert all(call.texts_only for call in shared)
    alone = [call._replace(texts_only=False) for call in shared]
    assert rows_of(judged(documents, shared)) == rows_of(judged(documents, alone))
    reasons = judged(documents, shared).verdicts["reason"].to_pylist()
    assert [reason.partition(".")[0] for reason in reasons if reason is not None] == [
        *("repetition", "gopher", "c4", "fineweb")
    ]
    assert rows_of(judged(documents, shared, everything=True)) == rows_of(
        judged(documents, alone, everything=True)
    )


def test_words_are_found_once_for_each_text(
    documents: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [named(step, step.load({})) for step in STEPS]
    texts: list[bytes] = []

    def find(offsets: np.ndarray, data: np.ndarray) -> words.WordBounds:
        if len(offsets) > 1:
            texts.append(data[offsets[0] : offsets[-1]].tobytes())
        return found(offsets, data)

    found = words.find
    monkeypatch.setattr(words, "find", find)
    kept = judged(documents, calls).kept
    assert len(texts) == 2  # of the texts, and of what C4's rules leave of them
    assert all(text.as_py().encode() in texts[1] for text in kept["text"])
