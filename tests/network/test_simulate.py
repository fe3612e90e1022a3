"""Simulations: counted again from the rules themselves, and the tables that docs/nodes.md shows."""

import numpy as np
import pytest

from benchmarks.simulate import (
    LossModel,
    Trainee,
    after_losses,
    coverage_lines,
    loss_lines,
    node_names,
    plateau_lines,
    shard_names,
    simulate_genesis,
    simulate_rendezvous,
    train,
)
from gristmill.network.node.assignment import genesis, rendezvous, turn
from gristmill.network.node.rotation import PlateauRule
from tests.support import ROOT


@pytest.mark.parametrize(("nodes", "shards", "rotations"), [(20, 300, 1), (7, 50, 3), (3, 8, 2)])
def test_readers_are_those_of_the_rules(nodes: int, shards: int, rotations: int) -> None:
    readers = [set[str]() for _ in range(shards)]
    for name in node_names(nodes):
        for rotation in range(rotations):
            for shard in genesis(name, shards, rotation):
                readers[shard].add(name)
    found = simulate_genesis(nodes, shards, rotations)
    assert found.readers.tolist() == [len(names) for names in readers]
    assert found.covered == pytest.approx(np.mean([bool(names) for names in readers]))
    assert found.downloads == found.readers.sum() == found.held.sum()
    for limit in (None, rotations):
        held = []
        readers = [set() for _ in range(shards)]
        for name in node_names(nodes):
            own = sorted(rendezvous(name, shard_names(shards), node_names(nodes), 3))
            if limit is not None:
                own = sorted({n for rotation in range(limit) for n in turn(own, rotation)})
            held.append(len(own))
            for shard in own:
                readers[shard].add(name)
        ours = simulate_rendezvous(nodes, shards, 3, limit)
        assert ours.readers.tolist() == [len(names) for names in readers]
        assert ours.held.tolist() == held


def test_every_shard_has_its_holders_until_all_of_them_are_lost() -> None:
    ours = simulate_rendezvous(100, 1000, 3)
    assert ours.covered == 1.0
    assert ours.readers_spread == (3, 3.0, 3)
    assert after_losses(ours, 0.0) == 1.0
    assert after_losses(ours, 0.5) == pytest.approx(1 - 0.5**3, abs=0.05)
    theirs = simulate_genesis(100, 333)
    assert theirs.covered == pytest.approx(1 - np.exp(-3), abs=0.04)


def test_the_loss_model_and_the_rule() -> None:
    node = Trainee(assigned=50, steps=10, passes=20, budget=1000)
    without = train(LossModel(noise=0.0), node, None)
    assert (without.seen, without.coverage, without.passes) == (5, 0.1, 20.0)
    # 10 exp(-p / 0.15) is below 0.05 in the mean of 20 steps of 0.1 passes behind 2 passes.
    fast = train(LossModel(noise=0.0), node, PlateauRule())
    assert fast.seen == 1000 // 25
    never = train(LossModel(irreducible=2.5), node, PlateauRule())
    assert never.seen == 5
    assert never.loss == pytest.approx(2.5, abs=0.1)
    assert train(LossModel(), node, PlateauRule(), 3) == train(LossModel(), node, PlateauRule(), 3)


def test_the_page_shows_what_the_simulation_says() -> None:
    page = (ROOT / "docs/nodes.md").read_text("utf-8")
    for table in (plateau_lines(), loss_lines(1000, 3333), coverage_lines(1000, [3333])):
        for line in table:
            assert line in page
