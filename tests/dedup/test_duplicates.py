"""The dedup rule against slow truth: all-pairs Jaccard on real documents with planted edits, and
the rule one document at a time.
"""

import random
from pathlib import Path

import numpy as np

from gristmill.dedup.settings import Deduplicate, Near
from gristmill.tables import schema
from tests.support.corpora import article
from tests.support.duplicates import edited, find, real_documents
from tests.support.naive_folding import folded, words


def shingles(text: str, width: int = 5) -> frozenset[tuple[str, ...]]:
    own = words(text, signs=True).split()
    if len(own) <= width:
        return frozenset([tuple(own)]) if own else frozenset()
    return frozenset(tuple(own[i : i + width]) for i in range(len(own) - width + 1))


def jaccard(one: frozenset, other: frozenset) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def test_recall_and_precision_against_all_pairs_of_real_documents(
    data: Path, tmp_path: Path, soak: int
) -> None:
    """400 documents; 1,000 under `make soak`."""
    whole, edits = (200, 200) if soak == 1 else (750, 250)
    pick = random.Random(2000)
    texts = real_documents(data)
    pick.shuffle(texts)
    texts = [text[:4000] for text in texts if len(text.split()) > 30][:whole]
    texts += [
        edited(
            pick.choice(texts[:whole]), pick.choice([0.002, 0.005, 0.01, 0.02, 0.03, 0.05]), pick
        )
        for _ in range(edits)
    ]
    settings = Deduplicate(near=Near())
    third = len(texts) // 3
    drops = find(tmp_path, [texts[:third], texts[third : 2 * third], texts[2 * third :]], settings)
    numbers = [
        schema.first_document(shard) + row
        for shard, size in enumerate((third, third, len(texts) - 2 * third))
        for row in range(size)
    ]
    sets = dict(zip(numbers, map(shingles, texts), strict=True))
    # All pairs, by an inverted index over shingles: exact, and shares no code with banding.
    holders: dict[tuple[str, ...], list[int]] = {}
    counts: dict[tuple[int, int], int] = {}
    for number in numbers:
        for shingle in sets[number]:
            for other in holders.setdefault(shingle, []):
                counts[other, number] = counts.get((other, number), 0) + 1
            holders[shingle].append(number)
    alike: dict[int, list[int]] = {}
    for (earlier, later), shared in counts.items():
        if shared / (len(sets[earlier]) + len(sets[later]) - shared) >= 0.8:
            alike.setdefault(later, []).append(earlier)
    kept: set[int] = set()
    wanted: set[int] = set()
    for number in numbers:
        (wanted if any(other in kept for other in alike.get(number, [])) else kept).add(number)
    for number, drop in drops.items():
        assert drop["keeper"] < number
        assert drop["keeper"] not in drops, "a keeper is kept"
        assert drop["similarity"] >= 0.8
        assert abs(drop["similarity"] - jaccard(sets[number], sets[drop["keeper"]])) < 1e-12, (
            "the similarity is the true one"
        )
    assert len(wanted) > 0.6 * edits
    recall = len(wanted & drops.keys()) / len(wanted)
    assert recall >= 0.99, recall


def test_the_rule_one_document_at_a_time(tmp_path: Path) -> None:
    """A slow stream with all earlier documents as candidates: equal wherever LSH and the first four
    find the pairs.
    """
    pick = random.Random(3)
    texts = [article(number, 20) for number in range(40)]
    for _ in range(160):
        texts.append(edited(pick.choice(texts), pick.choice([0.0, 0.003, 0.01]), pick))
    settings = Deduplicate(near=Near(bands=64, rows=2))
    drops = find(tmp_path, [texts[:90], texts[90:]], settings)
    numbers = [*range(90), *(schema.first_document(1) + row for row in range(110))]
    sets = dict(zip(numbers, map(shingles, texts), strict=True))
    plain = dict(zip(numbers, map(folded, texts), strict=True))
    kept: list[int] = []
    for number in numbers:
        found = [(jaccard(sets[number], sets[other]), -other) for other in kept]
        best = max([entry for entry in found if entry[0] >= 0.8], default=None)
        if best is None:
            kept.append(number)
            assert number not in drops
        else:
            assert number in drops
            exact = plain[number] == plain[drops[number]["keeper"]]
            assert (
                drops[number]["reason"] == f"deduplicate.{'exact' if exact else 'near'}_duplicate"
            )


def test_no_chains_a_version_far_from_the_first_stays(tmp_path: Path, soak: int) -> None:
    """150 versions of a page (soak: 400), each a small edit of the one before: never one
    cluster.
    """
    versions = 150 if soak == 1 else 400
    pick = random.Random(4)
    texts = [article("chain", 60)]
    for _ in range(versions):
        texts.append(edited(texts[-1], 0.004, pick))
    drops = find(tmp_path, [texts], Deduplicate(near=Near()))
    sets = list(map(shingles, texts))
    for number, drop in drops.items():
        assert jaccard(sets[number], sets[drop["keeper"]]) >= 0.8
        assert drop["keeper"] not in drops
    assert versions // 50 < len(texts) - len(drops) < versions // 2


def test_adding_shards_changes_no_earlier_verdict(tmp_path: Path) -> None:
    pick = random.Random(5)
    texts = [article(number, 20) for number in range(50)]
    texts += [edited(pick.choice(texts), pick.choice([0.0, 0.004, 0.02]), pick) for _ in range(250)]
    settings = Deduplicate(near=Near())
    whole = find(tmp_path / "whole", [texts[:100], texts[100:200], texts[200:]], settings)
    part = find(tmp_path / "part", [texts[:100], texts[100:200]], settings)
    last = schema.first_document(2)
    assert {number: drop for number, drop in whole.items() if number < last} == part


def test_scopes_are_never_compared(tmp_path: Path) -> None:
    texts = [article(number, 20) for number in range(20)]
    settings = Deduplicate(near=Near())
    assert len(find(tmp_path / "one", [texts, texts], settings)) == 20
    assert find(tmp_path / "two", [texts, texts], settings, [1, 2]) == {}


def test_short_and_empty_texts_are_compared_by_what_they_have(tmp_path: Path) -> None:
    texts = [
        "",
        "!!!",
        "???",
        "!!!",
        "two words",
        "Two, words!",
        "two other words",
        "a",
        "a",
        "\u3042\u3044",
        "\u3042 \u3044",
    ]
    drops = find(tmp_path, [texts], Deduplicate(near=Near()))
    # Equal normalised texts are equal; those that normalise to nothing are compared as they are.
    assert {number: drop["keeper"] for number, drop in drops.items()} == {3: 1, 5: 4, 8: 7, 10: 9}
    assert all(drop["similarity"] == 1.0 for drop in drops.values())


def test_all_documents_equal_one_document_and_none(tmp_path: Path) -> None:
    settings = Deduplicate(near=Near())
    same = find(tmp_path / "same", [[article(1)] * 300], settings)
    assert {drop["keeper"] for drop in same.values()} == {0}
    assert len(same) == 299
    near_only = find(tmp_path / "near", [[article(1)] * 300], Deduplicate(exact=False, near=Near()))
    assert {drop["keeper"] for drop in near_only.values()} == {0}
    assert {drop["reason"] for drop in near_only.values()} == {"deduplicate.near_duplicate"}
    assert find(tmp_path / "one", [[article(1)]], settings) == {}
    assert find(tmp_path / "none", [[]], settings) == {}


def test_an_exact_copy_of_a_near_copy_names_the_document_that_stays(tmp_path: Path) -> None:
    first = article(1, 40)
    second = edited(first, 0.01, random.Random(1))
    drops = find(tmp_path, [[first, second, second.upper()]], Deduplicate(near=Near()))
    assert [drops[number]["keeper"] for number in (1, 2)] == [0, 0]
    assert drops[1]["similarity"] == drops[2]["similarity"] < 1.0
    assert drops[2]["reason"] == "deduplicate.near_duplicate"


def test_bitmaps_drop_no_key_that_occurs_twice() -> None:
    from gristmill.kernels.hashing.band_keys import Repeated

    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**63, 200_000, dtype=np.int64).view(np.uint64)
    keys[1::1000] = keys[::1000]
    repeated = Repeated(len(keys))
    repeated.add(keys)
    values, counts = np.unique(keys, return_counts=True)
    mask = repeated.mask(keys)
    assert mask[np.isin(keys, values[counts > 1])].all()
    assert mask[np.isin(keys, values[counts == 1])].mean() < 0.2
