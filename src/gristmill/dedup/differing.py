"""Documents that are deduplicated by other settings than the corpus, for their language has some of
its own (`[deduplicate] by_language`).

With `scope = "language"` both documents of a pair have one language, so a pair has one threshold.
"""

from typing import NamedTuple

import numpy as np


class Differing(NamedTuple):
    """What differs, by document; each array of documents is int64 and sorted."""

    not_exact: np.ndarray  # documents whose texts are not looked up
    not_near: np.ndarray  # documents that are compared with none
    documents: np.ndarray  # (n,): those with a threshold of their own
    thresholds: np.ndarray  # (n,) float64: theirs, of near duplicates

    def thresholds_of(self, documents: np.ndarray, threshold: float) -> np.ndarray | float:
        """Return the thresholds of documents (m,), in any order: (m,) float64. `threshold` is that
        of all others; it alone where no document has another.
        """
        if not len(self.documents):
            return threshold
        place = np.minimum(np.searchsorted(self.documents, documents), len(self.documents) - 1)
        return np.where(self.documents[place] == documents, self.thresholds[place], threshold)


_NONE = np.empty(0, np.int64)
NONE_DIFFER = Differing(_NONE, _NONE, _NONE, np.empty(0))
