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

from gristmill.kernels.decontaminate.items import (
    INT32_OUT,
    INT64_OUT,
    UINT64_OUT,
    Index,
    bits_of,
    find_ngram,
    hash_pair,
    hash_words,
    key_of,
    polynomial_of,
)
from gristmill.kernels.hashing.primitives import GOLDEN
from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, UINT64S, kernel
from gristmill.kernels.jit.loads import ONE, count_trailing_zeros


class Found(NamedTuple):
    """What of an index n documents hold; r rows, of a document by part."""

    overlap: np.ndarray  # (n,) float64: the highest share of a part's n-grams
    items: np.ndarray  # (n,) int32: items with any n-gram found
    words: np.ndarray  # (n,) int32
    documents: np.ndarray  # (r,) int32: places in the batch
    parts: np.ndarray  # (r,) int32
    matched: np.ndarray  # (r,) int32: distinct n-grams of the part that stand in the document
    firsts: np.ndarray  # (r,) int32: the word of the document where the first of them starts
    lasts: np.ndarray  # (r,) int32: the last word of the last of them
    hit_offsets: np.ndarray  # (n + 1,) int64
    hits: np.ndarray  # int32: distinct n-grams in each document; empty where they are not asked for


@kernel(
    INT64S,
    BYTES,
    types.int64,
    types.int64,
    types.uint64,
    types.float64,
    types.boolean,
    BYTES,
    UINT64S,
    UINT64S,
    INT64S,
    INT32S,
    INT32S,
    INT64S,
    INT32S,
    INT64S,
    INT32S,
    UINT64S,
    UINT64S,
    UINT64S,
    types.uint8[::1],
    UINT64_OUT,
    INT64_OUT,
    INT64_OUT,
    UINT64_OUT,
    INT32_OUT,
    INT32_OUT,
    types.int32[:, ::1],
    types.int32[:, ::1],
    types.float64[::1],
    INT32_OUT,
    INT32_OUT,
    types.int32[:, ::1],
    INT64_OUT,
    INT32_OUT,
    INT64_OUT,
    returns=types.int64,
)
def _find(
    offsets,
    data,
    first,
    width,
    mask,
    floor,
    keep_hits,
    known,
    bitmap,
    table,
    ngram_starts,
    ngram_lengths,
    lists,
    list_offsets,
    list_parts,
    part_offsets,
    item_of,
    heads,
    head_keys,
    head_widths,
    tail,
    hashes,
    starts,
    places,
    wide,
    seen,
    seen_items,
    by_list,
    by_part,
    overlap,
    items,
    words_of,
    rows,
    hit_offsets,
    hits,
    ends,
):
    """Look at documents from `first` on, until all are done or there may be no room; the first that
    is not done.

    by_list and by_part hold (document, n-grams, first word, last word, its place among those
    touched) for each list and part. ends: rows and hits written.
    """
    top = ONE
    for _ in range(width):
        top *= GOLDEN
    last_head = np.int64(len(head_keys) - 1)
    word_shift = np.uint64(64 - count_trailing_zeros(np.uint64(len(heads))))
    bit_shift = word_shift - np.uint64(6)
    row, hit = ends[0], ends[1]
    done = first
    for i in range(first, len(offsets) - 1):
        if len(rows) - row < len(by_part) or (keep_hits and len(hits) - hit < len(seen)):
            break
        stamp = np.int32(i + 1)
        overlap[i] = 0.0
        items[i] = 0
        hit_offsets[i] = hit
        words = hash_words(data, offsets[i], offsets[i + 1], tail, hashes, starts)
        words_of[i] = words
        # What may be there: without a branch, so that lookups do not wait for each other.
        maybe = np.int64(0)
        polynomial = np.uint64(0)
        for j in range(min(words, width)):
            polynomial = polynomial * GOLDEN + hashes[j]
        for j in range(words - width + 1):
            word, bits = bits_of(bitmap, polynomial)
            places[maybe] = j
            wide[maybe] = polynomial
            if j + width < words:
                polynomial = polynomial * GOLDEN + hashes[j + width] - hashes[j] * top
            maybe += np.int64((bitmap[word] & bits) == bits)
        mains = maybe
        if last_head > 0:
            for j in range(words - 1):
                key = hash_pair(hashes, j)
                places[maybe] = j
                wide[maybe] = key
                maybe += np.int64(
                    (heads[key >> word_shift] >> (key >> bit_shift & np.uint64(63))) & ONE
                )
        touched = np.int64(0)
        for m in range(maybe):
            j = places[m]
            key = wide[m]
            sizes = ONE  # bit w: look up w words; the first one: `width`
            if m >= mains:
                place = np.int64(key & np.uint64(last_head))
                while head_widths[place] != 0 and head_keys[place] != key:
                    place = (place + 1) & last_head
                sizes = head_widths[place]
            while sizes:
                size = np.int64(count_trailing_zeros(sizes))
                sizes &= sizes - ONE
                if size == 0:
                    size = width
                    key = key_of(key, size) & mask
                else:
                    if j + size > words:
                        break
                    key = key_of(polynomial_of(hashes, j, size), size) & mask
                length = starts[j + size] - 1 - starts[j]
                number = find_ngram(
                    key, data, starts[j], length, table, known, ngram_starts, ngram_lengths
                )
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
            share = by_part[part, 1] / (part_offsets[part + 1] - part_offsets[part])
            overlap[i] = max(overlap[i], share)
            if seen_items[item_of[part]] != stamp:
                seen_items[item_of[part]] = stamp
                items[i] += 1
            if share >= floor:
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


@kernel(
    INT32S,
    INT32S,
    INT64S,
    INT32S,
    INT64S,
    INT32S,
    types.int64,
    INT32_OUT,
    INT64_OUT,
    returns=types.int64,
)
def _meet(documents, parts, hit_offsets, hits, part_offsets, part_ngrams, ngrams, out, out_offsets):
    """Of each row the n-grams of its part that stand in its document; with room for none only where
    they would go.
    """
    seen = np.full(ngrams, -1, np.int32)
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
) -> Found:
    """Find the n-grams of an index in n normalised texts: offsets (n + 1,) int64 into data (bytes,)
    uint8.

    item_of: (p,) int32, of each part its item. Rows are those of a share of at least `floor`, and
    of at least one n-gram. `hits` keeps the n-grams of each document. `room` is for how many rows
    memory is taken at a time, the parts' number at least.
    """
    count, parts, ngrams = len(offsets) - 1, len(index.part_offsets) - 1, len(index.starts)
    longest = int(np.diff(offsets).max(initial=0)) // 2 + 2
    tables = (
        index.data,
        index.bitmap,
        index.table,
        index.starts,
        index.lengths,
        index.lists,
        index.list_offsets,
        index.list_parts,
        index.part_offsets,
        item_of,
        index.heads,
        index.head_keys,
        index.head_widths,
    )
    scratch = (
        np.zeros(64, np.uint8),
        np.empty(longest, np.uint64),
        np.empty(longest + 1, np.int64),
        np.empty(2 * longest, np.int64),
        np.empty(2 * longest, np.uint64),
        np.zeros(ngrams, np.int32),
        np.zeros(int(item_of.max(initial=-1)) + 1, np.int32),
        np.zeros((max(len(index.list_offsets) - 1, 1), 5), np.int32),
        np.zeros((parts, 5), np.int32),
    )
    overlap, items, words = np.empty(count), np.empty(count, np.int32), np.empty(count, np.int32)
    rows = np.empty((max(room, parts), 5), np.int32)
    hit_rows = np.empty(max(room, ngrams) if hits else 0, np.int32)
    hit_offsets = np.zeros(count + 1, np.int64)
    got, got_hits, done, before = [], [], 0, 0
    while done < count:
        ends, start = np.zeros(2, np.int64), done
        done = _find(
            offsets,
            data,
            start,
            index.width,
            np.uint64(index.mask),
            floor,
            hits,
            *tables,
            *scratch,
            overlap,
            items,
            words,
            rows,
            hit_offsets,
            hit_rows,
            ends,
        )
        got.append(rows[: ends[0]].copy())
        got_hits.append(hit_rows[: ends[1]].copy())
        hit_offsets[start : done + 1] += before
        before = int(hit_offsets[done])
    all_rows = np.concatenate([np.empty((0, 5), np.int32), *got])
    all_rows = all_rows[np.lexsort((all_rows[:, 1], all_rows[:, 0]))]
    documents, of, matched, firsts, lasts = (np.ascontiguousarray(all_rows[:, k]) for k in range(5))
    return Found(
        overlap,
        items,
        words,
        documents,
        of,
        matched,
        firsts,
        lasts,
        hit_offsets,
        np.concatenate([np.empty(0, np.int32), *got_hits]),
    )


def hits_of(found: Found, index: Index) -> tuple[np.ndarray, np.ndarray]:
    """Of each of r rows the n-grams of its part that its document holds, in the part's order:
    (offsets (r + 1,) int64, numbers int32).
    """
    offsets = np.empty(len(found.documents) + 1, np.int64)
    given = (
        found.documents,
        found.parts,
        found.hit_offsets,
        found.hits,
        index.part_offsets,
        index.part_ngrams,
    )
    size = _meet(*given, len(index.starts), np.empty(0, np.int32), offsets)
    numbers = np.empty(size, np.int32)
    if size:
        _meet(*given, len(index.starts), numbers, offsets)
    return offsets, numbers
