"""Refine: a raw shard to documents, measures, signatures and samples, in one streaming pass with flat memory.

raw shard -> batches -> steps (engine.judge drops) -> documents/<shard>.parquet    what survived, later duplicates included
                                                   -> measures/<shard>.parquet     every measured value
                                                   -> signatures/<shard>.parquet   where the recipe deduplicates
                                                   -> samples/<shard>.parquet      a seeded sample of what was dropped
                                                   -> work: verdicts, finished once the duplicates are known
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from gristmill import schema
from gristmill.clean.step import Step
from gristmill.dedup.settings import Deduplicate
from gristmill.dedup.signatures import permutation_count, sign
from gristmill.engine.judge import Judged, NamedStep, judge
from gristmill.phases.clock import Clock
from gristmill.phases.corpus import Corpus, Record, content_key
from gristmill.phases.samples import Sampler
from gristmill.recipe import Recipe, Source
from gristmill.source.read import Shard
from gristmill.source.rows import Fields
from gristmill.store.parts import Part, TableWriter, writing_table


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """All that refining one shard needs; goes to a worker."""

    root: str
    number: int
    source: Source
    path: str
    sha256: str
    seed: int
    samples: int | None  # dropped texts kept for each reason; null: all
    step: list[dict[str, Any]]
    deduplicate: Deduplicate | None
    limit: int | None

    def key(self) -> str:
        """The content key."""
        recipe = Recipe(source=[self.source], step=self.step)
        inputs = {step.name: step.inputs() for step in recipe.steps(self.source.name)}
        steps = [
            {"name": step.name, "version": step.version, **msgspec.to_builtins(step)}
            for step in recipe.steps(self.source.name)
        ]
        near = self.deduplicate.near if self.deduplicate else None
        # What duplicates are found by, not what is done about them: a new threshold reads no shard again.
        signed = None if self.deduplicate is None else [near and near.shingle, near and near.permutations]
        fields = {
            name: getattr(self.source, name)
            for name in ("kind", "text", "url", "max_document_bytes", "max_shard_bytes")
        }
        return content_key(
            "refine", number=self.number, sha256=self.sha256, fields=fields, steps=steps, inputs=inputs,
            signatures=signed, limit=self.limit, samples=self.samples, seed=self.seed,
        )  # fmt: skip


def shard_name(number: int) -> str:
    """How a raw shard's parts are called."""
    return f"{number:05d}"


def refine(task: Task, tell: Callable[[int], None]) -> Record:
    """Refine one shard; `tell` hears of decoded bytes."""
    name = shard_name(task.number)
    corpus = Corpus(Path(task.root))
    steps = Recipe(source=[task.source], step=task.step).steps(task.source.name)
    clock = Clock()
    timed = [NamedStep(step.name, clock.around(step.name, step)) for step in steps]
    measures = _measures(steps)
    source = task.source
    fields = Fields(source.text, source.url, source.max_document_bytes, source.max_shard_bytes)
    path = Path(task.path)
    shard = Shard(path, task.number, kind=source.kind, fields=fields, limit=task.limit, sha256=task.sha256)
    with ExitStack() as stack:
        outputs = _Outputs(stack, corpus, name, task, measures)
        for batch in clock.through("read", shard):
            judged = judge(batch, timed, measures)
            with clock.of("write"):
                outputs.write(judged)
            if task.deduplicate is not None and len(judged.kept):
                with clock.of("sign"):
                    outputs.sign(judged.kept, task.deduplicate)
            tell(batch["text"].nbytes)
        with clock.of("write"):
            outputs.finish()
            stack.close()
    parts = [part[0] for part in outputs.parts]
    verdicts = next(part for part in parts if part.path.startswith("refine/"))
    counts = {
        "raw": shard.counts,
        "kept": {"documents": outputs.kept, "bytes": outputs.kept_bytes},
        "verdicts": verdicts.sha256,
        "seconds": clock.seconds,
        "text_bytes": clock.bytes,
    }
    return corpus.record(
        "refine", name, Record(key=task.key(), parts=[part for part in parts if part != verdicts], counts=counts)
    )


def _measures(steps: list[Step]) -> pa.Schema:
    """The schema of all that the steps measure: what they say of an empty batch tells the types."""
    nothing = pa.RecordBatch.from_pylist([], schema.DOCUMENTS)
    fields = [
        pa.field(f"{step.name}.{name}", column.type)
        for step in steps
        for name, column in step(nothing).measures.items()
    ]
    return pa.schema([schema.DOCUMENTS.field("document"), *fields])


class _Outputs:
    """The tables that refining a shard writes."""

    def __init__(self, stack: ExitStack, corpus: Corpus, name: str, task: Task, measures: pa.Schema) -> None:
        self.parts: list[list[Part]] = []
        self.kept = 0
        self.kept_bytes = 0

        def table(path: str, kind: pa.Schema, *, root: Path = corpus.stage, plain: bool = False) -> TableWriter:
            writer, part = stack.enter_context(writing_table(root, path, kind, plain=plain))
            self.parts.append(part)
            return writer

        self._documents = table(f"documents/{name}.parquet", schema.DOCUMENTS)
        self._measures = table(f"measures/{name}.parquet", measures)
        self._verdicts = table(f"refine/{name}.parquet", schema.VERDICTS, root=corpus.work)
        self._samples = table(f"samples/{name}.parquet", schema.SAMPLES)
        self._sampler = None if task.samples is None else Sampler(task.seed, task.samples)
        if task.deduplicate is not None:
            kind = schema.signatures(permutation_count(task.deduplicate))
            self._signatures = table(f"signatures/{name}.parquet", kind, plain=True)

    def write(self, judged: Judged) -> None:
        """Write what became of a batch."""
        self._documents.write(judged.kept)
        self._measures.write(judged.measures)
        self._verdicts.write(judged.verdicts)
        for dropped in judged.dropped:
            if self._sampler is None:
                self._samples.write(dropped)
            else:
                self._sampler.add(dropped)
        self.kept += len(judged.kept)
        self.kept_bytes += judged.kept["text"].nbytes

    def sign(self, kept: pa.RecordBatch, settings: Deduplicate) -> None:
        """Write the signatures of what was kept."""
        self._signatures.write(sign(kept, settings))

    def finish(self) -> None:
        """Write what waited for the end."""
        for batch in self._sampler.batches() if self._sampler else []:
            self._samples.write(batch)
