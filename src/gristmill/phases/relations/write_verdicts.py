"""Write verdicts: one for every document of a shard, written once.

    work/process/<shard>.parquet          the verdicts of process
    measures/<shard>.parquet              labels, where steps differ by language: documents of
                                          languages without parameters are counted
    work/corpus_filters/drops.parquet     what corpus filters dropped
    work/deduplicate/drops.parquet        duplicates
    the plan                              where a source reached its target
      -> verdicts/<shard>.parquet

A shard's verdicts depend on the rows of the tables that are about its own documents: a corpus that
grows writes the verdicts of the new shards only, and of those where a duplicate came or went.

When all are written the guard looks for a cluster that is too large (corpus/clusters.py): it is
asked of these bytes and is in no key.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus import clusters
from gristmill.corpus.corpus import Corpus
from gristmill.dedup.drops import NEAR
from gristmill.errors import GristmillError
from gristmill.phases.inputs.plan import TargetCut
from gristmill.phases.phase import Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.corpus_filters import CORPUS_FILTERS, DROPPED
from gristmill.phases.relations.deduplicate import DEDUPLICATE, shard_scopes
from gristmill.phases.relations.default_counts import DefaultsTask, default_counts, differing_steps
from gristmill.store.parts import read_batches, writing_table
from gristmill.store.proof import proven
from gristmill.tables import schema
from gristmill.tables.schema import shard_name

TARGET = "target.reached"  # the reason for documents behind the one that reaches a target
DUPLICATES = "deduplicate/drops.parquet"  # under work/
FILLED = pa.schema(  # the columns of VERDICTS that are filled after process
    [
        schema.VERDICTS.field(name)
        for name in (
            "document",
            "reason",
            "value",
            "threshold",
            "keeper",
            "similarity",
            "keeper_corpus",
        )
    ]
)


class VerdictCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a shard's verdicts say."""

    documents: int
    kept: int
    reasons: dict[str, int]  # of those that were dropped
    # by step, whose parameters differ by language: documents of each language that has none
    defaults: dict[str, dict[str, int]] = {}


class VerdictsTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that a shard's verdicts need."""

    root: Runtime[str]
    number: int
    provisional: str  # sha256 of process's verdicts
    # digests of this shard's rows: of what corpus filters dropped (null: there are none), of the
    # corpus' duplicates (null: the recipe does not deduplicate)
    corpus_filtered: str | None
    drops: str | None
    near_threshold: float | None
    cut: TargetCut | None = None  # where the source reached its target, in this shard
    # what counts documents of languages without parameters; null: no step differs by language
    defaults: DefaultsTask | None = None
    # and the sha256 of both tables
    tables: Runtime[tuple[str | None, str | None]] = (None, None)


def tasks(state: State) -> Iterator[dict[int, VerdictsTask]]:
    """Yield a task for each shard that was processed."""
    near = state.recipe.deduplicate.near if state.recipe.deduplicate else None
    filtered, deduplicated = state.one(CORPUS_FILTERS), state.one(DEDUPLICATE)
    tables = tuple(result.work[0].sha256 if result else None for result in (filtered, deduplicated))
    processed = state.of(PROCESS)
    rows = [
        row_digests(proven(state.corpus.work_file(path), sha256), list(processed)) if sha256 else {}
        for path, sha256 in zip((DROPPED, DUPLICATES), tables, strict=True)
    ]
    recipe, shards = state.recipe, state.plan.shards
    by_language = any("by_language" in table for table in recipe.step)
    differing = {
        source.name: differing_steps(recipe.steps(source.name)) if by_language else []
        for source in recipe.source
    }
    yield {
        number: VerdictsTask(
            root=str(state.corpus.root),
            number=number,
            provisional=record.work[0].sha256,
            near_threshold=near.threshold if near else None,
            corpus_filtered=rows[0].get(number),
            drops=rows[1].get(number),
            cut=shards[number].cut,
            defaults=DefaultsTask(measures=record.part("measures/"), steps=steps)
            if (steps := differing[shards[number].source])
            else None,
            tables=(tables[0], tables[1]),
        )
        for number, record in processed.items()
    }


def row_digests(path: Path, numbers: list[int]) -> dict[int, str]:
    """By raw shard, the sha256 over its rows of a table that is sorted by `document`: of each
    column its values, a text as its place among the texts of these rows in the order in which they
    come, and then these texts.
    """
    digests = {number: hashlib.sha256() for number in numbers}
    waiting: list[pa.RecordBatch] = []  # of the shard that the last batch ended in
    for batch in read_batches(path):
        shards = batch["document"].to_numpy() >> schema.ROW_BITS
        starts = np.flatnonzero(np.diff(shards, prepend=-1)).tolist()
        for first, end in zip(starts, [*starts[1:], len(batch)], strict=True):
            if waiting and waiting[-1]["document"][0].as_py() >> schema.ROW_BITS != shards[first]:
                _add(digests, waiting)
                waiting = []
            waiting.append(batch.slice(first, end - first))
    if waiting:
        _add(digests, waiting)
    return {number: digest.hexdigest() for number, digest in digests.items()}


def _add(found: dict[int, Any], batches: list[pa.RecordBatch]) -> None:
    """Digest the rows of one shard."""
    table = pa.Table.from_batches(batches)
    digest = found[table["document"][0].as_py() >> schema.ROW_BITS]
    for column in table.columns:
        values = column.combine_chunks()
        if pa.types.is_string(values.type):
            texts = values.dictionary_encode()
            digest.update(msgspec.json.encode(texts.dictionary.to_pylist()))
            values = texts.indices.cast(pa.int64())
        digest.update(values.is_null().to_numpy(zero_copy_only=False).tobytes())
        digest.update(values.fill_null(0).to_numpy(zero_copy_only=False).tobytes())


def check(state: State) -> dict[int, GristmillError]:
    """Stop the run where one cluster is too large. Raises RecipeError."""
    settings = state.recipe.deduplicate
    if settings is not None and state.one(DEDUPLICATE) is not None:
        written = state.of(WRITE_VERDICTS)
        kept = {
            number: record.counts.kept.documents - written[number].counts.reasons.get(TARGET, 0)
            for number, record in state.of(PROCESS).items()
        }
        clusters.guard(state.corpus, settings.largest_cluster, kept, shard_scopes(state))
    return {}


def write_verdicts(task: VerdictsTask, on_progress: Callable[[int], None]) -> Output:
    """Write a shard's verdicts: those of process, and what later phases dropped."""
    corpus = Corpus(Path(task.root))
    name = shard_name(task.number)
    source = proven(corpus.work / f"process/{name}.parquet", task.provisional)
    drops = _read_drops(corpus, task)
    reasons: dict[str, int] = {}
    rows = 0
    defaults = default_counts(task.defaults, corpus) if task.defaults is not None else None
    with writing_table(corpus.stage, f"verdicts/{name}.parquet", schema.VERDICTS) as (table, part):
        for batch in read_batches(source):
            if defaults is not None:
                defaults.add(batch)
            if len(drops):
                batch = _fill(batch, drops)
            if task.cut is not None:
                batch = _cut_off(batch, task.cut)
            for counted in batch["reason"].value_counts().to_pylist():
                if counted["values"] is not None:
                    reasons[counted["values"]] = (
                        reasons.get(counted["values"], 0) + counted["counts"]
                    )
            rows += len(batch)
            table.write(batch)
            on_progress(0)
    counts = VerdictCounts(
        documents=rows,
        kept=rows - sum(reasons.values()),
        reasons=dict(sorted(reasons.items())),
        defaults=defaults.counts if defaults is not None else {},
    )
    return Output(counts, part)


def _read_drops(corpus: Corpus, task: VerdictsTask) -> pa.Table:
    """Return what was dropped of a shard since it was processed: FILLED, sorted by document."""
    low, high = schema.first_document(task.number), schema.first_document(task.number + 1)
    own = [("document", ">=", low), ("document", "<", high)]
    tables = [FILLED.empty_table()]
    filtered, duplicates = task.tables
    if filtered is not None:
        table = pq.read_table(
            proven(corpus.work / DROPPED, filtered), filters=own, use_threads=False
        )
        nothing = [pa.nulls(len(table), FILLED.field(name).type) for name in FILLED.names[4:]]
        tables.append(pa.table([*table.columns, *nothing], schema=FILLED))
    if duplicates is not None:
        table = pq.read_table(
            proven(corpus.work / DUPLICATES, duplicates), filters=own, use_threads=False
        )
        near = pc.equal(table["reason"], NEAR)
        threshold = pc.if_else(near, pa.scalar(task.near_threshold, pa.float64()), pa.scalar(1.0))
        named = {"value": table["similarity"]}
        if "threshold" not in table.column_names:  # one for all languages
            named["threshold"] = threshold
        tables.append(
            pa.table(
                [
                    named.get(name, table[name] if name in table.column_names else None)
                    for name in FILLED.names
                ],
                schema=FILLED,
            )
        )
    return pa.concat_tables(tables).sort_by("document")


def _fill(batch: pa.RecordBatch, drops: pa.Table) -> pa.RecordBatch:
    documents, dropped = batch["document"].to_numpy(), drops["document"].to_numpy()
    place = np.minimum(np.searchsorted(dropped, documents), len(dropped) - 1)
    hit = dropped[place] == documents
    if not hit.any():
        return batch
    take, mask = pa.array(place, mask=~hit), pa.array(hit)
    columns = {
        name: pc.if_else(mask, drops[name].combine_chunks().take(take), batch[name])
        for name in FILLED.names[1:]
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(name, batch[name]) for name in schema.VERDICTS.names], schema=schema.VERDICTS
    )


def _cut_off(batch: pa.RecordBatch, cut: TargetCut) -> pa.RecordBatch:
    """Return a batch in which the kept documents from the cut on are dropped."""
    beyond = pc.greater_equal(pc.bit_wise_and(batch["document"], 0xFFFFFFFF), cut.row)
    mask = pc.and_(beyond, pc.is_null(batch["reason"]))
    named = {"reason": TARGET, "value": float(cut.tokens), "threshold": float(cut.target)}
    columns = [
        pc.if_else(mask, named[name], batch[name]) if name in named else batch[name]
        for name in schema.VERDICTS.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.VERDICTS)


WRITE_VERDICTS = Phase(
    name="write_verdicts",
    stop="deduplicate",
    scope="shard",
    recipe=(
        "source.name",
        "step",
        "deduplicate.scope",
        "deduplicate.near.threshold",
        "deduplicate.largest_cluster",
    ),
    reads=("work/process", "measures", "work/corpus_filters", "work/deduplicate"),
    writes=("verdicts",),
    formats=("write_verdicts",),
    counts=VerdictCounts,
    function=write_verdicts,
    tasks=tasks,
    check=check,
)
