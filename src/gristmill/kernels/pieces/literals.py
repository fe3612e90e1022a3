"""Where the strings of a list occur in texts: at each place the longest, from left to right, none
inside another (what aho-corasick calls leftmost-longest).

The strings are a trie: nodes in the order of a search in breadth, the children of a node together.
A search takes as long as the longest string at every byte, so strings have at most MOST_BYTES.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s, numba_type

MOST_BYTES = 256


class Trie(NamedTuple):
    """A list of strings; make it with `build_trie`."""

    pairs: Bytes  # (65536,) 1: a string may start with these two bytes, the first one times 256
    roots: Int32s  # (256,) the node of each first byte, or -1
    children: Int32s  # (nodes + 1,) where the children of each node begin
    bytes_: Bytes  # (nodes,) the byte that leads to each node
    strings: Int32s  # (nodes,) the number of the string that ends at each node, or -1


@kernel(
    OFFSETS,
    BYTES,
    Trie,
    numba_type(Int32s),
    numba_type(Int32s),
    numba_type(Int32s),
    returns=types.int64,
)
def _find(offsets, data, trie, texts, starts, numbers):
    """Write as many as there is room for; return how many there are."""
    pairs = trie.pairs
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        at = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        while at < stop:
            if at + 1 < stop and pairs[(np.int64(data[at]) << 8) | np.int64(data[at + 1])] == 0:
                at += 1
                continue
            node = trie.roots[data[at]]
            found = np.int32(-1)
            end = at + 1
            after = end
            while node >= 0:
                if trie.strings[node] >= 0:
                    found = trie.strings[node]
                    after = end
                following = np.int32(-1)
                if end < stop:
                    for child in range(trie.children[node], trie.children[node + 1]):
                        if trie.bytes_[child] == data[end]:
                            following = np.int32(child)
                            break
                node = following
                end += 1
            if found >= 0:
                if count < len(texts):
                    texts[count] = i
                    starts[count] = at
                    numbers[count] = found
                count += 1
            at = after
    return count


def build_trie(strings: list[bytes]) -> Trie:
    """Return the trie of distinct strings of 1 to MOST_BYTES bytes."""
    roots = np.full(256, -1, np.int32)
    numbered = sorted((string, number) for number, string in enumerate(strings))
    # Groups of strings with equal beginnings, one for each node; the groups of one length follow
    # each other, in order, and so do the children of a node.
    level = [(0, len(numbered))] if numbered else []
    byte_list: list[int] = []
    string_list: list[int] = []
    children: list[int] = []
    depth = 0
    first_of_level = 0
    while level:
        following: list[tuple[int, int]] = []
        sizes: list[int] = []
        for begin, end in level:
            at = begin
            count = 0
            while at < end and len(numbered[at][0]) == depth:
                at += 1
            while at < end:
                byte = numbered[at][0][depth]
                last = at
                while last < end and numbered[last][0][depth] == byte:
                    last += 1
                if depth == 0:
                    roots[byte] = len(byte_list)
                byte_list.append(byte)
                ends_here = len(numbered[at][0]) == depth + 1
                string_list.append(numbered[at][1] if ends_here else -1)
                following.append((at, last))
                at = last
                count += 1
            sizes.append(count)
        if depth > 0:
            place = first_of_level + len(level)
            for size in sizes:
                children.append(place)
                place += size
            first_of_level += len(level)
        level = following
        depth += 1
    children.append(len(byte_list))
    pairs = np.zeros((256, 256), np.uint8)
    for string in strings:
        pairs[string[0], string[1] if len(string) > 1 else slice(None)] = 1
    return Trie(
        pairs.reshape(-1),
        roots,
        np.array(children, np.int32),
        np.array(byte_list, np.uint8),
        np.array(string_list, np.int32),
    )


def find(
    offsets: np.ndarray, data: np.ndarray, trie: Trie
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the occurrences of a trie's strings in n texts of UTF-8, in order: the text of each,
    where it starts in data, and the number of its string, (m,) int32 each.

    offsets (n + 1,) int32 into data (bytes,) uint8.
    """
    room = (int(offsets[-1]) - int(offsets[0])) // 16 + 64
    while True:
        texts, starts, numbers = (np.empty(room, np.int32) for _ in range(3))
        count = _find(offsets, data, trie, texts, starts, numbers)
        if count <= room:
            return texts[:count], starts[:count], numbers[:count]
        room = count
