"""fastText model files as the kernels read them (`fasttext_format` says what stands in a file).

`read` knows supervised models with hierarchical softmax, words alone (no word n-grams) and a plain
output, whether their input is plain (lid.176.bin) or quantised (lid.176.ftz), pruned or not, with
n-grams of at most eight characters and seven sizes. It knows those as well that score every label
(softmax, one-versus-all, negative sampling), with a plain input, which stays in the mapped file
(GlotLID, OpenLID, NLLB). `read_bag` knows those of words and word
n-grams without character n-grams, with a softmax and plain tables (DCLM's). For any other model
both give None, and fastText's library predicts.
"""

import mmap as maps
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from gristmill.filters.models.fasttext_format import (
    HIERARCHICAL_SOFTMAX,
    SOFTMAX,
    Arguments,
    Dictionary,
    File,
    walk,
)
from gristmill.kernels.models.fasttext_words import FREE, LONGEST, MOST_SIZES, HierarchicalModel
from gristmill.kernels.models.subwords import BASIS, PRIME
from gristmill.tables.columns import on_lines

if TYPE_CHECKING:
    from gristmill.kernels.models.fasttext_flat import FlatModel
    from gristmill.kernels.models.fasttext_softmax import Bag

END_OF_LINE = b"</s>"
# Numbers of a quantised table that the kernel writes out; the library predicts with larger ones.
MOST_WRITTEN_OUT = 1 << 27
MOST_ROWS = 2**31 - 1  # of a matrix that stays in its file


class LabelledModel(NamedTuple):
    """A model for the kernel, and what its labels are called."""

    model: "HierarchicalModel | FlatModel"
    labels: list[str]
    tables: list[np.ndarray]  # of words that were met; those of no call that is under way


class KnownBag(NamedTuple):
    """A model of words alone, and what its labels are called."""

    model: "Bag"
    labels: list[str]


def mapped(file: BinaryIO) -> mmap:
    """Return a model file as it is mapped, read in large pages where the system has them: a text's
    rows lie all over it, and a page of 4 KB for each would have to be looked up.
    """
    data = mmap(file.fileno(), 0, access=ACCESS_READ)
    if (advice := getattr(maps, "MADV_HUGEPAGE", None)) is not None:
        with suppress(OSError):  # a system that has none
            data.madvise(advice)
    return data


def read(data: bytes | mmap) -> LabelledModel | None:
    """Read a model file; None where it is a model that the kernel does not know.

    A file that is none is a ValueError that says why.
    """
    file = walk(data)
    arguments, dictionary, rows, quantised, output, labels, _ = file
    height = dictionary.words + (
        arguments.buckets if dictionary.pruned is None else len(dictionary.pruned)
    )
    if (
        arguments.version != 12
        or arguments.word_ngrams > 1
        or not 1 <= arguments.longest <= LONGEST
        or arguments.longest - arguments.shortest >= MOST_SIZES
        or (quantised and height * arguments.dimension > MOST_WRITTEN_OUT)
        or output is None
        or END_OF_LINE not in dictionary.entries[: dictionary.words]
    ):
        return None
    if arguments.loss == HIERARCHICAL_SOFTMAX:
        return LabelledModel(_model(arguments, dictionary, rows(), output), labels, [])
    if file.plain is None or height > MOST_ROWS:
        return None
    return LabelledModel(_flat_model(file, file.plain, output), labels, [])


def read_bag(data: bytes | mmap) -> KnownBag | None:
    """As `read`, for models of words and word n-grams with a softmax over the labels, such as
    DCLM's: kernels.models.fasttext_softmax predicts with them.
    """
    arguments, dictionary, rows, quantised, output, labels, _ = walk(data)
    if (
        arguments.version != 12
        or arguments.loss != SOFTMAX
        or arguments.longest > 0
        or quantised
        or output is None
        or END_OF_LINE not in dictionary.entries[: dictionary.words]
    ):
        return None
    # Here: what is imported is compiled, which takes seconds.
    from gristmill.kernels.models.fasttext_softmax import Bag

    entries, offsets = _entries(dictionary.entries)
    bag = Bag(
        entries,
        offsets,
        _table(dictionary.entries),
        dictionary.words,
        dictionary.entries.index(END_OF_LINE),
        max(arguments.word_ngrams, 1),
        max(arguments.buckets, 1),
        rows(),
        np.array(output, np.float32),
    )
    return KnownBag(bag, labels)


def read_labels(data: bytes | mmap) -> list[str]:
    """Return the labels of a model file, without `__label__`.

    A file that is none is a ValueError that says why.
    """
    return walk(data).labels


def _model(
    arguments: Arguments, dictionary: Dictionary, rows: np.ndarray, output: np.ndarray
) -> HierarchicalModel:
    entries, words, buckets = dictionary.entries, dictionary.words, arguments.buckets
    text, offsets = _entries(entries)
    if dictionary.pruned is None:
        of_bucket = np.arange(buckets)
    else:
        order = np.argsort(dictionary.pruned[:, 0])
        of_bucket = dictionary.pruned[order, 0]
        rows = np.concatenate((rows[:words], rows[words + dictionary.pruned[order, 1]]))
    kept = np.zeros((buckets + 31) // 32, np.uint32)
    np.bitwise_or.at(kept, of_bucket >> 5, np.uint32(1) << (of_bucket & 31).astype(np.uint32))
    before = np.zeros(len(kept), np.int32)
    before[1:] = np.cumsum(np.bitwise_count(kept))[:-1]
    left, right = _tree(dictionary.counts)
    placed = on_lines(len(rows), rows.shape[1], np.float32)
    placed[:] = rows
    return HierarchicalModel(
        text,
        offsets,
        _table(entries),
        words,
        entries.index(END_OF_LINE),
        arguments.shortest,
        arguments.longest,
        buckets,
        kept,
        before,
        placed,
        np.array(output[: len(entries) - words - 1], np.float32),
        left,
        right,
    )


def _flat_model(file: File, matrix: np.ndarray, output: np.ndarray) -> "FlatModel":
    """Return a model whose n-grams all have a row; its matrix stays where it is."""
    from gristmill.kernels.models.fasttext_flat import FlatModel, lay_out_labels

    arguments, dictionary = file.arguments, file.dictionary
    text, offsets = _entries(dictionary.entries)
    return FlatModel(
        text,
        offsets,
        _table(dictionary.entries),
        dictionary.words,
        dictionary.entries.index(END_OF_LINE),
        arguments.shortest,
        arguments.longest,
        arguments.buckets,
        np.zeros(0, np.uint32),
        np.zeros(0, np.int32),
        matrix,
        arguments.dimension,
        lay_out_labels(np.array(output, np.float32)),
        len(output),
        arguments.loss == SOFTMAX,
    )


def _entries(entries: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Return entries one after another, and 8 bytes more; (entries + 1,) int64: their starts."""
    offsets = np.zeros(len(entries) + 1, np.int64)
    np.cumsum([len(entry) for entry in entries], out=offsets[1:])
    return np.frombuffer(b"".join([*entries, bytes(8)]), np.uint8), offsets


def _table(entries: list[bytes]) -> np.ndarray:
    if len(set(entries)) < len(entries):
        raise ValueError("its dictionary names a word twice")
    table = np.full((1 << (2 * len(entries)).bit_length(), 2), FREE)
    for number, entry in enumerate(entries):
        value = int(BASIS)
        for byte in entry:
            value = (
                (value ^ (byte | 0xFFFFFF00 if byte >= 0x80 else byte)) * int(PRIME)
            ) & 0xFFFFFFFF
        slot = value & (len(table) - 1)
        while table[slot, 1] != FREE:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = int.from_bytes(entry[:8], "little"), value << 32 | number
    return table


def _tree(counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """FastText's Huffman tree: labels come by falling count; of equal ones the leaf goes last."""
    labels = len(counts)
    weights = [*counts, *([10**15] * (labels - 1))]
    left, right = np.full(2 * labels - 1, -1, np.int32), np.full(2 * labels - 1, -1, np.int32)
    leaf, node = labels - 1, labels
    for parent in range(labels, 2 * labels - 1):
        children = []
        for _ in range(2):
            if leaf >= 0 and weights[leaf] < weights[node]:
                children.append(leaf)
                leaf -= 1
            else:
                children.append(node)
                node += 1
        left[parent], right[parent] = children
        weights[parent] = weights[children[0]] + weights[children[1]]
    return left, right
