"""The candidates of a batch of texts in the buckets of an index, before verdicts are known."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.dedup.near.candidates import least_agreement
from gristmill.dedup.settings import ExactForm, Near
from gristmill.dedup.signatures import HASH_BYTES, SEED, text_hashes
from gristmill.dedup.stream.sqlite_store import SqliteStore
from gristmill.kernels.folding.compared import compared
from gristmill.kernels.hashing import minhash, pairs
from gristmill.tables.columns import utf8_buffers, well_formed

PAIR_BITS = 48  # of the candidate in a pair; the place of the text in its batch is above them


class SignedTexts(NamedTuple):
    """n texts with their hashes and signatures."""

    first: int  # the document number of the first text
    hashes: list[bytes]
    offsets: np.ndarray  # (n + 1,) int64 into data: the texts as `near` compares them
    data: np.ndarray  # (bytes,) uint8
    signatures: np.ndarray  # (n, permutations) uint32
    shingles: np.ndarray  # (n,) int64: how many shingles each text has

    def text(self, document: int) -> bytes:
        """Return the text of a document as `near` compares it."""
        place = document - self.first
        return self.data[self.offsets[place] : self.offsets[place + 1]].tobytes()

    def row(self, place: int, *, text: bool) -> tuple[int, bytes, bytes | None]:
        """Return the row to store for a text that is kept."""
        document = self.first + place
        signature = self.signatures[place].astype("<u4", copy=False).tobytes()
        return document, signature, self.text(document) if text else None


class TextCandidates(NamedTuple):
    """The candidates of one text, ascending."""

    candidates: np.ndarray  # int64
    agreements: np.ndarray  # float64: the share of the two signatures that agrees


class BucketMatches:
    """The candidates of a batch of texts: the first documents of all buckets, found together, and
    the kept documents of large buckets, as they become known.
    """

    def __init__(
        self, signed: SignedTexts, fresh: np.ndarray, scope: int, near: Near, store: SqliteStore
    ) -> None:
        """`fresh` are the places of texts without an earlier equal text."""
        self._signed, self._near = signed, near
        scopes = np.full(len(fresh), scope, np.uint64)
        keys = minhash.band_keys(
            signed.signatures[fresh], scopes, bands=near.bands, rows=near.rows
        ).reshape(-1)
        held_keys, held = store.bucket(np.unique(keys))
        keys = np.concatenate([held_keys, keys])
        documents = np.concatenate([held, np.repeat(fresh + signed.first, near.bands)])
        order = np.lexsort((documents, keys))
        keys, documents = keys[order], documents[order]
        heads = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
        heads = np.repeat(heads, np.diff(heads, append=len(keys)))
        ranks = np.arange(len(keys)) - heads
        new = documents >= signed.first
        # Only kept documents have a signature in the store.
        self._kept, signatures = store.signatures(np.unique(held), near.numbers)
        self._signatures = np.concatenate([signatures, signed.signatures])
        enters = new & (ranks < near.candidates)
        # (key, document) of the texts that enter a bucket
        self.entries = list(zip(keys[enters].tolist(), documents[enters].tolist(), strict=True))
        self._pair_with_first(documents, heads, ranks, new)
        behind = new & ~enters
        large = np.isin(heads, heads[behind])
        self._keys: dict[int, list[int]] = {}  # a text's keys of large buckets
        self._held: dict[int, list[int]] = {}  # kept documents of a large bucket, ascending, by key
        self._behind: set[tuple[int, int]] = set(
            zip(keys[behind].tolist(), documents[behind].tolist(), strict=True)
        )
        kept = np.isin(documents[large], self._kept)
        for key, document, is_kept in zip(
            keys[large].tolist(), documents[large].tolist(), kept.tolist(), strict=True
        ):
            if document >= signed.first:
                self._keys.setdefault(document - signed.first, []).append(key)
            elif is_kept:
                self._held.setdefault(key, []).append(document)

    def _pair_with_first(
        self, documents: np.ndarray, heads: np.ndarray, ranks: np.ndarray, new: np.ndarray
    ) -> None:
        """Pair texts with the first documents of their buckets."""
        first = self._signed.first
        parts = [np.empty(0, np.int64)]
        for rank in range(min(self._near.candidates, int(ranks.max(initial=0)))):
            at = np.flatnonzero(new & (ranks > rank))
            parts.append(((documents[at] - first) << PAIR_BITS) + documents[heads[at] + rank])
        both = np.unique(np.concatenate(parts))
        places, self._pairs = self._likely(both >> PAIR_BITS, both & ((1 << PAIR_BITS) - 1))
        self._bounds = np.searchsorted(places, np.arange(len(self._signed.hashes) + 1)).tolist()

    def _likely(
        self, places: np.ndarray, candidates: np.ndarray
    ) -> tuple[np.ndarray, TextCandidates]:
        """Return the pairs of texts and documents whose document may be kept, and whose signatures
        do not rule the pair out.
        """
        if not len(places):
            return places, TextCandidates(candidates, np.empty(0))
        first, kept, near = self._signed.first, self._kept, self._near
        possible = (candidates >= first) | np.isin(candidates, kept)
        places, candidates = places[possible], candidates[possible]
        rows = np.where(
            candidates < first, np.searchsorted(kept, candidates), len(kept) + candidates - first
        )
        agreement = pairs.agreement(self._signed.signatures, self._signatures, places, rows)
        if near.verify == "text":
            likely = agreement >= least_agreement(near)
            places, candidates, agreement = places[likely], candidates[likely], agreement[likely]
        return places, TextCandidates(candidates, agreement / near.numbers)

    def first(self, place: int) -> TextCandidates:
        """Return the candidates of a text among the first documents of its buckets."""
        own = slice(self._bounds[place], self._bounds[place + 1])
        return TextCandidates(self._pairs.candidates[own], self._pairs.agreements[own])

    def others(self, place: int) -> TextCandidates:
        """Return the candidates of a text among the first kept documents of its large buckets.

        The verdicts of all texts before it must be known.
        """
        documents = {
            document
            for key in self._keys.get(place, ())
            for document in self._held.get(key, ())[: self._near.keepers]
        }
        documents.difference_update(self.first(place).candidates.tolist())
        return self._likely(
            np.full(len(documents), place, np.int64), np.array(sorted(documents), np.int64)
        )[1]

    def keep(self, place: int) -> None:
        """Note that a text is kept: it enters those of its large buckets that hold fewer than
        `keepers` kept documents.
        """
        document = self._signed.first + place
        for key in self._keys.get(place, ()):
            held = self._held.setdefault(key, [])
            if len(held) < self._near.keepers:
                held.append(document)
                if (key, document) in self._behind:
                    self.entries.append((key, document))


def sign_texts(
    texts: list[str], first: int, form: ExactForm, near: Near | None, *, arabic_marks: bool
) -> SignedTexts:
    """Fold texts and compute hashes and signatures; the first text is document `first`."""
    try:
        column = pa.array(texts, pa.string())
    except UnicodeEncodeError:
        column = pa.array(map(well_formed, texts), pa.string())
    raw = utf8_buffers(column)
    offsets, data = compared(*raw, form, arabic_marks=arabic_marks)
    joined = text_hashes(offsets, data, column)
    hashes = [joined[at : at + HASH_BYTES] for at in range(0, len(joined), HASH_BYTES)]
    if near is None:
        return SignedTexts(
            first,
            hashes,
            offsets,
            data,
            np.empty((len(texts), 0), np.uint32),
            np.zeros(len(texts), np.int64),
        )
    offsets, data = compared(*raw, near.form, arabic_marks=near.arabic_marks)
    multipliers, addends = _permutations(near.numbers)
    signatures, shingles = minhash.sign(
        offsets,
        data,
        width=near.shingle,
        multipliers=multipliers,
        addends=addends,
        characters=near.unit == "characters",
    )
    return SignedTexts(first, hashes, offsets, data, signatures, shingles)


@lru_cache(maxsize=8)
def _permutations(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cached: to make them takes half as long as to sign a text."""
    return minhash.permutations(count, SEED)
