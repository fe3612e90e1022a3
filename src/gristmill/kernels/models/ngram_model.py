"""An n-gram model of words: how likely each line of a text is. Integers but for one exponential, so
that every machine finds the same.

Lines are normalised (kernels.unicode.normalised). A word has an id by its hash: UNKNOWN, BEGIN (of
a line), END, then the vocabulary. Single words have rows by id; two to ORDERS words are keys of 16
bits a word in one table of 64-bit slots: the upper half of the key's hash, a log probability, and
what it costs to back off from this context. Both are counted in steps of 1 / UNIT nats and stored
without their sign.

The probability of a word after others is that of the longest n-gram that is stored, times the
back-offs of the longer contexts that are (Katz 1987: doi 10.1109/TASSP.1987.1165125), which is what
an ARPA file means. Every n-gram's first and last words must be stored as well.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, PRIME, mix
from gristmill.kernels.jit.compile import BYTES, INT64S, UINT64S, helper, kernel
from gristmill.kernels.jit.groups import Int64s, ReadUint16s, ReadUint64s, Uint64s, read_only
from gristmill.kernels.models.exp_log import exp, log

UINT16S = types.Array(types.uint16, 1, "C", readonly=True)
FLOATS = types.Array(types.float64, 1, "C", readonly=True)
UNKNOWN, BEGIN, END, FIRST = 1, 2, 3, 4  # 0 is no word
MOST_WORDS = (1 << 16) - FIRST
ORDERS = 4  # words of 16 bits in a key
UNIT = 1024
LARGEST = 32767  # steps
FREE = np.uint64(2**64 - 1)
LOW_16, HIGH_48 = np.uint64(0xFFFF), np.uint64(0xFFFFFFFFFFFF0000)
SPACE = 0x20


class NgramModel(NamedTuple):
    """A model as the kernel reads it; filters/models/ngram_file.py makes it."""

    words: ReadUint64s  # (slots,): the upper 48 bits of a word's hash and its id; 0: free
    costs: ReadUint16s  # (ids,): of each word alone, -log p
    backs: ReadUint16s  # (ids,): of each word as a context
    grams: ReadUint64s  # (slots,) of two words and more, or FREE
    order: int  # of the longest
    # added to the cost of a word that is not in the vocabulary: p is that of all such words
    # together
    unknown: int


class _Line(NamedTuple):
    """A line's words."""

    ids: Uint64s
    touched: Uint64s  # slots of its n-grams
    # [k] is what the context of the last k words costs to back off from, [ORDERS + k] the same for
    # the next word
    held: Int64s


@kernel(INT64S, BYTES, types.uint64[::1], types.int64[::1], types.int64[::1], types.int64[::1])
def _hash_words(offsets, data, hashes, starts, stops, out_offsets):
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = count
        at = offsets[i]
        while at < offsets[i + 1]:
            starts[count] = at
            value = BASIS
            while at < offsets[i + 1] and data[at] != SPACE:
                value = (value ^ np.uint64(data[at])) * PRIME
                at += 1
            hashes[count] = mix(value)
            stops[count] = at
            count += 1
            at += 1
    out_offsets[len(offsets) - 1] = count


def hash_words(
    offsets: np.ndarray, data: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the words of n normalised lines, offsets (n + 1,) int64 into data (bytes,) uint8.

    Returns (offsets (n + 1,) int64, and of each word its hash uint64, where it starts and stops
    int64).
    """
    room = (int(offsets[-1] - offsets[0]) + len(offsets)) // 2 + 1
    out_offsets = np.empty(len(offsets), np.int64)
    hashes, starts, stops = (
        np.empty(room, np.uint64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    _hash_words(offsets, data, hashes, starts, stops, out_offsets)
    count = out_offsets[-1]
    return out_offsets, hashes[:count], starts[:count], stops[:count]


@helper
def _word_id(value, table):
    """Return a word's id by its hash."""
    mask = np.uint64(len(table) - 1)
    slot = (value >> np.uint64(32)) & mask
    high = value & HIGH_48
    while table[slot] != 0:
        if table[slot] & HIGH_48 == high:
            return table[slot] & LOW_16
        slot = (slot + np.uint64(1)) & mask
    return np.uint64(UNKNOWN)


@kernel(UINT64S, types.uint64[::1])
def _list_words(hashes, table):
    mask = np.uint64(len(table) - 1)
    for i in range(len(hashes)):
        slot = (hashes[i] >> np.uint64(32)) & mask
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = (hashes[i] & HIGH_48) | np.uint64(i + FIRST)


def list_words(hashes: np.ndarray) -> np.ndarray:
    """Return the table of a vocabulary, given the hashes of its words (v,) uint64: the first has id
    FIRST.
    """
    table = np.zeros(1 << (2 * len(hashes)).bit_length(), np.uint64)
    _list_words(hashes, table)
    return table


@kernel(UINT64S, UINT64S, types.uint16[::1])
def _find_ids(hashes, table, out):
    for i in range(len(hashes)):
        out[i] = np.uint16(_word_id(hashes[i], table))


def find_ids(hashes: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the ids of words, (n,) uint16, by their hashes (n,) uint64."""
    out = np.empty(len(hashes), np.uint16)
    _find_ids(hashes, table, out)
    return out


@kernel(FLOATS, types.uint16[::1])
def _cost(shares, out):
    for i in range(len(shares)):
        steps = np.int64(-UNIT * log(shares[i]) + 0.5)
        out[i] = np.uint16(min(max(steps, np.int64(0)), np.int64(LARGEST)))


def cost(shares: np.ndarray) -> np.ndarray:
    """Return probabilities (n,) float64, over 0 and up to 1, as steps (n,) uint16."""
    out = np.empty(len(shares), np.uint16)
    _cost(shares, out)
    return out


@helper
def _first_slot(key, mask):
    """Return where a key's search starts, and its upper half as a slot has it."""
    value = mix(key)
    return value & mask, value & np.uint64(0xFFFFFFFF00000000)


@kernel(UINT64S, UINT16S, UINT16S, types.uint64[::1])
def _list_grams(keys, costs, backs, table):
    mask = np.uint64(len(table) - 1)
    for i in range(len(keys)):
        slot, high = _first_slot(keys[i], mask)
        while table[slot] != FREE:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = high | np.uint64(costs[i]) << np.uint64(16) | np.uint64(backs[i])


def list_grams(keys: np.ndarray, costs: np.ndarray, backs: np.ndarray) -> np.ndarray:
    """Return the table of n-grams of two words and more: keys (n,) uint64, the last word lowest,
    costs and backs (n,) uint16.
    """
    table = np.full(1 << max(4, (3 * len(keys) // 2).bit_length()), FREE)
    _list_grams(keys, costs, backs, table)
    return table


@helper
def _find_gram(slot, high, table):
    """Return the slot's value that a key has, or FREE.

    Its upper half tells it, wrongly once in some thousand million times.
    """
    mask = np.uint64(len(table) - 1)
    while True:
        value = table[slot]
        if value == FREE or value & np.uint64(0xFFFFFFFF00000000) == high:
            return value
        slot = (slot + np.uint64(1)) & mask


@helper
def _read_line(data, at, stop, words, ids):
    """Return the ids of a line's words between BEGIN and END; how many there are."""
    ids[0] = np.uint64(BEGIN)
    count = np.int64(1)
    while at < stop:
        value = BASIS
        while at < stop and data[at] != SPACE:
            value = (value ^ np.uint64(data[at])) * PRIME
            at += 1
        ids[count] = _word_id(mix(value), words)
        count += 1
        at += 1
    ids[count] = np.uint64(END)
    return count + 1


@helper
def _touch(ids, count, order, grams, touched):
    """Look at the slots of all pairs and triples of a line: the table is larger than any cache, and
    loads that wait for nothing overlap.
    """
    mask = np.uint64(len(grams) - 1)
    if order > 1:
        for j in range(1, count):
            slot, _ = _first_slot(ids[j - 1] << np.uint64(16) | ids[j], mask)
            touched[j] = grams[slot]
    if order > 2:
        for j in range(2, count):
            slot, _ = _first_slot(
                ids[j - 2] << np.uint64(32) | ids[j - 1] << np.uint64(16) | ids[j], mask
            )
            touched[j] ^= grams[slot]


@kernel(INT64S, BYTES, NgramModel, _Line, types.int64[::1], types.int64[::1])
def _score(offsets, data, model, line, totals, tokens):
    words, costs, backs, grams, order, unknown = model
    ids, touched, held = line
    mask = np.uint64(len(grams) - 1)
    for i in range(len(offsets) - 1):
        totals[i] = 0
        tokens[i] = 0
        if offsets[i] == offsets[i + 1]:
            continue
        count = _read_line(data, offsets[i], offsets[i + 1], words, ids)
        _touch(ids, count, order, grams, touched)
        total = np.int64(0)
        depth = min(np.int64(1), order - 1)  # so many words before are a context that is stored
        held[1] = backs[BEGIN]
        for j in range(1, count):
            word = ids[j]
            found = np.int64(costs[word])
            back = np.int64(backs[word])
            key = word
            length = np.int64(1)
            while length <= depth:
                key |= ids[j - length] << np.uint64(16 * length)
                slot, high = _first_slot(key, mask)
                gram = _find_gram(slot, high, grams)
                if gram == FREE:
                    break
                found = np.int64((gram >> np.uint64(16)) & LOW_16)
                held[ORDERS + length] = back
                back = np.int64(gram & LOW_16)
                length += 1
            held[ORDERS + length] = back
            total += found
            if word == UNKNOWN:
                total += unknown
            # Contexts as long as what was found, or longer, were backed off from.
            for k in range(length, depth + 1):
                total += held[k]
            depth = min(length, order - 1)
            for k in range(1, depth + 1):
                held[k] = held[ORDERS + k]
        totals[i] = total
        tokens[i] = count - 1


def score(
    offsets: np.ndarray, data: np.ndarray, model: NgramModel
) -> tuple[np.ndarray, np.ndarray]:
    """Return what n normalised lines cost, in steps, and how many words that is, the end counted:
    (n,) int64 each; of an empty line 0 and 0.

    offsets (n + 1,) int64 into data (bytes,) uint8.
    """
    lines = len(offsets) - 1
    totals, tokens = np.empty(lines, np.int64), np.empty(lines, np.int64)
    room = int(np.diff(offsets).max(initial=0)) // 2 + 3
    scratch = _Line(
        np.empty(room, np.uint64), np.empty(room, np.uint64), np.zeros(2 * ORDERS + 2, np.int64)
    )
    _score(offsets, data, read_only(model), scratch, totals, tokens)
    return totals, tokens


@kernel(INT64S, INT64S, types.float64[::1])
def _perplexity(totals, tokens, out):
    for i in range(len(totals)):
        if tokens[i] > 0:
            out[i] = exp(np.float64(totals[i]) / (np.float64(UNIT) * np.float64(tokens[i])))
        else:
            out[i] = np.nan


def perplexity(totals: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return steps over words as perplexity, (n,) float64; of no word NaN: totals and tokens (n,)
    int64.
    """
    out = np.empty(len(totals))
    _perplexity(totals, tokens, out)
    return out
