"""Process: a raw shard to documents, measures, signatures and samples, in one streaming pass with
flat memory.

raw shard -> batches -> steps (filters.api.judge drops) -> documents/<shard>.parquet    what
    survived, later duplicates included
                                                   -> measures/<shard>.parquet     every measured
                                                       value
                                                   -> signatures/<shard>.parquet   where the recipe
                                                       deduplicates
                                                   -> samples/<shard>.parquet      a seeded sample
                                                       of what was dropped
                                                   -> contamination/<shard>.parquet   benchmark
                                                       items, where a step looks for them
                                                   -> work: verdicts, finished once the duplicates
                                                   are known
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schema
from gristmill.corpus.corpus import Corpus, Record, content_key
from gristmill.dedup.settings import Deduplicate
from gristmill.dedup.signatures import permutation_count, sign
from gristmill.errors import GristmillError, MachineError, SourceError
from gristmill.filters.api.judge import LEFT, Judged, Judgement, NamedStep, judge
from gristmill.filters.api.step import Input, Measured, Step
from gristmill.phases.inputs.plan import Planned
from gristmill.phases.process.clock import Clock
from gristmill.phases.process.reuse import Old, Reused, merged, usable
from gristmill.phases.process.samples import Sampler
from gristmill.recipe import Measure, Recipe, Source
from gristmill.schema import shard_name
from gristmill.source.kinds import OVERRIDE, extension
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields
from gristmill.store.parts import Part, TableWriter, writing_table

NAMES = {
    "text": ("txt", "text", "md", "rst", "tex"),
    "html": ("html", "htm", "xhtml"),
}  # of files that are one document
FREE_SHARE = 1.0  # bytes of free disk asked for before the first shard, for each byte of raw shards


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """All that processing one shard needs; goes to a worker."""

    root: str
    number: int
    source: Source
    path: str
    name: str  # the shard's own, of which a message speaks and by which a format can be doubted
    sha256: str
    seed: int
    samples: int | None  # dropped texts kept for each reason; null: all
    step: list[dict[str, Any]]
    inputs: dict[str, Input]  # what the steps read besides, by location
    measure: Measure
    deduplicate: Deduplicate | None
    limit: int | None

    def steps(self) -> list[Step]:
        """The steps that apply to the shard's source, in order."""
        return Recipe(source=[self.source], step=self.step).steps(self.source.name)

    def key(self) -> str:
        """The content key."""
        return self._key("process", thresholds=True)

    def measuring(self) -> str:
        """The key of what is measured, whatever is then decided."""
        return self._key("measuring", thresholds=False)

    def _key(self, phase: str, *, thresholds: bool) -> str:
        steps = [
            {
                "name": step.name,
                "version": step.version,
                "parameters": {
                    name: value
                    for name, value in msgspec.to_builtins(step).items()
                    if thresholds or name not in step.thresholds
                },
                "inputs": {
                    name: self.inputs[location].sha256 for name, location in step.inputs().items()
                },
            }
            for step in self.steps()
        ]
        near = self.deduplicate.near if self.deduplicate else None
        # What duplicates are found by, not what is done about them: a new threshold reads no shard
        # again.
        signed = (
            None
            if self.deduplicate is None
            else [near and near.shingle, near and near.unit, near and near.numbers]
        )
        fields = {
            name: getattr(self.source, name)
            for name in ("kind", "text", "url", "max_document_bytes", "max_shard_bytes")
        }
        return content_key(
            phase,
            number=self.number,
            sha256=self.sha256,
            fields=fields,
            steps=steps,
            measure=self.measure,
            signatures=signed,
            limit=self.limit,
            samples=self.samples,
            seed=self.seed,
        )


def task_of(
    corpus: Corpus,
    recipe: Recipe,
    source: Source,
    shard: Planned,
    path: Path,
    inputs: dict[str, Input],
) -> Task:
    """The task of a shard that is fetched."""
    assert shard.sha256 is not None
    return Task(
        root=str(corpus.root),
        number=shard.number,
        source=source,
        path=str(path),
        name=shard.url,
        sha256=shard.sha256,
        seed=recipe.seed,
        samples=None if recipe.keep_dropped else recipe.samples,
        step=recipe.step,
        inputs=inputs,
        measure=recipe.measure,
        deduplicate=recipe.deduplicate,
        limit=None,
    )


def empty(
    shards: list[Planned], sources: dict[str, Source], records: dict[int, Record]
) -> list[int]:
    """The shards that hold no byte; a shard whose kind is said, behind its source's limit, was not
    unpacked.
    """
    raw = {number: record.counts["raw"] for number, record in sorted(records.items())}
    said = {number for number in raw if sources[shards[number].source].kind is not None}
    return [
        number
        for number, counts in raw.items()
        if not counts["decompressed_bytes"] and not (number in said and counts["compressed_bytes"])
    ]


def strangers(
    shards: list[Planned], sources: dict[str, Source], records: dict[int, Record]
) -> dict[int, GristmillError]:
    """Shards that look like one text or page among shards of many documents, of a source that says
    no kind, and not by their names.
    """
    kinds = {number: record.counts["raw"]["kind"] for number, record in sorted(records.items())}
    many = {shards[number].source: kind for number, kind in kinds.items() if kind not in NAMES}
    return {
        number: SourceError(
            (
                f"not text, perhaps: {kind} among shards of {many[source]}, and its name does "
                f"not end in .{NAMES[kind][0]}; {OVERRIDE}"
            ),
            "not-text",
        )
        for number, kind in kinds.items()
        if (source := shards[number].source) in many
        and sources[source].kind is None
        and kind in NAMES
        and extension(shards[number].url) not in NAMES[kind]
        and records[number].counts["raw"]["decompressed_bytes"]
    }


def check_room(corpus: Corpus, raw: list[Path]) -> None:
    """Look at the free space before the work, not only when it is gone. Raises MachineError."""
    needed = sum(path.stat().st_size for path in raw) * FREE_SHARE
    status = os.statvfs(corpus.root)
    free = status.f_bavail * status.f_frsize
    if free < needed and not (corpus.work / "state" / "process").exists():
        raise MachineError(
            f"{corpus.root}: {free / 1e9:.2f} GB free, and the raw shards alone are "
            f"{needed / 1e9:.2f} GB: a run "
            "would fill the disk. Free some space or choose another folder"
        )


def process(task: Task, tell: Callable[[int], None]) -> Record:
    """Process one shard; `tell` hears of decoded bytes."""
    name = shard_name(task.number)
    corpus = Corpus(Path(task.root))
    clock = Clock()
    steps = [
        NamedStep(step.name, call) for step, call in zip(task.steps(), _calls(task), strict=True)
    ]
    measures, found = _schemas(steps)
    tables = {step.name: step.table for step in task.steps() if step.table is not None}
    timed = [NamedStep(step.name, clock.around(step.name, step.call)) for step in steps]
    source = task.source
    pages = any(step.takes_pages for step in task.steps())
    fields = Fields(
        source.text, source.url, source.max_document_bytes, source.max_shard_bytes, pages
    )
    path = Path(task.path)
    shard = ShardReader(
        path,
        task.number,
        kind=source.kind,
        fields=fields,
        limit=task.limit,
        sha256=task.sha256,
        name=task.name,
    )

    def judged(only: np.ndarray | None = None) -> Iterator[Judged]:
        for batch in clock.through("read", shard):
            tell(batch["text"].nbytes)
            if only is not None:
                batch = batch.filter(pc.is_in(batch["document"], pa.array(only)))
            if only is None or len(batch):
                yield judge(batch, timed, measures, everything=task.measure == "all")

    last = corpus.last("process", name)
    verdicts = corpus.work / f"process/{name}.parquet"
    with ExitStack() as stack:
        if last is not None and task.samples is not None and usable(corpus, last, task.measuring()):
            old = Old(corpus, name, last, verdicts, task.deduplicate, tables)
            sampler = Sampler(task.seed, task.samples)
            parts = old.judged_again(
                task.steps(), sampler, judged, everything=task.measure == "all"
            )
        else:
            last, parts = None, (Reused(one, None, one.kept) for one in judged())
        outputs = _Outputs(stack, corpus, name, task, measures, found, tables)
        for part in parts:
            with clock.of("write"):
                outputs.write(part.judged)
            if task.deduplicate is not None:
                with clock.of("sign"):
                    outputs.sign(part, task.deduplicate)
        with clock.of("write"):
            outputs.finish()
            stack.close()
    counts = {
        "raw": last.counts["raw"] if last is not None else shard.counts,
        "kept": {"documents": outputs.kept, "bytes": outputs.kept_bytes},
        "measuring": task.measuring(),
        "seconds": clock.seconds,
        "text_bytes": clock.bytes,
    }
    written = [part[0] for part in outputs.parts]
    counts["verdicts"] = next(part.sha256 for part in written if part.path.startswith("process/"))
    work = [part for part in written if part.path.startswith("process/")]
    published = [part for part in written if part not in work]
    return corpus.record(
        "process", name, Record(key=task.key(), parts=published, work=work, counts=counts)
    )


_ready: dict[
    str, Callable[[pa.RecordBatch], Measured]
] = {}  # of the last shard's steps, by all that they depend on


def _calls(task: Task) -> list[Callable[[pa.RecordBatch], Judgement]]:
    """The steps as calls. What they load (models, lists of millions) a worker loads once and not
    for each shard.
    """
    made = {}
    calls = []
    for step in task.steps():
        inputs = {location: task.inputs[location] for location in step.inputs().values()}
        key = content_key(
            "step", name=step.name, version=step.version, parameters=step, inputs=inputs
        )
        made[key] = _ready.get(key) or step.load(task.inputs)
        calls.append(_call(step, made[key]))
    _ready.clear()
    _ready.update(made)
    return calls


def _call(
    step: Step, measure: Callable[[pa.RecordBatch], Measured]
) -> Callable[[pa.RecordBatch], Judgement]:
    def call(batch: pa.RecordBatch) -> Judgement:
        found = measure(batch)
        return Judgement(
            *step.decide(found.measures), found.measures, found.text, found.columns, found.found
        )

    return call


def _schemas(steps: list[NamedStep]) -> tuple[pa.Schema, dict[str, pa.Schema]]:
    """The schemas of all that the steps measure, and by step of its own table: an empty batch shows
    the types.
    """
    nothing = pa.RecordBatch.from_pylist([], schema.DOCUMENTS)
    fields = []
    found = {}
    for step in steps:
        said = step.call(nothing)
        if said.found is not None:
            found[step.name] = said.found.schema
        fields += [
            pa.field(f"{step.name}.{name}", column.type) for name, column in said.measures.items()
        ]
        if said.text is not None:
            fields.append(pa.field(f"{step.name}.{LEFT}", pa.int64()))
    return pa.schema([schema.DOCUMENTS.field("document"), *fields]), found


class _Outputs:
    """The tables that processing a shard writes."""

    def __init__(
        self,
        stack: ExitStack,
        corpus: Corpus,
        name: str,
        task: Task,
        measures: pa.Schema,
        found: dict[str, pa.Schema],
        tables: dict[str, str],
    ) -> None:
        self.parts: list[list[Part]] = []
        self.kept = 0
        self.kept_bytes = 0

        def table(
            path: str, kind: pa.Schema, *, root: Path = corpus.stage, plain: bool = False
        ) -> TableWriter:
            writer, part = stack.enter_context(writing_table(root, path, kind, plain=plain))
            self.parts.append(part)
            return writer

        self._documents = table(f"documents/{name}.parquet", schema.DOCUMENTS)
        self._measures = table(f"measures/{name}.parquet", measures)
        self._verdicts = table(f"process/{name}.parquet", schema.VERDICTS, root=corpus.work)
        self._samples = table(f"samples/{name}.parquet", schema.SAMPLES)
        self._found = {
            step: table(f"{tables[step]}/{name}.parquet", kind) for step, kind in found.items()
        }
        self._sampler = None if task.samples is None else Sampler(task.seed, task.samples)
        if task.deduplicate is not None:
            kind = schema.signatures(permutation_count(task.deduplicate))
            self._signatures = table(f"signatures/{name}.parquet", kind, plain=True)

    def write(self, judged: Judged) -> None:
        """Write what became of a batch."""
        self._documents.write(judged.kept)
        self._measures.write(judged.measures)
        self._verdicts.write(judged.verdicts)
        for step, batches in judged.found.items():
            for rows in batches:
                self._found[step].write(rows)
        for dropped in judged.dropped:
            if self._sampler is None:
                self._samples.write(dropped)
            else:
                self._sampler.add(dropped)
        self.kept += len(judged.kept)
        self.kept_bytes += judged.kept["text"].nbytes

    def sign(self, part: Reused, settings: Deduplicate) -> None:
        """Write the signatures of what was kept: those that are there, and those of what is new."""
        batches = [] if part.signatures is None else [part.signatures]
        if len(part.fresh):
            batches.append(sign(part.fresh, settings))
        if len(batches) > 1:
            batches = [merged(*batches)]
        for batch in batches:
            self._signatures.write(batch)

    def finish(self) -> None:
        """Write what waited for the end."""
        for batch in self._sampler.batches() if self._sampler else []:
            self._samples.write(batch)
