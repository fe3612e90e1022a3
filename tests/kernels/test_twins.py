"""Every public function of kernels/ is compared with a slow twin (tests/support/twins.py)."""

import pytest

from tests.support import twins


def test_every_kernel_has_a_slow_twin() -> None:
    assert sorted(twins.TWINS) == sorted(twins.public_functions())
    found = [twins.complaint(function, pair) for function, pair in twins.TWINS.items()]
    assert [complaint for complaint in found if complaint] == []


@pytest.mark.parametrize("place", sorted(twins.twin_places()), ids=lambda place: place[-40:])
def test_a_twin_that_is_removed_is_missed(place: str) -> None:
    found = [twins.complaint(function, pair, place) for function, pair in twins.TWINS.items()]
    assert any(found)
