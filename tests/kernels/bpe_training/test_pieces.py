"""Counting pieces, against a Counter."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.bpe_training.pieces import CHUNK, PieceCounter
from tests.support import naive_bpe_training, strategies

SIZES = st.sampled_from([1, 2, 3, 7, 8, 9, 14, 15, 16, 17, 23, 24, 25, 63, 64, 65, 130])
PIECES = st.one_of(
    st.tuples(st.binary(min_size=1, max_size=1), SIZES).map(lambda one: one[0] * one[1]),
    st.tuples(SIZES, st.integers(0, 3)).map(lambda one: bytes(range(one[0])) + bytes([one[1]])),
    st.binary(min_size=1, max_size=20),
)


def bitmap(marks: list[int]) -> np.ndarray:
    """Marks as kernels.pieces.mark gives them."""
    bits = np.zeros((max(marks, default=0) // 64 + 2) * 64, bool)
    bits[marks] = True
    return np.packbits(bits, bitorder="little").view(np.uint64)


def both(
    batches: list[tuple[bytes, list[bytes]]],
    ours: PieceCounter,
    twin: naive_bpe_training.PieceCounter,
) -> None:
    """Count batches (bytes before the first piece, pieces) by the kernel and by the twin."""
    for before, pieces in batches:
        marks = (len(before) + np.cumsum([0, *map(len, pieces)])).tolist() if pieces else []
        data = before + b"".join(pieces)
        ours.count(bitmap(marks), np.frombuffer(data, np.uint8))
        twin.count(marks, data)


def as_dict(counter: PieceCounter) -> dict[bytes, int]:
    blob, offsets, counts = counter.pieces()
    assert (np.diff(counts) <= 0).all()
    pieces = [blob[offsets[i] : offsets[i + 1]].tobytes() for i in range(len(counts))]
    assert len(set(pieces)) == len(pieces) == len(counter)
    return dict(zip(pieces, counts.tolist(), strict=True))


@strategies.fuzz(60)
@given(st.lists(st.tuples(st.binary(max_size=70), st.lists(PIECES, max_size=40)), max_size=4))
def test_fuzz(batches: list[tuple[bytes, list[bytes]]]) -> None:
    ours, twin = PieceCounter(), naive_bpe_training.PieceCounter()
    both(batches, ours, twin)
    assert as_dict(ours) == twin.counts
    for other in batches:
        more, more_twin = PieceCounter(), naive_bpe_training.PieceCounter()
        both([other], more, more_twin)
        ours.add(more)
        twin.add(more_twin)
    assert as_dict(ours) == twin.counts


def test_more_pieces_than_there_is_room_for() -> None:
    generator = np.random.default_rng(5)
    pieces = [
        generator.integers(0, 256, generator.integers(2, 40)).astype(np.uint8).tobytes()
        for _ in range(60_000)
    ]
    pieces += pieces[::3]
    ours, twin = PieceCounter(), naive_bpe_training.PieceCounter()
    both([(b"", pieces), (b"123", pieces[: CHUNK + 1]), (b"", [b"x" * 3_000_000])], ours, twin)
    assert as_dict(ours) == twin.counts
    ours.add(ours)
    assert as_dict(ours) == {piece: 2 * count for piece, count in twin.counts.items()}


def test_nothing_to_count() -> None:
    counter = PieceCounter()
    counter.count(np.zeros(1, np.uint64), np.empty(0, np.uint8))
    counter.count(bitmap([0, 1, 2]), np.frombuffer(b"ab", np.uint8))
    assert len(counter) == 0
    assert [len(array) for array in counter.pieces()] == [0, 1, 0]
