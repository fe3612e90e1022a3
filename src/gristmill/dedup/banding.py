"""Bands and rows: how likely a pair of documents becomes a candidate, and which bands and rows do
for a threshold.

Two documents of Jaccard similarity s agree in each number of their signatures with chance s (Broder
1997). They share a band of r numbers with chance s^r, and at least one of b bands with chance

    candidate(s) = 1 - (1 - s^r)^b

For a threshold T two shares tell what that costs and what it loses:

    false     the mean of candidate(s) over s from 0 to T: of pairs below the threshold, their
              similarities spread evenly, the
              share that is compared for nothing
    missed    the mean of 1 - candidate(s) over s from T to 1: of pairs at or above it, spread
              evenly, the share never compared

Real corpora are not spread evenly: most pairs lie near 0, so the false share of a corpus is far
smaller than `false`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gristmill.errors import RecipeError

PERMUTATIONS = 128
MOST_PERMUTATIONS = 4096  # what `[deduplicate] near` takes
POINTS = 2000  # of a mean, by the midpoint rule
SHOWN = 5  # the best choice and its runners-up
MARKS = "abcdefgh"
WIDTH, HEIGHT = 61, 11  # of the drawing, in characters


class Shape(NamedTuple):
    """How a signature is cut."""

    bands: int
    rows: int

    @property
    def permutations(self) -> int:
        """Numbers in a signature."""
        return self.bands * self.rows

    def candidate(self, similarity: np.ndarray | float) -> Any:
        """The chance that a pair of such a similarity becomes a candidate."""
        return -np.expm1(self._shares_none(similarity))

    def _shares_none(self, similarity: np.ndarray | float) -> Any:
        """The logarithm of the chance to share no band: so that neither very small nor very large
        chances are rounded off.
        """
        with np.errstate(divide="ignore"):  # of equal documents it is -inf
            return self.bands * np.log1p(-(np.asarray(similarity, np.float64) ** self.rows))

    def false(self, threshold: float) -> float:
        """The share of pairs below the threshold that become candidates."""
        return float(self.candidate(_between(0.0, threshold)).mean())

    def missed(self, threshold: float) -> float:
        """The share of pairs at or above the threshold that do not."""
        return float(np.exp(self._shares_none(_between(threshold, 1.0))).mean())


def curve(
    *,
    bands: Sequence[int] = (),
    rows: Sequence[int] = (),
    threshold: float | None = None,
    budget: float | None = None,
    permutations: int = PERMUTATIONS,
) -> dict[str, Any]:
    """How likely pairs become candidates, by their similarity: for each of `bands` with its `rows`,
    or for the best choices.

    With a `budget`, bands and rows are chosen: at most `permutations` numbers in all, no more than
    `budget` of the pairs below the threshold as candidates (`false`), and of these the smallest
    share of pairs at or above it that is missed (`missed`). For every number of rows the most bands
    that fit compete; the best stands first, its runners-up follow.

    Returns `shapes`: for each `bands`, `rows`, `permutations`, `middle` (the similarity at which
    half of the pairs become candidates), `points` (similarity, candidate), and where a threshold is
    given `false`, `missed` and `missed_at` (at the threshold itself). Raises RecipeError for what
    cannot be done.
    """
    if len(bands) != len(rows):
        raise RecipeError(
            f"{len(bands)} bands, {len(rows)} rows: give as many of one as of the other"
        )
    if len(bands) > len(MARKS):
        raise RecipeError(f"{len(bands)} curves: at most {len(MARKS)} at once can be told apart")
    if (
        any(number < 1 for number in (*bands, *rows, permutations))
        or permutations > MOST_PERMUTATIONS
    ):
        raise RecipeError(
            f"bands and rows are numbers from 1, permutations at most {MOST_PERMUTATIONS}"
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
        "shapes": [_told(shape, threshold) for shape in shapes],
    }


def choose(threshold: float, budget: float, permutations: int) -> list[Shape]:
    """For each number of rows the most bands within the budget; those that miss least first, of
    equals the shortest signature.
    """
    fitting = []
    for rows in range(1, permutations + 1):
        # More bands: more false candidates, fewer missed pairs. So the most that fit are found by
        # halving.
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
            f"no bands and rows of at most {permutations} permutations keep to a budget of "
            f"{budget} below {threshold}: raise one of them"
        )
    return sorted(fitting, key=lambda shape: (shape.missed(threshold), shape.permutations))


def _between(low: float, high: float) -> np.ndarray:
    return low + (high - low) * (np.arange(POINTS) + 0.5) / POINTS


def _told(shape: Shape, threshold: float | None) -> dict[str, Any]:
    steps = [step / 20 for step in range(21)]
    told: dict[str, Any] = {
        "bands": shape.bands,
        "rows": shape.rows,
        "permutations": shape.permutations,
        "middle": (1.0 - 0.5 ** (1.0 / shape.bands)) ** (1.0 / shape.rows),
        "points": [
            {"similarity": step, "candidate": float(shape.candidate(step))} for step in steps
        ],
    }
    if threshold is not None:
        told["false"] = shape.false(threshold)
        told["missed"] = shape.missed(threshold)
        told["missed_at"] = 1.0 - float(shape.candidate(threshold))
    return told


def lines(told: dict[str, Any]) -> list[str]:
    """For people: the curves drawn, and a table."""
    shapes = [Shape(entry["bands"], entry["rows"]) for entry in told["shapes"]]
    names = [
        f"{mark} {shape.bands} x {shape.rows}" for mark, shape in zip(MARKS, shapes, strict=False)
    ]
    out = [
        *_drawn(shapes, told["threshold"]),
        "",
        "similarity" + "".join(f"{name:>12}" for name in names),
    ]
    for place, point in enumerate(told["shapes"][0]["points"]):
        values = [entry["points"][place]["candidate"] for entry in told["shapes"]]
        out.append(f"{point['similarity']:10.2f}" + "".join(f"{value:12.3f}" for value in values))
    rows = [("half at", "middle"), ("numbers", "permutations")]
    if told["threshold"] is not None:
        rows += [
            ("false", "false"),
            ("missed", "missed"),
            (f"  at {told['threshold']:g}", "missed_at"),
        ]
    for name, key in rows:
        values = [entry[key] for entry in told["shapes"]]
        out.append(
            f"{name:10}"
            + "".join(
                f"{value:12}" if isinstance(value, int) else f"{value:12.4f}" for value in values
            )
        )
    if told["budget"] is not None:
        best = told["shapes"][0]
        out += ["", f"best: bands = {best['bands']}, rows = {best['rows']}"]
    return out


def _drawn(shapes: list[Shape], threshold: float | None) -> list[str]:
    """The curves over similarity 0 to 1; where two meet, the first is seen. The threshold is a line
    of dots.
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
