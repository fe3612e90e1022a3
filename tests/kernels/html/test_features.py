"""Counts, features and the forest: equal to plain Python that shares no code."""

import math
import random
import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.html import features
from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.models import page_forest
from tests.support import naive_blocks
from tests.support.page_work import SENTENCES, Work
from tests.support.strategies import fuzz

OPENINGS = (
    "<p>",
    "<div class='post-content main'>",
    "<div class=commentList>",
    "<h2>",
    "<ul><li>",
    "<li>",
    "</div>",
    "</ul>",
    "<a href=x>",
    "</a>",
    "<table><tr><td>",
    "<td>",
    "</table>",
    "<br><br>",
    "<article>",
    "</article>",
    "<pre>",
    "</pre>",
    "<blockquote>",
    "</blockquote>",
    "<title>The Mill: a heading</title>",
)


pages = st.lists(
    st.tuples(st.sampled_from(OPENINGS), st.sampled_from(SENTENCES)).map("".join), max_size=25
).map("".join)


def letters(text: str) -> int:
    return len(re.sub(r"[ \t\n]", "", text).encode())


def share(part: float, whole: float) -> float:
    return float(np.float32(part) / np.float32(whole)) if whole else -1.0


@fuzz(100)
@given(pages)
def test_counts_and_rows_are_those_of_plain_python(page: str) -> None:
    found, true = Work(page), naive_blocks.build(page)
    assert found.many == len(true)
    size = [max(len(b.text.split()), len(re.findall(r"[぀-龿㐀-䶿]", b.text)) // 2) for b in true]
    seen = [0 if b.flags & 4 else n for b, n in zip(true, size, strict=True)]
    bulk = [0 if b.flags & 4 else letters(b.text) for b in true]
    links = [0 if b.flags & 4 else b.linked for b in true]
    commas = [len(re.findall("[,;、，；،؛]", b.text)) for b in true]
    ends = [len(re.findall("[.!?。！？؟…]", b.text)) for b in true]
    good = [
        not b.flags & 4 and n >= 10 and 3 * b.linked < letters(b.text) and c + e > 0
        for b, n, c, e in zip(true, size, commas, ends, strict=True)
    ]
    prose = [n * g for n, g in zip(size, good, strict=True)]
    ranked = [block.path[-1] if block.path else "" for block in true]
    headed = [bool(re.fullmatch("h[1-6]", name)) for name in ranked]
    for k, block in enumerate(true):
        assert found.value(k, "own.words") == size[k]
        assert found.value(k, "own.ends") == ends[k]
        assert found.value(k, "own.letters") == letters(block.text)
        assert found.value(k, "own.link_share") == share(block.linked, letters(block.text))
        assert found.value(k, "own.depth") == len(block.path)
        closed = re.search(r"""[.!?:")。！？…”」：؟]\s*\Z""", block.text) is not None
        assert found.value(k, "own.shape_end") == closed
        assert found.value(k, "own.capitals") == share(
            len(re.findall("[A-Z]", block.text)), letters(block.text)
        )
        assert found.value(k, "place.words_before") == sum(seen[:k])
        assert found.value(k, "place.place_good") == share(sum(prose[:k]), sum(prose))
        for width in (3, 6, 15):
            span = slice(max(k - width, 0), k + width + 1)
            assert found.value(k, f"window.links_{width}") == share(
                sum(links[span]), sum(bulk[span])
            )
        before = [j for j in range(k + 1) if headed[j]]
        expected = min(k - before[-1], 50) if before else 50
        assert found.value(k, "run.heading_before") == expected
        for offset in (-2, -1, 1):
            near = k + offset
            name = ranked[near] if 0 <= near < len(true) else None
            expected = features.RANK[ELEMENT.get(name, 0)] if name is not None else -2
            assert found.value(k, f"aside.rank{offset:+d}") == expected
        if not block.flags & 4:
            same = sum(other.text == block.text for other in true if not other.flags & 4)
            assert found.value(k, "alike.same_text") == same
        assert found.value(k, "inside.article") == ("article" in block.path)
        assert found.value(k, "inside.p") == ("p" in block.path)
        assert found.value(k, "page.words") == sum(seen)
        assert found.value(k, "page.goods") == sum(good)


def test_what_holds_a_block() -> None:
    page = (
        "<div class=main><div id=post><p>" + SENTENCES[0] + "<p>" + SENTENCES[0] + "</div>"
        "<div class=comments><p><a href=x>Short link</a></div></div>"
    )
    found = Work(page)
    assert found.many == 3
    assert found.value(0, "parent.words") == 34 and found.value(0, "parent.goods") == 2
    assert found.value(2, "parent.link_share") == 1 and found.value(2, "above.comment") == 1
    assert found.value(0, "above.post") == 1 and found.value(0, "above.main") == 1
    assert found.value(0, "chain.up") == 0 and found.value(2, "chain.up") == 1
    assert found.value(2, "branch.words") == 2 and found.value(0, "chain.in_90") == 1
    assert found.value(0, "alike.alike") == 2 and found.value(2, "alike.alike") == 1


Tree = tuple[list[int], list[float], list[float]]  # columns, thresholds, leaves


def tree_of(depth: int, rng: random.Random) -> Tree:
    nodes = (1 << depth) - 1
    return (
        [rng.randrange(6) for _ in range(nodes)],
        [rng.choice([-1.0, 0.0, 0.5, 2.0, math.inf]) for _ in range(nodes)],
        [rng.uniform(-1, 1) for _ in range(nodes + 1)],
    )


def score_of(row: np.ndarray, grown: list[Tree]) -> float:
    total = 0.0
    for columns, thresholds, leaves in grown:
        node = 0
        while node < len(columns):
            node = 2 * node + 1 + (row[columns[node]] > thresholds[node])
        total += float(np.float32(leaves[node - len(columns)]))
    return 1 / (1 + math.exp(-total))


@fuzz(50)
@given(
    st.sampled_from([0, 1, 9, 63, 64, 65, 200, 256, 257, 600]),
    st.integers(0, 4),
    st.integers(1, 8),
    st.integers(0, 1 << 30),
)
def test_a_forest_is_its_trees(count: int, trees: int, depth: int, seed: int) -> None:
    rng = random.Random(seed)
    grown = [tree_of(depth, rng) for _ in range(trees)]
    rows = np.array(
        [[rng.choice([-2.0, 0.0, 0.5, 3.0]) for _ in range(6)] for _ in range(count)], np.float32
    ).reshape(count, 6)
    made = page_forest.Forest(
        depth,
        np.array([c for tree in grown for c in tree[0]], np.int32),
        np.array([t for tree in grown for t in tree[1]], np.float32),
        np.array([leaf for tree in grown for leaf in tree[2]], np.float32),
    )
    scores = page_forest.score(rows, page_forest.make_scorer(made))
    for row, score in zip(rows, scores, strict=True):
        assert score == pytest.approx(score_of(row, grown), rel=1e-12)


def expected_f(limit: float, size: list[float], scores: np.ndarray, beta: float) -> float:
    total = sum(n * score for n, score in zip(size, scores, strict=True))
    held = [(n, s) for n, s in zip(size, scores, strict=True) if s >= limit]
    likely = sum(n * s for n, s in held)
    return (1 + beta**2) * likely / max(sum(n for n, _ in held) + beta**2 * total, 1e-9)


@fuzz(100)
@given(pages, st.integers(0, 1 << 30), st.sampled_from([0.5, 1.0, 1.5]))
def test_a_page_s_threshold_makes_the_expected_f_largest(page: str, seed: int, beta: float) -> None:
    found, rng = Work(page), random.Random(seed)
    scores = np.array([rng.randrange(1000) / 1000 + 0.0005 for _ in range(found.many)])
    size = [
        (0 if block.flags & 4 else found.value(k, "own.words"))
        for k, block in enumerate(naive_blocks.build(page))
    ]
    kept = page_forest.choose(found.work.blocks, found.many, found.counted.counts, scores, beta)
    chosen = scores[kept]
    limits = [s for n, s in zip(size, scores, strict=True) if n and s >= 0.02]
    if limits:
        best = max(expected_f(limit, size, scores, beta) for limit in limits)
        assert expected_f(min(chosen), size, scores, beta) == pytest.approx(best)
    else:
        assert not kept.any()


def test_many_blocks_take_linear_time_and_bounded_memory() -> None:
    start = time.process_time()
    page = "<p>x</p>" * 20_000
    found = Work(page)
    assert found.many == 20_000 and time.process_time() - start < 3
