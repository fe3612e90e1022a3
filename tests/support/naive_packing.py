"""Slow twins of kernels/packing: packing, cutting and masks, one piece or position at a time."""

from collections import Counter, deque
from collections.abc import Sequence

from tests.support import naive, naive_loading

MASK_64 = (1 << 64) - 1


def pack(counts: Sequence[int]) -> Counter[tuple[int, ...]]:
    """Best-fit decreasing, one piece after another; among bins of equal space the one that has had
    it longest. The bins as their pieces, and how often each occurs.
    """
    limit = len(counts) - 1
    bins: list[list[int]] = []
    by_space: dict[int, deque[int]] = {space: deque() for space in range(limit + 1)}
    for length in range(limit, 0, -1):
        for _ in range(counts[length]):
            space = next((s for s in range(length, limit + 1) if by_space[s]), None)
            if space is None:
                bins.append([])
                chosen, space = len(bins) - 1, limit
            else:
                chosen = by_space[space].popleft()
            bins[chosen].append(length)
            by_space[space - length].append(chosen)
    return Counter(tuple(content) for content in bins)


def cut(documents: Sequence[int], limit: int) -> list[int]:
    """Documents in pieces of at most `limit` tokens."""
    return [min(limit, length - start) for length in documents for start in range(0, length, limit)]


CLOSING = ('"', "'", "\u201d", "\u2019", ")", "]")


def _ends(words: list[str], at: int, start: int, sentences: bool) -> bool:
    """Whether a paragraph (or a sentence) of the text ends between words at - 1 and at."""
    before, after = words[at - 1], words[at]
    if "\n\n" in before.replace(" ", ""):
        return True
    two_before = words[at - 2] if at - 2 >= start else ""
    if before.startswith("\n") and two_before.rstrip(" ").endswith("\n"):
        return True
    if not sentences:
        return False
    if before.rstrip(" ").endswith("\n"):
        return True
    if before.endswith(("。", "！", "？")):
        return True
    if not after[:1].isspace():
        return False
    last = at - 1
    while last > start and words[last] and all(c in CLOSING for c in words[last]):
        last -= 1
    return words[last].rstrip("".join(CLOSING)).endswith((".", "?", "!"))


def cut_texts(documents: Sequence[list[str]], limit: int, *, sentences: bool) -> list[int]:
    """As `cut`, of documents whose tokens have these texts, at the last end of a paragraph or
    sentence in the second half of the `limit` tokens.
    """
    pieces = []
    for words in documents:
        start = 0
        while len(words) - start > limit:
            places = range(start + limit // 2 + 1, start + limit + 1)
            good = [at for at in places if _ends(words, at, start, sentences)]
            stop = max(good, default=start + limit)
            pieces.append(stop - start)
            start = stop
        if words:
            pieces.append(len(words) - start)
    return pieces


def sort_block(lengths: Sequence[int], position: int, limit: int) -> tuple[list[int], list[int]]:
    """Pieces sorted by length: how many there are of each, and their positions."""
    pairs = []
    for length in lengths:
        pairs.append((length, position))
        position += length
    pairs.sort()
    return [lengths.count(n) for n in range(limit + 1)], [start for _, start in pairs]


def starts(documents: Sequence[int], limit: int, *, keep_rest: bool) -> list[int]:
    """Where windows begin, of documents of these lengths: at a document's start, or where a rest of
    a document fills a window.
    """
    found: list[int] = []
    begin = 0
    for length in documents:
        for position in range(begin, begin + length):
            if found and position < found[-1] + limit:
                continue
            if position == begin or (keep_rest and begin + length - position >= limit):
                found.append(position)
        begin += length
    return found


def salt(length: int) -> int:
    """What changes an epoch's keys into those of a length: MurmurHash3's finaliser."""
    value = length * 0x9E3779B97F4A7C15 & MASK_64
    return naive.mix(value)


def choose(
    bins: Sequence[int], packed: Sequence[tuple[int, ...]], index: Sequence[int], keys: list[int]
) -> list[list[tuple[int, int]]]:
    """(position, length) of the pieces of these bins; `packed` are all bins, by number; `index` the
    positions of all pieces sorted by length.
    """
    lengths = sorted(length for content in packed for length in content)
    waiting = {n: deque(range(lengths.count(n))) for n in set(lengths)}
    places = [[(n, waiting[n].popleft()) for n in content] for content in packed]
    orders = {
        n: naive_loading.permute(lengths.count(n), [key ^ salt(n) for key in keys])
        for n in set(lengths)
    }
    rows = []
    for number in bins:
        row = []
        for length, place in places[number]:
            row.append((index[lengths.index(length) + orders[length][place]], length))
        state = naive.mix((keys[0] + number * 0x9E3779B97F4A7C15) & MASK_64)
        for left in range(len(row), 1, -1):
            state = (state + 0x9E3779B97F4A7C15) & MASK_64
            other = naive.mix(state) % left
            row[left - 1], row[other] = row[other], row[left - 1]
        rows.append(row)
    return rows


Segment = tuple[int, int, int, int]  # row, column, length, first value


def count(segments: Sequence[Segment], out: list[list[int]]) -> None:
    """Values that count up within each segment."""
    for row, start, length, first in segments:
        for j in range(length):
            out[row][start + j] = first + j


def number(segments: Sequence[Segment], out: list[list[int]]) -> None:
    """The segment's number within its row."""
    for at, (row, start, length, _) in enumerate(segments):
        for j in range(length):
            out[row][start + j] = sum(other[0] == row for other in segments[:at])
