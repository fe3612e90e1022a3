"""ReferenceCorpus corpora, whose documents come before all of this one's: `[deduplicate] against`.

    their index/       which of them share a band with a new document; only the pages are read that
                       its keys lie in
    signatures/        of those alone; and of all the hashes of texts
    documents/         of those that are compared
    verdicts/          whether a document stays there, and who keeps it if not

The number of an older document is its row, and above its 32 bits the place of its raw shard among
those of all older corpora, in the order of the recipe and then of their own; new documents follow.
So a run against older corpora gives the verdicts that one run over all of them together would give.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schema
from gristmill.columns import rows_of
from gristmill.dedup.near.signature_rows import (
    Piece,
    Table,
    chunks,
    keys_of,
    mapped,
    read_documents,
    write_array,
)
from gristmill.dedup.settings import MOST_CANDIDATES, MOST_KEEPERS, Deduplicate, Near
from gristmill.errors import RecipeError, VerificationError
from gristmill.schema import shard_name
from gristmill.store.manifest import Manifest

KEYS, DOCUMENTS = "index/{:04d}.keys", "index/{:04d}.documents"
USED = ("index/", "signatures/", "documents/", "verdicts/")
ENTRIES = 1 << 20  # of an index looked up together


class ReferenceCorpus(NamedTuple):
    """One older corpus."""

    root: Path
    first: int  # the place of its first raw shard among those of all older corpora
    digest: str  # sha256 of its manifest, which verdicts name it by
    shards: np.ndarray  # (s,) int64: the numbers of its raw shards, ascending
    cuts: int  # files of its index

    @property
    def end(self) -> int:
        """The place after its last raw shard."""
        return self.first + len(self.shards)

    def numbers(self, documents: np.ndarray) -> np.ndarray:
        """The numbers of its documents, (n,) int64."""
        places = np.minimum(
            np.searchsorted(self.shards, documents >> schema.ROW_BITS), len(self.shards) - 1
        )
        if not np.array_equal(self.shards[places], documents >> schema.ROW_BITS):
            raise VerificationError(
                f"{self.root}: its index names documents that it has not; `gristmill verify` "
                "says more"
            )
        return np.asarray(
            (self.first + places << schema.ROW_BITS) + (documents & (schema.MOST_ROWS - 1))
        )

    def documents(self, numbers: np.ndarray) -> np.ndarray:
        """Which of its documents have these numbers, (n,) int64."""
        places = (numbers >> schema.ROW_BITS) - self.first
        return np.asarray(
            (self.shards[places] << schema.ROW_BITS) + (numbers & (schema.MOST_ROWS - 1))
        )

    def part(self, folder: str, shard: int) -> Path:
        """A shard's table."""
        return self.root / f"{folder}/{shard_name(shard)}.parquet"

    def look_up(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of keys (n,) uint64, sorted, each once: (key, number) of the first of its documents that
        have one and the first kept ones, sorted by both.
        """
        found: list[tuple[np.ndarray, np.ndarray]] = [
            (np.empty(0, np.uint64), np.empty(0, np.int64))
        ]
        bits = (self.cuts - 1).bit_length()
        bounds = [np.uint64(cut << (64 - bits) if bits else 0) for cut in range(self.cuts)]
        ends = [*np.searchsorted(keys, np.array(bounds[1:], np.uint64)), len(keys)]
        for cut, (start, stop) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            own = mapped(self.root / KEYS.format(cut), np.uint64)
            of_key = mapped(self.root / DOCUMENTS.format(cut), np.int64)
            if len(own) != len(of_key):
                raise VerificationError(
                    f"{self.root / KEYS.format(cut)}: more keys than documents, or fewer"
                )
            for at in range(start, stop, ENTRIES):
                wanted = keys[at : min(at + ENTRIES, stop)]
                low, high = np.searchsorted(own, wanted), np.searchsorted(own, wanted, "right")
                counts = high - low
                places = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(
                    counts.sum()
                )
                found.append((np.repeat(wanted, counts), self.numbers(of_key[places])))
        return np.concatenate([key for key, _ in found]), np.concatenate(
            [number for _, number in found]
        )


def open_older(
    root: Path, manifest: Manifest, digest: str, settings: Deduplicate, first: int
) -> ReferenceCorpus:
    """A published corpus as one to compare against; its raw shards begin at the place `first`.

    Raises RecipeError where it cannot be one, VerificationError where a part of it has another size
    than its manifest says.
    """
    own = msgspec.convert(manifest.recipe.get("deduplicate"), Deduplicate | None)
    near = settings.near
    named = {part.path for part in manifest.parts}
    cuts = sum(path.startswith("index/") and path.endswith(".keys") for path in named)
    if own is None or not own.index:
        raise RecipeError(
            f"against = {str(root)!r}: it has no index; make it with `[deduplicate] index = "
            "true`, and run that again"
        )
    for key in ("shingle", "unit", "bands", "rows") if near else ():
        theirs, ours = getattr(own.near, key), getattr(near, key)
        if theirs != ours:
            raise RecipeError(
                f"against = {str(root)!r}: an index built with other parameters: near.{key} "
                f"is {theirs} in it, {ours} in the recipe"
            )
    for part in manifest.parts:
        path = root / part.path
        if part.path.startswith(USED) and not (path.is_file() and path.stat().st_size == part.size):
            raise VerificationError(
                f"{path}: not the {part.size:,} bytes that its manifest says; `gristmill "
                "verify` says more"
            )
    if not any(path.startswith("documents/") for path in named) and manifest.funnel["documents"]:
        raise RecipeError(
            f"against = {str(root)!r}: it keeps no documents (keep_documents = false), and "
            "texts are compared"
        )
    there = [shard.number for shard in manifest.raw_shards if shard.missing is None]
    return ReferenceCorpus(root, first, digest, np.array(there, np.int64), cuts)


class Earlier(NamedTuple):
    """Those documents of older corpora that a new one is compared with, in the order of their
    numbers.
    """

    numbers: np.ndarray  # (k,) int64
    corpora: np.ndarray  # (k,) int64: places in the list of older corpora
    documents: np.ndarray  # (k,) int64, in their own corpus
    signatures: Path  # (k, permutations) uint32
    stays: np.ndarray  # (k,) bool: kept in their own corpus


def gather_earlier(
    corpora: list[ReferenceCorpus], numbers: np.ndarray, near: Near, work: Path
) -> Earlier:
    """Fetch what is needed of older documents, given their numbers, sorted."""
    places = places_of(corpora, numbers)
    documents = np.empty(len(numbers), np.int64)
    stays = np.zeros(len(numbers), bool)
    with open(work / "earlier.signatures", "wb") as file:
        for place, corpus in enumerate(corpora):
            own = np.flatnonzero(places == place)
            documents[own] = corpus.documents(numbers[own])
            for shard in corpus.shards.tolist():
                wanted = own[documents[own] >> schema.ROW_BITS == shard]
                if len(wanted):
                    file.writelines(
                        np.ascontiguousarray(rows_of(batch["signature"], np.uint32)).data
                        for batch in read_documents(
                            corpus.part("signatures", shard),
                            documents[wanted],
                            ["document", "signature"],
                        )
                    )
                    kept = [
                        batch["document"].to_numpy()[np.asarray(pc.is_null(batch["reason"]))]
                        for batch in read_documents(
                            corpus.part("verdicts", shard),
                            documents[wanted],
                            ["document", "reason"],
                        )
                    ]
                    stays[wanted] = np.isin(
                        documents[wanted], np.concatenate([*kept, np.empty(0, np.int64)])
                    )
        if file.tell() != 4 * near.numbers * len(numbers):
            raise VerificationError(
                f"against: {len(numbers):,} documents are named by an index, and not all of "
                "them have a signature"
            )
    return Earlier(numbers, places, documents, work / "earlier.signatures", stays)


def places_of(corpora: list[ReferenceCorpus], numbers: np.ndarray) -> np.ndarray:
    """In which of the older corpora each number is, (n,) int64."""
    return np.asarray(
        np.searchsorted([corpus.first for corpus in corpora], numbers >> schema.ROW_BITS, "right")
        - 1
    )


def first_number(corpora: Sequence[ReferenceCorpus]) -> int:
    """The number of this corpus' first document."""
    return corpora[-1].end << schema.ROW_BITS if corpora else 0


class Widened:
    """What turns the near stage of one corpus into that of it and all before it, cut by cut."""

    def __init__(self, corpora: list[ReferenceCorpus], index: Path | None, work: Path) -> None:
        """Write this corpus' own index to the folder `index`, if that is wanted, and the keys of
        older documents to `work`.
        """
        self._corpora, self._index, self._work = corpora, index, work
        if index is not None:
            index.mkdir()

    def visit(self, place: int, cut: list[Piece], documents: Path) -> list[Piece]:
        """Write the cut's part of the index; the keys of older documents that stand in it."""
        if self._index is not None:
            whole, count = np.empty((keys_of(cut), 2), np.int64), 0
            for chunk in chunks(cut):
                whole[count : count + len(chunk)] = chunk
                count += len(chunk)
            keys, owners = write_index(
                whole, mapped(documents, np.int64), first_number(self._corpora)
            )
            write_array(self._index / Path(KEYS.format(place)).name, keys)
            write_array(self._index / Path(DOCUMENTS.format(place)).name, owners)
        added = []
        for ordinal, corpus in enumerate(self._corpora):
            met = [
                corpus.look_up(np.unique(chunk[:, 0].astype(np.int64).view(np.uint64)))[0]
                for chunk in chunks(cut)
            ]
            keys, numbers = corpus.look_up(
                np.unique(np.concatenate([*met, np.empty(0, np.uint64)]))
            )
            added.append(Piece(self._work / f"older-{ordinal}-{place:04d}", 0))
            write_array(added[-1].path, np.stack([keys.view(np.int64), numbers], axis=1))
        return added

    def keep(self, large: list[Path], kept: np.ndarray, documents: Path) -> None:
        """Write into the index who is kept in large buckets (rows.Rows): what `visit` wrote holds
        the first documents, kept or not.

        kept: (n,) bool of this corpus' rows; `documents` is their file.
        """
        if self._index is None:
            return
        first = first_number(self._corpora)
        for path in large:
            held = mapped(path, np.int64, 2)
            own = held[held[:, 1] >= first]
            own = own[kept[own[:, 1] - first]]
            place = int(path.name.partition("-")[2].partition(".")[0])
            keys, owners = write_index(own, mapped(documents, np.int64), first, MOST_KEEPERS)
            names = [self._index / Path(name.format(place)).name for name in (KEYS, DOCUMENTS)]
            keys = np.concatenate([mapped(names[0], np.uint64), keys])
            owners = np.concatenate([mapped(names[1], np.int64), owners])
            order = np.lexsort((owners, keys))
            keys, owners = keys[order], owners[order]
            once = np.r_[True, (keys[1:] != keys[:-1]) | (owners[1:] != owners[:-1])]
            write_array(names[0], keys[once])
            write_array(names[1], owners[once])


def tables_of(corpus: ReferenceCorpus) -> list[Table]:
    """Its signatures and documents."""
    return [
        Table(corpus.part("signatures", shard), corpus.part("documents", shard), 0)
        for shard in corpus.shards.tolist()
    ]


FATE = ["document", "reason", "keeper", "keeper_corpus", "similarity"]


class Fates(NamedTuple):
    """What became of n older documents in their own corpora. One that is kept is its own keeper."""

    keepers: np.ndarray  # (n,) int64
    corpora: np.ndarray  # (n,) int64: the keepers', places from 1 in a list of digests
    reasons: np.ndarray  # (n,) int64: places in the list that was asked for, else -1
    similarities: np.ndarray  # (n,) float64


def fates(
    corpora: list[ReferenceCorpus], numbers: np.ndarray, reasons: list[str], digests: list[str]
) -> Fates:
    """What became of older documents, given their numbers, sorted.

    `digests` grows by the corpora that hold a keeper.
    """
    places = places_of(corpora, numbers)
    none = np.empty(0, np.int64)
    told = [Fates(none, none, none, np.empty(0))]
    for place, corpus in enumerate(corpora):
        documents = corpus.documents(numbers[places == place])
        for shard in np.unique(documents >> schema.ROW_BITS).tolist():
            wanted = documents[documents >> schema.ROW_BITS == shard]
            for batch in read_documents(corpus.part("verdicts", shard), wanted, FATE):
                kept = np.asarray(pc.is_null(batch["keeper"]))
                held = batch["keeper_corpus"].fill_null(corpus.digest).dictionary_encode()
                digests += [
                    digest for digest in held.dictionary.to_pylist() if digest not in digests
                ]
                known = np.array(
                    [1 + digests.index(digest) for digest in held.dictionary.to_pylist()], np.int64
                )
                named = pc.index_in(batch["reason"], pa.array(reasons, pa.string())).fill_null(-1)
                told.append(
                    Fates(
                        np.where(
                            kept,
                            batch["document"].to_numpy(),
                            batch["keeper"].fill_null(0).to_numpy(),
                        ),
                        known[held.indices.to_numpy()],
                        named.cast(pa.int64()).to_numpy(),
                        np.where(kept, 1.0, batch["similarity"].fill_null(1.0).to_numpy()),
                    )
                )
    found = Fates(*map(np.concatenate, zip(*told, strict=True)))
    if len(found.keepers) != len(numbers):
        raise VerificationError(
            f"against: {len(numbers):,} documents were met, and {len(found.keepers):,} of "
            "them have a verdict"
        )
    return found


def write_index(
    cut: np.ndarray, documents: np.ndarray, first: int, most: int = MOST_CANDIDATES
) -> tuple[np.ndarray, np.ndarray]:
    """An index file's entries from the keys and numbers (n, 2) of a cut: (keys (m,) uint64,
    documents (m,) int64), sorted by both.

    Of each key the first `most` documents alone: more are never candidates.
    """
    keys, rows = cut[:, 0].astype(np.int64).view(np.uint64), cut[:, 1]
    order = np.lexsort((rows, keys))
    keys, rows = keys[order], rows[order]
    place = np.arange(len(keys))
    begins = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else place
    stays = place - np.repeat(begins, np.diff(np.r_[begins, len(keys)])) < most
    return np.ascontiguousarray(keys[stays]), documents[rows[stays] - first]
