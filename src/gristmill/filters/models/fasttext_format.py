"""The layout of fastText's model files, format versions 11 and 12 (fastText 0.9.2, src/fasttext.cc
and the classes that it saves).

`walk` reads a file to its end and checks every count and index, because fastText's library believes
them: with a file of another kind, or one that is cut short, the library would allocate as many
bytes as four stray bytes say, or read beyond its arrays.
"""

import struct
from collections.abc import Callable
from mmap import mmap
from typing import NamedTuple

import numpy as np

MAGIC, VERSIONS = 793712314, (11, 12)
SUPERVISED, HIERARCHICAL_SOFTMAX, SOFTMAX, LOSSES = 3, 1, 3, (1, 2, 3, 4)
LONGEST_NGRAM = 64  # characters; the library makes all n-grams of all words when it loads
LONGEST_WORD = 1 << 16  # bytes
MOST_ENTRIES = 1 << 23  # words and labels
MOST_NGRAMS = 1 << 27  # of all words: the library lists them when it loads, 4 bytes each
MOST_BUCKETS = 1 << 28
SCANNED = 64 << 20  # bytes of a table whose numbers are looked at; of larger ones the scores are
MOST_COUNT = 10**15  # what the library takes for more than all counts together


class Arguments(NamedTuple):
    """What a model was trained with, as far as predicting needs it."""

    version: int
    dimension: int
    word_ngrams: int
    loss: int
    buckets: int
    shortest: int
    longest: int


class Dictionary(NamedTuple):
    """Words, then labels, and which n-grams' rows are kept."""

    entries: list[bytes]
    counts: list[int]  # of labels
    words: int
    # (n, 2) int32: bucket, row after the words; None: all buckets have a row
    pruned: np.ndarray | None


class _ByteReader:
    def __init__(self, data: bytes | mmap) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + form, self._data, self._at)
        self._at += struct.calcsize("<" + form)
        return values

    def string(self) -> bytes:
        end = self._data.find(b"\0", self._at, self._at + LONGEST_WORD)
        _need(end > self._at, "a word is empty, or has no end")
        word = self._data[self._at : end]
        self._at = end + 1
        return bytes(word)

    def need(self, size: int) -> None:
        """Raise ValueError if the file has fewer bytes left."""
        _need(size <= len(self._data) - self._at, "it is cut short, or its counts are wrong")

    def array(self, kind: str, *shape: int) -> np.ndarray:
        _need(all(0 <= length < 1 << 40 for length in shape), "a table of an impossible size")
        count = int(np.prod([1, *map(int, shape)], dtype=object))
        size = count * np.dtype(kind).itemsize
        self.need(size)
        values = np.frombuffer(self._data, np.dtype(kind), count, self._at)
        self._at += size
        _need(
            kind != "<f4" or size > SCANNED or all_finite(values),
            "its weights hold NaN or infinity: train it again",
        )
        return values.reshape(shape)


def all_finite(values: np.ndarray) -> bool:
    """Return whether no number is NaN or infinite, a piece at a time."""
    flat = values.reshape(-1)
    return all(np.isfinite(flat[at : at + (1 << 20)]).all() for at in range(0, len(flat), 1 << 20))


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


class File(NamedTuple):
    """A model file as it was read to its end."""

    arguments: Arguments
    dictionary: Dictionary
    rows: Callable[[], np.ndarray]
    quantised: bool
    output: np.ndarray | None
    labels: list[str]
    plain: np.ndarray | None  # the input matrix where it is not quantised: its bytes in the file


def walk(data: bytes | mmap) -> File:
    """Read a model file to its end. Raises ValueError, which says what is wrong with it."""
    file = _ByteReader(data)
    try:
        arguments = _arguments(file)
        dictionary = _dictionary(file, arguments)
        rows, plain = _input(file, arguments, dictionary)
        quantised = plain is None
        output = _output(file, arguments, len(dictionary.entries) - dictionary.words, quantised)
        labels = [
            entry.decode().removeprefix("__label__")
            for entry in dictionary.entries[dictionary.words :]
        ]
    except struct.error as error:
        raise ValueError("it is cut short") from error
    except UnicodeDecodeError as error:
        raise ValueError("a label is not UTF-8") from error
    return File(arguments, dictionary, rows, quantised, output, labels, plain)


def _arguments(file: _ByteReader) -> Arguments:
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
    return Arguments(version, dimension, word_ngrams, loss, buckets, shortest, longest)


def _dictionary(file: _ByteReader, arguments: Arguments) -> Dictionary:
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
        return Dictionary(entries, counts, words, None)
    pairs = file.array("<i4", pruned, 2)
    _need(
        not pruned or (pairs.min() >= 0 and pairs[:, 0].max() < arguments.buckets),
        "an n-gram lies outside its table",
    )
    _need(not pruned or pairs[:, 1].max() < pruned, "an n-gram's row lies outside its table")
    return Dictionary(entries, counts, words, pairs)


def _input(
    file: _ByteReader, arguments: Arguments, dictionary: Dictionary
) -> tuple[Callable[[], np.ndarray], np.ndarray | None]:
    """Return a function that makes the input matrix, (words + n-grams, dimension) float32, and its
    bytes where it is not quantised.
    """
    height = dictionary.words + (
        arguments.buckets if dictionary.pruned is None else len(dictionary.pruned)
    )
    if file.take("?")[0]:
        return _read_quantised(file, height, arguments.dimension), None
    _need(dictionary.pruned is None, "it is pruned, and not quantised")
    _need(
        file.take("2q") == (height, arguments.dimension),
        "its input has another size than its counts",
    )
    plain = file.array("<f4", height, arguments.dimension)
    # A copy: the file may be cut while it is mapped.
    return lambda: np.array(plain, np.float32), plain.view(np.uint8).reshape(-1)


def _output(
    file: _ByteReader, arguments: Arguments, labels: int, quantised: bool
) -> np.ndarray | None:
    """Return the output matrix, (labels, dimension) float32; None if it is quantised."""
    if file.take("?")[0] and quantised:
        _read_quantised(file, labels, arguments.dimension)
        return None
    _need(
        file.take("2q") == (labels, arguments.dimension),
        "its output has another size than its counts",
    )
    return file.array("<f4", labels, arguments.dimension)


def _read_quantised(file: _ByteReader, height: int, dimension: int) -> Callable[[], np.ndarray]:
    """Return a function that decodes a product-quantised matrix, (height, dimension): float32(norm
    * centroid).
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
        matrix = np.empty((height, dimension), np.float32)
        at = 0
        for part, table in enumerate(centroids):
            matrix[:, at : at + table.shape[1]] = table[codes[:, part]]
            at += table.shape[1]
        if norms is not None:
            matrix *= norms[norm_codes]
        return matrix

    return rows


def _centroids(file: _ByteReader, expected: int) -> list[np.ndarray]:
    """Return a product quantiser: 256 centroids for each part of a vector; the last part may be
    short.
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
