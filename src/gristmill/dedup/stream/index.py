"""An index for a stream: whether a text is a duplicate of an earlier one that stays, told as each
comes.

The rule is that of a corpus (`duplicates.py`), one document at a time:

    text -> normalised -> hash        an equal text came before: its verdict, or it as keeper; no
                                      further
                       -> signature   band keys -> candidates: the first `near.candidates` documents
                                      of each bucket
                                      agreement: candidates that are out of reach are discarded
                                      unread verified: of the candidates that stay, the most like
                                      one, of equals the earliest none goes for it: the same with
                                      the first `near.keepers` kept documents of each bucket

Which documents are first in a bucket depends on no verdict, so a batch finds those pairs at once;
only verdicts, and kept ones, go one by one.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from gristmill.dedup.exact import EXACT, NEAR
from gristmill.dedup.settings import Near
from gristmill.dedup.stream.matching import Met, Pairs, Signed, sign_texts
from gristmill.dedup.stream.tables import Store, Synchronous, Verdict
from gristmill.errors import RecipeError
from gristmill.kernels.hashing import minhash, pairs

# of the tables, and of all that is computed into them: normalised text, hashes, signatures, keys
FORMAT = 2
TEXTS = 1024  # taken together, at most
CHARACTERS = 16 << 20  # of texts taken together, but for one that is longer by itself
SHINGLES = 8 << 20  # shingle hashes of stored documents held in memory (8 bytes each)
DEFAULT = Near()


class DuplicateIndex:
    """Texts come one after another; each is told whether it is a duplicate of an earlier one that
    was kept.

    A text is dropped if, and only if, it is like an earlier one that is kept: equal to it once both
    are normalised (`exact`), or a near duplicate by `near`. What is said stays said, however much
    comes later.

    The index is one SQLite file (and its `-wal` beside it while it is open), or in memory where
    `path` is None. It holds the normalised texts of kept documents where `near.verify` is "text":
    treat it as you treat them. One process holds it, from opening to `close`; threads of that
    process may share it.

    Each `add` and `add_batch` is one transaction. A process that is killed leaves what was added,
    each addition whole or not at all. `synchronous` is SQLite's, with a write-ahead log: "full" has
    each addition on the disk before it returns; "normal" may lose the last additions when the power
    goes, "off" may lose the index then. None of them loses anything when a process is killed.

    Raises RecipeError for a file that is no index, or one that was built with other parameters;
    MachineError where another process holds it, the disk is full or the file cannot be written;
    VerificationError where it is damaged.
    """

    def __init__(
        self,
        path: Path | str | None,
        *,
        exact: bool = True,
        near: Near | None = DEFAULT,
        synchronous: Synchronous = "full",
    ) -> None:
        """Open the index at `path`, or create it."""
        _refuse(exact, near, synchronous)
        self._exact = exact
        self._near = near
        self._lock = threading.RLock()
        self._store = Store(path, _parameters(exact, near), synchronous)
        self._shingles = _Held(SHINGLES)

    def __enter__(self) -> "DuplicateIndex":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._lock:
            return self._store.count()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._store.close()

    def add(self, text: str, *, scope: int = 0) -> Verdict:
        """Add a text, and say what becomes of it. Texts of different scopes are never compared."""
        return self.add_batch([text], scope=scope)[0]

    def add_batch(self, texts: Iterable[str], *, scope: int = 0) -> list[Verdict]:
        """Add texts in order, all or none; the verdicts are those of adding one by one."""
        _refuse_scope(scope)
        verdicts: list[Verdict] = []
        with self._lock:
            try:
                with self._store.transaction():
                    for part in _parts(texts):
                        judged = self._judge(part, scope)
                        self._store.write(*judged)
                        verdicts += judged.verdicts
            except BaseException:
                self._shingles.clear()  # the numbers of what is not stored go to other texts
                raise
        return verdicts

    def look_up(self, text: str, *, scope: int = 0) -> Verdict:
        """Say what would become of a text, as the document that it would be. Adds nothing."""
        _refuse_scope(scope)
        with self._lock:
            return self._judge([text], scope).verdicts[0]

    def verdict(self, document: int) -> Verdict:
        """What was said of a document when it was added. Raises IndexError where there is none."""
        with self._lock:
            found = self._store.verdict(document)
        if found is None:
            raise IndexError(f"document {document}: the index has {len(self)}")
        return found

    def _judge(self, texts: list[str], scope: int) -> "_Judged":
        """What would become of texts, and what to store of them. Nothing is written here."""
        signed = sign_texts(texts, self._store.count(), self._near)
        copies = self._copies(signed, scope)
        near = self._near
        fresh = np.array([copy is None for copy in copies]) & (signed.shingles > 0)
        met = None if near is None else Met(signed, np.flatnonzero(fresh), scope, near, self._store)
        verdicts: list[Verdict] = []
        own: dict[int, np.ndarray] = {}  # shingles of these texts, once they are needed
        for place, copy in enumerate(copies):
            document = signed.first + place
            verdict = Verdict(document, None, None, None)
            if copy is not None:
                verdict = _copied(
                    document,
                    verdicts[copy - signed.first] if copy >= signed.first else self.verdict(copy),
                )
            elif met is not None and near is not None:
                verdict = self._decide(document, signed, met.first(place), verdicts, own, near)
                if verdict.reason is None:
                    verdict = self._decide(document, signed, met.others(place), verdicts, own, near)
                if verdict.reason is None:
                    met.keep(place)
            verdicts.append(verdict)
        first_ones = [
            (scope, signed.hashes[place], signed.first + place)
            for place in range(len(texts))
            if copies[place] is None
        ]
        kept = [place for place in np.flatnonzero(fresh).tolist() if verdicts[place].reason is None]
        return _Judged(
            verdicts,
            first_ones if self._exact else [],
            [signed.row(place, text=near.verify == "text") for place in kept]
            if near is not None
            else [],
            met.entries if met is not None else [],
        )

    def _copies(self, signed: Signed, scope: int) -> list[int | None]:
        """For each text the earliest document that is equal to it."""
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
        signed: Signed,
        among: Pairs,
        verdicts: list[Verdict],
        own: dict[int, np.ndarray],
        near: Near,
    ) -> Verdict:
        """The verdict of a text that no equal one came before, as far as these candidates tell."""
        candidates, similarities = among
        stays = [
            other < signed.first or verdicts[other - signed.first].reason is None
            for other in candidates.tolist()
        ]
        if not any(stays):
            return Verdict(document, None, None, None)
        candidates, similarities = candidates[stays], similarities[stays]
        if near.verify == "text":
            similarities = self._compare(document, candidates.tolist(), signed, own, near)
        best = int(np.argmax(similarities))  # of equals the first, which is the earliest
        if near.verify != "none" and similarities[best] < near.threshold:
            return Verdict(document, None, None, None)
        return Verdict(document, NEAR, int(candidates[best]), float(similarities[best]))

    def _compare(
        self,
        document: int,
        candidates: list[int],
        signed: Signed,
        own: dict[int, np.ndarray],
        near: Near,
    ) -> np.ndarray:
        """The exact Jaccard similarity of a text to each candidate."""
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


class _Judged(NamedTuple):
    """Verdicts, and what the store takes beside them."""

    verdicts: list[Verdict]
    hashes: list[tuple[int, bytes, int]]
    texts: list[tuple[int, bytes, bytes | None]]
    buckets: list[tuple[int, int]]


class _Held:
    """The shingles used last, up to so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._sets: OrderedDict[int, np.ndarray] = OrderedDict()

    def get(self, document: int) -> np.ndarray | None:
        """A document's, where they are held."""
        found = self._sets.get(document)
        if found is not None:
            self._sets.move_to_end(document)
        return found

    def put(self, document: int, shingles: np.ndarray) -> None:
        """Hold a document's; those used longest ago go."""
        self._sets[document] = shingles
        self._size += len(shingles)
        while self._size > self._most and len(self._sets) > 1:
            self._size -= len(self._sets.popitem(last=False)[1])

    def clear(self) -> None:
        """Hold none."""
        self._sets.clear()
        self._size = 0


def _distinct(text: bytes, near: Near) -> np.ndarray:
    """The distinct shingle hashes of one normalised text."""
    return minhash.distinct_shingles(
        np.array([0, len(text)], np.int64),
        np.frombuffer(text, np.uint8),
        width=near.shingle,
        characters=near.unit == "characters",
    )[1]


def _copied(document: int, of: Verdict) -> Verdict:
    """The verdict of a text that is equal to an earlier one: what that one went for, or itself."""
    return (
        Verdict(document, EXACT, of.document, 1.0)
        if of.reason is None
        else of._replace(document=document)
    )


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """Texts in parts that fit memory."""
    if isinstance(texts, str):  # its characters would be taken for texts
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


def _parameters(exact: bool, near: Near | None) -> dict[str, str]:
    """What an index must have been built with, name by name."""
    of_near = {} if near is None else msgspec.to_builtins(near)
    values = {"format": FORMAT, "exact": exact, "near": near is not None}
    return {
        name: json.dumps(value)
        for name, value in (values | {f"near.{k}": v for k, v in of_near.items()}).items()
    }


def _refuse(exact: bool, near: Near | None, synchronous: str) -> None:
    if synchronous not in ("full", "normal", "off"):
        raise RecipeError(f"synchronous = {synchronous!r}: write full, normal or off")
    if near is None and not exact:
        raise RecipeError(
            "an index of neither exact nor near duplicates finds nothing; ask for one of them"
        )
    if near is not None and near.group != "kept":
        raise RecipeError(
            f"group = {near.group!r}: a stream does not know its components before it ends; "
            "write kept"
        )


def _refuse_scope(scope: int) -> None:
    if not 0 <= scope < 1 << 63:
        raise RecipeError(f"scope = {scope}: write a number from 0 up to 2^63 - 1")
