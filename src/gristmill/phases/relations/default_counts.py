"""How many documents a step judged by its own parameters, for their language has none: of each step
with `by_language`, by label.

    work/process/<shard>.parquet    which documents came as far as the step
    measures/<shard>.parquet        their labels (`gopher.language`), row for row
"""

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus
from gristmill.filters.api.step import Step
from gristmill.filters.language import codes
from gristmill.filters.language.by_language import LABEL, ByLanguage
from gristmill.store.parts import Part
from gristmill.store.proof import proven

NO_LABEL = "no label"  # what documents without one are counted under


class DifferingStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step whose parameters differ by language."""

    name: str
    before: list[str]  # the steps before it; a document that one of them dropped is not counted
    languages: list[str]  # that have parameters


class DefaultsTask(msgspec.Struct, frozen=True, kw_only=True):
    """What counting in a shard needs."""

    measures: Part
    steps: list[DifferingStep]

    def key(self) -> list[object]:
        """Return what counts depend on."""
        return [self.measures.sha256, self.steps]


def differing_steps(steps: Sequence[Step]) -> list[DifferingStep]:
    """Return those of a source's steps that differ by language."""
    names = [step.name for step in steps]
    return [
        DifferingStep(
            name=step.name, before=["read", *names[:place]], languages=list(step.by_language)
        )
        for place, step in enumerate(steps)
        if isinstance(step, ByLanguage)
    ]


class DefaultCounts:
    """Counts in one shard."""

    def __init__(self, task: DefaultsTask, measures: pa.Table) -> None:
        """`measures` are the labels of all its documents, a column for each step."""
        self._task, self._measures, self._start = task, measures, 0
        self._places = [codes.LabelPlaces(step.languages) for step in task.steps]
        self.counts: dict[str, dict[str, int]] = {step.name: {} for step in task.steps}

    def add(self, verdicts: pa.RecordBatch) -> None:
        """Count the next documents, by the verdicts of process."""
        rows = self._measures.slice(self._start, len(verdicts)).combine_chunks()
        self._start += len(verdicts)
        if not np.array_equal(rows["document"].to_numpy(), verdicts["document"].to_numpy()):
            raise AssertionError("measures are not row for row those of the verdicts")
        stopped_at = pc.list_element(pc.split_pattern(verdicts["reason"], ".", max_splits=1), 0)
        for step, places_of in zip(self._task.steps, self._places, strict=True):
            came = pc.invert(pc.is_in(stopped_at, pa.array(step.before)))
            labels = rows[f"{step.name}.{LABEL}"].combine_chunks().filter(came)
            own = self.counts[step.name]
            labels = labels.filter(pa.array(places_of.of(labels) < 0))
            for entry in labels.value_counts().to_pylist():
                label = NO_LABEL if entry["values"] is None else entry["values"]
                own[label] = own.get(label, 0) + entry["counts"]


def default_counts(task: DefaultsTask, corpus: Corpus) -> DefaultCounts:
    """Counts in a shard of a corpus, with its labels read."""
    columns = ["document", *(f"{step.name}.{LABEL}" for step in task.steps)]
    path = proven(corpus.find(task.measures.path), task.measures.sha256)
    return DefaultCounts(task, pq.read_table(path, columns=columns, use_threads=False))
