"""The near stage as a whole against a slow stream of one document after another: every way of
verifying, grouping and cutting.
"""

import math
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import MachineError, RecipeError
from gristmill.dedup.duplicates import deduplicate
from gristmill.dedup.settings import Deduplicate, Near
from gristmill.dedup.signatures import SEED
from gristmill.engine.relations import duckdb_with
from gristmill.recipe import parse
from gristmill.tables import schema
from tests.support import naive, naive_folding
from tests.support.duplicates import in_small_pieces, tables, templated
from tests.support.skips import missing


def slow(
    texts: list[str], near: Near, scopes: list[int]
) -> tuple[dict[int, tuple[int, float]], dict[tuple[int, int], float]]:
    """The rule as it is said: each document in turn against others of its buckets, with twins of
    all kernels.

    (who goes for whom at what similarity; every pair that was compared)
    """
    multipliers, addends = naive.permutations(near.numbers, SEED)
    characters = near.unit == "characters"
    plain = [naive_folding.signed_words(text) for text in texts]
    signs = [
        naive.sign(
            text,
            width=near.shingle,
            multipliers=multipliers,
            addends=addends,
            characters=characters,
        )
        for text in plain
    ]
    sets = [
        naive.distinct_shingles(text, width=near.shingle, characters=characters) for text in plain
    ]
    if near.group == "components":
        compared = _slow_pairs(signs, sets, near, scopes)
        threshold = near.threshold if near.verify != "none" else 0.0
        keepers, kept = naive.connect(len(texts), compared, threshold=threshold)
        return {
            row: (keeper, kept[row]) for row, keeper in enumerate(keepers) if keeper != row
        }, compared
    return _slow_stream(signs, sets, near, scopes)


def _like(
    signs: list[tuple[list[int], int]], sets: list[list[int]], near: Near, one: int, other: int
) -> float | None:
    """How like two documents are; null: their signatures say that they are not."""
    places = naive.agreement(signs[one][0], signs[other][0])
    deviation = math.sqrt(near.least * (1 - near.least) / near.numbers)
    if near.verify != "none" and places < near.numbers * (near.least - 4 * deviation):
        return None
    return naive.jaccard(sets[one], sets[other]) if near.verify == "text" else places / near.numbers


def _slow_pairs(
    signs: list[tuple[list[int], int]], sets: list[list[int]], near: Near, scopes: list[int]
) -> dict[tuple[int, int], float]:
    buckets: dict[int, list[int]] = {}
    compared: dict[tuple[int, int], float] = {}
    for number, (signature, count) in enumerate(signs):
        for key in (
            naive.band_keys(signature, scopes[number], bands=near.bands, rows=near.rows)
            if count
            else ()
        ):
            bucket = buckets.setdefault(key, [])
            for other in bucket[: near.candidates]:
                if (similarity := _like(signs, sets, near, number, other)) is not None:
                    compared[number, other] = similarity
            bucket.append(number)
    return compared


def _slow_stream(
    signs: list[tuple[list[int], int]], sets: list[list[int]], near: Near, scopes: list[int]
) -> tuple[dict[int, tuple[int, float]], dict[tuple[int, int], float]]:
    """The first of each bucket, and of these that are kept the most like; where that is none, the
    first kept ones of each bucket.
    """
    buckets: dict[int, list[int]] = {}
    gone: dict[int, tuple[int, float]] = {}
    compared: dict[tuple[int, int], float] = {}
    threshold = near.threshold if near.verify != "none" else 0.0
    for number, (signature, count) in enumerate(signs):
        keys = (
            naive.band_keys(signature, scopes[number], bands=near.bands, rows=near.rows)
            if count
            else []
        )
        held = [buckets.setdefault(key, []) for key in keys]
        firsts = {other for bucket in held for other in bucket[: near.candidates]}
        keepers = {
            other
            for bucket in held
            for other in [entry for entry in bucket if entry not in gone][: near.keepers]
        }
        for part in (firsts, keepers):
            like = {other: _like(signs, sets, near, number, other) for other in sorted(part)}
            found = {
                other: similarity for other, similarity in like.items() if similarity is not None
            }
            compared |= {(number, other): similarity for other, similarity in found.items()}
            near_ones = [
                (similarity, -other)
                for other, similarity in found.items()
                if similarity >= threshold and other not in gone
            ]
            if near_ones:
                similarity, other = max(near_ones)
                gone[number] = (-other, similarity)
                break
        for bucket in held:
            bucket.append(number)
    return gone, compared


WAYS = [
    Near(),
    Near(candidates=1),
    Near(candidates=1, keepers=2),
    Near(candidates=2, keepers=0),
    Near(candidates=2, verify="signatures"),
    Near(candidates=3, bands=16, rows=8),
    Near(threshold=0.9, floor=0.5),
    Near(threshold=0.5),
    Near(unit="characters", shingle=9),
    Near(verify="signatures"),
    Near(verify="none", bands=20, rows=6),
    Near(group="components"),
    Near(group="components", verify="signatures", threshold=0.75),
    Near(candidates=16, bands=64, rows=2, shingle=3),
]


@pytest.mark.parametrize(
    ("place", "scopes"), [*((place, [0, 0]) for place in range(len(WAYS))), (0, [1, 2])]
)
def test_every_way_is_the_slow_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int, scopes: list[int]
) -> None:
    """Cut into small pieces everywhere: many cuts of the keys, chunks of pairs and runs of
    shingles.
    """
    near = WAYS[place]
    in_small_pieces(monkeypatch, 1000)
    texts = templated(90, random.Random(place))
    shards = [texts[:45], texts[45:]]
    settings = Deduplicate(exact=False, near=near)
    deduplicated = deduplicate(
        tables(tmp_path, shards, settings, scopes),
        settings,
        tmp_path / "work",
        opener=duckdb_with(1, 300),
        on_progress=lambda _: None,
    )
    numbers = [schema.first_document(0) + row for row in range(45)] + [
        schema.first_document(1) + row for row in range(45)
    ]
    drops, compared = slow(texts, near, [scopes[0]] * 45 + [scopes[1]] * 45)
    assert len(drops) > 10
    assert {
        row["document"]: (row["keeper"], row["similarity"])
        for row in deduplicated.drops.to_pylist()
    } == {
        numbers[number]: (numbers[keeper], similarity)
        for number, (keeper, similarity) in drops.items()
    }
    found = pq.read_table(deduplicated.pairs).to_pylist()
    assert [((row["document"], row["candidate"]), row["similarity"]) for row in found] == [
        ((numbers[number], numbers[other]), similarity)
        for (number, other), similarity in sorted(compared.items())
    ]


@pytest.mark.parametrize("near", [Near(), Near(group="components"), Near(verify="signatures")])
def test_longest_first_is_the_slow_stream_of_sorted_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: Near
) -> None:
    in_small_pieces(monkeypatch, 1000)
    texts = templated(90, random.Random(5))
    settings = Deduplicate(exact=False, near=near, order="longest")
    order = sorted(range(90), key=lambda number: (-len(texts[number].encode()), number))
    assert order != list(range(90))
    deduplicated = deduplicate(
        tables(tmp_path, [texts[:45], texts[45:]], settings),
        settings,
        tmp_path / "work",
        opener=duckdb_with(1, 300),
        on_progress=lambda _: None,
    )
    numbers = [schema.first_document(number // 45) + number % 45 for number in order]
    drops, compared = slow([texts[number] for number in order], near, [0] * 90)
    assert len(drops) > 10
    assert {
        row["document"]: (row["keeper"], row["similarity"])
        for row in deduplicated.drops.to_pylist()
    } == {
        numbers[number]: (numbers[keeper], similarity)
        for number, (keeper, similarity) in drops.items()
    }
    found = pq.read_table(deduplicated.pairs).to_pylist()
    assert [((row["document"], row["candidate"]), row["similarity"]) for row in found] == [
        ((numbers[number], numbers[other]), similarity)
        for (number, other), similarity in sorted(compared.items())
    ]


def test_a_hot_bucket_costs_no_more_than_its_places(tmp_path: Path) -> None:
    """20,000 equal texts make 8 pairs each, not 200,000,000."""
    settings = Deduplicate(exact=False, near=Near())
    deduplicated = deduplicate(
        tables(tmp_path, [["the same words again and again"] * 20_000], settings),
        settings,
        tmp_path / "work",
        opener=duckdb_with(2, 500),
        on_progress=lambda _: None,
    )
    assert pq.read_metadata(deduplicated.pairs).num_rows == sum(
        min(number, 8) for number in range(20_000)
    )
    assert set(deduplicated.drops["keeper"].to_pylist()) == {0}


def test_a_disk_that_fills_in_the_middle_of_a_sort(tmp_path: Path) -> None:
    """It is told as the machine's, and the same relation runs once there is room."""
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=False
        ).returncode
    ):
        missing("mount", "a small file system cannot be mounted here")
    pick = np.random.default_rng(1)
    table = pa.table(
        {"document": pick.permutation(4_000_000), "value": pick.permutation(4_000_000) / 1.0}
    )
    pq.write_table(table, tmp_path / "valued.parquet")
    del table
    try:
        for spill, fits in ((small, False), (tmp_path / "large", True)):
            with duckdb_with(1, 70)(spill, [tmp_path]) as relations:
                relations.table("valued", [tmp_path / "valued.parquet"], "document, value")
                if fits:
                    (written,) = relations.write("order", tmp_path / "order.parquet")
                    assert pq.read_metadata(written).num_rows == 4_000_000
                else:
                    with pytest.raises(MachineError):
                        relations.write("order", tmp_path / "order.parquet")
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("permutations = 100", r"permutations = 100 is not bands \* rows = 32 \* 4 = 128"),
        (
            "threshold = 0.6\nfloor = 0.7",
            "floor = 0.7: it must be greater than 0 and at most threshold = 0.6",
        ),
        ("floor = nan", "floor = nan"),
        ("candidates = 17", "candidates is a number of documents of a bucket, from 1 to 16"),
        ('verify = "luck"', "Invalid enum value 'luck'"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, keys: str, why: str) -> None:
    text = f'[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n[deduplicate.near]\n{keys}\n'
    with pytest.raises(RecipeError, match=why):
        parse(text, "recipe.toml")
