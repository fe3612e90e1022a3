"""URLs looked up in lists: the domains above their host, their words, and what stands inside them.

What is a host is what tldextract 5.4 takes for one (its `remote.py`: lenient_netloc), white space
and case included. Words are as in datatrove 0.10's URL filter: runs of ASCII letters and digits.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.hashing.primitives import BASIS, PRIME
from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Int32s, Int64s, read_only
from gristmill.kernels.lists.aho_corasick import Automaton, next_state
from gristmill.kernels.lists.entries import Table, blank, find, hash_backwards, in_word, lower


@helper
def _authority(data, begin, stop):
    """Return where what stands behind a URL's scheme starts; a scheme is letters, digits, `+`, `-`,
    `.` and a colon, or nothing.
    """
    for at in range(begin, stop - 1):
        if data[at] == 0x2F and data[at + 1] == 0x2F:
            if at == begin:
                return at + 2
            if at - begin < 2 or data[at - 1] != 0x3A:
                return begin
            for j in range(begin, at - 1):
                byte = data[j]
                if not (in_word(byte) or byte == 0x2B or byte == 0x2D or byte == 0x2E):
                    return begin
            return at + 2
    return begin


@helper
def _host(data, begin, stop):
    """Return where the host of a URL starts and stops; (0, -1): it is not all ASCII, which is not
    for here to cut.
    """
    at = _authority(data, begin, stop)
    first = at
    while at < stop and data[at] != 0x2F and data[at] != 0x3F and data[at] != 0x23:
        if data[at] >= 0x80:
            return np.int64(0), np.int64(-1)
        if data[at] == 0x40:
            first = at + 1  # behind user and password
        at += 1
    last = at
    if first < last and data[first] == 0x5B:
        for at in range(first, last):
            if data[at] == 0x5D:
                return first, at + 1
    for at in range(first, last):
        if data[at] == 0x3A:
            last = at
            break
    while first < last and blank(data[first]):
        first += 1
    while first < last and blank(data[last - 1]):
        last -= 1
    while first < last and data[last - 1] == 0x2E:
        last -= 1
    return first, last


@kernel(*(OFFSETS, BYTES, types.boolean, types.boolean, types.int64, Table, types.int32[::1]))
def _find_domains(offsets, data, cut, fold, least_dots, table, found):
    for i in range(len(offsets) - 1):
        first = np.int64(offsets[i])
        last = np.int64(offsets[i + 1])
        found[i] = 0
        if cut:
            first, last = _host(data, first, last)
            if last < 0:
                found[i] = -1
                continue
        value = BASIS
        dots = np.int64(0)
        least = max(first, last - table.longest)
        at = last
        # On from the last byte; what starts at a label's start is looked up.
        while at > least:
            at -= 1
            byte = data[at]
            if byte == 0x2E:
                dots += 1
            value = (value ^ np.uint64(lower(byte) if fold else byte)) * PRIME
            if dots >= least_dots and (at == first or data[at - 1] == 0x2E):
                number = find(value, data, at, last, fold, table)
                if number != 0:
                    found[i] = number
                    break


def find_domains(
    offsets: np.ndarray,
    data: np.ndarray,
    table: Table,
    *,
    cut: bool = True,
    fold: bool = False,
    least_dots: int = 0,
) -> np.ndarray:
    """1 + an entry that is the host of each URL or a domain above it, the shortest, (n,) int32; 0:
    none; -1: see below.

    `cut`: the texts are URLs, and a host that is not all ASCII gives -1; else they are hosts.
    `fold`: hosts in lower case. Only domains with `least_dots` dots are looked up.
    """
    found = np.empty(len(offsets) - 1, np.int32)
    _find_domains(offsets, data, cut, fold, least_dots, read_only(table), found)
    return found


class ListedWords(NamedTuple):
    """The listed words of n URLs."""

    offsets: Int64s  # (n + 1,): URL i has words offsets[i] up to offsets[i + 1]
    entries: Int32s  # (words,): each word's entry, in order of its first place; each once a URL


@kernel(OFFSETS, BYTES, Table, types.int32[::1], ListedWords, returns=types.int64)
def _find_words(offsets, data, table, seen, out):
    word_offsets, words = out
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        word_offsets[i] = count
        start = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        at = start
        while at < stop:
            if not in_word(data[at]):
                at += 1
                continue
            start = at
            while at < stop and in_word(data[at]):
                at += 1
            if at - start > table.longest:
                continue
            value = hash_backwards(data, start, at)
            number = find(value, data, start, at, False, table)
            if number != 0 and seen[number - 1] != i + 1:
                seen[number - 1] = i + 1
                words[count] = number - 1
                count += 1
    word_offsets[len(offsets) - 1] = count
    return count


def find_words(offsets: np.ndarray, data: np.ndarray, table: Table) -> ListedWords:
    """Return the runs of ASCII letters and digits of each text that are entries; case counts."""
    # A word takes two bytes, what parts it from the next counted, but for the last of a text.
    most = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
    found = ListedWords(np.empty(len(offsets), np.int64), np.empty(most, np.int32))
    seen = np.zeros(len(table.offsets) - 1, np.int32)
    count = _find_words(offsets, data, read_only(table), seen, found)
    return ListedWords(found.offsets, found.entries[:count])


@kernel(OFFSETS, BYTES, Automaton, types.int32[::1])
def _find_subwords(offsets, data, automaton, found):
    ends = automaton.ends
    for i in range(len(offsets) - 1):
        state = np.uint64(0)
        found[i] = 0
        for at in range(offsets[i], offsets[i + 1]):
            if in_word(data[at]):
                state = next_state(state, data[at], automaton)
                if ends[state] != 0:
                    found[i] = ends[state]
                    break


def find_subwords(offsets: np.ndarray, data: np.ndarray, automaton: Automaton) -> np.ndarray:
    """1 + the first pattern in each text when all but ASCII letters and digits is left out, (n,)
    int32; 0: none.
    """
    found = np.empty(len(offsets) - 1, np.int32)
    _find_subwords(offsets, data, automaton, found)
    return found
