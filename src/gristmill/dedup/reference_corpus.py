"""Reference corpora, whose documents come before all documents of this corpus: `[deduplicate]
against`.

    their index/       documents that share a band with a new document (corpus_index.py)
    signatures/        of those documents only; and the hashes of all texts
    documents/         of those that are compared
    verdicts/          whether a document is kept there, and its keeper if not

The number of a reference document is its row, and above its 32 bits the place of its raw shard
among those of all reference corpora, in the order of the recipe and then of each corpus. New
documents have the numbers that follow. So a run against reference corpora gives the verdicts that
one run over all of them together would give.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.dedup.settings import Deduplicate, Near
from gristmill.dedup.shard_tables import ShardTables, read_documents
from gristmill.errors import RecipeError, VerificationError
from gristmill.store.manifest import Manifest
from gristmill.tables import schema
from gristmill.tables.columns import view_rows
from gristmill.tables.schema import shard_name

USED = ("index/", "signatures/", "documents/", "verdicts/")


class ReferenceCorpus(NamedTuple):
    """A finished corpus to compare against."""

    root: Path
    first: int  # the place of its first raw shard among those of all reference corpora
    digest: str  # sha256 of its manifest, by which verdicts name it
    shards: np.ndarray  # (s,) int64: the numbers of its raw shards, ascending
    partitions: int  # of its index: two files each

    @property
    def end(self) -> int:
        """Return the place after its last raw shard."""
        return self.first + len(self.shards)

    def numbers(self, documents: np.ndarray) -> np.ndarray:
        """Return the numbers of its documents, (n,) int64.

        Raises VerificationError for a document of a raw shard that the corpus does not have.
        """
        places = np.minimum(
            np.searchsorted(self.shards, documents >> schema.ROW_BITS), len(self.shards) - 1
        )
        if not np.array_equal(self.shards[places], documents >> schema.ROW_BITS):
            raise VerificationError(
                f"{self.root}: its index names documents that the corpus does not have; run "
                "`gristmill verify` for details"
            )
        return np.asarray(
            (self.first + places << schema.ROW_BITS) + (documents & (schema.MOST_ROWS - 1))
        )

    def documents(self, numbers: np.ndarray) -> np.ndarray:
        """Return which of its documents have these numbers, (n,) int64."""
        places = (numbers >> schema.ROW_BITS) - self.first
        return np.asarray(
            (self.shards[places] << schema.ROW_BITS) + (numbers & (schema.MOST_ROWS - 1))
        )

    def part(self, folder: str, shard: int) -> Path:
        """Return a shard's table."""
        return self.root / f"{folder}/{shard_name(shard)}.parquet"

    def tables(self) -> list[ShardTables]:
        """Return its signatures and documents."""
        return [
            ShardTables(self.part("signatures", shard), self.part("documents", shard), 0)
            for shard in self.shards.tolist()
        ]


def open_reference(
    root: Path, manifest: Manifest, digest: str, settings: Deduplicate, first: int
) -> ReferenceCorpus:
    """Return a finished corpus to compare against; its raw shards begin at the place `first`.

    Raises RecipeError if it has no index, an index with other parameters, or no documents;
    VerificationError if the size of a part differs from the manifest's.
    """
    own = msgspec.convert(manifest.recipe.get("deduplicate"), Deduplicate | None)
    near = settings.near
    named = {part.path for part in manifest.parts}
    partitions = sum(path.startswith("index/") and path.endswith(".keys") for path in named)
    if own is None or not own.index:
        raise RecipeError(
            f"against = {str(root)!r}: the corpus has no index; set `index = true` in "
            "`[deduplicate]` of its recipe, and run that again"
        )
    keys = [("form", "exact"), ("arabic_marks", "arabic_marks")] if settings.compares_texts else []
    pairs = [(getattr(own, field), getattr(settings, field), name) for field, name in keys]
    if near:
        pairs += [
            (getattr(own.near, key), getattr(near, key), f"near.{key}")
            for key in ("shingle", "unit", "signs", "arabic_marks", "bands", "rows")
        ]
    for theirs, ours, name in pairs:
        if theirs != ours:
            raise RecipeError(
                f"against = {str(root)!r}: its index was built with other parameters: {name} "
                f"is {theirs} there, {ours} in the recipe"
            )
    for part in manifest.parts:
        path = root / part.path
        if part.path.startswith(USED) and not (path.is_file() and path.stat().st_size == part.size):
            raise VerificationError(
                f"{path}: its size is not the {part.size:,} bytes in the manifest; run "
                "`gristmill verify` for details"
            )
    if not any(path.startswith("documents/") for path in named) and manifest.funnel["documents"]:
        raise RecipeError(
            f"against = {str(root)!r}: the corpus has no documents (keep_documents = false), and "
            "their texts are needed for comparison"
        )
    there = [shard.number for shard in manifest.raw_shards if shard.missing is None]
    return ReferenceCorpus(root, first, digest, np.array(there, np.int64), partitions)


def locate_corpora(corpora: list[ReferenceCorpus], numbers: np.ndarray) -> np.ndarray:
    """Return the place of the reference corpus that each number belongs to, (n,) int64."""
    return np.asarray(
        np.searchsorted([corpus.first for corpus in corpora], numbers >> schema.ROW_BITS, "right")
        - 1
    )


def first_number(corpora: Sequence[ReferenceCorpus]) -> int:
    """Return the number of the first new document."""
    return corpora[-1].end << schema.ROW_BITS if corpora else 0


class ReferenceDocuments(NamedTuple):
    """The reference documents that new ones are compared with, in the order of their numbers."""

    numbers: np.ndarray  # (k,) int64
    corpora: np.ndarray  # (k,) int64: places in the list of reference corpora
    documents: np.ndarray  # (k,) int64, in their own corpus
    signatures: Path  # (k, permutations) uint32
    kept: np.ndarray  # (k,) bool: kept in their own corpus


def read_reference_documents(
    corpora: list[ReferenceCorpus], numbers: np.ndarray, near: Near, work: Path
) -> ReferenceDocuments:
    """Read signatures and verdicts of reference documents, given their numbers, sorted.

    Raises VerificationError if one of them has no signature.
    """
    places = locate_corpora(corpora, numbers)
    documents = np.empty(len(numbers), np.int64)
    kept = np.zeros(len(numbers), bool)
    signatures = work / "reference.signatures"
    with open(signatures, "wb") as file:
        for place, corpus in enumerate(corpora):
            own = np.flatnonzero(places == place)
            documents[own] = corpus.documents(numbers[own])
            for shard in corpus.shards.tolist():
                wanted = own[documents[own] >> schema.ROW_BITS == shard]
                if len(wanted):
                    file.writelines(
                        np.ascontiguousarray(view_rows(batch["signature"], np.uint32)).data
                        for batch in read_documents(
                            corpus.part("signatures", shard),
                            documents[wanted],
                            ["document", "signature"],
                        )
                    )
                    kept[wanted] = _are_kept(corpus.part("verdicts", shard), documents[wanted])
        if file.tell() != 4 * near.numbers * len(numbers):
            raise VerificationError(
                f"against: indexes name {len(numbers):,} documents to compare with, and some of "
                "them have no signature"
            )
    return ReferenceDocuments(numbers, places, documents, signatures, kept)


def _are_kept(verdicts: Path, documents: np.ndarray) -> np.ndarray:
    """Return which of these documents, sorted, a table of verdicts keeps: (n,) bool."""
    kept = [
        batch["document"].to_numpy()[np.asarray(pc.is_null(batch["reason"]))]
        for batch in read_documents(verdicts, documents, ["document", "reason"])
    ]
    return np.isin(documents, np.concatenate([*kept, np.empty(0, np.int64)]))


VERDICT = ["document", "reason", "keeper", "keeper_corpus", "similarity"]


class ReferenceVerdicts(NamedTuple):
    """The verdicts of n reference documents. A document that is kept is its own keeper."""

    keepers: np.ndarray  # (n,) int64
    corpora: np.ndarray  # (n,) int64: the keepers', places from 1 in a list of digests
    reasons: np.ndarray  # (n,) int64: places in the list that was asked for, else -1
    similarities: np.ndarray  # (n,) float64


def read_verdicts(
    corpora: list[ReferenceCorpus], numbers: np.ndarray, reasons: list[str], digests: list[str]
) -> ReferenceVerdicts:
    """Return the verdicts of reference documents, given their numbers, sorted.

    The corpora of keepers that are not yet in `digests` are appended to it. Raises
    VerificationError if a document has no verdict.
    """
    places = locate_corpora(corpora, numbers)
    none = np.empty(0, np.int64)
    parts = [ReferenceVerdicts(none, none, none, np.empty(0))]
    for place, corpus in enumerate(corpora):
        documents = corpus.documents(numbers[places == place])
        for shard in np.unique(documents >> schema.ROW_BITS).tolist():
            wanted = documents[documents >> schema.ROW_BITS == shard]
            for batch in read_documents(corpus.part("verdicts", shard), wanted, VERDICT):
                parts.append(_make_verdicts(batch, corpus, reasons, digests))
    whole = ReferenceVerdicts(*map(np.concatenate, zip(*parts, strict=True)))
    if len(whole.keepers) != len(numbers):
        raise VerificationError(
            f"against: {len(numbers):,} documents of reference corpora were found, and only "
            f"{len(whole.keepers):,} of them have a verdict"
        )
    return whole


def _make_verdicts(
    batch: pa.RecordBatch, corpus: ReferenceCorpus, reasons: list[str], digests: list[str]
) -> ReferenceVerdicts:
    kept = np.asarray(pc.is_null(batch["keeper"]))
    held = batch["keeper_corpus"].fill_null(corpus.digest).dictionary_encode()
    names = held.dictionary.to_pylist()
    digests += [digest for digest in names if digest not in digests]
    known = np.array([1 + digests.index(digest) for digest in names], np.int64)
    named = pc.index_in(batch["reason"], pa.array(reasons, pa.string())).fill_null(-1)
    documents, keepers = batch["document"].to_numpy(), batch["keeper"].fill_null(0).to_numpy()
    similarities = batch["similarity"].fill_null(1.0).to_numpy()
    return ReferenceVerdicts(
        np.where(kept, documents, keepers),
        known[held.indices.to_numpy()],
        named.cast(pa.int64()).to_numpy(),
        np.where(kept, 1.0, similarities),
    )
