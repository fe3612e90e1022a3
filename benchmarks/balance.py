"""How evenly the windows of a step are dealt to ranks: `bench.py balance`, and docs/packing.md's
table. Nothing is timed.
"""

from typing import Any

import numpy as np
from section import Section

LENGTHS = (2048, 8192)
EACH = (2, 4, 8, 16)  # windows a rank
RANKS = (2, 8, 64)
STEPS = 20


def windows(generator: np.random.Generator, count: int, length: int) -> np.ndarray:
    """The cost of each of `count` windows, (count,) int64: the sum of the squares of the lengths
    of lognormal documents, one behind another, cut at the edges of windows.
    """
    lengths = np.exp(generator.normal(6.2, 1.1, count * length // 200)).astype(np.int64) + 1
    ends = np.cumsum(lengths)
    edges = np.arange(1, count + 1) * length
    cuts = np.union1d(ends[ends < edges[-1]], edges)
    parts = np.diff(cuts, prepend=0)
    return np.bincount((cuts - 1) // length, parts.astype(np.float64) ** 2).astype(np.int64)


def least(costs: np.ndarray, ranks: int) -> float:
    """Return what the dearest rank of every dealing has at least: the mean of the ranks, or the
    dearest window with the cheapest beside it.
    """
    ordered = np.sort(np.asarray(costs, np.int64))
    if not len(ordered):
        return 0.0
    each = len(ordered) // ranks
    dearest = int(ordered[-1]) + int(ordered[: each - 1].sum())
    return max(int(ordered.sum()) / ranks, float(dearest))


def imbalance(costs: np.ndarray, dealt: np.ndarray, ranks: int) -> float:
    """Return how much more than the mean the dearest rank has: 0.05 is 5 %."""
    sums = np.zeros(ranks, np.int64)
    np.add.at(sums, dealt, costs)
    return float(sums.max() * ranks / max(int(sums.sum()), 1) - 1)


def rows() -> list[dict[str, Any]]:
    """A row for each length, number of ranks, and windows a rank: of STEPS steps, how much more
    than the mean the dearest rank has, and what no dealing has less of.
    """
    from gristmill.loader.balance import deal

    generator = np.random.default_rng(0)
    out = []
    for length in LENGTHS:
        for each in EACH:
            for ranks in RANKS:
                dealt, plain, bounds = [], [], []
                for _ in range(STEPS):
                    costs = windows(generator, ranks * each, length)
                    dealt.append(imbalance(costs, deal(costs, ranks), ranks))
                    plain.append(imbalance(costs, np.arange(len(costs)) // each, ranks))
                    bounds.append(least(costs, ranks) * ranks / int(costs.sum()) - 1)
                out.append(
                    {
                        "length": length,
                        "each": each,
                        "ranks": ranks,
                        "steps": STEPS,
                        "median": float(np.median(dealt)),
                        "worst": max(dealt),
                        "least": max(bounds),
                        "plain": float(np.median(plain)),
                    }
                )
    return out


def table(found: list[dict[str, Any]]) -> list[str]:
    """The rows as lines of Markdown."""
    lines = [
        "| L | windows a rank | ranks | median | worst | no dealing has less | not balanced |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        cells = [f"{100 * row[key]:.2f} %" for key in ("median", "worst", "least", "plain")]
        lines.append(
            f"| {row['length']:,} | {row['each']} | {row['ranks']} | {' | '.join(cells)} |"
        )
    return lines


SECTION = Section(
    name="balance",
    title="Windows of a step dealt to ranks",
    remarks=(
        "`Loader(..., balance=True)`: how much more attention than the mean the dearest rank has, "
        f"in {STEPS} steps; attention is the sum of the squares of the lengths of a window's "
        "documents. Lengths are lognormal (median 493 tokens, sigma 1.1), windows of L tokens. "
        "The last column deals windows in their order. Nothing is timed."
    ),
    measure=lambda _: rows(),
    table=table,
)
