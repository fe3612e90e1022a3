"""The search for the best mix: all mixes that were drawn are looked at, once."""

import numpy as np

from gristmill.mixing.search import SAMPLES, Objective, best_mix, points_under, search_best


class _Counted:
    """A law that knows how many mixes it was asked about."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, points: np.ndarray) -> np.ndarray:
        self.asked.append(len(points))
        return np.asarray(points[:, 0])


def test_a_search_over_given_mixes_is_the_search_itself() -> None:
    natural, caps = np.array([0.6, 0.3, 0.1]), np.array([1.0, 0.5, 1.0])
    law = _Counted()
    objective = Objective([law], np.ones(1))  # type: ignore[list-item]
    mix = best_mix(objective, caps, natural, 1, smooth=False)
    assert law.asked == [SAMPLES]
    assert abs(mix.sum() - 1) < 1e-12
    assert (mix <= caps + 1e-12).all()
    assert mix[0] < 0.3 < natural[0]
    points = points_under(caps, natural, 1)
    assert np.array_equal(search_best(objective, caps, points, smooth=False), mix)
