"""The duplicates that are dropped, and the reasons that verdicts give for them."""

from typing import NamedTuple

import numpy as np

SAME_URL, EXACT, NEAR = REASONS = (
    "deduplicate.same_url",
    "deduplicate.exact_duplicate",
    "deduplicate.near_duplicate",
)


class Drops(NamedTuple):
    """Documents to drop and why: n of each, sorted by document."""

    documents: np.ndarray  # int64
    keepers: np.ndarray  # int64
    # int64, of the keepers: 0 is this corpus, others are places, from 1, in the list of digests
    corpora: np.ndarray
    reasons: np.ndarray  # int8: places in REASONS
    similarities: np.ndarray  # float64


def no_drops() -> Drops:
    """Drop no document."""
    none = np.empty(0, np.int64)
    return Drops(none, none, none, np.empty(0, np.int8), np.empty(0, np.float64))
