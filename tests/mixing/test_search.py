"""The search for the best mix: as many mixes are looked at as are asked for."""

import numpy as np

from gristmill.mixing.search import SAMPLES, Objective, best_mix


class _Counted:
    """A law that knows how many mixes it was asked about."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, points: np.ndarray) -> np.ndarray:
        self.asked.append(len(points))
        return np.asarray(points[:, 0])


def test_the_number_of_samples_is_the_callers() -> None:
    natural, caps = np.array([0.6, 0.3, 0.1]), np.array([1.0, 0.5, 1.0])
    for asked, samples in (({"samples": 300, "starts": 1}, 300), ({"starts": 2}, SAMPLES)):
        law = _Counted()
        objective = Objective([law], np.ones(1))  # type: ignore[list-item]
        mix = best_mix(objective, caps, natural, 1, smooth=False, **asked)  # type: ignore[arg-type]
        assert law.asked == [samples]
        assert abs(mix.sum() - 1) < 1e-12
        assert (mix <= caps + 1e-12).all()
        assert mix[0] < 0.3 < natural[0]
