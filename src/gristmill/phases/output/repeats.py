"""How often each document is in the training tokens, and which partition it is in: by its copies,
or by what was measured of it.

    duplicates/copies.parquet, measures/, tables/STEP/ -> values of a raw shard's kept documents
    values -> times     [tokens.repeat]: (n,) int64
           -> labels    [tokens.partition]: (n,) places in the list of a source's labels

Repeats come from data mixtures of 2024 to 2026: FineWeb2 (Penedo 2025: arXiv 2506.20920) repeats a
document by the size of its cluster of duplicates, Dolma 3 (OLMo 3, 2025) by its bucket of quality,
up to seven times. A fraction is decided by a keyed hash of the document's number, so the same
documents are repeated whatever the workers and engine.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.corpus.copy_counts import Copies
from gristmill.corpus.corpus import Corpus
from gristmill.errors import RecipeError, printable
from gristmill.store.proof import proven
from gristmill.tables.schema import shard_name
from gristmill.tokens.partitions import SEPARATOR
from gristmill.tokens.token_settings import LABEL, LABEL_RULE, Partition, Repeat


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value of each document is: a column of a table for each raw shard."""

    name: str  # `step.measure`, or copies
    folder: str  # measures, tables/STEP or duplicates
    # sha256 of each raw shard's table; of copies that of its rows. A shard without one has none.
    sha256: dict[int, str]

    def key(self) -> dict[str, Any]:
        """Return all that they depend on."""
        return {"name": self.name, "folder": self.folder, "sha256": sorted(self.sha256.items())}

    def of(self, corpus: Corpus, number: int, documents: np.ndarray) -> pa.Array:
        """Return the values of a raw shard's documents (n,), ascending: (n,), null where there is
        none. Raises Damaged, RecipeError.
        """
        digest = self.sha256.get(number)
        if self.folder == "duplicates":
            path = corpus.find("duplicates/copies.parquet")
            copies = Copies(path if digest is not None else None, number, digest)
            return pa.array(copies.of(pa.array(documents)).to_numpy() + 1)
        if digest is None:
            return pa.nulls(len(documents), pa.float64())
        path = proven(corpus.find(f"{self.folder}/{shard_name(number)}.parquet"), digest)
        column = self.name if self.folder == "measures" else self.name.partition(".")[2]
        known = pq.read_schema(path).names
        if column not in known:
            raise RecipeError(
                f"[tokens]: {self.name!r}: no step measures it; there are "
                f"{', '.join(name for name in known if name != 'document')}"
            )
        table = pq.read_table(path, columns=["document", column], use_threads=False)
        own = table["document"].to_numpy()
        places = np.searchsorted(own, documents)
        there = np.append(own, -1)[places] == documents
        return table[column].combine_chunks().take(pa.array(places, mask=~there))


def count_repeats(
    values: pa.Array, documents: np.ndarray, repeat: Repeat, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how often each of n documents is written, (n,) int64, and the row of the table that
    says so, (n,) int64, -1: none does.
    """
    from gristmill.kernels.hashing.shuffle import order_keys

    numbers = _numbers(values, repeat.by)
    steps = repeat.steps()
    starts = np.array([value for value, _ in steps])
    rows = np.where(np.isnan(numbers), -1, np.searchsorted(starts, numbers, "right") - 1)
    wanted = np.array([*(times for _, times in steps), repeat.otherwise])[rows]
    whole = np.floor(wanted)
    key = int.from_bytes(hashlib.sha256(f"repeat {seed}".encode()).digest()[:8], "little")
    drawn = (order_keys(documents, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (whole + (drawn < wanted - whole)).astype(np.int64), rows


def _numbers(values: pa.Array, name: str) -> np.ndarray:
    try:
        return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    except pa.ArrowException as error:
        raise RecipeError(f"tokens.repeat.by = {name!r}: it is no number: {error}") from error


def join_labels(columns: Sequence[pa.Array], partition: Partition) -> pa.Array:
    """Return the label of n documents, (n,) string: the labels by each measure, joined. Raises
    RecipeError for one that cannot be a folder's name.
    """
    joined: list[list[str]] = []
    for name, column in zip(partition.by, columns, strict=True):
        encoded = _texts(column, name).dictionary_encode()
        names = [_label(label, name, partition) for label in encoded.dictionary.to_pylist()]
        places = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        joined.append(np.array([*names, partition.otherwise], object)[places].tolist())
    return pa.array([SEPARATOR.join(row) for row in zip(*joined, strict=True)], pa.string())


def _texts(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise RecipeError(
                f"tokens.partition.by: {name!r} is a number, and no label: {error}. Put it into "
                "buckets (the step ensemble)"
            ) from error
    return column.cast(pa.string())


def _label(label: str, name: str, partition: Partition) -> str:
    folder = partition.names.get(label, label)
    if not re.fullmatch(LABEL, folder):
        raise RecipeError(
            f"tokens.partition: {name} has the label {printable(label[:80])!r}, which cannot be "
            f"part of a folder's name ({LABEL_RULE}). Name it in "
            f'partition.names: {{ {msgspec.json.encode(label[:80]).decode()} = "..." }}'
        )
    return folder


def check_labels(found: Mapping[str, int], source: str, partition: Partition) -> None:
    """Raise RecipeError where a source has too many labels, or two that a file system takes for
    one. `found` is how many documents have each.
    """
    if len(found) > partition.most:
        rare = sorted(found, key=lambda label: (found[label], label))[:3]
        raise RecipeError(
            f"tokens.partition: source {source!r} has {len(found):,} labels, and most = "
            f"{partition.most}; rare ones are {', '.join(map(repr, rare))}. Give several one name "
            "(partition.names), or raise `most`"
        )
    lower: dict[str, str] = {}
    for label in found:
        if lower.setdefault(label.lower(), label) != label:
            raise RecipeError(
                f"tokens.partition: source {source!r} has the labels {lower[label.lower()]!r} and "
                f"{label!r}, which are one folder on some file systems. Name one of them otherwise "
                "(partition.names)"
            )
