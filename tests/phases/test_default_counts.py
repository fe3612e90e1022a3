"""Documents of languages without parameters, counted as in plain Python."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.corpus.corpus import Corpus
from gristmill.phases.relations.default_counts import (
    NO_LABEL,
    DefaultCounts,
    DefaultsTask,
    DifferingStep,
    default_counts,
)
from gristmill.store.parts import Part, hash_file
from tests.support import strategies

STEPS = [
    DifferingStep(name="gopher", before=["read", "language"], languages=["fr", "deu_Latn"]),
    DifferingStep(name="c4", before=["read", "language", "gopher"], languages=["eng_Latn"]),
]
TASK = DefaultsTask(measures=Part("measures/00000.parquet", 0, ""), steps=STEPS)
REASONS = (None, "read.not_json", "language.other", "gopher.short_doc", "c4.lorem_ipsum")
LABELS = (None, "fra_Latn", "deu_Latn", "eng_Latn", "tha_Thai")
HAS = {"gopher": {"fra_Latn", "deu_Latn"}, "c4": {"eng_Latn"}}
rows = st.lists(
    st.tuples(st.sampled_from(REASONS), st.sampled_from(LABELS), st.sampled_from(LABELS))
)


def tables(given: list[tuple[str | None, str | None, str | None]]) -> tuple[pa.Table, pa.Table]:
    reasons, first, second = zip(*given, strict=True) if given else ((), (), ())
    numbers = np.arange(len(given))
    columns = {"gopher.language": first, "c4.language": second}
    measures = {name: pa.array(column, pa.string()) for name, column in columns.items()}
    verdicts = pa.table({"document": numbers, "reason": pa.array(reasons, pa.string())})
    return pa.table({"document": numbers, **measures}), verdicts


@strategies.fuzz(60)
@given(rows, st.integers(1, 5))
def test_counts(given: list[tuple[str | None, str | None, str | None]], size: int) -> None:
    measures, verdicts = tables(given)
    counts = DefaultCounts(TASK, measures)
    for batch in verdicts.to_batches(max_chunksize=size):
        counts.add(batch)
    expected: dict[str, Counter[str]] = {"gopher": Counter(), "c4": Counter()}
    for reason, *labels in given:
        for step, label in zip(STEPS, labels, strict=True):
            came = reason is None or reason.split(".")[0] not in step.before
            if came and label not in HAS[step.name]:
                expected[step.name][label or NO_LABEL] += 1
    assert counts.counts == expected


def test_measures_of_other_documents_are_noticed(tmp_path: Path) -> None:
    measures, verdicts = tables([(None, "fra_Latn", None), (None, "tha_Thai", None)])
    path = tmp_path / TASK.measures.path
    path.parent.mkdir()
    pq.write_table(measures, path)
    size, digest = hash_file(path)
    task = DefaultsTask(measures=Part(TASK.measures.path, size, digest), steps=STEPS)
    assert task.key() == [digest, STEPS]
    counts = default_counts(task, Corpus(tmp_path))
    with pytest.raises(AssertionError, match="row for row"):
        counts.add(verdicts.to_batches()[0].slice(1))
