"""Bands and rows: the chance that a pair of documents becomes a candidate, and the best bands and
rows for a threshold.

Two documents of Jaccard similarity s agree in each number of their signatures with chance s (Broder
1997). They share a band of r numbers with chance s^r, and at least one of b bands with chance

    candidate(s) = 1 - (1 - s^r)^b

For a threshold T, two shares measure the cost and the loss:

    false     the mean of candidate(s) over s from 0 to T: the share of pairs below the threshold
              that are compared in vain, if their similarities are uniformly distributed
    missed    the mean of 1 - candidate(s) over s from T to 1: the share of pairs at or above the
              threshold that are never compared, likewise

In real corpora similarities are not uniformly distributed: most are near 0, so the real share of
false candidates is far smaller than `false`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gristmill.errors import RecipeError

PERMUTATIONS = 128
MOST_PERMUTATIONS = 4096  # what `[deduplicate] near` takes
POINTS = 2000  # for each mean, by the midpoint rule
SHOWN = 5  # choices: the best first
MARKS = "abcdefgh"
WIDTH, HEIGHT = 61, 11  # of the drawing, in characters


class Shape(NamedTuple):
    """How a signature is split into bands."""

    bands: int
    rows: int

    @property
    def permutations(self) -> int:
        """Return numbers in a signature."""
        return self.bands * self.rows

    def candidate(self, similarity: np.ndarray | float) -> Any:
        """Return the chance that a pair of this similarity becomes a candidate."""
        return -np.expm1(self._shares_none(similarity))

    def _shares_none(self, similarity: np.ndarray | float) -> Any:
        """Return the logarithm of the chance to share no band; a logarithm, so that chances very
        near 0 and very near 1 keep their precision.
        """
        with np.errstate(divide="ignore"):  # of equal documents it is -inf
            return self.bands * np.log1p(-(np.asarray(similarity, np.float64) ** self.rows))

    def false(self, threshold: float) -> float:
        """Return the share of pairs below the threshold that become candidates."""
        return float(self.candidate(_between(0.0, threshold)).mean())

    def missed(self, threshold: float) -> float:
        """Return the share of pairs at or above the threshold that do not become candidates."""
        return float(np.exp(self._shares_none(_between(threshold, 1.0))).mean())


def curve(
    *,
    bands: Sequence[int] = (),
    rows: Sequence[int] = (),
    threshold: float | None = None,
    budget: float | None = None,
    permutations: int = PERMUTATIONS,
) -> dict[str, Any]:
    """Return the chance that a pair becomes a candidate, by its similarity: for each of `bands`
    with its `rows`, or for the best choices.

    With a `budget`, bands and rows are chosen: at most `permutations` numbers in all, at most the
    share `budget` of the pairs below the threshold as candidates (`false`), and of those choices
    the ones with the smallest share of missed pairs (`missed`). For each number of rows, the choice
    has the most bands that fit; the best choice is first.

    Returns `shapes`, each with `bands`, `rows`, `permutations`, `middle` (the similarity at which
    half of the pairs become candidates), `points` (similarity, candidate), and with a threshold
    also `false`, `missed` and `missed_at` (at the threshold itself). Raises RecipeError for
    arguments that are out of range or contradict each other, and if no bands and rows fit.
    """
    if len(bands) != len(rows):
        raise RecipeError(f"{len(bands)} bands, {len(rows)} rows: give the same number of both")
    if len(bands) > len(MARKS):
        raise RecipeError(f"{len(bands)} curves: at most {len(MARKS)} can be drawn together")
    if (
        any(number < 1 for number in (*bands, *rows, permutations))
        or permutations > MOST_PERMUTATIONS
    ):
        raise RecipeError(
            f"bands, rows and permutations must be at least 1, permutations at most "
            f"{MOST_PERMUTATIONS}"
        )
    if threshold is not None and not 0.0 < threshold < 1.0:
        raise RecipeError(f"threshold = {threshold}: write a similarity between 0 and 1")
    shapes = [Shape(*shape) for shape in zip(bands, rows, strict=True)]
    if budget is not None:
        if threshold is None or shapes:
            raise RecipeError(
                "a budget chooses bands and rows for a threshold: give --threshold, and "
                "neither --bands nor --rows"
            )
        shapes = choose(threshold, budget, permutations)[:SHOWN]
    elif not shapes:
        raise RecipeError("nothing to draw: give --bands and --rows, or --threshold and --budget")
    return {
        "threshold": threshold,
        "budget": budget,
        "shapes": [_match_curve(shape, threshold) for shape in shapes],
    }


def choose(threshold: float, budget: float, permutations: int) -> list[Shape]:
    """For each number of rows the most bands within the budget; those with the fewest missed pairs
    first, of equal ones those with the shortest signature.

    Raises RecipeError if nothing fits.
    """
    fitting = []
    for rows in range(1, permutations + 1):
        # More bands give more false candidates and fewer missed pairs, so a binary search finds
        # the most bands that fit.
        least, most = 0, permutations // rows
        while least < most:
            middle = (least + most + 1) // 2
            if Shape(middle, rows).false(threshold) <= budget:
                least = middle
            else:
                most = middle - 1
        if least:
            fitting.append(Shape(least, rows))
    if not fitting:
        raise RecipeError(
            f"no bands and rows of at most {permutations} permutations are within a budget of "
            f"{budget} below {threshold}: raise one of them"
        )
    return sorted(fitting, key=lambda shape: (shape.missed(threshold), shape.permutations))


def _between(low: float, high: float) -> np.ndarray:
    return low + (high - low) * (np.arange(POINTS) + 0.5) / POINTS


def _match_curve(shape: Shape, threshold: float | None) -> dict[str, Any]:
    steps = [step / 20 for step in range(21)]
    entry: dict[str, Any] = {
        "bands": shape.bands,
        "rows": shape.rows,
        "permutations": shape.permutations,
        "middle": (1.0 - 0.5 ** (1.0 / shape.bands)) ** (1.0 / shape.rows),
        "points": [
            {"similarity": step, "candidate": float(shape.candidate(step))} for step in steps
        ],
    }
    if threshold is not None:
        entry["false"] = shape.false(threshold)
        entry["missed"] = shape.missed(threshold)
        entry["missed_at"] = 1.0 - float(shape.candidate(threshold))
    return entry


def lines(curves: dict[str, Any]) -> list[str]:
    """Return what `curve` returned as lines of text: a drawing and a table."""
    shapes = [Shape(entry["bands"], entry["rows"]) for entry in curves["shapes"]]
    names = [
        f"{mark} {shape.bands} x {shape.rows}" for mark, shape in zip(MARKS, shapes, strict=False)
    ]
    out = [
        *_draw(shapes, curves["threshold"]),
        "",
        "similarity" + "".join(f"{name:>12}" for name in names),
    ]
    for place, point in enumerate(curves["shapes"][0]["points"]):
        values = [entry["points"][place]["candidate"] for entry in curves["shapes"]]
        out.append(f"{point['similarity']:10.2f}" + "".join(f"{value:12.3f}" for value in values))
    rows = [("half at", "middle"), ("numbers", "permutations")]
    if curves["threshold"] is not None:
        rows += [
            ("false", "false"),
            ("missed", "missed"),
            (f"  at {curves['threshold']:g}", "missed_at"),
        ]
    for name, key in rows:
        values = [entry[key] for entry in curves["shapes"]]
        out.append(
            f"{name:10}"
            + "".join(
                f"{value:12}" if isinstance(value, int) else f"{value:12.4f}" for value in values
            )
        )
    if curves["budget"] is not None:
        best = curves["shapes"][0]
        out += ["", f"best: bands = {best['bands']}, rows = {best['rows']}"]
    return out


def _draw(shapes: list[Shape], threshold: float | None) -> list[str]:
    """Return the curves over similarities from 0 to 1, and the threshold as a line of colons. Where
    two curves cross, the first is drawn.
    """
    field = [[" "] * WIDTH for _ in range(HEIGHT)]
    if threshold is not None:
        for row in field:
            row[round(threshold * (WIDTH - 1))] = ":"
    for mark, shape in reversed(list(zip(MARKS, shapes, strict=False))):
        for column in range(WIDTH):
            height = round(float(shape.candidate(column / (WIDTH - 1))) * (HEIGHT - 1))
            field[HEIGHT - 1 - height][column] = mark
    drawn = [
        f"{1 - row / (HEIGHT - 1):4.1f} |{''.join(line).rstrip()}" for row, line in enumerate(field)
    ]
    ticks = "".join(f"{tick / 5:<{(WIDTH - 1) // 5}.1f}" for tick in range(6))
    return [*drawn, "     +" + "-" * WIDTH, "      " + ticks.rstrip()]
