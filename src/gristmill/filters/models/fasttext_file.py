"""fastText model files as the kernel reads them (`fasttext_format` says what stands in a file).

`read` knows supervised models of words and their character n-grams, of at most eight characters and
seven sizes, and of words and word n-grams (DCLM's), with a plain output. With hierarchical softmax
their input may be quantised and pruned (lid.176.ftz) or not (lid.176.bin); those that score every
label (softmax, one-versus-all, negative sampling) have a plain input, which stays in the mapped
file (GlotLID, OpenLID, NLLB). For any other model it gives None, and fastText's library predicts.
"""

import mmap as maps
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from typing import BinaryIO, NamedTuple

import numpy as np

from gristmill.filters.models.fasttext_format import HIERARCHICAL_SOFTMAX, File, walk
from gristmill.kernels.models.fasttext_words import FREE, LONGEST, MOST_SIZES, FastTextModel
from gristmill.kernels.models.subwords import BASIS, PRIME
from gristmill.tables.columns import on_lines

END_OF_LINE = b"</s>"
# Numbers of a quantised table that the kernel writes out; the library predicts with larger ones.
MOST_WRITTEN_OUT = 1 << 27
MOST_ROWS = 2**31 - 1  # of a matrix that stays in its file


class LabelledModel(NamedTuple):
    """A model for the kernel, and what its labels are called."""

    model: FastTextModel
    labels: list[str]
    tables: list[np.ndarray]  # of words that were met; those of no call that is under way


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
    arguments, dictionary = file.arguments, file.dictionary
    height = dictionary.words + (
        arguments.buckets if dictionary.pruned is None else len(dictionary.pruned)
    )
    by_words = arguments.longest < 1
    if (
        arguments.version != 12
        or (arguments.word_ngrams > 1 and not by_words)
        or arguments.longest > LONGEST
        or arguments.longest - arguments.shortest >= MOST_SIZES
        or (by_words and dictionary.pruned is not None)
        or file.output is None
        or END_OF_LINE not in dictionary.entries[: dictionary.words]
    ):
        return None
    if arguments.loss != HIERARCHICAL_SOFTMAX:
        if file.plain is None or height > MOST_ROWS:
            return None
        # Here: what is imported is compiled, which takes seconds.
        from gristmill.kernels.models.fasttext import lay_out_labels

        output = lay_out_labels(np.array(file.output, np.float32))
        nothing = np.zeros(0, np.int32)
        model = _model(file, file.plain, output, (nothing, nothing))
    else:
        if file.quantised and height * arguments.dimension > MOST_WRITTEN_OUT:
            return None
        rows = file.rows()
        if dictionary.pruned is not None:
            order = dictionary.pruned[np.argsort(dictionary.pruned[:, 0]), 1] + dictionary.words
            rows = np.concatenate((rows[: dictionary.words], rows[order]))
        placed = on_lines(len(rows), rows.shape[1], np.float32)
        placed[:] = rows
        output = np.array(file.output[: len(file.labels) - 1], np.float32)
        tree = _tree(dictionary.counts)
        model = _model(file, placed.reshape(-1).view(np.uint8), output, tree)
    return LabelledModel(model, file.labels, [])


def read_labels(data: bytes | mmap) -> list[str]:
    """Return the labels of a model file, without `__label__`.

    A file that is none is a ValueError that says why.
    """
    return walk(data).labels


def _model(
    file: File, matrix: np.ndarray, output: np.ndarray, tree: tuple[np.ndarray, np.ndarray]
) -> FastTextModel:
    arguments, dictionary = file.arguments, file.dictionary
    entries, buckets = dictionary.entries, max(arguments.buckets, 1)
    text, offsets = _entries(entries)
    kept, before = np.zeros(0, np.uint32), np.zeros(0, np.int32)
    if dictionary.pruned is not None:
        of_bucket = dictionary.pruned[:, 0]
        kept = np.zeros((buckets + 31) // 32, np.uint32)
        np.bitwise_or.at(kept, of_bucket >> 5, np.uint32(1) << (of_bucket & 31).astype(np.uint32))
        before = np.zeros(len(kept), np.int32)
        before[1:] = np.cumsum(np.bitwise_count(kept))[:-1]
    return FastTextModel(
        text,
        offsets,
        _table(entries),
        dictionary.words,
        entries.index(END_OF_LINE),
        arguments.shortest,
        arguments.longest,
        max(arguments.word_ngrams, 1),
        buckets,
        kept,
        before,
        matrix,
        arguments.dimension,
        output,
        len(file.labels),
        arguments.loss,
        *tree,
    )


def _entries(entries: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Return entries one after another, and 8 bytes more; (entries + 1,) int64 where each
    starts.
    """
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
    """FastText's Huffman tree: labels come sorted by falling count; of equal counts the leaf goes
    last.
    """
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
