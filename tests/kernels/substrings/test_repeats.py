"""Windows that occur again, against a dictionary of all windows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.substrings import repeats
from gristmill.kernels.substrings.runs import gather
from tests.support import naive_substrings, strategies
from tests.support.window_runs import repetitive, runs_of


def members_of(texts: list[bytes], size: int) -> tuple[repeats.RunMembers, np.ndarray, np.ndarray]:
    """The members of all texts, their contexts, and the text of each."""
    offsets, data, runs = runs_of(texts, size)
    order = np.lexsort((runs.starts, runs.hashes))
    _, groups = np.unique(runs.hashes[order], return_inverse=True)
    counts = runs.counts[order].astype(np.int64)
    lengths = counts + size - 1
    members = repeats.RunMembers(
        groups.astype(np.int64),
        np.cumsum(lengths) - lengths,
        counts,
        runs.leads[order].astype(np.int64),
        runs.repeats[order].astype(np.int64),
        (runs.starts - offsets[runs.texts])[order],
    )
    return members, gather(data, runs.starts[order], lengths), runs.texts[order]


def first_equal(members: repeats.RunMembers, contexts: bytes, size: int) -> list[int]:
    """The first member of each one's group with the same context."""
    heads: dict[tuple[int, bytes], int] = {}
    rows = zip(
        members.groups.tolist(), members.places.tolist(), members.counts.tolist(), strict=True
    )
    return [
        heads.setdefault((group, contexts[place : place + count + size - 1]), i)
        for i, (group, place, count) in enumerate(rows)
    ]


def covered(rows: list[tuple[int, int, int]]) -> set[tuple[int, int]]:
    return {(text, at) for text, start, stop in rows for at in range(start, stop)}


@strategies.fuzz(100)
@given(
    repetitive(),
    st.sampled_from((8, 12, 40)),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from((1, 7, repeats.WINDOWS)),
)
def test_fuzz_repeated(
    texts: list[bytes], size: int, most: int, keeps_first: bool, windows: int
) -> None:
    members, contexts, owners = members_of(texts, size)
    rows, places, earliest = [], {}, {}
    asked = repeats.WantedWindows(size, most, keeps_first)
    for found in repeats.repeated(members, contexts, asked, most=windows):
        for member, start, stop, count, first in zip(*(one.tolist() for one in found), strict=True):
            text = int(owners[member])
            rows.append((text, start, stop))
            places[text] = max(places.get(text, 0), count)
            earliest[text, start] = int(owners[first])
    wanted = naive_substrings.spans(list(enumerate(texts)), size, most, keeps_first=keeps_first)
    assert covered(rows) == covered([row[:3] for row in wanted])
    for text, start, _, count, first in wanted:
        assert places[text] >= count
        assert earliest[text, start] == first
    for text in {row[0] for row in wanted}:
        assert places[text] == max(row[3] for row in wanted if row[0] == text)


@strategies.fuzz(50)
@given(repetitive(), st.sampled_from((8, 12)))
def test_fuzz_same_contexts(texts: list[bytes], size: int) -> None:
    members, contexts, _ = members_of(texts, size)
    assert repeats.same_contexts(members, contexts, size=size).tolist() == first_equal(
        members, contexts.tobytes(), size
    )
