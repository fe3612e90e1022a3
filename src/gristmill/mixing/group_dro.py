"""The update of weights of domains by Group DRO, as DoReMi makes it (Xie et al. 2023, arXiv
2305.10429, algorithm 1).

    a'_i = a_i exp(eta lambda_i)
    a_i  = (1 - c) a'_i / sum a' + c / k

lambda_i is the mean over the domain's tokens of max(proxy loss - reference loss, 0). The answer of
DoReMi is the mean of a over all steps, not the last one.
"""

import numpy as np

from gristmill.errors import GristmillError

ETA = 1.0  # the paper's step size
SMOOTHING = 1e-3  # the paper's c


def updated(
    weights: np.ndarray, excess: np.ndarray, *, eta: float = ETA, smoothing: float = SMOOTHING
) -> np.ndarray:
    """Return the weights (domains,), of sum 1, after a step with these excess losses (domains,),
    the lambdas: none is below 0.

    Raises GristmillError for one that is not finite.
    """
    if not np.isfinite(excess).all():
        raise GristmillError(f"an excess loss is not finite: {excess.tolist()}")
    # In logarithms, less the largest: exp of a large loss has no value.
    with np.errstate(divide="ignore"):
        raised = np.log(weights) + eta * excess
    grown = np.exp(raised - raised.max())
    return np.asarray((1.0 - smoothing) * grown / grown.sum() + smoothing / len(grown))
