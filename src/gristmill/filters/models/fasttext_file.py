"""fastText model files (format versions 11 and 12: fastText 0.9.2, src/fasttext.cc and the classes
it saves).

`read` walks a file to its end and checks every count and index on the way, for the library believes
them: a file that is none, or one cut short, would have it allocate what four wild bytes say, or
read beyond its arrays. The kernel then knows supervised models with hierarchical softmax, words
alone (no word n-grams) and a plain output, whether their input is plain (lid.176.bin) or quantised
(lid.176.ftz), pruned or not, with n-grams of at most eight characters and seven sizes; and, for
`read_bag`, those of words and word n-grams without character n-grams, with a softmax and plain
tables (DCLM's). For any other, both give None, and the library predicts.
"""

import struct
from collections.abc import Callable
from mmap import mmap
from typing import NamedTuple

import numpy as np

from gristmill.kernels.models.fasttext_hierarchical import FREE, MOST_SIZES, Model
from gristmill.kernels.models.fasttext_softmax import Bag
from gristmill.kernels.models.subwords import AHEAD, BASIS, PRIME

MAGIC, VERSIONS = 793712314, (11, 12)
SUPERVISED, HIERARCHICAL_SOFTMAX, SOFTMAX, LOSSES = 3, 1, 3, (1, 2, 3, 4)
END_OF_LINE = b"</s>"
LONGEST_NGRAM = 64  # characters; the library makes all n-grams of all words when it loads
LONGEST_WORD = 1 << 16  # bytes
MOST_ENTRIES = 1 << 23  # words and labels
MOST_NGRAMS = 1 << 27  # of all words: the library lists them when it loads, 4 bytes each
MOST_BUCKETS = 1 << 28
MOST_WRITTEN_OUT = (
    1 << 27
)  # numbers of a quantised table that the kernel writes out; the library predicts with larger ones
MOST_COUNT = 10**15  # what the library takes for more than all counts together


class Known(NamedTuple):
    """A model for the kernel, and what its labels are called."""

    model: Model
    labels: list[str]


class KnownBag(NamedTuple):
    """A model of words alone, and what its labels are called."""

    model: Bag
    labels: list[str]


class _Arguments(NamedTuple):
    """What a model was trained with, as far as predicting needs it."""

    version: int
    dimension: int
    word_ngrams: int
    loss: int
    buckets: int
    shortest: int
    longest: int


class _Dictionary(NamedTuple):
    """Words, then labels, and which n-grams' rows are kept."""

    entries: list[bytes]
    counts: list[int]  # of labels
    words: int
    pruned: (
        np.ndarray | None
    )  # (n, 2) int32: bucket, row after the words; None: all buckets have a row


class _Reader:
    def __init__(self, data: bytes | mmap) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + form, self._data, self._at)
        self._at += struct.calcsize("<" + form)
        return values

    def string(self) -> bytes:
        end = self._data.find(b"\0", self._at, self._at + LONGEST_WORD)
        _need(end > self._at, "a word is empty, or has no end")
        found = self._data[self._at : end]
        self._at = end + 1
        return bytes(found)

    def need(self, size: int) -> None:
        """Raise ValueError where the file has fewer bytes than this."""
        _need(size <= len(self._data) - self._at, "it is cut short, or its counts are wrong")

    def array(self, kind: str, *shape: int) -> np.ndarray:
        _need(all(0 <= length < 1 << 40 for length in shape), "a table of an impossible size")
        count = int(np.prod([1, *map(int, shape)], dtype=object))
        size = count * np.dtype(kind).itemsize
        self.need(size)
        found = np.frombuffer(self._data, np.dtype(kind), count, self._at)
        self._at += size
        return found.reshape(shape)


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


class _File(NamedTuple):
    """A model file as it was read to its end."""

    arguments: _Arguments
    dictionary: _Dictionary
    rows: Callable[[], np.ndarray]
    quantised: bool
    output: np.ndarray | None
    labels: list[str]


def read(data: bytes | mmap) -> Known | None:
    """Read a model file; None where it is a model that the kernel does not know.

    A file that is none is a ValueError that says why.
    """
    arguments, dictionary, rows, quantised, output, labels = _walk(data)
    height = dictionary.words + (
        arguments.buckets if dictionary.pruned is None else len(dictionary.pruned)
    )
    if (
        arguments.version != 12
        or arguments.loss != HIERARCHICAL_SOFTMAX
        or arguments.word_ngrams > 1
        or not 1 <= arguments.longest <= AHEAD
        or arguments.longest - arguments.shortest >= MOST_SIZES
        or (quantised and height * arguments.dimension > MOST_WRITTEN_OUT)
        or output is None
        or END_OF_LINE not in dictionary.entries[: dictionary.words]
    ):
        return None
    return Known(_model(arguments, dictionary, rows(), output), labels)


def read_bag(data: bytes | mmap) -> KnownBag | None:
    """As `read`, for models of words and word n-grams with a softmax over the labels, such as
    DCLM's: kernels.models.fasttext_softmax predicts with them.
    """
    arguments, dictionary, rows, quantised, output, labels = _walk(data)
    if (
        arguments.version != 12
        or arguments.loss != SOFTMAX
        or arguments.longest > 0
        or quantised
        or output is None
        or END_OF_LINE not in dictionary.entries[: dictionary.words]
    ):
        return None
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


def labels_of(data: bytes | mmap) -> list[str]:
    """The labels of a model file, without `__label__`.

    A file that is none is a ValueError that says why.
    """
    return _walk(data).labels


def _walk(data: bytes | mmap) -> _File:
    file = _Reader(data)
    try:
        arguments = _arguments(file)
        dictionary = _dictionary(file, arguments)
        rows, quantised = _input(file, arguments, dictionary)
        output = _output(file, arguments, len(dictionary.entries) - dictionary.words, quantised)
        labels = [
            entry.decode().removeprefix("__label__")
            for entry in dictionary.entries[dictionary.words :]
        ]
    except struct.error as error:
        raise ValueError("it is cut short") from error
    except UnicodeDecodeError as error:
        raise ValueError("a label is not UTF-8") from error
    return _File(arguments, dictionary, rows, quantised, output, labels)


def _arguments(file: _Reader) -> _Arguments:
    magic, version = file.take("ii")
    _need(magic == MAGIC, "it does not start as one")
    _need(version in VERSIONS, f"its format version is {version}")
    dimension, _, _, _, _, word_ngrams, loss, kind, buckets, shortest, longest, _ = file.take("12i")
    file.take("d")
    _need(kind == SUPERVISED, "it was not trained to predict labels")
    _need(loss in LOSSES, f"its loss {loss} is unknown")
    _need(0 < dimension < 1 << 20, f"its dimension is {dimension}")
    _need(longest <= LONGEST_NGRAM, f"its n-grams have up to {longest} characters")
    _need(0 <= word_ngrams <= LONGEST_NGRAM, f"its n-grams have up to {word_ngrams} words")
    _need(buckets <= MOST_BUCKETS, f"it has {buckets:,} buckets")
    _need(
        buckets > 0 or (buckets == 0 and longest < 1 and word_ngrams <= 1),
        "it has no buckets for its n-grams",
    )
    # An n-gram has a character. Below zero the library compares without a sign: no n-gram is long
    # enough.
    shortest = max(shortest, 1) if shortest >= 0 else LONGEST_NGRAM + 1
    return _Arguments(version, dimension, word_ngrams, loss, buckets, shortest, longest)


def _dictionary(file: _Reader, arguments: _Arguments) -> _Dictionary:
    size, words, labels = file.take("3i")
    _, pruned = file.take("2q")
    _need(
        words >= 0 and labels > 0 and size == words + labels,
        "its counts of words and labels do not add up",
    )
    _need(size <= MOST_ENTRIES, f"it has {size:,} words and labels: more than {MOST_ENTRIES:,}")
    file.need(11 * size)  # a byte of a word, its end, and two numbers
    entries: list[bytes] = []
    counts: list[int] = []  # of labels
    ngrams, sizes = 0, max(0, arguments.longest - arguments.shortest + 1)
    for number in range(size):
        entries.append(file.string())
        count, kind = file.take("qb")
        _need(kind == (number >= words), "words and labels are mixed")
        _need(0 <= count < MOST_COUNT, "a word's count is impossible")
        if number >= words:
            counts.append(count)
        else:
            ngrams += sizes * len(entries[-1])
            _need(
                ngrams <= MOST_NGRAMS,
                f"its words have more than {MOST_NGRAMS:,} n-grams of characters",
            )
    if pruned < 0:
        return _Dictionary(entries, counts, words, None)
    pairs = file.array("<i4", pruned, 2)
    _need(
        not pruned or (pairs.min() >= 0 and pairs[:, 0].max() < arguments.buckets),
        "an n-gram lies outside its table",
    )
    _need(not pruned or pairs[:, 1].max() < pruned, "an n-gram's row lies outside its table")
    return _Dictionary(entries, counts, words, pairs)


def _input(
    file: _Reader, arguments: _Arguments, dictionary: _Dictionary
) -> tuple[Callable[[], np.ndarray], bool]:
    """How to make the input matrix, (words + n-grams, dimension) float32, and whether it is
    quantised.
    """
    height = dictionary.words + (
        arguments.buckets if dictionary.pruned is None else len(dictionary.pruned)
    )
    if file.take("?")[0]:
        return _quantised(file, height, arguments.dimension), True
    _need(dictionary.pruned is None, "it is pruned, and not quantised")
    _need(
        file.take("2q") == (height, arguments.dimension),
        "its input has another size than its counts",
    )
    plain = file.array("<f4", height, arguments.dimension)
    return lambda: np.array(
        plain, np.float32
    ), False  # a copy: the file may be cut while it is mapped


def _output(
    file: _Reader, arguments: _Arguments, labels: int, quantised: bool
) -> np.ndarray | None:
    """The output matrix, (labels, dimension) float32; None where it is quantised."""
    if file.take("?")[0] and quantised:
        _quantised(file, labels, arguments.dimension)
        return None
    _need(
        file.take("2q") == (labels, arguments.dimension),
        "its output has another size than its counts",
    )
    return file.array("<f4", labels, arguments.dimension)


def _quantised(file: _Reader, height: int, dimension: int) -> Callable[[], np.ndarray]:
    """How to write out a product-quantised matrix, (height, dimension): float32(norm *
    centroid).
    """
    with_norms = file.take("?")[0]
    _need(
        file.take("2q") == (height, dimension), "a quantised table has another size than its counts"
    )
    (size,) = file.take("i")
    flat = file.array("u1", size)
    centroids = _centroids(file, dimension)
    _need(size == height * len(centroids), "a quantised table has another size than its counts")
    codes = flat.reshape(height, len(centroids))
    norm_codes = file.array("u1", height) if with_norms else None
    norms = _centroids(file, 1)[0] if with_norms else None

    def rows() -> np.ndarray:
        found = np.empty((height, dimension), np.float32)
        at = 0
        for part, table in enumerate(centroids):
            found[:, at : at + table.shape[1]] = table[codes[:, part]]
            at += table.shape[1]
        if norms is not None:
            found *= norms[norm_codes]
        return found

    return rows


def _centroids(file: _Reader, expected: int) -> list[np.ndarray]:
    """A product quantiser: for each part of a vector 256 centroids; the last part may be
    shorter.
    """
    dimension, parts, size, last = file.take("4i")
    _need(
        dimension == expected and parts > 0 and 0 < last <= size,
        "a quantiser has another size than its table",
    )
    _need((parts - 1) * size + last == dimension, "a quantiser has another size than its table")
    values = file.array("<f4", dimension * 256)
    widths = [size] * (parts - 1) + [last]
    return [
        values[256 * size * part :][: 256 * width].reshape(256, width)
        for part, width in enumerate(widths)
    ]


def _model(
    arguments: _Arguments, dictionary: _Dictionary, rows: np.ndarray, output: np.ndarray
) -> Model:
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
    return Model(
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
        rows,
        np.array(output[: len(entries) - words - 1], np.float32),
        left,
        right,
    )


def _entries(entries: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Entries one after another, and 8 bytes more; (entries + 1,) int64 where each starts."""
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
