"""The band index of a corpus, by which later corpora find its documents: `[deduplicate] index`.

    index/0000.keys        (m,) uint64, sorted: band keys of one partition
    index/0000.documents   (m,) int64: a document for each key

Of each bucket it holds the first documents, kept or not, and the first kept ones. A later corpus
reads only those pages of a file that its own keys fall into. docs/format.md has the whole format.
"""

from pathlib import Path

import numpy as np

from gristmill.dedup.disk_arrays import map_array, write_array
from gristmill.dedup.near.key_partitions import KeyFile, count_keys, read_keys
from gristmill.dedup.reference_corpus import ReferenceCorpus, first_number
from gristmill.dedup.settings import MOST_CANDIDATES, MOST_KEEPERS
from gristmill.dedup.sort_pairs import sort_pairs
from gristmill.errors import VerificationError

KEYS, DOCUMENTS = "index/{:04d}.keys", "index/{:04d}.documents"
ENTRIES = 1 << 20  # of an index, looked up together


def look_up(corpus: ReferenceCorpus, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of a reference corpus' index for keys (n,) uint64, sorted, each once.

    Returns keys (m,) uint64 and numbers (m,) int64 of documents, sorted by both. Raises
    VerificationError if the two files of a partition differ in length.
    """
    entries: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0, np.uint64), np.empty(0, np.int64))]
    bits = (corpus.partitions - 1).bit_length()
    bounds = [np.uint64(place << (64 - bits) if bits else 0) for place in range(corpus.partitions)]
    ends = [*np.searchsorted(keys, np.array(bounds[1:], np.uint64)), len(keys)]
    for place, (start, stop) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        own = map_array(corpus.root / KEYS.format(place), np.uint64)
        of_key = map_array(corpus.root / DOCUMENTS.format(place), np.int64)
        if len(own) != len(of_key):
            raise VerificationError(
                f"{corpus.root / KEYS.format(place)}: {len(own):,} keys, but {len(of_key):,} "
                "documents in the file beside it; run `gristmill verify` for details"
            )
        for at in range(start, stop, ENTRIES):
            wanted = keys[at : min(at + ENTRIES, stop)]
            low, high = np.searchsorted(own, wanted), np.searchsorted(own, wanted, "right")
            counts = high - low
            places = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            entries.append((np.repeat(wanted, counts), corpus.numbers(of_key[places])))
    return np.concatenate([key for key, _ in entries]), np.concatenate(
        [number for _, number in entries]
    )


class Indexes:
    """Reads the indexes of reference corpora and writes this corpus' own, partition by partition,
    while its signatures are laid out.
    """

    def __init__(self, corpora: list[ReferenceCorpus], index: Path | None, work: Path) -> None:
        """`index` is the folder of this corpus' own index; None: none is written. Keys of
        reference documents are written to `work`.
        """
        self._corpora, self._index, self._work = corpora, index, work
        if index is not None:
            index.mkdir()

    @property
    def used(self) -> bool:
        """Return whether there is an index to read or to write."""
        return bool(self._corpora) or self._index is not None

    def on_partition(self, place: int, files: list[KeyFile], documents: Path) -> list[KeyFile]:
        """Write a partition of this corpus' index; return the keys of reference documents that
        are in the same buckets.
        """
        if self._index is not None:
            whole, count = np.empty((count_keys(files), 2), np.int64), 0
            for chunk in read_keys(files):
                whole[count : count + len(chunk)] = chunk
                count += len(chunk)
            keys, owners = index_entries(
                whole, map_array(documents, np.int64), first_number(self._corpora)
            )
            write_array(self._index / Path(KEYS.format(place)).name, keys)
            write_array(self._index / Path(DOCUMENTS.format(place)).name, owners)
        added = []
        for ordinal, corpus in enumerate(self._corpora):
            shared = [
                look_up(corpus, np.unique(chunk[:, 0].astype(np.int64).view(np.uint64)))[0]
                for chunk in read_keys(files)
            ]
            keys, numbers = look_up(
                corpus, np.unique(np.concatenate([*shared, np.empty(0, np.uint64)]))
            )
            added.append(KeyFile(self._work / f"reference-{ordinal}-{place:04d}", 0))
            write_array(added[-1].path, np.stack([keys.view(np.int64), numbers], axis=1))
        return added

    def add_kept(self, large: list[Path], kept: np.ndarray, documents: Path) -> None:
        """Add to this corpus' index the first kept documents of its large buckets
        (SignatureRows.large); it holds the first documents already, kept or not.

        kept: (n,) bool of this corpus' rows; `documents` is the file of their documents.
        """
        if self._index is None:
            return
        first = first_number(self._corpora)
        for path in large:
            held = map_array(path, np.int64, 2)
            own = held[held[:, 1] >= first]
            own = own[kept[own[:, 1] - first]]
            place = int(path.name.partition("-")[2].partition(".")[0])
            keys, owners = index_entries(own, map_array(documents, np.int64), first, MOST_KEEPERS)
            names = [self._index / Path(name.format(place)).name for name in (KEYS, DOCUMENTS)]
            keys = np.concatenate([map_array(names[0], np.uint64), keys])
            owners = np.concatenate([map_array(names[1], np.int64), owners])
            keys, owners = sort_pairs(keys, owners)
            once = np.r_[True, (keys[1:] != keys[:-1]) | (owners[1:] != owners[:-1])]
            write_array(names[0], keys[once])
            write_array(names[1], owners[once])


def index_entries(
    partition: np.ndarray, documents: np.ndarray, first: int, most: int = MOST_CANDIDATES
) -> tuple[np.ndarray, np.ndarray]:
    """Return an index file's entries from a partition (n, 2) of keys and numbers.

    Returns keys (m,) uint64 and documents (m,) int64, sorted by both. Of each key only the first
    `most` documents: later ones are never candidates.
    """
    keys, rows = partition[:, 0].astype(np.int64).view(np.uint64), partition[:, 1]
    keys, rows = sort_pairs(keys, rows)
    place = np.arange(len(keys))
    begins = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else place
    within = place - np.repeat(begins, np.diff(np.r_[begins, len(keys)])) < most
    return np.ascontiguousarray(keys[within]), documents[rows[within] - first]
