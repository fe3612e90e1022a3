"""Slow twins of kernels/loading: plain Python on lists."""

from collections.abc import Sequence

MASK = (1 << 64) - 1


def _scramble(value: int) -> int:
    value = ((value ^ value >> 33) * 0xFF51AFD7ED558CCD) & MASK
    value = ((value ^ value >> 33) * 0xC4CEB9FE1A85EC53) & MASK
    return value ^ value >> 33


def permute(count: int, keys: Sequence[int]) -> list[int]:
    """Where each of 0..count - 1 goes, as a list: the whole network is written out as a table."""
    half = next(bits for bits in range(64) if 4**bits >= count)
    side = 1 << half
    table = {}
    for start in range(side * side):
        left, right = divmod(start, side)
        for key in keys:
            left, right = right, left ^ (_scramble(right ^ key) % side)
        table[start] = left * side + right
    found = []
    for start in range(count):
        end = table[start]
        while end >= count:
            end = table[end]
        found.append(end)
    return found


Shard = tuple[list[int], list[int], list[int]]  # tokens, documents, exclusive ends
Run = tuple[int, int, int, int]  # row, column, position, length


def gather(shards: Sequence[Shard], runs: Sequence[Run], rows: list[list[int]]) -> None:
    """Write the tokens of runs into rows."""
    tokens = [token for shard in shards for token in shard[0]]
    for row, column, position, length in runs:
        rows[row][column : column + length] = tokens[position : position + length]


def find_spans(
    shards: Sequence[Shard], runs: Sequence[Run]
) -> list[tuple[int, int, int, int, bool, bool, int]]:
    """Row, column, length, document, begins, continues, offset: from a list of every token's
    document.
    """
    owner: list[int] = []
    first: list[bool] = []
    for number, (_, documents, ends) in enumerate(shards):
        start = 0
        for place, (document, end) in enumerate(zip(documents, ends, strict=True)):
            goes_on = place == 0 and number > 0 and bool(owner) and owner[-1] == document
            for at in range(start, end):
                owner.append(document)
                first.append(at == start and not goes_on)
            start = end
    found = []
    for row, column, position, length in runs:
        at = position
        while at < position + length:
            end = at + 1
            while end < position + length and owner[end] == owner[at]:
                end += 1
            continues = end == position + length and owner[end : end + 1] == [owner[at]]
            start_column = column + at - position
            offset = at - owner.index(owner[at])
            found.append((row, start_column, end - at, owner[at], first[at], continues, offset))
            at = end
    return found
