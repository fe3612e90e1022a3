"""Pairs of a partition's buckets, against a plain loop over them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill.dedup.disk_arrays import map_array, write_array
from gristmill.dedup.near import key_partitions
from gristmill.dedup.near.key_partitions import KeyFile, PartitionTask, pairs_in, write_pairs


def slow(
    entries: list[tuple[int, int]], candidates: int, first: int
) -> tuple[set[tuple[int, int]], list[tuple[int, int]]]:
    """Every document with the first ones of its buckets; the large buckets."""
    buckets: dict[int, list[int]] = {}
    for key, number in entries:
        buckets.setdefault(key, []).append(number)
    pairs, large = set(), []
    for key, numbers in buckets.items():
        numbers.sort()
        if len(numbers) > candidates:
            large += [(key, number) for number in numbers]
        for place, number in enumerate(numbers):
            for other in numbers[: min(place, candidates)]:
                if other < number >= first:
                    pairs.add((number, other))
    return pairs, sorted(large)


# Few keys, so that they share buckets; some with their first bit, and equal last bits.
KEYS = st.sampled_from([-(1 << 63), -4, -1, 0, 1, 4, 5, 8, (1 << 62) + 4, (1 << 63) - 1])
ENTRIES = st.lists(st.tuples(KEYS, st.integers(0, 40)), max_size=60)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(
    entries=ENTRIES,
    candidates=st.integers(1, 5),
    first=st.sampled_from([0, 7]),
    base=st.sampled_from([0, 100, 5 << 32]),
    small=st.booleans(),
)
def test_pairs_and_large_buckets(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entries: list[tuple[int, int]],
    candidates: int,
    first: int,
    base: int,
    small: bool,
) -> None:
    half = len(entries) // 2
    files = []
    for place, part in enumerate((entries[:half], entries[half:])):
        path = tmp_path / f"keys-{place}"
        write_array(path, np.array(part, np.int64).reshape(-1, 2))
        files.append(KeyFile(path, base))
    task = PartitionTask(0, files, candidates, first + base, True, tmp_path)
    with monkeypatch.context() as patch:
        for name, size in (("CHUNK", 7), ("SORTED", 5), ("HELD", 3)) if small else ():
            patch.setattr(key_partitions, name, size)
        written, large = write_pairs(task)
    shifted = [(key, number + base) for key, number in entries]
    pairs, often = slow(shifted, candidates, first + base)
    found: set[tuple[int, int]] = set()
    for path in written:
        part = list(zip(*(column.tolist() for column in pairs_in(path)), strict=True))
        assert part == sorted(set(part))
        found.update(part)
    assert found == pairs
    assert sorted(row for path in large for row in rows(path)) == often


def rows(path: Path) -> list[tuple[int, int]]:
    return [(key, number) for key, number in map_array(path, np.int64, 2).tolist()]
