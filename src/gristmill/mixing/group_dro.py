"""DomainWeights of domains by Group DRO, as DoReMi updates them (Xie et al. 2023, arXiv 2305.10429,
algorithm 1).

    lambda_i = mean over the domain's tokens of max(proxy loss - reference loss, 0)
    a'_i     = a_i exp(eta lambda_i)
    a_i      = (1 - c) a'_i / sum a' + c / k

The answer of DoReMi is the mean of a over all steps, not the last one.
"""

from typing import NamedTuple

import numpy as np

from gristmill.errors import GristmillError

ETA = 1.0  # the paper's step size
SMOOTHING = 1e-3  # the paper's c


class DomainWeights(NamedTuple):
    """The state of the update."""

    now: np.ndarray  # (domains,) float64, of sum 1
    total: np.ndarray  # (domains,) float64: the sum of `now` over the steps that were made
    steps: int

    @classmethod
    def start(cls, domains: int) -> "DomainWeights":
        """Equal weights, before the first step."""
        return cls(np.full(domains, 1.0 / domains), np.zeros(domains), 0)

    @property
    def mean(self) -> np.ndarray:
        """The mean over all steps, (domains,) float64; before the first one, equal weights."""
        return np.asarray(self.total / self.steps if self.steps else self.now)


def excess_of(losses: np.ndarray, reference: np.ndarray) -> float:
    """A domain's lambda: token losses (n,) of the proxy and of the reference, clipped at 0 one by
    one, and their mean.
    """
    return float(np.maximum(losses - reference, 0.0).mean())


def updated(
    weights: DomainWeights, excess: np.ndarray, *, eta: float = ETA, smoothing: float = SMOOTHING
) -> DomainWeights:
    """The weights after a step with these excess losses (domains,), none below 0.

    Raises GristmillError for one that is not finite.
    """
    if not np.isfinite(excess).all():
        raise GristmillError(f"an excess loss is not finite: {excess.tolist()}")
    # In logarithms, less the largest: exp of a large loss has no value.
    with np.errstate(divide="ignore"):
        raised = np.log(weights.now) + eta * excess
    grown = np.exp(raised - raised.max())
    now = (1.0 - smoothing) * grown / grown.sum() + smoothing / len(grown)
    return DomainWeights(now, weights.total + now, weights.steps + 1)
