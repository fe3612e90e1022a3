"""Words of titles, and bodies that a page has twice: equal to plain Python that shares no code."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from gristmill.kernels.html import copies, title_words
from gristmill.kernels.jit.compile import BYTES, kernel
from gristmill.kernels.jit.groups import Uint64s
from tests.support.naive_words import words_of
from tests.support.page_work import SENTENCES, Work
from tests.support.strategies import fuzz

PARTS = (
    "The mill by river grist-mill it’s 水 水車 水車は川の 、 。 ！ （ 　 — … “ ” é É ÀB 3 42% - | "
    "ไทย ไท 한국어 한 、、 x水y &amp; ́ 🙂 ｡ ａ"
).split(" ")
texts = st.lists(st.sampled_from([*PARTS, " ", "\n"]), max_size=40).map("".join)


@kernel(BYTES, BYTES, Uint64s, returns=types.int64)
def _titled(title, text, titles):
    count = title_words.title_words(title, 0, len(title), titles)
    known = title_words.title_bits(titles, count)
    return title_words.titled_words(text, 0, len(text), titles, count, known)


def titled(title: str, text: str) -> int:
    """What the kernels count."""
    data = [np.frombuffer(part.encode(), np.uint8) for part in (title, text)]
    return int(_titled(*data, np.zeros(title_words.TITLE_WORDS, np.uint64)))


def naive_titled(title: str, text: str) -> int:
    """How many of a text's first words are in a title, a pair of characters as half a word."""
    known = set(words_of(title)[: title_words.TITLE_WORDS])
    seen = words_of(text)[: title_words.COMPARED]
    return (sum(1 if pair else 2 for word, pair in seen if (word, pair) in known) + 1) // 2


@fuzz(200)
@given(texts, texts)
def test_words_of_a_title(title: str, text: str) -> None:
    assert titled(title, text) == naive_titled(title, text)
    assert titled(title, title) == naive_titled(title, title)


def test_a_heading_in_chinese_names_the_page() -> None:
    title = "水車のそばの粉屋の話"
    assert titled(f"{title} - 村の新聞", title) == 5  # nine pairs, of ten characters
    page = f"<title>{title} - 村の新聞</title><h2>他の記事</h2><p>短い文。<h1>{title}</h1><p>本文。"
    found = Work(page)
    assert [found.value(k, "place.from_heading") for k in range(5)] == [-3, -2, -1, 0, 1]


BODY = [f"{SENTENCES[0]} {SENTENCES[4]} Number {k}." for k in range(40)]


def naive_copies(texts: list[str], words: list[int], kept: list[bool]) -> list[bool]:
    """What stays of the blocks that are kept."""
    known: set[tuple[tuple[str, bool], ...]] = set()
    stays = []
    total = 0
    for text, count, keep in zip(texts, words, kept, strict=True):
        pairs = list(pairwise(words_of(text)))
        copied = sum(pair in known for pair in pairs)
        copy = (
            count >= copies.LONG
            and 10 * total >= 9 * count
            and bool(pairs)
            and 10 * copied >= 9 * len(pairs)
        )
        stays.append(keep and not copy)
        if keep:
            total += count
            if not copy:
                known |= set(pairs)
    return stays


@fuzz(60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 5, 6, 7, 8, 20]),  # sentences of a block
            st.integers(0, 12),  # the first of them
            st.booleans(),  # whether it is kept
        ),
        max_size=12,
    )
)
def test_copies_are_those_of_plain_python(parts: list[tuple[int, int, bool]]) -> None:
    bodies = [" ".join(BODY[first : first + size]) for size, first, _ in parts]
    kept = np.array([keep for _, _, keep in parts], bool)
    found = Work("".join(f"<p>{body}</p>" for body in bodies))
    assert found.many == len(bodies)
    words = found.counted.counts.words[: found.many]
    stays = copies.leave_copies(found.work.text, found.work.blocks, words, kept)
    assert stays.tolist() == naive_copies(bodies, words.tolist(), kept.tolist())


def test_a_body_that_comes_twice_is_kept_once() -> None:
    paragraphs, whole = BODY[:12], "".join(BODY[:12])  # the copy without white space between
    found = Work("".join(f"<p>{part}" for part in [*paragraphs, whole, "Short.", "Short."]))
    words = found.counted.counts.words[: found.many]
    kept = np.ones(found.many, bool)
    stays = copies.leave_copies(found.work.text, found.work.blocks, words, kept)
    assert np.flatnonzero(~stays).tolist() == [12]
    kept[0] = kept[3] = False  # of which too little is kept
    stays = copies.leave_copies(found.work.text, found.work.blocks, words, kept)
    assert stays.tolist() == kept.tolist()


def test_a_table_of_pairs_that_is_full_takes_no_more() -> None:
    rng = np.random.default_rng(1)
    numbers = " ".join(map(str, rng.integers(0, 1 << 30, 200_000).tolist()))
    found = Work(f"<p>{numbers}.<p>{numbers}.")
    words = found.counted.counts.words[: found.many]
    stays = copies.leave_copies(found.work.text, found.work.blocks, words, np.ones(2, bool))
    assert stays.tolist() == [True, True]  # 200,000 pairs, of which 131,072 are known
