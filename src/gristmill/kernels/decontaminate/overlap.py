"""Benchmark items in documents: which of an item's distinct word n-grams stand in a document, and
where.

    documents, normalised + Index (kernels/decontaminate/items.py) -> find_overlap -> of each
    document the parts that share n-grams with it

Every window of a document's words is hashed by a rolling polynomial and looked up in a bitmap, then
in the table; what is found there is compared byte for byte. Windows of short parts are hashed only
where their first two words start a short part. N-grams with the same parts are counted together and
laid to their parts once a document: it costs its length and, once each, the parts that it touches.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.decontaminate.items import Index
from gristmill.kernels.decontaminate.ngrams import (
    bitmap_bits,
    find_ngram,
    hash_pair,
    hash_run,
    hash_words,
    is_ngram,
    start_polynomial,
)
from gristmill.kernels.hashing.primitives import GOLDEN
from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, helper, kernel
from gristmill.kernels.jit.groups import (
    Bytes,
    Float64s,
    Int32Rows,
    Int32s,
    Int64s,
    ReadFloat64s,
    ReadInt32s,
    ReadInt64s,
    Uint64s,
    read_only,
)
from gristmill.kernels.jit.loads import ONE, count_trailing_zeros


class Overlaps(NamedTuple):
    """What of an index n documents hold; r rows, of a document by part."""

    overlap: ReadFloat64s  # (n,): the highest share of a part's n-grams
    items: ReadInt32s  # (n,): items with any n-gram found
    words: ReadInt32s  # (n,)
    documents: ReadInt32s  # (r,): places in the batch
    parts: ReadInt32s  # (r,)
    matched: ReadInt32s  # (r,): distinct n-grams of the part that stand in the document
    firsts: ReadInt32s  # (r,): the word of the document where the first of them starts
    lasts: ReadInt32s  # (r,): the last word of the last of them
    hit_offsets: ReadInt64s  # (n + 1,)
    hits: ReadInt32s  # distinct n-grams in each document; empty where they are not asked for


class _DocumentWords(NamedTuple):
    """The words of one document, and the windows of it that may be n-grams."""

    tail: Bytes
    hashes: Uint64s
    starts: Int64s
    places: Int64s  # where a window starts
    wide: Uint64s  # its polynomial, or the `hash_pair` of its first two words


class _Counted(NamedTuple):
    """What was seen: of n-grams and items the last document, of lists and parts (document, n-grams,
    first word, last word, its place among those that were touched).
    """

    seen: Int32s
    seen_items: Int32s
    by_list: Int32Rows
    by_part: Int32Rows


class _Rows(NamedTuple):
    """`Overlaps` as it is written."""

    overlap: Float64s
    items: Int32s
    words: Int32s
    rows: Int32Rows  # (room, 5)
    hit_offsets: Int64s
    hits: Int32s
    ends: Int64s  # rows and hits written


class _Ask(NamedTuple):
    """What is asked for."""

    floor: float
    keep_hits: bool


@helper
def _find_windows(words, index, text):
    """Write the windows that may be n-grams of `width` words, then those that may start a short
    part; how many there are of each.
    """
    hashes, places, wide, bitmap, heads = (
        text.hashes,
        text.places,
        text.wide,
        index.bitmap,
        index.heads,
    )
    width = index.width
    top = ONE
    for _ in range(width):
        top *= GOLDEN
    word_shift = np.uint64(64 - count_trailing_zeros(np.uint64(len(heads))))
    bit_shift = word_shift - np.uint64(6)
    # What may be there: without a branch, so that lookups do not wait for each other.
    maybe = np.int64(0)
    polynomial = np.uint64(0)
    for j in range(min(words, width)):
        polynomial = polynomial * GOLDEN + hashes[j]
    for j in range(words - width + 1):
        word, bits = bitmap_bits(bitmap, polynomial)
        places[maybe] = j
        wide[maybe] = polynomial
        if j + width < words:
            polynomial = polynomial * GOLDEN + hashes[j + width] - hashes[j] * top
        maybe += np.int64((bitmap[word] & bits) == bits)
    mains = maybe
    if len(index.head_keys) > 1:
        for j in range(words - 1):
            key = hash_pair(hashes, j)
            places[maybe] = j
            wide[maybe] = key
            maybe += np.int64(
                (heads[key >> word_shift] >> (key >> bit_shift & np.uint64(63))) & ONE
            )
    return mains, maybe


@helper
def _head_widths(key, head_keys, head_widths):
    """Bit w: a short part of w words may start with two words of this `hash_pair`."""
    last = np.int64(len(head_keys) - 1)
    place = np.int64(key & np.uint64(last))
    while head_widths[place] != 0 and head_keys[place] != key:
        place = (place + 1) & last
    return head_widths[place]


@kernel(
    *(INT64S, BYTES, types.int64, _Ask, Index, INT32S),
    *(_DocumentWords, _Counted, _Rows),
    returns=types.int64,
)
def _find(offsets, data, first, ask, index, item_of, text, counted, out):
    """Look at documents from `first` on, until all are done or there may be no room; the first that
    is not done.
    """
    width, mask, keep_hits, table = index.width, index.mask, ask.keep_hits, index.table
    lists, list_offsets, list_parts = index.lists, index.list_offsets, index.list_parts
    hashes, starts, places, wide = text.hashes, text.starts, text.places, text.wide
    seen, seen_items, by_list, by_part = counted
    overlap, items, _, rows, hit_offsets, hits, ends = out
    row, hit = ends[0], ends[1]
    done = first
    for i in range(first, len(offsets) - 1):
        if len(rows) - row < len(by_part) or (keep_hits and len(hits) - hit < len(seen)):
            break
        stamp = np.int32(i + 1)
        overlap[i] = 0.0
        items[i] = 0
        hit_offsets[i] = hit
        words = hash_words(data, offsets[i], offsets[i + 1], text.tail, hashes, starts)
        out.words[i] = words
        mains, maybe = _find_windows(words, index, text)
        touched = np.int64(0)
        # Numbers of n-grams that stand one behind the other mostly follow each other. So the number
        # behind the last one found is compared first: what that needs is in the cache.
        follower, place = np.int64(0), np.int64(-1)
        for m in range(maybe):
            j = places[m]
            key = wide[m]
            sizes = ONE  # bit w: look up w words; the first one: `width`
            if m >= mains:
                sizes = _head_widths(key, index.head_keys, index.head_widths)
            while sizes:
                size = np.int64(count_trailing_zeros(sizes))
                sizes &= sizes - ONE
                if size == 0:
                    size = width
                elif j + size > words:
                    break
                else:
                    key = start_polynomial(hashes, j, size)
                length = starts[j + size] - 1 - starts[j]
                number = follower
                if j != place or not is_ngram(
                    *(follower, data, starts[j], length), *(index.data, index.starts, index.lengths)
                ):
                    number = find_ngram(
                        *(hash_run(key, size) & mask, data, starts[j], length, table),
                        *(index.data, index.starts, index.lengths),
                    )
                if number >= 0:
                    follower, place = number + 1, j + 1
                if number < 0 or seen[number] == stamp:
                    continue
                seen[number] = stamp
                if keep_hits:
                    hits[hit] = number
                    hit += 1
                counts = by_list[lists[number]]
                if counts[0] != stamp:
                    counts[0] = stamp
                    counts[1] = 0
                    counts[2] = j
                    counts[3] = j
                    by_list[touched, 4] = lists[number]
                    touched += 1
                counts[1] += 1
                counts[2] = min(counts[2], np.int32(j))
                counts[3] = max(counts[3], np.int32(j + size - 1))
        # What was counted by list goes to the parts.
        reached = np.int64(0)
        for t in range(touched):
            counts = by_list[by_list[t, 4]]
            for k in range(list_offsets[by_list[t, 4]], list_offsets[by_list[t, 4] + 1]):
                part = list_parts[k]
                of_part = by_part[part]
                if of_part[0] != stamp:
                    of_part[0] = stamp
                    of_part[1] = 0
                    of_part[2] = counts[2]
                    of_part[3] = counts[3]
                    by_part[reached, 4] = part
                    reached += 1
                of_part[1] += counts[1]
                of_part[2] = min(of_part[2], counts[2])
                of_part[3] = max(of_part[3], counts[3])
        for t in range(reached):
            part = by_part[t, 4]
            share = by_part[part, 1] / (index.part_offsets[part + 1] - index.part_offsets[part])
            overlap[i] = max(overlap[i], share)
            if seen_items[item_of[part]] != stamp:
                seen_items[item_of[part]] = stamp
                items[i] += 1
            if share >= ask.floor:
                rows[row, 0] = i
                rows[row, 1] = part
                rows[row, 2] = by_part[part, 1]
                rows[row, 3] = by_part[part, 2]
                rows[row, 4] = by_part[part, 3]
                row += 1
        done = i + 1
    hit_offsets[done] = hit
    ends[0], ends[1] = row, hit
    return done


@kernel(Overlaps, Index, Int32s, Int64s, returns=types.int64, allocates=True)
def _meet(found, index, out, out_offsets):
    """Of each row the n-grams of its part that stand in its document; where `out` has no room, only
    where they would go.
    """
    documents, parts, hit_offsets, hits = (
        found.documents,
        found.parts,
        found.hit_offsets,
        found.hits,
    )
    part_offsets, part_ngrams = index.part_offsets, index.part_ngrams
    seen = np.full(len(index.starts), -1, np.int32)
    end = np.int64(0)
    before = np.int32(-1)
    for row in range(len(documents)):
        document = documents[row]
        if document != before:
            before = document
            for j in range(hit_offsets[document], hit_offsets[document + 1]):
                seen[hits[j]] = document
        out_offsets[row] = end
        for j in range(part_offsets[parts[row]], part_offsets[parts[row] + 1]):
            if seen[part_ngrams[j]] == document:
                if len(out):
                    out[end] = part_ngrams[j]
                end += 1
    out_offsets[len(documents)] = end
    return end


def find_overlap(
    offsets: np.ndarray,
    data: np.ndarray,
    index: Index,
    item_of: np.ndarray,
    *,
    floor: float = 0.0,
    hits: bool = False,
    room: int = 1 << 16,
) -> Overlaps:
    """Find the n-grams of an index in n normalised texts: offsets (n + 1,) int64 into data (bytes,)
    uint8.

    item_of: (p,) int32, of each part its item. Rows are those of a share of at least `floor`, and
    of at least one n-gram. `hits` keeps the n-grams of each document. `room` is for how many rows
    memory is taken at a time, the parts' number at least.
    """
    count, parts, ngrams = len(offsets) - 1, len(index.part_offsets) - 1, len(index.starts)
    longest = int(np.diff(offsets).max(initial=0)) // 2 + 2
    text = _DocumentWords(
        np.zeros(64, np.uint8),
        np.empty(longest, np.uint64),
        np.empty(longest + 1, np.int64),
        np.empty(2 * longest, np.int64),
        np.empty(2 * longest, np.uint64),
    )
    counted = _Counted(
        np.zeros(ngrams, np.int32),
        np.zeros(int(item_of.max(initial=-1)) + 1, np.int32),
        np.zeros((max(len(index.list_offsets) - 1, 1), 5), np.int32),
        np.zeros((parts, 5), np.int32),
    )
    out = _Rows(
        np.empty(count),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty((max(room, parts), 5), np.int32),
        np.zeros(count + 1, np.int64),
        np.empty(max(room, ngrams) if hits else 0, np.int32),
        np.zeros(2, np.int64),
    )
    index, ask = read_only(index), _Ask(floor, hits)
    rows, ends, hit_offsets = out.rows, out.ends, out.hit_offsets
    got, got_hits, done, before = [], [], 0, 0
    while done < count:
        start = done
        ends[:] = 0
        done = _find(offsets, data, start, ask, index, item_of, text, counted, out)
        got.append(rows[: ends[0]].copy())
        got_hits.append(out.hits[: ends[1]].copy())
        hit_offsets[start : done + 1] += before
        before = int(hit_offsets[done])
    all_rows = np.concatenate([np.empty((0, 5), np.int32), *got])
    all_rows = all_rows[np.lexsort((all_rows[:, 1], all_rows[:, 0]))]
    documents, of, matched, firsts, lasts = (np.ascontiguousarray(all_rows[:, k]) for k in range(5))
    all_hits = np.concatenate([np.empty(0, np.int32), *got_hits])
    return Overlaps(
        out.overlap,
        out.items,
        out.words,
        documents,
        of,
        matched,
        firsts,
        lasts,
        hit_offsets,
        all_hits,
    )


def count_hits(found: Overlaps, index: Index) -> tuple[np.ndarray, np.ndarray]:
    """Of each of r rows the n-grams of its part that its document holds, in the part's order:
    (offsets (r + 1,) int64, numbers int32).
    """
    offsets = np.empty(len(found.documents) + 1, np.int64)
    found, index = read_only(found), read_only(index)
    size = _meet(found, index, np.empty(0, np.int32), offsets)
    numbers = np.empty(size, np.int32)
    if size:
        _meet(found, index, numbers, offsets)
    return offsets, numbers
