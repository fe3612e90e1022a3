"""One template whose pages lie round the threshold: what all pairs would drop goes, nothing else
does, and a run over the result drops nothing.
"""

import random
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from gristmill import run
from gristmill.dedup import DuplicateIndex
from gristmill.dedup.settings import Deduplicate, Near
from tests.support import naive
from tests.support.corpora import jsonl
from tests.support.duplicates import find

WORDS, CHANGED, WIDTH = 400, 5, 5


class Pages(NamedTuple):
    """Pages of one template."""

    texts: list[str]
    struck: np.ndarray  # (n, shingles) float32: 1 where a page has a shingle of its own


def template(count: int, seed: int) -> Pages:
    """Pages of 400 words, 5 of which are no other page's: two pages share 0.7 to 0.9 of their
    shingles, one pair in nine 0.8 or more.
    """
    pick = random.Random(seed)
    frame = [f"word{number}" for number in range(WORDS)]
    struck = np.zeros((count, WORDS - WIDTH + 1), np.float32)
    texts = []
    for page in range(count):
        words = list(frame)
        for place in pick.sample(range(WORDS), CHANGED):
            words[place] = f"own{pick.randrange(10**12)}"
            struck[page, max(0, place - WIDTH + 1) : place + 1] = 1
        texts.append(" ".join(words))
    return Pages(texts, struck)


def all_pairs(pages: Pages) -> set[int]:
    """Who is kept where each page is compared with every kept one before it: the shingles of no two
    pages are equal but for the template's.
    """
    kept: list[int] = []
    sizes = pages.struck.sum(axis=1)
    every = pages.struck.shape[1]
    held = np.empty((0, every), np.float32)
    for page, own in enumerate(pages.struck):
        shared = every - sizes[page] - sizes[kept] + held @ own
        if not (shared >= 0.8 * (2 * every - shared)).any():
            kept.append(page)
            held = pages.struck[kept]
    return set(kept)


def shingles(text: str) -> set:
    words = text.split()
    return {tuple(words[at : at + WIDTH]) for at in range(len(words) - WIDTH + 1)}


def judge(pages: Pages, drops: dict[int, tuple[int, float]]) -> float:
    """The share of what all pairs drop that stays.

    Each drop must be right: for an earlier page that is kept, at the similarity that is said.
    """
    held: dict[int, set] = {}
    for page, (keeper, similarity) in drops.items():
        assert keeper < page and keeper not in drops
        if keeper not in held:
            held[keeper] = shingles(pages.texts[keeper])
        assert similarity == naive.jaccard(shingles(pages.texts[page]), held[keeper]) >= 0.8  # type: ignore[arg-type]
    wanted = set(range(len(pages.texts))) - all_pairs(pages)
    return len(wanted - drops.keys()) / len(wanted)


def dropped(folder: Path, texts: list[str], near: Near) -> dict[int, tuple[int, float]]:
    found = find(folder, [texts], Deduplicate(exact=False, near=near))
    return {page: (drop["keeper"], drop["similarity"]) for page, drop in found.items()}


def test_what_all_pairs_drop_goes_and_a_run_over_the_result_drops_nothing(tmp_path: Path) -> None:
    pages = template(1500, 1)
    drops = dropped(tmp_path / "first", pages.texts, Near())
    assert judge(pages, drops) <= 0.005
    kept = [text for page, text in enumerate(pages.texts) if page not in drops]
    assert dropped(tmp_path / "again", kept, Near()) == {}
    # The first documents of buckets alone leave many.
    assert judge(pages, dropped(tmp_path / "firsts", pages.texts, Near(keepers=0))) > 0.05
    with DuplicateIndex(None, exact=False) as index:
        said = [
            verdict
            for start in (0, 10, 700)
            for verdict in index.add_batch(pages.texts[start : {0: 10, 10: 700, 700: 1500}[start]])
        ]
    assert {
        verdict.document: (verdict.keeper, verdict.similarity) for verdict in said if verdict.reason
    } == drops


RECIPE = """
[[source]]
name = "web"
files = [FILES]
[deduplicate]
exact = false
index = true
against = [AGAINST]
near = {}
"""


def test_a_template_over_several_crawls_is_that_of_one_run(tmp_path: Path) -> None:
    pages = template(900, 2)
    for crawl in range(3):
        (tmp_path / f"{crawl}.jsonl").write_bytes(
            jsonl([{"text": text} for text in pages.texts[300 * crawl : 300 * crawl + 300]])
        )

    def kept(name: str, crawls: list[int], against: list[int]) -> set[int]:
        recipe = tmp_path / f"{name}.toml"
        files, older = (
            ", ".join(f'"{form}"' for form in forms)
            for forms in ([f"{c}.jsonl" for c in crawls], [f"c{c}" for c in against])
        )
        recipe.write_text(RECIPE.replace("FILES", files).replace("AGAINST", older))
        run(recipe, out=tmp_path / name, workers=1)
        rows = [
            row
            for path in sorted((tmp_path / name / "verdicts").iterdir())
            for row in pq.read_table(path).to_pylist()
        ]
        return {300 * crawls[0] + place for place, row in enumerate(rows) if row["reason"] is None}

    whole = kept("whole", [0, 1, 2], [])
    assert len(whole - all_pairs(pages)) <= 0.005 * (900 - len(whole))
    assert (
        set.union(*(kept(f"c{crawl}", [crawl], list(range(crawl))) for crawl in range(3))) == whole
    )


@pytest.mark.soak
@pytest.mark.parametrize("count", [1_000, 10_000, 50_000])
def test_a_template_of_50_000_pages(tmp_path: Path, count: int) -> None:
    pages = template(count, 3)
    start = time.perf_counter()
    drops = dropped(tmp_path / "first", pages.texts, Near())
    seconds = time.perf_counter() - start
    missed = judge(pages, drops)
    kept = [text for page, text in enumerate(pages.texts) if page not in drops]
    again = dropped(tmp_path / "again", kept, Near())
    print(
        f"\n{count} pages: {len(kept)} kept, all pairs keep {len(all_pairs(pages))}; "
        f"{missed:.3%} missed; again {len(again)}; {seconds:.0f} s"
    )
    assert missed <= 0.005 and not again
