"""How often the text of each kept document occurs in one corpus, or in several corpora that were
compared with each other.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.corpus import copy_counts
from gristmill.corpus.clusters import TABLE
from gristmill.corpus.corpus import Corpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.store.manifest import MANIFEST, Manifest
from gristmill.store.parts import read_batches
from gristmill.tables.schema import shard_name

COPIES = pa.schema(
    [
        pa.field("corpus", pa.string(), nullable=False),  # sha256 of its manifest
        pa.field("document", pa.int64(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("copies", pa.int64(), nullable=False),  # documents that were dropped as its copies
    ]
)


def copies(*corpora: Path | str) -> pa.RecordBatchReader:
    """Return every kept document of the corpora, and how many documents of all of them were dropped
    as its copies. A document occurs 1 + copies times.

    A corpus with `[deduplicate] against` drops documents for keepers in its reference corpora: name
    those corpora too, so that their keepers count these copies. The table (COPIES) is a stream,
    corpus after corpus; only the numbers of keepers with copies are in memory, 16 bytes each.

    Raises RecipeError if no corpus is named, one is named twice, or one of several has a keeper in
    a corpus that is not named; VerificationError if a corpus is not finished.
    """
    if not corpora:
        raise RecipeError("copies: name at least one corpus")
    records = [(Path(corpus), *_finished_manifest(Path(corpus))) for corpus in corpora]
    by_digest = {digest: (root, manifest) for root, manifest, digest in records}
    if len(by_digest) < len(records):
        raise RecipeError("copies: a corpus is named twice")
    foreign = _foreign(
        {digest: root for digest, (root, _) in by_digest.items()}, strict=len(records) > 1
    )
    rows = (
        batch
        for digest, (root, manifest) in by_digest.items()
        for batch in _kept(root, manifest, digest, foreign.get(digest))
    )
    return pa.RecordBatchReader.from_batches(COPIES, rows)


def _finished_manifest(root: Path) -> tuple[Manifest, str]:
    finished = Corpus(root).finished()
    if finished is None:
        raise VerificationError(
            f"{root}: no {MANIFEST}: not a corpus, or not finished. Run the recipe again to finish "
            "it"
        )
    return finished[0], hashlib.sha256(finished[1]).hexdigest()


def _foreign(roots: dict[str, Path], *, strict: bool) -> dict[str, pa.Table]:
    """Return the copies that other corpora dropped for a corpus' documents: tables of `keeper` and
    `copies`, sorted by keeper, by the digest of the corpus.
    """
    pieces: dict[str, list[pa.Table]] = {}
    for root in roots.values():
        path = root / TABLE
        for batch in read_batches(path) if path.exists() else ():
            for digest in pc.unique(batch["keeper_corpus"].drop_null()).to_pylist():
                if digest in roots:
                    mine = batch.filter(pc.equal(batch["keeper_corpus"], digest)).select(
                        ["keeper", "copies"]
                    )
                    pieces.setdefault(digest, []).append(pa.Table.from_batches([mine]))
                elif strict:
                    raise RecipeError(
                        f"{root}: it dropped documents for keepers in the corpus whose manifest "
                        f"has sha256 {digest}, which is not named. Name that corpus too; if it "
                        "changed since, run the newer recipe again"
                    )
    return {
        digest: pa.concat_tables(tables)
        .group_by("keeper")
        .aggregate([("copies", "sum")])
        .sort_by("keeper")
        for digest, tables in pieces.items()
    }


def _kept(
    root: Path, manifest: Manifest, digest: str, foreign: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one corpus' kept documents, COPIES, in document order."""
    for shard in manifest.raw_shards:
        if shard.missing is not None:
            continue
        own = copy_counts.Copies(
            root / TABLE if any(part.path == TABLE for part in manifest.parts) else None,
            shard.number,
        )
        for batch in read_batches(
            root / f"verdicts/{shard_name(shard.number)}.parquet", ["document", "url", "reason"]
        ):
            batch = batch.filter(pc.is_null(batch["reason"]))
            counts = own.of(batch["document"])
            if foreign is not None:
                counts = pc.add(counts, _found(foreign, batch["document"].to_numpy()))
            named = pa.array([digest], pa.string()).take(pa.array(np.zeros(len(batch), np.int64)))
            yield pa.RecordBatch.from_arrays(
                [named, batch["document"], batch["url"], counts], schema=COPIES
            )


def _found(foreign: pa.Table, documents: np.ndarray) -> pa.Array:
    keepers = foreign["keeper"].to_numpy()
    places = np.minimum(np.searchsorted(keepers, documents), len(keepers) - 1)
    return pa.array(
        np.where(keepers[places] == documents, foreign["copies_sum"].to_numpy()[places], 0)
    )
