"""Benchmark items in documents, against sets of words."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.decontaminate import items, ngrams, overlap
from gristmill.kernels.unicode import normalised
from tests.support import naive, strategies


def buffers(batch: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Texts, normalised by the kernel."""
    return normalised.normalise(*strategies.buffers(batch))


def check(
    texts: list[str],
    parts: list[str],
    *,
    width: int,
    mask: int = ngrams.ALL,
    floor: float = 0.0,
    room: int = 1 << 16,
    most: int = 0,
) -> overlap.Overlaps:
    item_of = np.arange(len(parts), dtype=np.int32) // 2
    index = items.build(*buffers(parts), width=width, mask=mask, item_of=item_of, most=most)
    found = overlap.find_overlap(*buffers(texts), index, item_of, floor=floor, hits=True, room=room)
    offsets, hits = overlap.count_hits(found, index)
    data = index.data.tobytes()
    spelled = [
        tuple(data[start : start + length].decode().split(" "))
        for start, length in zip(index.starts.tolist(), index.lengths.tolist(), strict=True)
    ]
    rows = np.column_stack(
        [found.documents, found.parts, found.matched, found.firsts, found.lasts]
    ).tolist()
    normalised = [naive.normalise(part) for part in parts]
    aside = naive.build(normalised, item_of.tolist(), width=width, most=most)
    for place, text in enumerate(texts):
        twin = naive.find_overlap(
            naive.normalise(text),
            normalised,
            item_of.tolist(),
            width=width,
            floor=floor,
            aside=aside,
        )
        assert (found.overlap[place], found.items[place], found.words[place]) == twin[:3]
        own = [number for number, row in enumerate(rows) if row[0] == place]
        assert [tuple(rows[number][1:]) for number in own] == twin.rows
        assert [
            [spelled[hit] for hit in hits[offsets[number] : offsets[number + 1]]] for number in own
        ] == naive.hits_of(twin)
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], list[str], int]:
    """Texts of few words, parts that are pieces of them or of the same words; or any texts."""
    words = draw(
        st.lists(
            st.one_of(
                st.sampled_from(("a", "b", "cc", "中", "x" * 9, "y" * 40)), strategies.fragments()
            ),
            min_size=1,
            max_size=4,
        )
    )
    few = st.lists(st.sampled_from(words), max_size=40).map(" ".join)
    texts = draw(strategies.batches(st.one_of(few, few, strategies.texts())))
    pieces = [few]
    if longest := max(texts, key=len, default=""):
        spots = st.integers(0, len(longest) - 1)
        pieces.append(
            st.tuples(spots, st.integers(1, 60)).map(
                lambda spot: longest[spot[0] : spot[0] + spot[1]]
            )
        )
    return texts, draw(st.lists(st.one_of(*pieces), max_size=8)), draw(st.integers(2, 6))


@strategies.fuzz(250)
@given(
    cases(),
    st.sampled_from((0.0, 0.3, 1.0)),
    st.sampled_from((ngrams.ALL, ngrams.ALL, 0, 3)),
    st.sampled_from((1, 1 << 16)),
    st.sampled_from((0, 0, 1, 2)),
)
@example((["a b c d"], ["b c", "a b c d"], 3), 0.0, 0, 1, 0)
@example((["a b c d"], ["b c", "a b c d", "x", "b c d", "b c", "a b c d"], 3), 0.0, 0, 1, 1)
def test_fuzz_overlap(
    case: tuple[list[str], list[str], int], floor: float, mask: int, room: int, most: int
) -> None:
    """`mask` makes all hashes equal, or but four: bytes decide. `room` for one row: the kernel
    stops and goes on. `most` sets n-grams aside.
    """
    texts, parts, width = case
    check(texts, parts, width=width, mask=mask, floor=floor, room=room, most=most)


@strategies.fuzz(250)
@given(strategies.slices())
@example((["Ab, 中文c-d"], strategies.pa.array(["Ab, 中文c-d"])))
def test_fuzz_locate(drawn: tuple[list[str], object]) -> None:
    batch, column = drawn
    start_of = strategies.utf8_buffers(column)[0]
    offsets, starts, stops = normalised.locate(*strategies.utf8_buffers(column))
    assert (len(starts), len(stops)) == (offsets[-1], offsets[-1])
    for place, (begin, end) in enumerate(pairwise(offsets.tolist())):
        base = int(start_of[place])
        got = [
            (start - base, stop - base)
            for start, stop in zip(
                starts[begin:end].tolist(), stops[begin:end].tolist(), strict=True
            )
        ]
        assert got == naive.locate(batch[place])
        raw = batch[place].encode()
        assert [
            naive.normalise(raw[start:stop].decode()) for start, stop in got
        ] == naive.normalise(batch[place]).split()


def test_a_part_in_two_pieces_and_one_that_stands_twice() -> None:
    parts = [
        "one two three four five six",
        "one two three four five six",
        "four five six seven",
        "alone",
        "",
    ]
    found = check(
        [
            "six. ONE two; three four (five)",
            "x four five six seven four five six seven",
            "",
            "alone",
        ],
        parts,
        width=3,
    )
    assert found.overlap.tolist() == [0.75, 1.0, 0.0, 0.0]
    assert found.items.tolist() == [1, 2, 0, 0]


def test_no_parts_no_texts() -> None:
    check(["a b c"], [], width=3)
    check([], ["a b c"], width=3)
    check(["a b c"], ["", "a"], width=3)
    with pytest.raises(ValueError, match="2 to 63"):
        items.build(*buffers(["a"]), width=1)


def test_widths_at_their_limits() -> None:
    words = [f"w{number}" for number in range(130)]
    check(
        [" ".join(words)],
        [" ".join(words[5:100]), " ".join(words[40:103]), " ".join(words[3:65])],
        width=63,
    )
    check([" ".join(words)], [" ".join(words[5:100]), "w4 w5", "w5 w7"], width=2)


def timed(texts: list[str], index: items.Index, item_of: np.ndarray, **ways: object) -> float:
    """Seconds of the faster of two."""
    given = buffers(texts)
    taken = []
    for _ in range(2):
        start = time.process_time()
        overlap.find_overlap(*given, index, item_of, **ways)
        taken.append(time.process_time() - start)
    return min(taken)


def test_hostile_texts_take_linear_time() -> None:
    """A document that is the benchmark over and over, a template of 10,000 items, long words, a
    million digits.
    """
    template = " ".join(f"t{number}" for number in range(60))
    parts = [f"{template} question {number}" for number in range(10_000)]
    parts += ["d " * 12, " ".join("5" * 40)]
    index = items.build(*buffers(parts), width=13)
    item_of = np.arange(len(parts), dtype=np.int32)
    assert len(index.list_offsets) < 20_100  # n-grams of the template have one list
    plain = timed([" ".join(f"p{number % 977}" for number in range(200_000))], index, item_of)
    hostile = {
        "the template again and again": f"{template} " * 3_000,
        "digits": "5" * 1_000_000,
        "digits apart": "5 " * 500_000,
        "digits with dots": "5." * 500_000,
        "long words": ("z" * 70_000 + " ") * 14,
        "an item of one word again and again": "d " * 500_000,
    }
    for name, text in hostile.items():
        assert timed([text], index, item_of) < 20 * plain + 0.2, name
    many = [f"{template} x"] * 200
    assert timed(many, index, item_of, floor=0.99) < 200 * 0.005
