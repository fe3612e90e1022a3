"""Many patterns at once: an Aho-Corasick automaton over bytes (Aho and Corasick 1975: doi
10.1145/360825.360855).

The automaton is dense: for every state and every class of bytes the next state is written down, so
that a text costs one load a byte, however many patterns there are. Bytes that occur in no pattern
share one class, which keeps the rows short.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s
from gristmill.kernels.unicode.tables import (
    CLASSES,
    LETTER,
    NUMBER,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)

MOST_CELLS = 1 << 30  # of `moves`: 4 GiB
UNDERSCORE = 0x5F


class Automaton(NamedTuple):
    """Of s states, of which state 0 is the start, and p patterns."""

    classes: Bytes  # (256,): a byte's class
    width: int  # the number of classes
    moves: Int32s  # (s * width,): at state * width + class the next state
    ends: Int32s  # (s,): 1 + the longest pattern that ends in this state; 0: none
    also: Int32s  # (s,): the state whose `ends` is the next shorter pattern that ends here; 0: none
    lengths: Int32s  # (p,): of each pattern in bytes


@kernel(
    INT64S,
    BYTES,
    BYTES,
    types.int64,
    types.int32[::1],
    types.int32[::1],
    types.int32[::1],
    returns=types.int64,
)
def _insert(offsets, data, classes, width, moves, ends, queue):
    """Write the patterns as a tree; return the number of states. `queue` is scratch space of the
    same length as `ends`.
    """
    states = np.int64(1)
    for i in range(len(offsets) - 1):
        state = np.int64(0)
        for at in range(offsets[i], offsets[i + 1]):
            cell = state * width + classes[data[at]]
            if moves[cell] == 0:
                moves[cell] = states
                states += 1
            state = np.int64(moves[cell])
        if ends[state] == 0:  # of equal patterns the first
            ends[state] = i + 1
    # The states by their depth: a state's row is made of the row of a state that is less deep.
    taken = np.int64(0)
    queued = np.int64(1)
    queue[0] = 0
    while taken < queued:
        state = np.int64(queue[taken])
        taken += 1
        for k in range(width):
            child = moves[state * width + k]
            if child != 0:
                queue[queued] = child
                queued += 1
    return states


@kernel(types.int64, INT32S, types.int32[::1], types.int32[::1], types.int32[::1], types.int32[::1])
def _link(width, queue, moves, ends, also, suffixes):
    """Make the tree an automaton; `suffixes` (s,) becomes each state's longest proper suffix that
    is a state.
    """
    for place in range(len(queue)):
        state = np.int64(queue[place])
        suffix = np.int64(suffixes[state])
        if ends[state] == 0:
            ends[state] = ends[suffix]
            also[state] = also[suffix]
        elif ends[suffix] != 0:
            also[state] = suffix
        for k in range(width):
            child = moves[state * width + k]
            # From the start, bytes that continue nothing lead back to it: 0 already.
            if child == 0:
                moves[state * width + k] = moves[suffix * width + k]
            elif state != 0:
                suffixes[child] = moves[suffix * width + k]


def build(patterns: list[bytes], *, fold_ascii: bool = False) -> Automaton:
    """Return the automaton of patterns; `fold_ascii` takes A to Z for a to z, in patterns and in
    texts.

    Raises ValueError for an empty pattern, which would be found everywhere, and for patterns too
    long in all.
    """
    lengths = np.fromiter(map(len, patterns), np.int32, len(patterns))
    if (lengths == 0).any():
        raise ValueError("an empty pattern is found in every text")
    data = np.frombuffer(b"".join(patterns), np.uint8)
    offsets = np.zeros(len(patterns) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    classes, width = _classes(data, fold_ascii)
    most = len(data) + 1
    if most * width > MOST_CELLS:
        raise ValueError(
            f"patterns of {len(data):,} bytes in all are too many: at most "
            f"{MOST_CELLS // width - 1:,}"
        )
    # Pages that are not written to take no memory: patterns share prefixes.
    moves, ends, queue = (
        np.zeros(most * width, np.int32),
        np.zeros(most, np.int32),
        np.zeros(most, np.int32),
    )
    states = _insert(offsets, data, classes, width, moves, ends, queue)
    moves, ends, queue = moves[: states * width], ends[:states].copy(), queue[:states]
    also = np.zeros(states, np.int32)
    _link(width, queue, moves, ends, also, np.zeros(states, np.int32))
    return Automaton(classes, width, moves, ends, also, lengths)


def _classes(data: np.ndarray, fold_ascii: bool) -> tuple[np.ndarray, int]:
    """Return a class for each byte that occurs in data, and one (0) for all that do not; their
    number.
    """
    folded = np.arange(256)
    if fold_ascii:
        folded[ord("A") : ord("Z") + 1] += 32
    used = np.zeros(256, bool)
    used[folded[data]] = True
    # Where all 256 occur, no class is left for others, and none is needed.
    numbers = np.cumsum(used) - bool(used.all())
    classes = np.where(used, numbers, 0)[folded].astype(np.uint8)
    return classes, int(numbers[-1]) + 1


@helper
def next_state(state, byte, automaton):
    """Return one move of an automaton; states are uint64, whose look-ups need no check for negative
    ones.
    """
    place = state * np.uint64(automaton.width) + np.uint64(automaton.classes[byte])
    return np.uint64(automaton.moves[place])


@kernel(OFFSETS, BYTES, Automaton, types.int32[::1])
def _find_first(offsets, data, automaton, found):
    ends = automaton.ends
    for i in range(len(offsets) - 1):
        state = np.uint64(0)
        found[i] = 0
        for at in range(offsets[i], offsets[i + 1]):
            state = next_state(state, data[at], automaton)
            if ends[state] != 0:
                found[i] = ends[state]
                break


def find_first(offsets: np.ndarray, data: np.ndarray, automaton: Automaton) -> np.ndarray:
    """1 + a pattern that each text holds, (n,) int32; 0: none. The one that ends first, of those
    the longest.

    Texts are offsets (n + 1,) int32 into data (bytes,) uint8.
    """
    found = np.empty(len(offsets) - 1, np.int32)
    _find_first(offsets, data, automaton, found)
    return found


@helper
def _word_at(data, at, classes):
    r"""Return whether the character that starts at `at` is one of Python's \w: str.isalnum, or an
    underscore.
    """
    if data[at] == UNDERSCORE:
        return True
    point = code_point(data, at, lead_width(data[at]))
    return unicode_bits(point, classes) & (LETTER | NUMBER) != 0


@helper
def _bounded(data, begin, stop, first, last, classes):
    """Return whether data[first:last] stands between non-word characters or the ends of the text
    data[begin:stop].
    """
    if last < stop and _word_at(data, last, classes):
        return False
    if first == begin:
        return True
    before = first - 1
    while data[before] & 0xC0 == 0x80 and before > begin:
        before -= 1
    return not _word_at(data, before, classes)


@kernel(OFFSETS, BYTES, Automaton, PointBits, types.int32[::1])
def _find_bounded(offsets, data, automaton, classes, found):
    ends, also, lengths = automaton.ends, automaton.also, automaton.lengths
    for i in range(len(offsets) - 1):
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        state = np.uint64(0)
        found[i] = 0
        for at in range(begin, stop):
            state = next_state(state, data[at], automaton)
            ending = state
            while ends[ending] != 0:
                pattern = ends[ending]
                first = at + 1 - lengths[pattern - 1]
                if _bounded(data, begin, stop, first, at + 1, classes):
                    found[i] = pattern
                    break
                ending = np.uint64(also[ending])
            if found[i] != 0:
                break


def find_bounded(offsets: np.ndarray, data: np.ndarray, automaton: Automaton) -> np.ndarray:
    r"""As `find_first`, of patterns that stand alone: `(?:\W|^)pattern(?:\W|$)` in Python's Unicode
    sense.

    Patterns and texts must be whole characters in well-formed UTF-8.
    """
    found = np.empty(len(offsets) - 1, np.int32)
    _find_bounded(offsets, data, automaton, CLASSES, found)
    return found


@kernel(OFFSETS, BYTES, Automaton, PointBits, types.boolean, types.int64[::1])
def _count(offsets, data, automaton, classes, bounded, out):
    ends, also, lengths = automaton.ends, automaton.also, automaton.lengths
    for i in range(len(offsets) - 1):
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        state = np.uint64(0)
        count = np.int64(0)
        for at in range(begin, stop):
            state = next_state(state, data[at], automaton)
            ending = state
            while ends[ending] != 0:
                first = at + 1 - lengths[ends[ending] - 1]
                if not bounded or _bounded(data, begin, stop, first, at + 1, classes):
                    count += 1
                    break
                ending = np.uint64(also[ending])
        out[i] = count


def count(
    offsets: np.ndarray, data: np.ndarray, automaton: Automaton, *, bounded: bool
) -> np.ndarray:
    """Return the places of each text where a pattern ends, (n,) int64; `bounded`: one that stands
    alone, as in `find_bounded`.

    Texts are offsets (n + 1,) int32 into data (bytes,) uint8.
    """
    out = np.empty(len(offsets) - 1, np.int64)
    _count(offsets, data, automaton, CLASSES, bounded, out)
    return out
