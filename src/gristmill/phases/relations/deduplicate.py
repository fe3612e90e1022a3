"""Deduplicate: which documents of the whole corpus are duplicates.

signatures of all shards -> duplicates (dedup.duplicates)
  -> duplicates/copies.parquet     for every keeper, how many copies were dropped
  -> duplicates/pairs.parquet      every pair that was compared
  -> duplicates/similar.parquet    kept documents with a near-duplicate among the kept ones
  -> index/                        for later corpora, where the recipe asks for it
  -> work/deduplicate/drops.parquet, which write_verdicts.py fills into the verdicts
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.formats import FORMAT_VERSIONS
from gristmill.corpus.similar_documents import TABLE
from gristmill.dedup.duplicates import deduplicate
from gristmill.dedup.near.near_stage import PAIRS_FOUND
from gristmill.dedup.near.similar_kept import SIMILAR, similar_kept, with_equal_texts
from gristmill.dedup.reference_corpus import ReferenceCorpus, open_reference
from gristmill.dedup.settings import FIELD, Deduplicate
from gristmill.dedup.shard_tables import ShardTables
from gristmill.engine.engine import Session
from gristmill.errors import RecipeError, VerificationError
from gristmill.phases.inputs.plan import first_cut
from gristmill.phases.phase import WHOLE, Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.corpus_filters import CORPUS_FILTERS, DROPPED
from gristmill.phases.relations.differing_languages import find_differing, with_thresholds
from gristmill.recipe import Recipe
from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part, read_batches, writing, writing_table
from gristmill.store.proof import prove_all, proven
from gristmill.store.removal import remove_folder
from gristmill.tables.schema import shard_name

COPIES = pa.schema(
    [
        pa.field("keeper", pa.int64(), nullable=False),
        pa.field("keeper_corpus", pa.string()),  # null: this one
        pa.field("copies", pa.int64(), nullable=False),
    ]
)


def open_all(settings: Deduplicate | None, folder: Path) -> list[ReferenceCorpus]:
    """Return the older corpora that a recipe in `folder` compares against.

    Raises RecipeError, VerificationError.
    """
    corpora: list[ReferenceCorpus] = []
    if settings is None:
        return corpora
    for name in settings.against:
        root = (folder / name).absolute()
        finished = Corpus(root).finished() if root.is_dir() else None
        if finished is None:
            raise RecipeError(f"against = {name!r}: {root} is no finished corpus")
        for made in ("process", "unicode", "compared"):
            if (theirs := finished[0].versions.get(made)) != FORMAT_VERSIONS[made]:
                raise RecipeError(
                    f"against = {name!r}: made by version {theirs} of {made}, and this is "
                    f"{FORMAT_VERSIONS[made]}: texts and signatures may "
                    "differ. Run its recipe again"
                )
        first = corpora[-1].end if corpora else 0
        digest = hashlib.sha256(finished[1]).hexdigest()
        corpora.append(open_reference(root, finished[0], digest, settings, first))
    return corpora


def folders(settings: Deduplicate) -> list[str]:
    """Return the folders whose parts decide what is a duplicate of what."""
    read = {
        "signatures/": True,
        "documents/": settings.url or settings.order == "longest" or FIELD in settings.order,
        "measures/": bool(settings.by_language)
        or (" " in settings.order and FIELD not in settings.order),
    }
    return [folder for folder, is_read in read.items() if is_read]


def refuse_appended(settings: Deduplicate | None, finished: Manifest | None, shards: int) -> None:
    """Raise RecipeError where a finished corpus would grow although its order lets later documents
    drop earlier ones.
    """
    if (
        settings is not None
        and settings.order != "plan"
        and finished is not None
        and shards > len(finished.raw_shards)
    ):
        raise RecipeError(
            f'deduplicate.order = "{settings.order}": the corpus is finished with '
            f"{len(finished.raw_shards):,} raw shards and the recipe names "
            f"{shards:,}. New ones could drop documents that were kept: start a new corpus, "
            'or take order = "plan"'
        )


class DeduplicateCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What deduplicating counted."""

    rows: int  # duplicates
    reasons: dict[str, int]
    seconds: float


class DeduplicateTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that deduplicating needs."""

    root: Runtime[str]
    numbers: list[int]
    scopes: list[int]
    # sha256 of what decides: each shard's signatures, its documents, its measures
    signatures: list[str]
    # sha256 of what corpus filters dropped; null: there are none
    corpus_filtered: str | None
    deduplicate: Deduplicate  # without `against`: where older corpora lie changes no byte
    against: Runtime[list[str]]
    folder: Runtime[str]  # which `against` is relative to
    digests: list[str]  # of the older corpora's manifests
    read: Runtime[list[Part]]  # what must be as it was written
    # of shards in which a source reaches its target, the first document that is dropped
    cut: list[int] = []


def tasks(state: State) -> Iterator[dict[int, DeduplicateTask]]:
    """Yield one task of all shards that were processed."""
    settings = state.recipe.deduplicate
    assert settings is not None
    processed = state.of(PROCESS)
    deciding = folders(settings)
    texts = ["documents/"] if settings.near and settings.near.verify == "text" else []
    filtered = state.one(CORPUS_FILTERS)
    task = DeduplicateTask(
        root=str(state.corpus.root),
        numbers=list(processed),
        scopes=shard_scopes(state),
        signatures=[record.part(name).sha256 for record in processed.values() for name in deciding],
        corpus_filtered=filtered.work[0].sha256 if filtered else None,
        deduplicate=msgspec.structs.replace(settings, against=[]),
        against=settings.against,
        folder=str(state.folder),
        digests=[corpus.digest for corpus in state.older],
        read=[
            record.part(name)
            for record in processed.values()
            for name in sorted({*deciding, *texts})
        ],
        cut=[first for number in processed if (first := first_cut(state.plan.shards[number]))],
    )
    yield {0: task}


def find_duplicates(
    task: DeduplicateTask, on_progress: Callable[[int], None], session: Session
) -> Output:
    """Find all duplicates of the corpus; the drops rest under work/."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    corpus.forget(DEDUPLICATE.name, WHOLE)
    work = corpus.work / "deduplicate"
    remove_folder(work, session.threads)
    tables = [
        ShardTables(
            corpus.find(f"signatures/{shard_name(number)}.parquet"),
            corpus.find(f"documents/{shard_name(number)}.parquet"),
            scope,
            corpus.find(f"measures/{shard_name(number)}.parquet"),
        )
        for number, scope in zip(task.numbers, task.scopes, strict=True)
    ]
    prove_all(((corpus.find(part.path), part.sha256) for part in task.read), session.threads)
    settings = msgspec.structs.replace(task.deduplicate, against=task.against)
    against = open_all(settings, Path(task.folder))
    if [corpus.digest for corpus in against] != task.digests:
        raise VerificationError(
            f"{', '.join(task.against)}: changed since the run began. Run again"
        )
    dropped = (
        pq.read_table(proven(corpus.work / DROPPED, task.corpus_filtered), columns=["document"])[
            "document"
        ].to_numpy()
        if task.corpus_filtered
        else None
    )
    dropped = _with_cut(corpus, task.cut, dropped)
    differing = find_differing(settings, tables)
    drops, pairs, entries = deduplicate(
        tables,
        settings,
        work,
        opener=session.open,
        on_progress=on_progress,
        executor=session.map,
        dropped=dropped,
        against=against,
        differing=differing,
    )
    with writing_table(corpus.stage, "duplicates/pairs.parquet", PAIRS_FOUND) as (table, compared):
        for batch in read_batches(pairs):
            table.write(batch)
    compared += _write_similar(corpus, settings, tables, pairs, drops, dropped)
    index = [_copy(corpus, path) for path in entries]
    remove_folder(work, session.threads)
    written = with_thresholds(drops, settings, differing)
    with writing_table(corpus.work, "deduplicate/drops.parquet", written.schema) as (table, part):
        for batch in written.to_batches(max_chunksize=1 << 16):
            table.write(batch)
    copied = _write_copies(corpus, drops)
    reasons, numbers = np.unique(
        drops["reason"].to_numpy(zero_copy_only=False).astype(str), return_counts=True
    )
    counts = DeduplicateCounts(
        rows=len(drops),
        reasons=dict(zip(reasons.tolist(), numbers.tolist(), strict=True)),
        seconds=time.perf_counter() - start,
    )
    return Output(counts, copied + compared + index, part)


def _with_cut(corpus: Corpus, cut: list[int], dropped: np.ndarray | None) -> np.ndarray | None:
    """Return what is left out already, and the documents of each shard from one on."""
    arrays = [] if dropped is None else [dropped]
    for first in cut:
        name = shard_name(first >> 32)
        table = pq.read_table(corpus.find(f"signatures/{name}.parquet"), columns=["document"])
        documents = table["document"].to_numpy()
        arrays.append(documents[np.searchsorted(documents, first) :])
    return np.unique(np.concatenate(arrays)) if arrays else None


def _write_similar(
    corpus: Corpus,
    settings: Deduplicate,
    tables: list[ShardTables],
    pairs: Path,
    drops: pa.Table,
    filtered: np.ndarray | None,
) -> list[Part]:
    """Write the kept documents with a near-duplicate among the kept ones; nothing where near
    duplicates are not looked for.
    """
    if settings.near is None:
        return []
    dropped = np.union1d(drops["document"].to_numpy(), [] if filtered is None else filtered)
    dropped = dropped.astype(np.int64)
    documents = similar_kept(read_batches(pairs), dropped, settings.near.least)
    if not settings.exact or settings.scope != "corpus":
        # Copies of one text are kept, and are to be in one split.
        paths = [table.signatures for table in tables]
        documents = with_equal_texts(documents, paths, dropped)
    with writing_table(corpus.stage, TABLE, SIMILAR) as (table, parts):
        for start in range(0, len(documents), 1 << 16):
            rows = [pa.array(documents[start : start + (1 << 16)])]
            table.write(pa.RecordBatch.from_arrays(rows, schema=SIMILAR))
    return parts


def _write_copies(corpus: Corpus, drops: pa.Table) -> list[Part]:
    """Write how many documents were dropped for each keeper."""
    copies = (
        drops.group_by(["keeper", "keeper_corpus"])
        .aggregate([([], "count_all")])
        .sort_by([(name, "ascending") for name in ("keeper_corpus", "keeper")])
    )
    with writing_table(corpus.stage, "duplicates/copies.parquet", COPIES) as (table, parts):
        for batch in (
            copies.rename_columns(COPIES.names).cast(COPIES).to_batches(max_chunksize=1 << 16)
        ):
            table.write(batch)
    return parts


def _copy(corpus: Corpus, path: Path) -> Part:
    """Return a file of the index, as a part."""
    target = f"index/{path.name}"
    with writing(corpus.stage, target) as file, open(path, "rb") as source:
        shutil.copyfileobj(source, file, 1 << 20)
    return Part(target, file.size, file.hexdigest())


def shard_scopes(state: State) -> list[int]:
    """Of each shard that was processed, in order, with which others it is compared: 0 all, or the
    place of its source, from 1.
    """
    recipe, processed = state.recipe, state.of(PROCESS)
    if recipe.deduplicate is None or recipe.deduplicate.scope != "source":
        return [0] * len(processed)
    places = {source.name: place for place, source in enumerate(recipe.source, 1)}
    return [places[state.plan.shards[number].source] for number in processed]


def opens(task: DeduplicateTask) -> set[str]:
    """Return the folders that a task opens."""
    read = {part.path.partition("/")[0] for part in task.read}
    return {"signatures", "work/corpus_filters", *read}


def compares(recipe: Recipe) -> bool:
    """Return whether a recipe compares documents with one another."""
    return recipe.deduplicate is not None and recipe.deduplicate.compares


DEDUPLICATE = Phase(
    name="deduplicate",
    scope="corpus",
    recipe=(
        "source.name",
        *(
            f"deduplicate.{name}"
            for name in (
                "url",
                "normal_urls",
                "tracking",
                "exact",
                "arabic_marks",
                "near",
                "scope",
                "by_language",
                "order",
                "against",
                "index",
            )
        ),
    ),
    reads=("signatures", "documents", "measures", "work/corpus_filters"),
    opens=opens,
    writes=("duplicates", "index", "work/deduplicate"),
    formats=("deduplicate", "unicode", "compared"),
    counts=DeduplicateCounts,
    function=find_duplicates,
    tasks=tasks,
    is_asked=compares,
)
