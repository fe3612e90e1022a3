"""Deduplicate: what the corpus as a whole says of its documents, and then each shard's verdicts,
written once.

signatures of all shards -> duplicates (dedup.duplicates) -> duplicates/copies.parquet    for every
    keeper, how many copies went
                                                      -> duplicates/pairs.parquet     every pair
                                                          that was compared
verdicts of process + what was corpus_filtered (corpus_filters.py) + duplicates of the shard ->
verdicts/<shard>.parquet
"""

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill import schema
from gristmill.corpus.corpus import Corpus, Record, content_key
from gristmill.corpus.formats import FORMAT_VERSIONS
from gristmill.dedup.drops import NEAR
from gristmill.dedup.duplicates import DROPS, deduplicate
from gristmill.dedup.near.near_stage import PAIRS_FOUND
from gristmill.dedup.reference_corpus import ReferenceCorpus, open_reference
from gristmill.dedup.settings import FIELD, Deduplicate
from gristmill.dedup.shard_tables import ShardTables
from gristmill.engine.engine import Session
from gristmill.errors import RecipeError, VerificationError
from gristmill.recipe import Recipe
from gristmill.schema import shard_name
from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part, read_batches, writing, writing_table
from gristmill.store.proof import prove_all, proven

COPIES = pa.schema(
    [
        pa.field("keeper", pa.int64(), nullable=False),
        pa.field("keeper_corpus", pa.string()),  # null: this one
        pa.field("copies", pa.int64(), nullable=False),
    ]
)


def open_all(settings: Deduplicate | None, folder: Path) -> list[ReferenceCorpus]:
    """The older corpora that a recipe in `folder` compares against.

    Raises RecipeError, VerificationError.
    """
    found: list[ReferenceCorpus] = []
    if settings is None:
        return found
    for name in settings.against:
        root = (folder / name).absolute()
        published = Corpus(root).published() if root.is_dir() else None
        if published is None:
            raise RecipeError(f"against = {name!r}: {root} is no finished corpus")
        for made in ("process", "unicode"):
            if (theirs := published[0].versions.get(made)) != FORMAT_VERSIONS[made]:
                raise RecipeError(
                    f"against = {name!r}: made by version {theirs} of {made}, and this is "
                    f"{FORMAT_VERSIONS[made]}: texts and signatures may "
                    "differ. Run its recipe again"
                )
        first = found[-1].end if found else 0
        digest = hashlib.sha256(published[1]).hexdigest()
        found.append(open_reference(root, published[0], digest, settings, first))
    return found


def folders(settings: Deduplicate) -> list[str]:
    """The folders whose parts decide what is a duplicate of what."""
    read = {
        "signatures/": True,
        "documents/": settings.url or settings.order == "longest" or FIELD in settings.order,
        "measures/": " " in settings.order and FIELD not in settings.order,
    }
    return [folder for folder, is_read in read.items() if is_read]


def refuse_appended(settings: Deduplicate | None, published: Manifest | None, shards: int) -> None:
    """Raise RecipeError where a published corpus would grow although its order lets later documents
    drop earlier ones.
    """
    if (
        settings is not None
        and settings.order != "plan"
        and published is not None
        and shards > len(published.raw_shards)
    ):
        raise RecipeError(
            f'deduplicate.order = "{settings.order}": the corpus is finished with '
            f"{len(published.raw_shards):,} raw shards and the recipe names "
            f"{shards:,}. New ones could drop documents that were kept: start a new corpus, "
            'or take order = "plan"'
        )


class DeduplicateTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that deduplicating needs."""

    root: str
    numbers: list[int]
    scopes: list[int]
    signatures: list[
        str
    ]  # sha256 of all that is read: each shard's signatures, its documents, its measures
    corpus_filtered: (
        str | None
    )  # sha256 of what went by the whole corpus' measures; null: nothing is asked of them
    deduplicate: Deduplicate
    folder: str  # which `against` is relative to
    digests: list[str]  # of the older corpora's manifests
    read: list[Part] = []  # what must be as it was written

    def key(self) -> str:
        """The content key."""
        given = list(zip(self.numbers, self.scopes, strict=True))
        settings = msgspec.structs.replace(
            self.deduplicate, against=[]
        )  # where older corpora lie is nothing to them
        return content_key(
            "deduplicate",
            shards=given,
            signatures=self.signatures,
            corpus_filtered=self.corpus_filtered,
            deduplicate=settings,
            digests=self.digests,
        )


def find_duplicates(
    task: DeduplicateTask, on_progress: Callable[[int], None], session: Session
) -> Record:
    """Find all duplicates of the corpus; the drops rest under work/."""
    start = time.perf_counter()
    corpus = Corpus(Path(task.root))
    corpus.forget("deduplicate", "all")
    work = corpus.work / "deduplicate"
    shutil.rmtree(work, ignore_errors=True)
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
    against = open_all(task.deduplicate, Path(task.folder))
    if [corpus.digest for corpus in against] != task.digests:
        raise VerificationError(
            f"{', '.join(task.deduplicate.against)}: changed since the run began. Run again"
        )
    gone = (
        pq.read_table(
            proven(corpus.work / CORPUS_DROPS, task.corpus_filtered), columns=["document"]
        )["document"].to_numpy()
        if task.corpus_filtered
        else None
    )
    drops, pairs, entries = deduplicate(
        tables,
        task.deduplicate,
        work,
        opener=session.open,
        on_progress=on_progress,
        executor=session.map,
        dropped=gone,
        against=against,
    )
    with writing_table(corpus.stage, "duplicates/pairs.parquet", PAIRS_FOUND) as (table, compared):
        for batch in read_batches(pairs):
            table.write(batch)
    index = [_copy(corpus, path) for path in entries]
    shutil.rmtree(work, ignore_errors=True)
    with writing_table(corpus.work, "deduplicate/drops.parquet", DROPS) as (table, part):
        for batch in drops.to_batches(max_chunksize=1 << 16):
            table.write(batch)
    copies = (
        drops.group_by(["keeper", "keeper_corpus"])
        .aggregate([([], "count_all")])
        .sort_by([(name, "ascending") for name in ("keeper_corpus", "keeper")])
    )
    with writing_table(corpus.stage, "duplicates/copies.parquet", COPIES) as (table, copied):
        for batch in (
            copies.rename_columns(COPIES.names).cast(COPIES).to_batches(max_chunksize=1 << 16)
        ):
            table.write(batch)
    reasons, numbers = np.unique(
        drops["reason"].to_numpy(zero_copy_only=False).astype(str), return_counts=True
    )
    counts = {
        "drops": part[0].sha256,
        "rows": len(drops),
        "reasons": dict(zip(reasons.tolist(), numbers.tolist(), strict=True)),
        "seconds": time.perf_counter() - start,
    }
    return corpus.record(
        "deduplicate",
        "all",
        Record(key=task.key(), parts=copied + compared + index, work=part, counts=counts),
    )


def _copy(corpus: Corpus, path: Path) -> Part:
    """A file of the index, as a part."""
    target = f"index/{path.name}"
    with writing(corpus.stage, target) as file, open(path, "rb") as source:
        shutil.copyfileobj(source, file, 1 << 20)
    return Part(target, file.size, file.hexdigest())


class VerdictsTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that a shard's verdicts need."""

    root: str
    number: int
    provisional: str  # sha256 of process's verdicts
    corpus_filtered: (
        str | None
    )  # sha256 of what went by the whole corpus' measures; null: nothing is asked of them
    drops: str | None  # sha256 of the corpus' duplicates; null: the recipe does not deduplicate
    near_threshold: float | None

    def key(self) -> str:
        """The content key."""
        fields = msgspec.structs.asdict(self)
        del fields["root"]
        return content_key("write_verdicts", **fields)


def write_verdicts(task: VerdictsTask, tell: Callable[[int], None]) -> Record:
    """Write a shard's verdicts: process's, with what went since filled in."""
    corpus = Corpus(Path(task.root))
    name = shard_name(task.number)
    source = proven(corpus.work / f"process/{name}.parquet", task.provisional)
    drops = _drops_of(corpus, task)
    reasons: dict[str, int] = {}
    rows = 0
    with writing_table(corpus.stage, f"verdicts/{name}.parquet", schema.VERDICTS) as (table, part):
        for batch in read_batches(source):
            if len(drops):
                batch = _fill(batch, drops)
            for counted in batch["reason"].value_counts().to_pylist():
                if counted["values"] is not None:
                    reasons[counted["values"]] = (
                        reasons.get(counted["values"], 0) + counted["counts"]
                    )
            rows += len(batch)
            table.write(batch)
            tell(0)
    counts = {
        "documents": rows,
        "kept": rows - sum(reasons.values()),
        "reasons": dict(sorted(reasons.items())),
    }
    return corpus.record("write_verdicts", name, Record(key=task.key(), parts=part, counts=counts))


def _drops_of(corpus: Corpus, task: VerdictsTask) -> pa.Table:
    """What went of a shard since it was processed: the columns of VERDICTS that are then filled,
    sorted by document.
    """
    low, high = schema.first_document(task.number), schema.first_document(task.number + 1)
    own = [("document", ">=", low), ("document", "<", high)]
    found = [FILLED.empty_table()]
    if task.corpus_filtered is not None:
        table = pq.read_table(
            proven(corpus.work / CORPUS_DROPS, task.corpus_filtered), filters=own, use_threads=False
        )
        nothing = [pa.nulls(len(table), FILLED.field(name).type) for name in FILLED.names[4:]]
        found.append(pa.table([*table.columns, *nothing], schema=FILLED))
    if task.drops is not None:
        table = pq.read_table(
            proven(corpus.work / "deduplicate/drops.parquet", task.drops),
            filters=own,
            use_threads=False,
        )
        near = pc.equal(table["reason"], NEAR)
        threshold = pc.if_else(near, pa.scalar(task.near_threshold, pa.float64()), pa.scalar(1.0))
        named = {"value": table["similarity"], "threshold": threshold}
        found.append(
            pa.table(
                [
                    named.get(name, table[name] if name in table.column_names else None)
                    for name in FILLED.names
                ],
                schema=FILLED,
            )
        )
    return pa.concat_tables(found).sort_by("document")


FILLED = pa.schema(
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


CORPUS_DROPS = "corpus_filters/drops.parquet"


def _fill(batch: pa.RecordBatch, drops: pa.Table) -> pa.RecordBatch:
    documents, gone = batch["document"].to_numpy(), drops["document"].to_numpy()
    place = np.minimum(np.searchsorted(gone, documents), len(gone) - 1)
    hit = gone[place] == documents
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


def scopes_of(recipe: Recipe, sources: list[str]) -> list[int]:
    """Of raw shards of these sources which others each is compared with: 0 all, or the place of its
    source.
    """
    if recipe.deduplicate is None or recipe.deduplicate.scope == "corpus":
        return [0] * len(sources)
    places = {source.name: place for place, source in enumerate(recipe.source, 1)}
    return [places[source] for source in sources]


def deduplicate_task(
    corpus: Corpus,
    recipe: Recipe,
    folder: Path,
    processed: dict[int, Record],
    scopes: list[int],
    older: list[ReferenceCorpus],
    corpus_filtered: Record | None,
) -> DeduplicateTask | None:
    """The task of all shards that were processed; None: the recipe compares nothing."""
    settings = recipe.deduplicate
    if settings is None or not settings.compares:
        return None
    read = {
        *folders(settings),
        *(["documents/"] if settings.near and settings.near.verify == "text" else []),
    }
    return DeduplicateTask(
        root=str(corpus.root),
        numbers=list(processed),
        scopes=scopes,
        signatures=[
            record.part(name).sha256 for record in processed.values() for name in folders(settings)
        ],
        corpus_filtered=corpus_filtered.counts["drops"] if corpus_filtered else None,
        deduplicate=msgspec.structs.replace(settings, lines=None, largest_cluster=None),
        folder=str(folder),
        digests=[one.digest for one in older],
        read=[record.part(name) for record in processed.values() for name in sorted(read)],
    )


def verdict_tasks(
    corpus: Corpus,
    recipe: Recipe,
    processed: dict[int, Record],
    corpus_filtered: Record | None,
    deduplicated: Record | None,
) -> dict[int, VerdictsTask]:
    """A task for each shard that was processed."""
    near = recipe.deduplicate.near if recipe.deduplicate else None
    return {
        number: VerdictsTask(
            root=str(corpus.root),
            number=number,
            provisional=record.counts["verdicts"],
            near_threshold=near.threshold if near else None,
            corpus_filtered=corpus_filtered.counts["drops"] if corpus_filtered else None,
            drops=deduplicated.counts["drops"] if deduplicated else None,
        )
        for number, record in processed.items()
    }
