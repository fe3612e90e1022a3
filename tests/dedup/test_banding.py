"""The curve of bands and rows: known values, the chance itself, and what is chosen against trying
everything.
"""

import json
import random

import pytest
from typer.testing import CliRunner

from gristmill.cli.app import app
from gristmill.dedup import curve
from gristmill.dedup.banding import Shape, choose, lines
from gristmill.errors import RecipeError
from tests.support import naive

NUMBERS = random.Random(1)


def chance(shape: Shape, similarity: float) -> float:
    return 1 - (1 - similarity**shape.rows) ** shape.bands


def mean(shape: Shape, low: float, high: float, steps: int = 4000) -> float:
    """By Simpson's rule."""
    step = (high - low) / steps
    ends = chance(shape, low) + chance(shape, high)
    inner = sum((4 if i % 2 else 2) * chance(shape, low + i * step) for i in range(1, steps))
    return (ends + inner) * step / 3 / (high - low)


def test_known_values() -> None:
    told = curve(bands=[32, 16], rows=[4, 8])
    values = [
        [point["candidate"] for point in shape["points"] if point["similarity"] in (0.5, 0.9)]
        for shape in told["shapes"]
    ]
    assert [[round(value, 3) for value in row] for row in values] == [[0.873, 1.0], [0.061, 1.0]]
    # Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4.2: b = 20, r = 5.
    book = {0.2: 0.006, 0.3: 0.047, 0.4: 0.186, 0.5: 0.470, 0.6: 0.802, 0.7: 0.975, 0.8: 0.9996}
    for point in curve(bands=[20], rows=[5])["shapes"][0]["points"]:
        if point["similarity"] in book:
            assert abs(point["candidate"] - book[point["similarity"]]) < 6e-4


@pytest.mark.parametrize("similarity", [0.3, 0.5, 0.7])
def test_sets_of_such_similarity_meet_as_often(similarity: float) -> None:
    """The curve is no formula alone: drawn signatures, that agree in a number with the chance s,
    share a band so often.
    """
    shape, rounds = Shape(8, 3), 4000
    met = 0
    for _ in range(rounds):
        one = [NUMBERS.getrandbits(32) for _ in range(shape.permutations)]
        other = [
            value if NUMBERS.random() < similarity else NUMBERS.getrandbits(32) for value in one
        ]
        keys = [set(naive.band_keys(numbers, 0, bands=8, rows=3)) for numbers in (one, other)]
        met += bool(keys[0] & keys[1])
    wanted = float(shape.candidate(similarity))
    assert abs(met / rounds - wanted) < 4 * (wanted * (1 - wanted) / rounds) ** 0.5


@pytest.mark.parametrize(
    "shape", [Shape(32, 4), Shape(16, 8), Shape(1, 1), Shape(450, 9), Shape(1, 128)]
)
@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.95])
def test_shares_are_means_of_the_curve(shape: Shape, threshold: float) -> None:
    assert abs(shape.false(threshold) - mean(shape, 0.0, threshold)) < 1e-5
    assert abs(shape.missed(threshold) - 1 + mean(shape, threshold, 1.0)) < 1e-5
    told = curve(bands=[shape.bands], rows=[shape.rows], threshold=threshold)["shapes"][0]
    assert abs(told["missed_at"] - 1 + chance(shape, threshold)) < 1e-12
    assert abs(chance(shape, told["middle"]) - 0.5) < 1e-9


@pytest.mark.parametrize(
    ("threshold", "budget", "permutations"), [(0.8, 0.05, 24), (0.5, 0.2, 30), (0.9, 0.3, 16)]
)
def test_the_best_of_all_bands_and_rows_is_chosen(
    threshold: float, budget: float, permutations: int
) -> None:
    every = [
        Shape(bands, rows)
        for rows in range(1, permutations + 1)
        for bands in range(1, permutations // rows + 1)
    ]
    fitting = [shape for shape in every if mean(shape, 0.0, threshold, 400) <= budget]
    missed = {shape: 1 - mean(shape, threshold, 1.0, 400) for shape in fitting}
    chosen = choose(threshold, budget, permutations)
    assert chosen[0] == min(fitting, key=lambda shape: missed[shape])
    assert [missed[shape] for shape in chosen] == sorted(missed[shape] for shape in chosen)
    assert (
        len({shape.rows for shape in chosen})
        == len(chosen)
        == len({shape.rows for shape in fitting})
    )
    assert set(chosen) <= set(fitting)


def test_a_larger_budget_misses_less() -> None:
    missed = [
        curve(threshold=0.8, budget=budget)["shapes"][0]["missed"]
        for budget in (0.001, 0.01, 0.1, 0.5)
    ]
    assert missed == sorted(missed, reverse=True)
    assert missed[0] > 0.1
    assert missed[-1] < 1e-6


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "nothing to draw"),
        ({"threshold": 0.8}, "nothing to draw"),
        ({"bands": [1], "rows": []}, "1 bands, 0 rows"),
        ({"bands": [0], "rows": [1]}, "must be at least 1"),
        ({"bands": [1] * 9, "rows": [1] * 9}, "at most 8"),
        ({"threshold": 1.0, "budget": 0.1}, "between 0 and 1"),
        ({"budget": 0.1}, "give --threshold"),
        ({"budget": 0.1, "threshold": 0.5, "bands": [1], "rows": [1]}, "neither --bands"),
        ({"budget": 0.0, "threshold": 0.5}, "within a budget"),
        ({"budget": 0.1, "threshold": 0.5, "permutations": 5000}, "at most 4096"),
    ],
)
def test_what_cannot_be_drawn_is_refused(asked: dict, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        curve(**asked)


def test_the_drawing_has_the_curve_where_it_is() -> None:
    drawn = lines(curve(bands=[32, 1], rows=[4, 1], threshold=0.8))
    field = [line[6:] for line in drawn[:11]]
    for row, line in enumerate(field):
        for column, mark in enumerate(line):
            height = (10 - row) / 10
            if mark == "a":
                assert abs(chance(Shape(32, 4), column / 60) - height) <= 0.05 + 1e-9
            elif mark == "b":
                assert abs(column / 60 - height) <= 0.05 + 1e-9
            else:
                assert mark == " " or (mark == ":" and column == 48)
    assert sum(line.count("a") for line in field) == 61
    assert drawn[14] == "similarity    a 32 x 4     b 1 x 1"
    assert "      0.50       0.873       0.500" in drawn


def test_the_verb_prints_the_same() -> None:
    shown = CliRunner().invoke(app, ["curve", "--threshold", "0.8", "--budget", "0.1"])
    told = curve(threshold=0.8, budget=0.1)
    assert shown.output.splitlines() == lines(told)
    best = told["shapes"][0]
    assert lines(told)[-1] == f"best: bands = {best['bands']}, rows = {best['rows']}"
    as_json = CliRunner().invoke(
        app, ["curve", "--bands", "32", "--rows", "4", "--bands", "16", "--rows", "8", "--json"]
    )
    assert json.loads(as_json.output) == curve(bands=[32, 16], rows=[4, 8])
