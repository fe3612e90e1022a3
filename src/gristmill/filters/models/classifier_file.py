"""A classifier of `gristmill model train-classifier`, as the arrays of a model file and as the
kernel reads it (kernels.models.linear_classifier).
"""

import math
from typing import Any

import numpy as np

from gristmill.filters.models.model_file import LoadedModel
from gristmill.kernels.models.linear_classifier import LEAST_BITS, MOST_BITS, Weights

KIND = "classifier"
VERSION = 2  # 1: the sum over the root of the number of features, however many these are


def to_model(
    weights: Weights,
    parameters: dict[str, Any],
    inputs: dict[str, list[str]],
    counts: dict[str, int],
) -> LoadedModel:
    """Return a trained classifier as what its file holds."""
    arrays = {"weights": weights.table, "scale_and_bias": np.array([weights.scale, weights.bias])}
    return LoadedModel(
        kind=KIND,
        version=VERSION,
        parameters=parameters,
        inputs=inputs,
        counts=counts,
        arrays=arrays,
    )


def load(model: LoadedModel) -> Weights:
    """Return a classifier as the kernel reads it. ValueError where its arrays do not hold
    together.
    """
    table, numbers = (model.arrays.get(name) for name in ("weights", "scale_and_bias"))
    if (
        table is None
        or table.dtype.str[1:] != "i2"
        or numbers is None
        or numbers.dtype.str[1:] != "f8"
        or numbers.shape != (2,)
    ):
        raise ValueError("its arrays have other types or sizes than they should")
    if table.shape not in [(1 << bits,) for bits in range(LEAST_BITS, MOST_BITS + 1)]:
        raise ValueError(f"it has {table.shape} weights: expected a power of two")
    scale, bias = map(float, numbers)
    if not (math.isfinite(scale) and math.isfinite(bias)):
        raise ValueError("its scale or bias is not a number")
    return Weights(np.ascontiguousarray(table, table.dtype.newbyteorder("=")), scale, bias)
