"""The mix with the least predicted objective, under limits for each source."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gristmill.errors import RecipeError
from gristmill.mixing.laws import Law, needed

SAMPLES = 20_000  # mixes that are looked at
BEST = (
    100  # of boosted trees, which are flat between their cuts: the mean of the best ones (RegMix)
)
SMALL = 1e-4  # a share below is none


class Objective(NamedTuple):
    """The weighted sum of predicted metrics; less is better."""

    laws: Sequence[Law]
    weights: np.ndarray  # (metrics,)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Of mixes (n, sources), (n,) float64."""
        total = np.zeros(len(points))
        for law, weight in zip(self.laws, self.weights, strict=True):
            if weight:
                total += weight * law(points)
        return total


def share_caps(
    sources: Sequence[str], supply: Mapping[str, int] | None, tokens: int | None, max_epochs: float
) -> np.ndarray:
    """Return the largest share of each source, (sources,). Raises RecipeError."""
    if supply is None:
        return np.ones(len(sources))
    if missing := [name for name in sources if name not in supply]:
        raise RecipeError(
            f"how many tokens has source {missing[0]!r}? The runs have a column of it"
        )
    if tokens is None:
        return np.ones(len(sources))
    caps = np.array([max_epochs * supply[name] / tokens for name in sources])
    if caps.sum() < 1:
        raise RecipeError(
            f"{tokens:,} tokens are asked for, and all sources read {max_epochs:g} times have "
            f"{caps.sum() * tokens:,.0f}: ask for fewer, or raise max_epochs"
        )
    return np.asarray(np.minimum(caps, 1.0))


def best_mix(
    objective: Objective, caps: np.ndarray, natural: np.ndarray, seed: int, *, smooth: bool
) -> np.ndarray:
    """Return the mix (sources,) with the least objective, of sum 1 and no share above its cap."""
    return search_best(objective, caps, points_under(caps, natural, seed), smooth=smooth)


def points_under(caps: np.ndarray, natural: np.ndarray, seed: int) -> np.ndarray:
    """Return mixes (SAMPLES, sources) of which the best is looked for: drawn from Dirichlet
    distributions round the natural one and over the whole simplex, and brought under their caps.
    """
    points = drawn_mixes(natural, SAMPLES, seed)
    return np.array([within(point, caps) for point in points]) if (caps < 1).any() else points


def search_best(
    objective: Objective, caps: np.ndarray, points: np.ndarray, *, smooth: bool, starts: int = 8
) -> np.ndarray:
    """Return the best mix (sources,) by way of `points` (n, sources). Smooth objectives are
    followed downhill from the best `starts` of them; else it is the mean of the best.
    """
    values = objective(points)
    order = np.argsort(values, kind="stable")
    if not smooth:
        return within(np.asarray(points[order[:BEST]].mean(axis=0)), caps)
    point = points[order[0]]
    least = float(values[order[0]])
    for start in order[:starts]:
        mix = _downhill(objective, caps, points[start])
        value = float(objective(mix[None])[0])
        if value < least:
            point, least = mix, value
    return within(np.where(point < SMALL, 0.0, point), caps)


def drawn_mixes(natural: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return mixes (count, sources): half round the natural one, half over the whole simplex."""
    random = np.random.default_rng(seed)
    strengths = 10.0 ** random.uniform(0, 2, count // 2)
    alpha = np.maximum(natural, 1e-3)
    near = np.array([random.dirichlet(alpha * strength) for strength in strengths])
    wide = random.dirichlet(np.ones(len(natural)), count - count // 2)
    return np.concatenate([near, wide])


def within(mix: np.ndarray, caps: np.ndarray) -> np.ndarray:
    """Return a mix brought under its caps: what is above one goes to the others, in proportion."""
    mix = np.maximum(mix, 0.0)
    mix = mix / mix.sum() if mix.sum() > 0 else caps / caps.sum()
    for _ in range(len(mix) + 1):
        excess = float(np.maximum(mix - caps, 0.0).sum())
        mix = np.minimum(mix, caps)
        if excess <= 0:
            break
        spare = caps - mix
        free = np.where(spare > 0, mix, 0.0)
        # Where all that is free has no share, the excess goes by what room there is.
        by = free if free.sum() > 0 else spare
        if by.sum() <= 0:
            break
        mix = mix + excess * (by / by.sum())  # in this order: a share may be as small as 5e-324
    return np.asarray(np.minimum(mix, caps))


def _downhill(objective: Objective, caps: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return a local minimum by sequential least squares (SLSQP)."""
    optimize: Any = needed("scipy.optimize")
    solution = optimize.minimize(
        lambda mix: float(objective(mix[None])[0]),
        start,
        method="SLSQP",
        bounds=[(0.0, float(cap)) for cap in caps],
        constraints=[{"type": "eq", "fun": lambda mix: float(mix.sum()) - 1.0}],
        options={"maxiter": 200, "ftol": 1e-10},
    )
    return within(np.asarray(solution.x, np.float64), caps)
