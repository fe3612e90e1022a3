"""The best mix by regression over the runs of a swarm: `gristmill mix fit ratios.csv metrics.csv`.

Each metric is fitted as a function of the ratios of sources; the law is chosen by
cross-validation; the mix is the one with the best weighted mean of the metrics, under limits of
epochs. Resampling the errors says how sure that is. RegMix (arXiv 2407.01492), Olmix (2602.12237).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gristmill.errors import RecipeError
from gristmill.mixing import laws
from gristmill.mixing.runs import Swarm, read_runs
from gristmill.mixing.search import Objective, best_mix, points_under, search_best, share_caps
from gristmill.progress.counted_work import counted

FOLDS = 5
RESAMPLES = 40
FEWEST = 8  # runs
CANDIDATES: tuple[laws.Kind, ...] = laws.KINDS
MANY = 8  # runs for each source, from which boosted trees are tried


class Fitted(NamedTuple):
    """A metric with the law that cross-validation chose."""

    metric: str
    kind: laws.Kind
    law: laws.Law
    errors: dict[str, dict[str, float]]  # of each law that was tried
    predicted: np.ndarray  # (runs,) by a law that has not seen the run


def fit_mix(
    ratios: Path | str,
    metrics: Path | str,
    *,
    objective: Mapping[str, float] | None = None,
    maximize: bool = False,
    law: laws.Kind | Literal["best"] = "best",
    supply: Mapping[str, int] | None = None,
    tokens: int | None = None,
    max_epochs: float = 4.0,
    seed: int = 1,
    resamples: int = RESAMPLES,
    plot: Path | str | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Return the mix for which the laws predict the best metrics.

    `objective` are weights of the metrics (default: all the same); lower is better unless
    `maximize`. `supply` ({source: tokens}) and `tokens`, those of the training run, limit a source
    to `max_epochs` epochs; without them there is no limit. `plot` is a picture to write
    (.svg, .png, .pdf); with `force`, over one that is not gristmill's.

    The answer has `runs`, `unmatched`, `metrics` ({metric: {law, r2, rank_correlation, rmse, laws}}
    by cross-validation), `mix` ({source: {share, low, high, natural, most, most_seen, epochs}}, low
    and high the 5th and 95th percentiles over resampled errors), `predicted` and `natural` (the
    objective of this mix and of the mean of the runs, or of the natural mix where `supply` says
    it), `gain` ({low, high} of their difference over the resamples), `improves` (the share of
    resamples in which the mix is the better one), `warnings` and `plot`.

    Raises RecipeError for files that do not match or laws that cannot be fitted, MachineError
    without the extra `mix`.
    """
    if plot is not None:
        from gristmill.mixing.plot import plot_fit, refuse_picture

        refuse_picture(Path(plot), force=force)
    runs = read_runs(ratios, metrics)
    if len(runs.names) < FEWEST:
        raise RecipeError(
            f"{ratios}: {len(runs.names)} runs are in both files; a regression needs at least "
            f"{FEWEST}, and a few for each of the {len(runs.sources)} sources"
        )
    if law not in (*laws.KINDS, "best"):
        raise RecipeError(f"law {law!r}: it is best or one of {', '.join(laws.KINDS)}")
    weights = _weights(runs, objective) * (-1.0 if maximize else 1.0)
    caps = share_caps(runs.sources, supply, tokens, max_epochs)
    natural = _natural(runs, supply)
    with counted("fit", len(runs.metrics), "metrics") as count:
        fitted = []
        for place in range(len(runs.metrics)):
            fitted.append(_fit_metric(runs, place, law, seed))
            count.add(1)
    chosen = Objective([fit.law for fit in fitted], weights)
    smooth = all(fit.kind != "boosted" for fit in fitted)
    mix = best_mix(chosen, caps, natural, seed, smooth=smooth)
    shares, gains = _resample(runs, fitted, weights, caps, natural, mix, seed, resamples)
    answer = _answer(runs, fitted, chosen, weights, mix, natural, caps, shares, gains)
    answer["warnings"] = _warnings(runs, fitted, mix, gains)
    for name, row in answer["mix"].items():
        row["epochs"] = (
            row["share"] * tokens / supply[name] if supply and tokens and supply[name] else None
        )
    answer["plot"] = None if plot is None else str(plot)
    if plot is not None:
        plot_fit(Path(plot), runs, fitted, answer)
    return answer


def _weights(runs: Swarm, objective: Mapping[str, float] | None) -> np.ndarray:
    """Return the weight of each metric, (metrics,), of sum 1."""
    given = dict.fromkeys(runs.metrics, 1.0) if objective is None else dict(objective)
    if unknown := sorted(given.keys() - set(runs.metrics)):
        raise RecipeError(f"no metric {unknown[0]!r}; there are {', '.join(runs.metrics)}")
    weights = np.array([float(given.get(name, 0.0)) for name in runs.metrics])
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise RecipeError("weights of metrics are numbers of 0 or more, and not all 0")
    return np.asarray(weights / weights.sum())


def _natural(runs: Swarm, supply: Mapping[str, int] | None) -> np.ndarray:
    """Return the mix to compare with: in proportion to tokens, or the mean of the runs."""
    if supply is None:
        return np.asarray(runs.ratios.mean(axis=0))
    counts = np.array([float(supply[name]) for name in runs.sources])
    return np.asarray(counts / counts.sum())


def _fit_metric(runs: Swarm, place: int, law: str, seed: int) -> Fitted:
    """Return a metric's law, chosen by the error on runs that it has not seen."""
    values = runs.values[:, place]
    many = len(runs.names) >= MANY * len(runs.sources)
    kinds = [candidate for candidate in CANDIDATES if law in (candidate, "best")]
    if law == "best" and not many:
        kinds.remove("boosted")
    folds = np.random.default_rng(seed).permutation(len(values)) % FOLDS
    errors: dict[str, dict[str, float]] = {}
    predictions = {}
    for kind in kinds:
        predicted = np.empty_like(values)
        for fold in range(FOLDS):
            held = folds == fold
            model = laws.fit_law(kind, runs.ratios[~held], values[~held], seed, starts=2)
            predicted[held] = model(runs.ratios[held])
        errors[kind] = _errors(values, predicted)
        predictions[kind] = predicted
    best = min(kinds, key=lambda kind: errors[kind]["rmse"])
    model = laws.fit_law(best, runs.ratios, values, seed)
    return Fitted(runs.metrics[place], best, model, errors, predictions[best])


def _errors(values: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Error, share of variance, and rank correlation (Spearman's) of predictions."""
    wrong = float(((values - predicted) ** 2).mean())
    spread = float(values.var())
    ranks = np.argsort(np.argsort([values, predicted], axis=1), axis=1).astype(np.float64)
    flat = min(float(values.std()), float(predicted.std())) == 0
    correlation = 0.0 if flat else float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    return {
        "rmse": wrong**0.5,
        "r2": 1 - wrong / spread if spread else 0.0,
        "rank_correlation": correlation,
    }


def _resample(
    runs: Swarm,
    fitted: list[Fitted],
    weights: np.ndarray,
    caps: np.ndarray,
    natural: np.ndarray,
    mix: np.ndarray,
    seed: int,
    resamples: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Over runs with resampled errors: the best mix, (resamples, sources), and what `mix` gains
    over the natural one, (resamples,); above 0: it is the better one.

    The mixes of a swarm were chosen, and not drawn by chance: they stay, and to what the laws
    expect of each comes the error of another (Efron and Tibshirani 1993, section 9.4), as
    cross-validation saw it. The best mix is chosen as the estimate is: the mean of the 100 best
    of 20,000 mixes is another number than that of the 100 best of 2,000.
    """
    random = np.random.default_rng(seed)
    smooth = all(fit.kind != "boosted" for fit in fitted)
    # The mixes that are looked at are the same for all, and those that the estimate was chosen of.
    points = points_under(caps, natural, seed)
    expected = np.stack([fit.law(runs.ratios) for fit in fitted], axis=1)
    errors = runs.values - np.stack([fit.predicted for fit in fitted], axis=1)
    errors -= errors.mean(axis=0)
    shares, gains = [], []
    with counted("resample", resamples, "fits") as count:
        for _ in range(resamples):
            # A run's errors stay together: metrics of one model go up and down together.
            values = expected + errors[random.integers(0, len(errors), len(errors))]
            models = [
                laws.fit_law(fit.kind, runs.ratios, values[:, place], seed, starts=2)
                for place, fit in enumerate(fitted)
            ]
            chosen = Objective(models, weights)
            shares.append(search_best(chosen, caps, points, smooth=smooth, starts=2))
            before, after = chosen(np.stack([natural, mix]))
            gains.append(before - after)
            count.add(1)
    return np.array(shares).reshape(resamples, len(mix)), np.array(gains)


def _answer(
    runs: Swarm,
    fitted: list[Fitted],
    chosen: Objective,
    weights: np.ndarray,
    mix: np.ndarray,
    natural: np.ndarray,
    caps: np.ndarray,
    shares: np.ndarray,
    gains: np.ndarray,
) -> dict[str, Any]:
    sign = -1.0 if weights.sum() < 0 else 1.0
    low, high = np.percentile(shares, [5, 95], axis=0) if len(shares) else (mix, mix)
    return {
        "runs": len(runs.names),
        "unmatched": runs.unmatched,
        "metrics": {
            fit.metric: {"law": fit.kind, **fit.errors[fit.kind], "laws": fit.errors}
            for fit in fitted
        },
        "mix": {
            name: {
                "share": float(mix[place]),
                "low": float(low[place]),
                "high": float(high[place]),
                "natural": float(natural[place]),
                "most": float(caps[place]),
                "most_seen": float(runs.ratios[:, place].max()),
            }
            for place, name in enumerate(runs.sources)
        },
        "predicted": sign * float(chosen(mix[None])[0]),
        "natural": sign * float(chosen(natural[None])[0]),
        "gain": dict(zip(("low", "high"), map(float, np.percentile(gains, [5, 95])), strict=True))
        if len(gains)
        else None,
        "improves": float((gains > 0).mean()) if len(gains) else None,
    }


def _warnings(runs: Swarm, fitted: list[Fitted], mix: np.ndarray, gains: np.ndarray) -> list[str]:
    warnings = [
        f"{fit.metric}: the laws predict runs that they have not seen no better than their mean "
        f"does (r2 {fit.errors[fit.kind]['r2']:.2f}): the mix is no more than a guess for it"
        for fit in fitted
        if fit.errors[fit.kind]["r2"] < 0.1
    ]
    warnings += [
        f"{name}: the share {share:.3f} is above that of every run ({most:.3f}): no run shows "
        "what happens there"
        for name, share, most in zip(
            runs.sources, mix.tolist(), runs.ratios.max(axis=0).tolist(), strict=True
        )
        if share > most + 1e-3
    ]
    if len(gains) and (gains > 0).mean() < 0.95:
        warnings.append(
            f"in {100 * float((gains <= 0).mean()):.0f} % of resamples this mix is "
            "no better than the natural one: more runs are needed to tell"
        )
    return warnings


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return what `fit_mix` found, for people."""
    out = [f"{found['runs']} runs"]
    if found["unmatched"]:
        out.append(f"  in one file alone, left out: {', '.join(found['unmatched'][:5])}")
    out.append("metrics, by laws that have not seen the run (5-fold cross-validation):")
    width = max(len(name) for name in found["metrics"])
    for name, row in found["metrics"].items():
        out.append(
            f"  {name:{width}}  {row['law']:10}  r2 {row['r2']:6.3f}  rank correlation "
            f"{row['rank_correlation']:6.3f}  error {row['rmse']:.4g}"
        )
    out.append("the best mix (5 to 95 % over resampled errors):")
    width = max(len(name) for name in found["mix"])
    for name, row in found["mix"].items():
        epochs = "" if row["epochs"] is None else f"  {row['epochs']:.2f} epochs"
        out.append(
            f"  {name:{width}}  {row['share']:.4f}  ({row['low']:.3f} to {row['high']:.3f}), "
            f"natural {row['natural']:.3f}{epochs}"
        )
    out.append(f"predicted {found['predicted']:.4f}, natural mix {found['natural']:.4f}")
    if found["gain"] is not None:
        out.append(
            f"gain {found['gain']['low']:.4f} to {found['gain']['high']:.4f}; better in "
            f"{100 * found['improves']:.0f} % of resamples"
        )
    out += [f"warning: {warning}" for warning in found["warnings"]]
    out += ["for the recipe:", *weights_toml({n: r["share"] for n, r in found["mix"].items()})]
    if found["plot"] is not None:
        out.append(f"{found['plot']} is written")
    return out


def weights_toml(shares: Mapping[str, float]) -> list[str]:
    """Return `[mix.weights]` with shares of four decimals that sum to 1 exactly."""
    parts = {name: round(share * 10_000) for name, share in shares.items()}
    largest = max(parts, key=lambda name: (parts[name], name))
    parts[largest] += 10_000 - sum(parts.values())
    return ["[mix.weights]", *(f'"{name}" = {part / 10_000:.4f}' for name, part in parts.items())]
