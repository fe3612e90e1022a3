"""A metric as a function of the ratios of sources: three regressions of one form.

* `log_linear`: y = c + exp(t . x), the mixing law of Ye et al. 2024 (arXiv 2403.16952) that Olmix
  (arXiv 2602.12237) fits, or y = c - exp(t . x) where that fits better: k + 1 parameters. Ratios
  sum to 1, so a factor of exp is in t.
* `linear`: ridge regression, all but unshrunk.
* `boosted`: gradient boosting on trees, as RegMix (arXiv 2407.01492) does; it needs more runs.

x are ratios (runs, sources), y a metric (runs,).
"""

import importlib
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from gristmill.errors import MachineError

Kind = Literal["log_linear", "linear", "boosted"]
# A fitted regression: ratios (n, sources) to the metric (n,) float64.
Law = Callable[[np.ndarray], np.ndarray]
KINDS: tuple[Kind, ...] = ("log_linear", "linear", "boosted")
RIDGE = 1e-6  # ratios sum to 1, so their columns are collinear
STARTS = 4  # of the log-linear law's search
HUBER = 0.3  # deviations of the metric: an error beyond counts linearly, not by its square
EXTRA = "gristmill mix fit needs scikit-learn and scipy: pip install 'gristmill[mix]'"


def fit_law(kind: Kind, x: np.ndarray, y: np.ndarray, seed: int, starts: int = STARTS) -> Law:
    """Fit one law; the same values give the same law. `starts` are those of the log-linear law's
    search. Raises MachineError without the extra.
    """
    if kind == "log_linear":
        return _log_linear(x, y, seed, starts)
    return _linear(x, y) if kind == "linear" else _fit_boosting(x, y, seed)


def needed(name: str) -> Any:
    """Return a module of the extra, such as `scipy.optimize`. Raises MachineError where it is
    absent.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MachineError(EXTRA) from error


def _linear(x: np.ndarray, y: np.ndarray) -> Law:
    model = needed("sklearn.linear_model").Ridge(alpha=RIDGE).fit(x, y)

    def law(points: np.ndarray) -> np.ndarray:
        return np.asarray(model.predict(points), np.float64)

    return law


def _log_linear(x: np.ndarray, y: np.ndarray, seed: int, starts: int) -> Law:
    """Return the best of several starts, in units of the metric's deviation, by Huber's loss."""
    optimize = needed("scipy.optimize")
    centre, scale = float(y.mean()), float(y.std()) or 1.0
    target = (y - centre) / scale
    random = np.random.default_rng(seed)
    best: tuple[float, float, np.ndarray] | None = None  # cost, sign, parameters
    for start in range(starts):
        sign = 1.0 if start % 2 == 0 else -1.0
        first = np.concatenate([[-sign], random.normal(0.0, 0.3, x.shape[1])])
        solution = optimize.least_squares(
            _residuals, first, _slopes, loss="huber", f_scale=HUBER, max_nfev=300,
            args=(x, target, sign),
        )  # fmt: skip
        if best is None or solution.cost < best[0]:
            best = (float(solution.cost), sign, solution.x)
    assert best is not None
    _, sign, parameters = best

    def law(points: np.ndarray) -> np.ndarray:
        return np.asarray(
            centre + scale * (parameters[0] + sign * np.exp(_bounded(points @ parameters[1:])))
        )

    return law


def _residuals(parameters: np.ndarray, x: np.ndarray, y: np.ndarray, sign: float) -> np.ndarray:
    return np.asarray(parameters[0] + sign * np.exp(_bounded(x @ parameters[1:])) - y)


def _slopes(parameters: np.ndarray, x: np.ndarray, y: np.ndarray, sign: float) -> np.ndarray:
    del y
    raised = sign * np.exp(_bounded(x @ parameters[1:]))[:, None]
    return np.hstack([np.ones_like(raised), raised * x])


def _bounded(exponent: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(exponent, -30.0, 30.0))


def _fit_boosting(x: np.ndarray, y: np.ndarray, seed: int) -> Law:
    model = needed("sklearn.ensemble").GradientBoostingRegressor(
        n_estimators=200, learning_rate=0.05, max_depth=3, subsample=0.8, random_state=seed
    )
    model.fit(x, y)

    def law(points: np.ndarray) -> np.ndarray:
        return np.asarray(model.predict(points), np.float64)

    return law
