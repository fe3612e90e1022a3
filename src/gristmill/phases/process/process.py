"""Process: a raw shard to documents, measures, signatures and samples, in one streaming pass with
flat memory.

    raw shard -> batches -> steps (filters.api.judge drops)
      -> documents/<shard>.parquet      what survived, later duplicates included
      -> measures/<shard>.parquet       every measured value
      -> signatures/<shard>.parquet     where the recipe deduplicates
      -> samples/<shard>.parquet        a seeded sample of what was dropped
      -> contamination/<shard>.parquet  benchmark items, where a step looks for them
      -> work/process/<shard>.parquet   verdicts, completed once the duplicates are known
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.corpus.corpus import Corpus, content_key
from gristmill.errors import GristmillError, MachineError, SourceError
from gristmill.filters.api.judge import Judged, NamedStep, judge, make_schemas, named
from gristmill.phases.inputs.fetch import label
from gristmill.phases.inputs.plan import PlannedShard
from gristmill.phases.phase import Output, Phase, State
from gristmill.phases.process.clock import Clock
from gristmill.phases.process.process_tables import ProcessTables
from gristmill.phases.process.process_task import (
    FORMATS,
    KeptCounts,
    ProcessCounts,
    ProcessTask,
    RawCounts,
    Steps,
    make_signing,
)
from gristmill.phases.process.reuse import Old, usable
from gristmill.phases.process.samples import Sampler
from gristmill.recipe import Source, format_location
from gristmill.source import pack
from gristmill.source.files_read import text_size
from gristmill.source.pack import PackReader
from gristmill.source.path_columns import path_columns
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields
from gristmill.source.source_format import FORMATS as SOURCE_FORMATS
from gristmill.source.source_format import OVERRIDE, extension
from gristmill.store.codecs import Proof, UnprovedMember
from gristmill.store.loaded import loaded
from gristmill.system.own_code import OwnFile
from gristmill.tables import schema
from gristmill.tables.schema import shard_name

LANGUAGE = "language.label"  # the measure that `scope = "language"` compares within
FREE_SHARE = 1.0  # bytes of free disk asked for before the first shard, for each byte of raw shards


def tasks(state: State) -> Iterator[dict[int, ProcessTask]]:
    """Yield a task for each shard that is fetched.

    A limit counts documents of the whole source: its shards go one after another.
    """
    sources = {source.name: source for source in state.recipe.source}
    pages = {source.name: _takes_pages(state, source) for source in state.recipe.source}
    shard_tasks = {
        shard.number: _task(state, sources[shard.source], shard, pages=pages[shard.source])
        for shard in state.plan.shards
        if shard.missing is None and shard.sha256 is not None
    }
    of = {number: sources[state.plan.shards[number].source] for number in shard_tasks}
    yield {number: task for number, task in shard_tasks.items() if of[number].limit is None}
    for source in sources.values():
        left = source.limit
        if left is None:
            continue
        for number in [number for number in shard_tasks if of[number] is source]:
            yield {number: msgspec.structs.replace(shard_tasks[number], limit=left)}
            if number in state.of(PROCESS):
                left -= state.of(PROCESS)[number].counts.raw.documents


def make_task(state: State, shard: PlannedShard) -> ProcessTask | None:
    """Return the task of a shard that is fetched; null where it depends on the shards before it."""
    source = next(source for source in state.recipe.source if source.name == shard.source)
    if source.limit is not None:
        return None
    return _task(state, source, shard, pages=_takes_pages(state, source))


def _takes_pages(state: State, source: Source) -> bool:
    """Return whether a step reads pages, and not texts."""
    steps = Steps(source=source.name, step=state.recipe.step, inputs=state.inputs)
    return any(step.takes_pages for step in steps.made())


@cache
def _charsets() -> str:
    """Return the version of what detects charsets."""
    return version("resiliparse")


def _task(state: State, source: Source, shard: PlannedShard, *, pages: bool) -> ProcessTask:
    recipe = state.recipe
    assert shard.sha256 is not None
    steps = Steps(source=source.name, step=recipe.step, inputs=state.inputs)
    limits = source.max_document_bytes, source.max_shard_bytes
    own = state.inputs.get(format_location(source) or "")
    return ProcessTask(
        root=str(state.corpus.root),
        number=shard.number,
        path=str(state.paths.get(shard.number, "")),
        name=shard.url,
        sha256=shard.sha256,
        files=shard.files,
        kind=source.kind,
        kind_file=own.path if own else "",
        kind_sha256=own.sha256 if own else "",
        fields=Fields(
            source.text,
            source.url,
            *limits,
            pages,
            source.keep_empty,
            source.max_replaced,
            source.keep_truncated,
            path_columns(shard.url),
        ),
        libraries={"resiliparse": _charsets()},
        steps=steps,
        measure=recipe.measure,
        signing=make_signing(recipe.deduplicate) if recipe.deduplicate else None,
        within=LANGUAGE if recipe.deduplicate and recipe.deduplicate.scope == "language" else None,
        limit=None,
        start=shard.start,
        samples=None if recipe.keep_dropped else recipe.samples,
        seed=recipe.seed,
    )


def check(state: State) -> dict[int, GristmillError]:
    """Say which shards are empty; refuse those that look like no shard of their source."""
    sources = {source.name: source for source in state.recipe.source}
    shards = state.plan.shards
    raw = {number: record.counts.raw for number, record in sorted(state.of(PROCESS).items())}
    for number in empty(shards, sources, raw):
        state.progress.line(f"{label(shards[number])}: empty, 0 bytes")
    return strangers(shards, sources, raw)


def empty(
    shards: list[PlannedShard], sources: dict[str, Source], raw: dict[int, RawCounts]
) -> list[int]:
    """Return the shards that hold no byte; a shard whose kind is said, behind its source's limit,
    was not unpacked.
    """
    said = {number for number in raw if sources[shards[number].source].kind is not None}
    return [
        number
        for number, counts in raw.items()
        if not counts.decompressed_bytes and not (number in said and counts.compressed_bytes)
    ]


def strangers(
    shards: list[PlannedShard], sources: dict[str, Source], raw: dict[int, RawCounts]
) -> dict[int, GristmillError]:
    """Return shards that look like one text or page among shards of many documents, of a source
    that says no kind, and not by their names.
    """
    kinds = {number: counts.kind for number, counts in raw.items()}
    alone = {kind.name: kind.alone for kind in SOURCE_FORMATS.built_in() if kind.alone}
    several = (*alone, pack.KIND)
    many = {shards[number].source: kind for number, kind in kinds.items() if kind not in several}
    return {
        number: SourceError(
            (
                f"not text, perhaps: {kind} among shards of {many[source]}, and its name does "
                f"not end in .{alone[kind][0]}; {OVERRIDE}"
            ),
            "not-text",
        )
        for number, kind in kinds.items()
        if (source := shards[number].source) in many
        and sources[source].kind is None
        and kind in alone
        and extension(shards[number].url) not in alone[kind]
        and raw[number].decompressed_bytes
    }


def processed(state: State, numbers: Iterable[int]) -> set[int]:
    """Return which of these raw shards were processed, so that no file of theirs is needed. Of
    sources with a limit none is: how much of a shard is read depends on those before it.
    """
    first = next(tasks(state.of_phase(PROCESS)), {})
    return {
        number
        for number in set(numbers) & set(first)
        if state.corpus.done(
            PROCESS.name, shard_name(number), PROCESS.key(first[number]), ProcessCounts
        )
    }


def is_begun(corpus: Corpus) -> bool:
    """Return whether shards were processed before."""
    return (corpus.work / "state" / "process").exists()


def check_room(corpus: Corpus, shards: Iterable[PlannedShard], *, begun: bool) -> None:
    """Look at the free space before the work, not only when it is used up; not where it was begun
    before. Raises MachineError.
    """
    needed = sum(shard.size or 0 for shard in shards) * FREE_SHARE
    status = os.statvfs(corpus.root)
    free = status.f_bavail * status.f_frsize
    if free < needed and not begun:
        raise MachineError(
            f"{corpus.root}: {free / 1e9:.2f} GB free, and the raw shards alone are "
            f"{needed / 1e9:.2f} GB: a run "
            "would fill the disk. Free some space or choose another folder"
        )


def process(task: ProcessTask, on_progress: Callable[[int], None]) -> Output:
    """Process one shard; `on_progress` gets decoded bytes.

    Whether a part of a packed file is sound is known at its end. It is believed to be: if it is
    not, all is forgotten and the shard is processed again with each part decoded twice.
    """
    try:
        return _process(task, on_progress, "behind")
    except UnprovedMember:
        return _process(task, on_progress, "ahead")


def _process(task: ProcessTask, on_progress: Callable[[int], None], proof: Proof) -> Output:
    name = shard_name(task.number)
    corpus = Corpus(Path(task.root))
    clock = Clock()
    steps = _named(task.steps)
    measures, found = make_schemas(steps)
    tables = {step.name: step.table for step in task.steps.made() if step.table is not None}
    timed = [step._replace(call=clock.around(step.name, step.call)) for step in steps]
    shard = _reader(task, proof)

    first = schema.first_document(task.number) + task.start
    before = 0  # documents of rows that have an earlier number

    def judged(only: np.ndarray | None = None) -> Iterator[Judged]:
        nonlocal before
        for batch in clock.through("read", shard):
            on_progress(batch["text"].nbytes)
            if task.start:
                place = int(np.searchsorted(batch["document"].to_numpy(), first))
                before, batch = before + place, batch.slice(place)
            if only is not None:
                batch = batch.filter(pc.is_in(batch["document"], pa.array(only)))
            if len(batch) or (only is None and not task.start):
                yield judge(batch, timed, measures, everything=task.measure == "all")
            del batch

    settings = task.signing.settings() if task.signing else None
    last = corpus.last(PROCESS.name, name, ProcessCounts)
    with ExitStack() as stack:
        if last is not None and task.samples is not None and usable(corpus, last, task.measuring()):
            verdicts = corpus.work / f"process/{name}.parquet"
            old = Old(corpus, name, last, verdicts, settings, tables)
            sampler = Sampler(task.seed, task.samples)
            parts = old.judged_again(
                task.steps.made(), sampler, judged, everything=task.measure == "all"
            )
        else:
            last, parts = None, judged()
        outputs = ProcessTables(stack, corpus, name, task, measures, found, tables)
        for part in parts:
            with clock.of("write"):
                outputs.write(part)
            if settings is not None:
                with clock.of("sign"):
                    outputs.sign(part, settings)
            del part  # it need not be there while the next is made
        with clock.of("write"):
            outputs.finish()
            stack.close()
    counts = ProcessCounts(
        raw=last.counts.raw if last is not None else _counted(shard.counts, before),
        kept=KeptCounts(documents=outputs.kept, bytes=outputs.kept_bytes),
        measuring=task.measuring(),
        seconds=clock.seconds,
        text_bytes=clock.bytes,
    )
    written = [part[0] for part in outputs.parts]
    work = [part for part in written if part.path.startswith("process/")]
    return Output(counts, [part for part in written if part not in work], work)


def _reader(task: ProcessTask, proof: Proof) -> ShardReader | PackReader:
    path, kind, fields, limit = Path(task.path), task.kind, task.fields, task.limit
    own = OwnFile(task.kind_file, task.kind_sha256) if task.kind_file else None
    if task.files:
        return PackReader(
            path,
            task.number,
            task.files,
            kind=kind,
            own=own,
            fields=fields,
            limit=limit,
            proof=proof,
        )
    return ShardReader(
        path,
        task.number,
        kind=kind,
        own=own,
        fields=fields,
        limit=limit,
        sha256=task.sha256,
        name=task.name,
        proof=proof,
    )


def _counted(counts: dict[str, Any], before: int) -> RawCounts:
    """Return what was counted of a raw shard, without the documents `before` those that it is read
    for.
    """
    return msgspec.convert(counts | {"documents": counts["documents"] - before}, RawCounts)


def _named(steps: Steps) -> list[NamedStep]:
    """Return the steps as calls. What they load (models, lists of millions) a worker loads once and
    not for each shard.
    """
    made = {}
    for step in steps.made():
        inputs = {location: steps.inputs[location] for location in step.inputs().values()}
        key = content_key(
            "step", name=step.name, version=step.version, parameters=step, inputs=inputs
        )
        made[key] = step
    measures = loaded(
        "steps", {key: partial(step.load, steps.inputs) for key, step in made.items()}
    )
    return [named(step, measures[key]) for key, step in made.items()]


def _text_size(task: ProcessTask) -> int:
    if task.files:
        return sum(file.size or 0 for file in task.files)
    return text_size(task.path, task.name)


PROCESS = Phase(
    name="process",
    scope="shard",
    recipe=(
        "seed",
        "step",
        "keep_dropped",
        "samples",
        "measure",
        "deduplicate.scope",
        "deduplicate.exact",
        "deduplicate.arabic_marks",
        *(
            f"source.{name}"
            for name in (
                "name",
                "kind",
                "text",
                "url",
                "limit",
                "max_document_bytes",
                "max_shard_bytes",
                "keep_empty",
                "max_replaced",
                "keep_truncated",
            )
        ),
        *(
            f"deduplicate.near.{name}"
            for name in ("shingle", "unit", "signs", "arabic_marks", "bands", "rows")
        ),
    ),
    reads=(),
    writes=(
        "documents",
        "measures",
        "signatures",
        "samples",
        "contamination",
        "tables",
        "work/process",
    ),
    formats=FORMATS,
    counts=ProcessCounts,
    function=process,
    tasks=tasks,
    check=check,
    size=_text_size,
)
