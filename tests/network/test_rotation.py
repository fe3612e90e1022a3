"""When a node rotates: Genesis' plateau rule against the code of its page, and the window at which
all tokens were read.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import LoaderPlan, TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.order import SegmentOrder
from gristmill.network.node.rotation import PlateauRule, exhausted_at
from tests.support import strategies
from tests.support.naive_order import numbered
from tests.support.token_corpora import token_corpus


def should_rotate_early(loss_history: list[float]) -> bool:
    """As NeuroShard's page shows it (docs-site/architecture/genesis-data.md)."""
    if len(loss_history) < 20:
        return False
    recent_losses = loss_history[-20:]
    avg_loss = sum(recent_losses) / len(recent_losses)
    variance = sum((loss - avg_loss) ** 2 for loss in recent_losses) / len(recent_losses)
    return variance < 0.02 and avg_loss < 0.05


@strategies.fuzz(200)
@given(
    st.lists(st.one_of(st.floats(0, 0.12), st.floats(0, 12), st.just(float("nan"))), max_size=45)
)
def test_plateaus_are_those_of_the_page(losses: list[float]) -> None:
    assert PlateauRule().reached(losses) == should_rotate_early(losses)


def test_plateaus_at_the_edges_and_with_other_numbers() -> None:
    assert PlateauRule().reached([3.0] + [0.04] * 20)
    assert not PlateauRule().reached([0.04] * 19)
    assert not PlateauRule().reached([0.05] * 20)  # the mean is below, not equal
    assert not PlateauRule().reached([0.0] * 19 + [0.9])  # the variance is above
    assert PlateauRule(window=3, mean=2.0).reached([5.0, 1.9, 1.9, 1.9])
    for rule in (PlateauRule(window=0), PlateauRule(mean=float("nan"))):
        with pytest.raises(RecipeError, match="plateau"):
            rule.check()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenCorpus:
    root = tmp_path_factory.mktemp("rotation")
    sources = {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90), "code": numbered(3, 30, 5)}
    return TokenCorpus.open(token_corpus(root, sources, tokens_per_shard=100))


@strategies.fuzz(40)
@given(
    length=st.integers(1, 40),
    size=st.integers(1, 12),
    epochs=st.integers(1, 3),
    weights=st.sampled_from((None, {"web": 1, "books": 2, "code": 5}, {"code": 0})),
    change=st.integers(0, 9),
)
def test_exhausted_is_the_first_step_before_which_all_was_read(
    corpus: TokenCorpus,
    length: int,
    size: int,
    epochs: int,
    weights: dict[str, float] | None,
    change: int,
) -> None:
    plan = LoaderPlan.start(corpus, sequence_length=length, batch_size=size)
    plan = plan.changed(corpus, from_window=size * (change + 1), weights=weights)
    segment = plan.segments[-1]
    end = exhausted_at(segment, epochs)
    assert (end - segment.from_window) % size == 0
    order = SegmentOrder(corpus, segment)

    def read(until: int) -> bool:
        """Whether all windows of the epochs that begin or go on here come before a window."""
        sources, whole, _ = order.place(np.arange(segment.from_window, until))
        for number, source in enumerate(segment.sources):
            mine = sources == number
            last = source.epoch + epochs - 1
            rest = source.windows - (source.rank if epochs == 1 else 0)
            if source.slots and (mine & (whole == last)).sum() < rest:
                return False
        return True

    assert read(end)
    assert end - size <= segment.from_window or not read(end - size)
