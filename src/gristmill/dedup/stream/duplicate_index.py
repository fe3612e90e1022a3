"""An index for a stream of texts: is a text a duplicate of an earlier one that is kept?

The rule is that of a corpus (duplicates.py), one document at a time:

    folded text -> hash            if an equal text was added before: a copy of it, and no further
                                   step
                    -> signature   its band keys give the candidates: the first `near.candidates`
                                   documents of each bucket
                    -> agreement   candidates are discarded, without reading their texts, if the
                                   signatures agree in too few places
                    -> verified    of the candidates that are kept, the most similar one; of equally
                                   similar ones the earliest
                    -> keepers     if it is a duplicate of none of them: the same with the first
                                   `near.keepers` kept documents of each bucket

Which documents are first in a bucket does not depend on verdicts, so a batch finds those pairs
together; verdicts are found one after another.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

from gristmill.dedup.drops import EXACT, NEAR
from gristmill.dedup.settings import Deduplicate, ExactForm, Near
from gristmill.dedup.stream.bucket_matches import (
    BucketMatches,
    SignedTexts,
    TextCandidates,
    sign_texts,
)
from gristmill.dedup.stream.sqlite_store import SqliteStore, Synchronous, Verdict
from gristmill.errors import RecipeError
from gristmill.kernels.hashing import minhash, pairs
from gristmill.store.defaults import without_defaults

# The format of the tables and of their values: compared texts, hashes, signatures, keys.
FORMAT = 3
TEXTS = 1024  # texts that are judged together, at most
CHARACTERS = 16 << 20  # of texts that are judged together, unless one text is longer
SHINGLES = 8 << 20  # shingle hashes of stored documents held in memory (8 bytes each)
DEFAULT = Near()


class DuplicateIndex:
    """Says of each added text whether it is a duplicate of an earlier one that was kept.

    A text is dropped if, and only if, it is a duplicate of an earlier text that is kept: equal to
    it once folded (`exact`, docs/compared-text.md), or similar to it by `near`. A verdict never
    changes later.

    The index is one SQLite file (with a `-wal` file beside it while it is open), or in memory if
    `path` is None. With `near.verify = "text"` it contains the words of kept documents: protect it
    as you protect those texts. One process at a time can open it; the threads of that process can
    share it.

    Each `add` and `add_batch` is one transaction: if the process is killed, an addition is stored
    whole or not at all. `synchronous` is SQLite's setting, with a write-ahead log: with "full" each
    addition is on the disk before the call returns; when the power fails, "normal" may lose the
    last additions, and "off" the whole index. No setting loses data when a process is killed.

    Raises RecipeError for a file that is not an index, or was built with other parameters;
    MachineError if another process has opened it, the disk is full or the file cannot be written;
    VerificationError if it is damaged.
    """

    def __init__(
        self,
        path: Path | str | None,
        *,
        exact: bool | ExactForm = True,
        near: Near | None = DEFAULT,
        arabic_marks: bool = True,
        synchronous: Synchronous = "full",
    ) -> None:
        """Open the index at `path`, or create it."""
        _check_arguments(exact, near, synchronous)
        self._settings = Deduplicate(exact=exact, near=near, arabic_marks=arabic_marks)
        self._exact, near = bool(exact), self._settings.near
        self._near = near
        self._lock = threading.RLock()
        self._store = SqliteStore(path, _parameters(self._settings), synchronous)
        self._shingles = _ShingleCache(SHINGLES)

    def __enter__(self) -> "DuplicateIndex":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._lock:
            return self._store.count()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._store.close()

    def add(self, text: str, *, scope: int = 0) -> Verdict:
        """Add a text and return its verdict. Texts of different scopes are never compared."""
        return self.add_batch([text], scope=scope)[0]

    def add_batch(self, texts: Iterable[str], *, scope: int = 0) -> list[Verdict]:
        """Add texts in order, all or none. The verdicts are those of adding them one by one."""
        _check_scope(scope)
        verdicts: list[Verdict] = []
        with self._lock:
            try:
                with self._store.transaction():
                    for part in _parts(texts):
                        judged = self._judge(part, scope)
                        self._store.write(*judged)
                        verdicts += judged.verdicts
            except BaseException:
                self._shingles.clear()  # numbers that were not stored will be given to other texts
                raise
        return verdicts

    def look_up(self, text: str, *, scope: int = 0) -> Verdict:
        """Return the verdict that a text would have if it were added now. Adds nothing."""
        _check_scope(scope)
        with self._lock:
            return self._judge([text], scope).verdicts[0]

    def verdict(self, document: int) -> Verdict:
        """Return the verdict of a document. Raises IndexError if the index has no such document."""
        with self._lock:
            verdict = self._store.verdict(document)
        if verdict is None:
            raise IndexError(f"document {document}: the index has {len(self)}")
        return verdict

    def _judge(self, texts: list[str], scope: int) -> "_BatchVerdicts":
        """Return the verdicts of texts, and the rows to store for them. Nothing is written here."""
        signed = sign_texts(
            texts,
            self._store.count(),
            self._settings.form,
            self._near,
            arabic_marks=self._settings.arabic_marks,
        )
        copies = self._copies(signed, scope)
        near = self._near
        fresh = np.array([copy is None for copy in copies]) & (signed.shingles > 0)
        matches = (
            None
            if near is None
            else BucketMatches(signed, np.flatnonzero(fresh), scope, near, self._store)
        )
        verdicts: list[Verdict] = []
        own: dict[int, np.ndarray] = {}  # shingles of these texts, computed when needed
        for place, copy in enumerate(copies):
            document = signed.first + place
            verdict = Verdict(document, None, None, None)
            if copy is not None:
                verdict = _copy_verdict(
                    document,
                    verdicts[copy - signed.first] if copy >= signed.first else self.verdict(copy),
                )
            elif matches is not None and near is not None:
                verdict = self._decide(document, signed, matches.first(place), verdicts, own, near)
                if verdict.reason is None:
                    verdict = self._decide(
                        document, signed, matches.others(place), verdicts, own, near
                    )
                if verdict.reason is None:
                    matches.keep(place)
            verdicts.append(verdict)
        first_ones = [
            (scope, signed.hashes[place], signed.first + place)
            for place in range(len(texts))
            if copies[place] is None
        ]
        kept = [place for place in np.flatnonzero(fresh).tolist() if verdicts[place].reason is None]
        return _BatchVerdicts(
            verdicts,
            first_ones if self._exact else [],
            [signed.row(place, text=near.verify == "text") for place in kept]
            if near is not None
            else [],
            matches.entries if matches is not None else [],
        )

    def _copies(self, signed: SignedTexts, scope: int) -> list[int | None]:
        """Return the earliest document that is equal to each text; None: there is none."""
        if not self._exact:
            return [None] * len(signed.hashes)
        copies: list[int | None] = []
        seen: dict[bytes, int] = {}
        for place, text_hash in enumerate(signed.hashes):
            earlier = seen.get(text_hash)
            if earlier is None:
                earlier = self._store.earliest(scope, text_hash)
                seen[text_hash] = signed.first + place if earlier is None else earlier
            copies.append(earlier)
        return copies

    def _decide(
        self,
        document: int,
        signed: SignedTexts,
        among: TextCandidates,
        verdicts: list[Verdict],
        own: dict[int, np.ndarray],
        near: Near,
    ) -> Verdict:
        """Return the verdict by these candidates of a text without an earlier equal one."""
        candidates, similarities = among
        kept = [
            other < signed.first or verdicts[other - signed.first].reason is None
            for other in candidates.tolist()
        ]
        if not any(kept):
            return Verdict(document, None, None, None)
        candidates, similarities = candidates[kept], similarities[kept]
        if near.verify == "text":
            similarities = self._compare(document, candidates.tolist(), signed, own, near)
        best = int(np.argmax(similarities))  # of equally similar ones the earliest
        if near.verify != "none" and similarities[best] < near.threshold:
            return Verdict(document, None, None, None)
        return Verdict(document, NEAR, int(candidates[best]), float(similarities[best]))

    def _compare(
        self,
        document: int,
        candidates: list[int],
        signed: SignedTexts,
        own: dict[int, np.ndarray],
        near: Near,
    ) -> np.ndarray:
        """Return the exact Jaccard similarity of a text to each candidate."""
        sets = []
        for number in (document, *candidates):
            held = own.get(number) if number >= signed.first else self._shingles.get(number)
            if held is None:
                text = signed.text(number) if number >= signed.first else self._store.text(number)
                held = _distinct(text, near)
                if number >= signed.first:
                    own[number] = held
                else:
                    self._shingles.put(number, held)
            sets.append(held)
        offsets = np.cumsum([0, *map(len, sets)])
        right = np.arange(1, len(sets))
        return pairs.jaccard(offsets, np.concatenate(sets), np.zeros_like(right), right)


class _BatchVerdicts(NamedTuple):
    """Verdicts, and the other rows to store."""

    verdicts: list[Verdict]
    hashes: list[tuple[int, bytes, int]]
    texts: list[tuple[int, bytes, bytes | None]]
    buckets: list[tuple[int, int]]


class _ShingleCache:
    """The shingles that were used most recently: at most `most` hashes, or one document's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._sets: OrderedDict[int, np.ndarray] = OrderedDict()

    def get(self, document: int) -> np.ndarray | None:
        """Return a document's shingles; None: not in the cache."""
        shingles = self._sets.get(document)
        if shingles is not None:
            self._sets.move_to_end(document)
        return shingles

    def put(self, document: int, shingles: np.ndarray) -> None:
        """Add a document's shingles; the least recently used ones are removed."""
        self._sets[document] = shingles
        self._size += len(shingles)
        while self._size > self._most and len(self._sets) > 1:
            self._size -= len(self._sets.popitem(last=False)[1])

    def clear(self) -> None:
        """Remove all."""
        self._sets.clear()
        self._size = 0


def _distinct(text: bytes, near: Near) -> np.ndarray:
    """Return the distinct shingle hashes of one text as it is compared."""
    return minhash.distinct_shingles(
        np.array([0, len(text)], np.int64),
        np.frombuffer(text, np.uint8),
        width=near.shingle,
        characters=near.unit == "characters",
    )[1]


def _copy_verdict(document: int, of: Verdict) -> Verdict:
    """Return the verdict of a text that equals an earlier one: that one's, if it was dropped."""
    return (
        Verdict(document, EXACT, of.document, 1.0)
        if of.reason is None
        else of._replace(document=document)
    )


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in parts that fit memory."""
    if isinstance(texts, str):  # else each of its characters would be a text
        raise TypeError("add_batch takes several texts; add takes one")
    part: list[str] = []
    size = 0
    for text in texts:
        if part and (len(part) == TEXTS or size + len(text) > CHARACTERS):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part


def _parameters(settings: Deduplicate) -> dict[str, str]:
    """Return the parameters that an index must have been built with, by name."""
    near = settings.near
    of_near = {} if near is None else without_defaults(near)
    if near is not None:  # an index names these at their default too
        of_near |= {"signs": near.signs, "arabic_marks": near.arabic_marks}
    values = {
        "format": FORMAT,
        "exact": settings.form if settings.exact else False,
        "arabic_marks": settings.arabic_marks,
        "near": near is not None,
    }
    return {
        name: json.dumps(value)
        for name, value in (values | {f"near.{k}": v for k, v in of_near.items()}).items()
    }


def _check_arguments(exact: bool | str, near: Near | None, synchronous: str) -> None:
    if exact not in (True, False, *get_args(ExactForm)):
        raise RecipeError(
            f"exact = {exact!r}: it is True, False or one of {', '.join(get_args(ExactForm))}"
        )
    if synchronous not in ("full", "normal", "off"):
        raise RecipeError(f"synchronous = {synchronous!r}: it must be full, normal or off")
    if near is None and not exact:
        raise RecipeError(
            "an index of neither exact nor near duplicates finds nothing: set exact = True or near"
        )
    if near is not None and near.group != "kept":
        raise RecipeError(
            f"group = {near.group!r}: the components of a stream are not known before it ends; "
            "use kept"
        )


def _check_scope(scope: int) -> None:
    if not 0 <= scope < 1 << 63:
        raise RecipeError(f"scope = {scope}: it must be from 0 to 2^63 - 1")
