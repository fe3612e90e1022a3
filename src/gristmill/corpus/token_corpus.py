"""The token shards of a finished corpus as one long row of tokens for each source and split.

    TokenCorpus.open(root)          manifest and lock are checked; no shard is read yet
    .stream("web")                  the tokens of a source: positions 0 to `tokens`, across shards
    .stream("web").read(a, b)       tokens a to b
    .stream("web").documents(a, b)  which documents have tokens there, and where they begin and end

Shards and their `.docs` are memory-mapped when they are read, the last few of them. Their sizes are
checked then; `prove` checks their digests.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gristmill.corpus.corpus import Corpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.progress.counted_work import counted
from gristmill.store.manifest import MANIFEST, Manifest, TokenFormat, make_lock
from gristmill.store.mapped_file import Recent, map_file
from gristmill.store.parts import Part
from gristmill.store.proof import prove_all

Split = Literal["train", "val"]
KEPT_MAPPED = 64  # shards of a stream whose mappings are kept, and as many tables of boundaries
REMEDY = "Fetch it again, or run the recipe again"


class DocumentSpans(NamedTuple):
    """The documents with tokens in a range, in order; positions are of the stream."""

    documents: np.ndarray  # (n,) int64 document numbers
    starts: np.ndarray  # (n,) int64 the first token of each in the range
    ends: np.ndarray  # (n,) int64 behind its last token in the range
    # (n,) bool: the document goes on behind the range
    continues: np.ndarray


class TokenStream:
    """All tokens of one source and split, in the order of its shards."""

    def __init__(
        self, root: Path, source: str, split: Split, dtype: np.dtype, shards: list[Part]
    ) -> None:
        """`shards` are its .bin parts, in order."""
        self.source, self.split, self.dtype = source, split, dtype
        self.shards = shards
        self._root = root
        counts = [part.counts["tokens"] for part in shards]
        # (shards + 1,) int64: the position at which each shard begins
        self.starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        self.tokens = int(self.starts[-1])
        # Who reads in another order than this keeps the arrays that it uses (loader/token_reader).
        self._maps = Recent(self._map_shard, KEPT_MAPPED)
        self._ends = Recent(self._map_boundaries, KEPT_MAPPED)

    def shard(self, number: int) -> np.ndarray:
        """Return the tokens of a shard, memory-mapped and read-only. Raises VerificationError."""
        return self._maps[number]

    def boundaries(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Of a shard: document numbers (n,) int64, and their exclusive ends (n,) in tokens of the
        shard, the end of text included. Raises VerificationError.
        """
        return self._ends[number]

    def _map_shard(self, number: int) -> np.ndarray:
        part = self.shards[number]
        return _mapped(self._root / part.path, part.size, self.dtype)

    def _map_boundaries(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        documents = self.shards[number].counts["documents"]
        table = _mapped(self._table(number), 16 * documents, np.dtype("<i8"))
        tokens = self.shards[number].size // self.dtype.itemsize
        return split_table(self._table(number), table, tokens)

    def check_sizes(self) -> None:
        """Check that all shards and their `.docs` are there, with the sizes of the manifest; none
        is opened. Raises VerificationError.
        """
        for number, part in enumerate(self.shards):
            _check_size(self._root / part.path, part.size)
            _check_size(self._table(number), 16 * part.counts["documents"])

    def _table(self, number: int) -> Path:
        """Return the `.docs` of a shard."""
        return self._root / (self.shards[number].path.removesuffix(".bin") + ".docs")

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return tokens start to stop, (stop - start,) of `dtype`; a view where one shard has them
        all.
        """
        self._check(start, stop)
        first = int(np.searchsorted(self.starts, start, "right")) - 1
        pieces = []
        while start < stop:
            base = int(self.starts[first])
            end = min(stop, int(self.starts[first + 1]))
            pieces.append(self.shard(first)[start - base : end - base])
            start, first = end, first + 1
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate([np.empty(0, self.dtype), *pieces])

    def documents(self, start: int, stop: int) -> DocumentSpans:
        """Return the documents with tokens in start to stop."""
        self._check(start, stop)
        numbers, starts, ends, goes_on = [], [], [], []
        first = int(np.searchsorted(self.starts, start, "right")) - 1
        at = start
        while at < stop:
            base, end = int(self.starts[first]), min(stop, int(self.starts[first + 1]))
            if end == at:  # a shard without tokens
                first += 1
                continue
            documents, stops = self.boundaries(first)
            low = int(np.searchsorted(stops, at - base, "right"))
            high = int(np.searchsorted(stops, end - base, "left")) + 1
            bounds = base + stops[low:high]
            numbers.append(documents[low:high])
            ends.append(np.minimum(bounds, end))
            starts.append(np.concatenate([[at], ends[-1][:-1]]))
            goes_on.append(bounds > end)
            goes_on[-1][-1] |= end == self.starts[first + 1] and self._runs_on(first)
            at, first = end, first + 1
        return _joined(numbers, starts, ends, goes_on)

    def every_document(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of each shard: document numbers (n,) int64, and the positions (n,) int64 in this stream
        behind their last token in that shard. A document that goes on in the next shard stands in
        both.
        """
        for number in range(len(self.shards)):
            documents, stops = self.boundaries(number)
            yield documents, int(self.starts[number]) + stops

    def _runs_on(self, number: int) -> bool:
        """Return whether the last document of a shard goes on in the next one."""
        last = self.boundaries(number)[0][-1]
        for later in range(number + 1, len(self.shards)):
            if len(documents := self.boundaries(later)[0]):
                return bool(last == documents[0])
        return False

    def _check(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.tokens:
            raise IndexError(
                f"{self.source}: tokens {start:,} to {stop:,} of {self.tokens:,} {self.split} "
                "tokens"
            )


class TokenCorpus:
    """A finished corpus with token shards, to read from."""

    def __init__(self, root: Path, manifest: Manifest, digest: str) -> None:
        """Use `open`."""
        assert manifest.tokens is not None
        self.root = root
        self.manifest = manifest
        self.digest = digest  # sha256 of manifest.json
        self.format: TokenFormat = manifest.tokens
        self.dtype = np.dtype("<u2" if self.format.dtype == "uint16" else "<u4")
        self._streams: dict[tuple[str, str], TokenStream] = {}

    @classmethod
    def open(cls, root: Path | str) -> "TokenCorpus":
        """Open a corpus; manifest and lock are checked.

        Raises VerificationError if it is not finished or not as its lock says, RecipeError if it
        has no token shards.
        """
        root = Path(root)
        finished = Corpus(root).finished()
        if finished is None:
            raise VerificationError(
                f"{root}: no {MANIFEST}: not a corpus, or not finished. Run the recipe again to "
                "finish it"
            )
        manifest, data = finished
        if manifest.tokens is None:
            raise RecipeError(
                f"{root}: no token shards. "
                + (
                    "Its manifest is of an earlier format: run the recipe again, which computes "
                    "nothing again"
                    if manifest.format == 1 and any(_is_shard(part) for part in manifest.parts)
                    else "Add [tokens] to the recipe, and run it"
                )
            )
        form = manifest.tokens
        if form.dtype == "uint16" and form.vocabulary > 1 << 16:
            raise VerificationError(
                f"{root}: its manifest says that tokens are uint16, which has room for 65,536, and "
                f"that the vocabulary has {form.vocabulary:,}: one of them is wrong. Run the "
                "recipe again, or fetch the corpus again"
            )
        return cls(root, manifest, make_lock(data).split()[0].decode())

    def sources(self, split: Split = "train") -> list[str]:
        """Return the sources that have tokens in a split, in the order of the manifest's parts."""
        return list(dict.fromkeys(_part_source(part) for part in self._parts(split)))

    def stream(self, source: str, split: Split = "train") -> TokenStream:
        """Return the tokens of a source. Raises RecipeError if it has none in this split."""
        if (source, split) not in self._streams:
            parts = [part for part in self._parts(split) if _part_source(part) == source]
            if not parts:
                raise RecipeError(
                    f"{self.root}: source {source!r} has no {split} tokens; there are "
                    f"{', '.join(self.sources(split)) or 'none'}"
                )
            parts.sort(key=lambda part: int(part.path.removesuffix(".bin").rpartition("_")[2]))
            self._streams[source, split] = TokenStream(self.root, source, split, self.dtype, parts)
        return self._streams[source, split]

    def prove(self, split: Split | None = None) -> None:
        """Check the digests of all shards and their `.docs`. Raises Damaged (a
        VerificationError).
        """
        parts = [
            part
            for part in self.manifest.parts
            if part.path.startswith("tokens/")
            and (split is None or part.path.rpartition("/")[2].startswith(f"{split}_"))
        ]
        with counted("check", sum(part.size for part in parts), "bytes") as count:
            files = ((self.root / part.path, part.sha256) for part in parts)
            prove_all(files, os.cpu_count() or 1, REMEDY, count.add)

    def check_sizes(self, split: Split) -> None:
        """Check that all shards of a split and their `.docs` are there, with the sizes of the
        manifest. Raises VerificationError.
        """
        for source in self.sources(split):
            self.stream(source, split).check_sizes()

    def _parts(self, split: Split) -> list[Part]:
        return [
            part
            for part in self.manifest.parts
            if _is_shard(part) and part.path.rpartition("/")[2].startswith(f"{split}_")
        ]


def _is_shard(part: Part) -> bool:
    return part.path.startswith("tokens/") and part.path.endswith(".bin")


def _part_source(part: Part) -> str:
    """Return the source of a part: `web` of `tokens/web/train_00000.bin`."""
    return part.path.split("/")[1]


def split_table(path: Path, table: np.ndarray, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a `.docs`, (2n,) int64, the numbers and ends of its n documents. Raises VerificationError
    unless the ends increase to the `tokens` of its shard.
    """
    numbers, ends = table[: len(table) // 2], table[len(table) // 2 :]
    if len(ends) and (ends[0] <= 0 or ends[-1] != tokens or (ends[1:] <= ends[:-1]).any()):
        raise VerificationError(
            f"{path}: not as it was written: its ends of documents do not increase to "
            f"{tokens:,}, the tokens of the shard. {REMEDY}"
        )
    return numbers, ends


def _mapped(path: Path, size: int, dtype: np.dtype) -> np.ndarray:
    """Return a file as numbers, read-only. Raises VerificationError if it is not of this size."""
    _check_size(path, size)
    return map_file(path, dtype)


def _check_size(path: Path, size: int) -> None:
    """Raise VerificationError, in the words of store/proof.py."""
    try:
        length = os.stat(path).st_size
        wrong = f"{length:,} bytes, expected {size:,}" if length != size else None
    except FileNotFoundError:
        wrong = "missing"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror})"
    if wrong is not None:
        raise VerificationError(f"{path}: not as it was written: {wrong}. {REMEDY}")


def _joined(
    numbers: list[np.ndarray],
    starts: list[np.ndarray],
    ends: list[np.ndarray],
    goes_on: list[np.ndarray],
) -> DocumentSpans:
    """DocumentSpans of several shards as one; a document at both sides of a seam is one span."""
    if not numbers:
        empty = np.empty(0, np.int64)
        return DocumentSpans(empty, empty, empty, np.empty(0, np.bool_))
    documents, first, last = np.concatenate(numbers), np.concatenate(starts), np.concatenate(ends)
    continues = np.concatenate(goes_on)
    keep = np.ones(len(documents), np.bool_)
    seams = np.cumsum([len(piece) for piece in numbers])[:-1]
    for seam in seams:
        if documents[seam] == documents[seam - 1]:
            first[seam] = first[seam - 1]
            keep[seam - 1] = False
    return DocumentSpans(documents[keep], first[keep], last[keep], continues[keep])
