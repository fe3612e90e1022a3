"""Kept documents: what is left of a shard, as a stream.

Dropped rows are left out here, frequent lines and repeated spans are cut; then steps with
`after_dedup = true` rewrite what is kept. Tokenizing, `text/` and `export` all read this stream.

What those steps measure is written to finished/<shard>.parquet, as in measures/.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.corpus.corpus import content_key
from gristmill.dedup.lines.line_counts import LineRemover
from gristmill.dedup.substrings.span_cutter import SpanCutter
from gristmill.errors import RecipeError
from gristmill.filters.api.judge import LEFT
from gristmill.filters.api.step import Input, Step
from gristmill.recipe import Recipe, Source
from gristmill.store.loaded import loaded
from gristmill.store.parts import read_batches
from gristmill.tables import schema

SLICE = 4 << 20  # bytes of text given at a time
FOLDER = "finished"


class PostDedup(msgspec.Struct, frozen=True, kw_only=True):
    """The post-dedup steps of a source, and what they read."""

    source: str
    step: list[dict[str, Any]]
    inputs: dict[str, Input]

    def steps(self) -> list[Step]:
        """Return the steps, in order."""
        return Recipe(source=[Source(name=self.source)], step=self.step).post_dedup_steps(
            self.source
        )

    def key(self) -> list[dict[str, Any]]:
        """Return all that its bytes depend on."""
        return [
            {
                "name": step.name,
                "version": step.version,
                "parameters": step.content(),
                "inputs": {
                    name: self.inputs[location].sha256 for name, location in step.inputs().items()
                },
            }
            for step in self.steps()
        ]


def post_dedup_steps(recipe: Recipe, source: str, inputs: dict[str, Input]) -> PostDedup | None:
    """Return the post-dedup steps of a source; None: there are none."""
    steps = recipe.post_dedup_steps(source)
    if not steps:
        return None
    wanted = [location for step in steps for location in step.inputs().values()]
    return PostDedup(
        source=source, step=recipe.step, inputs={location: inputs[location] for location in wanted}
    )


class Rewriter:
    """Post-dedup steps, loaded: they rewrite texts and drop nothing; a document may be left
    empty.
    """

    def __init__(self, post_dedup: PostDedup) -> None:
        self._calls = [(step.name, step.load(post_dedup.inputs)) for step in post_dedup.steps()]
        self.schema = self.rewrite(pa.RecordBatch.from_pylist([], schema.DOCUMENTS))[
            1
        ].schema  # of what is measured

    def rewrite(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return (DOCUMENTS as they are left, what was measured: `document` and a column for each
        `step.measure`).
        """
        measures = {"document": batch["document"]}
        for name, call in self._calls:
            result = call(batch)
            if result.text is None:
                raise RecipeError(f"{name}: after_dedup = true, and the step rewrites no text")
            measures |= {f"{name}.{measure}": column for measure, column in result.measures.items()}
            measures[f"{name}.{LEFT}"] = pc.binary_length(result.text).cast(pa.int64())
            for column, values in {"text": result.text, **result.columns}.items():
                batch = batch.set_column(
                    batch.schema.get_field_index(column), batch.schema.field(column), values
                )
        return batch, pa.RecordBatch.from_arrays(list(measures.values()), names=list(measures))


def load_rewriter(post_dedup: PostDedup | None) -> Rewriter | None:
    """Post-dedup steps, loaded: what they load a process loads once and not for each shard."""
    if post_dedup is None:
        return None
    key = content_key("post_dedup", steps=post_dedup.key())
    return loaded("rewriter", {key: partial(Rewriter, post_dedup)})[key]


def read_kept(
    documents: Path,
    verdicts: Path,
    cutter: LineRemover | None = None,
    span_cutter: SpanCutter | None = None,
    rewriter: Rewriter | None = None,
    on_measures: Callable[[pa.RecordBatch], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the documents of a shard that are kept, in document order: DOCUMENTS, in batches of a
    few MB.

    `cutter` cuts frequent lines out of them, then `span_cutter` repeated spans, which may leave a
    document empty; `rewriter` rewrites the rest, and `on_measures` gets what it measures.
    """
    numbers = []
    for batch in read_batches(verdicts, ["document", "reason"]):
        numbers.append(batch["document"].filter(pc.is_valid(batch["reason"])).to_numpy())
    dropped = np.concatenate([*numbers, np.empty(0, np.int64)])
    for batch in read_batches(documents):
        kept = np.isin(batch["document"].to_numpy(), dropped, assume_unique=True, invert=True)
        if not kept.all():
            batch = batch.filter(pa.array(kept))
        step = max(1, len(batch) * SLICE // max(batch["text"].nbytes, 1))
        for start in range(0, len(batch), step):
            part = batch.slice(start, step)
            if cutter is not None:
                part = cutter.remove(part)
            if span_cutter is not None:
                part = span_cutter.remove(part)
            if rewriter is not None:
                part, measured = rewriter.rewrite(part)
                on_measures(measured)
            yield part
