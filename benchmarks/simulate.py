"""Simulations of a network of nodes: which shards have readers under each rule of assignment, and
how many shards a node sees with and without the detection of plateaus.

Everything follows from names and seeds, so that a simulation gives the same numbers each time.
`nodes.py` writes docs/nodes.md's tables and plot from them.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gristmill.network.node.assignment import (
    BLOCK,
    SHARDS,
    _node_seeds,
    _seeds,
    _weights,
    primary_shard,
)
from gristmill.network.node.rotation import PlateauRule


class Spread(NamedTuple):
    """Least, mean and most of some counts."""

    least: int
    mean: float
    most: int


class Simulated(NamedTuple):
    """Who has read what in a network after some rotations."""

    rule: str
    nodes: int
    shards: int
    downloads: int  # of shards, by all nodes together
    covered: float  # share of the shards that a node has read
    readers: np.ndarray  # (shards,) int64: nodes that have read each shard
    held: np.ndarray  # (nodes,) int64: different shards that each node has read

    @property
    def readers_spread(self) -> Spread:
        """Of the readers of a shard."""
        return _spread(self.readers)

    @property
    def held_spread(self) -> Spread:
        """Of the shards of a node."""
        return _spread(self.held)


def node_names(count: int) -> list[str]:
    """The ids of simulated nodes."""
    return [f"node-{number:04}" for number in range(count)]


def shard_names(count: int) -> list[str]:
    """The names of simulated shards: those of a corpus with one source."""
    return [f"tokens/web/train_{number:05}.bin" for number in range(count)]


def simulate_genesis(nodes: int, shards: int, rotations: int = 1) -> Simulated:
    """Genesis' rule: every node has read the rotations 0 to `rotations` - 1."""
    length = min(SHARDS * rotations, shards)
    changes = np.zeros(2 * shards + 1, np.int64)
    first = np.array([primary_shard(name, shards) for name in node_names(nodes)], np.int64)
    np.add.at(changes, first, 1)
    np.add.at(changes, first + length, -1)
    counts = np.cumsum(changes[:-1])
    readers = counts[:shards] + counts[shards:]
    held = np.full(nodes, length, np.int64)
    covered = float((readers > 0).mean())
    return Simulated("genesis", nodes, shards, nodes * length, covered, readers, held)


def simulate_rendezvous(
    nodes: int, shards: int, holders: int = 3, rotations: int | None = None
) -> Simulated:
    """Rendezvous hashing: every node has read its first rotations of ten shards, in the order of
    their numbers; None: all that it holds.
    """
    table = holders_of(shard_names(shards), node_names(nodes), holders)
    of = table.reshape(-1)
    numbers = np.repeat(np.arange(shards), table.shape[1])
    held = np.bincount(of, minlength=nodes)
    if rotations is not None:
        order = np.argsort(of, kind="stable")
        first = np.concatenate([[0], np.cumsum(held)])[:-1]
        place = np.empty(len(of), np.int64)
        place[order] = np.arange(len(of)) - first[of[order]]
        numbers = numbers[place < SHARDS * rotations]
        held = np.minimum(held, SHARDS * rotations)
    readers = np.bincount(numbers, minlength=shards)
    covered = float((readers > 0).mean())
    return Simulated("rendezvous", nodes, shards, len(numbers), covered, readers, held)


def after_losses(simulated: Simulated, nodes_lost: float, holders: int = 3) -> float:
    """The share of the shards that still has a holder when a share of the nodes is lost (those with
    the highest numbers), before anyone reacts.
    """
    left = round(simulated.nodes * (1 - nodes_lost))
    if simulated.rule == "genesis":
        return simulate_genesis(left, simulated.shards).covered
    table = holders_of(shard_names(simulated.shards), node_names(simulated.nodes), holders)
    return float((table < left).any(axis=1).mean())


def _spread(counts: np.ndarray) -> Spread:
    return Spread(int(counts.min()), float(counts.mean()), int(counts.max()))


class LossModel(NamedTuple):
    """How the loss falls on one shard that is read again and again, in nats a token:

        irreducible + (start - irreducible) * exp(-passes / memory) + noise

    `passes` is how often the shard was read so far. Every shard begins at `start`: what is learned
    on one shard is of no use on another. `noise` is normal, of this standard deviation.
    """

    start: float = 10.0
    irreducible: float = 0.0
    memory: float = 0.15  # passes in which the distance to the end falls to 1/e
    noise: float = 0.01


class Trainee(NamedTuple):
    """A node that reads its shards one after another."""

    assigned: int = 500  # shards
    steps: int = 40  # of training that read a shard once
    passes: int = 100  # after which a shard is exhausted
    budget: int = 22_000  # steps of training in all


class Training(NamedTuple):
    """What a simulated node has seen."""

    seen: int  # shards
    coverage: float  # of the assigned shards
    passes: float  # mean passes over the shards that were seen
    loss: float  # mean of the last 20 losses


def train(model: LossModel, node: Trainee, rule: PlateauRule | None, seed: int = 0) -> Training:
    """Train a node: it goes on to the next shard when the current one is exhausted, or when `rule`
    finds a plateau in the losses since the last change.
    """
    noise = np.random.default_rng(seed).normal(0.0, model.noise, node.budget).tolist()
    seen, on_shard = 1, 0
    losses: list[float] = []
    recent: list[float] = []
    for step in range(node.budget):
        fall = math.exp(-(on_shard / node.steps) / model.memory)
        loss = model.irreducible + (model.start - model.irreducible) * fall + noise[step]
        on_shard += 1
        losses.append(loss)
        recent = [*recent[-19:], loss]
        exhausted = on_shard >= node.steps * node.passes
        plateau = rule is not None and rule.reached(losses[-rule.window :])
        if (exhausted or plateau) and step + 1 < node.budget:
            seen, on_shard, losses = seen + 1, 0, []
    different = min(seen, node.assigned)
    return Training(
        different,
        different / node.assigned,
        node.budget / node.steps / different,
        sum(recent) / len(recent),
    )


def coverage_lines(nodes: int, shards: Sequence[int], holders: int = 3) -> list[str]:
    """A table of both rules after as many downloads: all of every node by rendezvous hashing, and
    as many rotations of Genesis' rule as come nearest.
    """
    lines = [
        "| shards | rule | downloads | shards read | readers of a shard | shards of a node |",
        "|---|---|---|---|---|---|",
    ]
    for count in shards:
        ours = simulate_rendezvous(nodes, count, holders)
        rotations = max(1, round(ours.downloads / (nodes * SHARDS)))
        for one in (simulate_genesis(nodes, count, rotations), ours):
            name = (
                f"Genesis, {rotations:,} rotation{'s' if rotations > 1 else ''}"
                if one.rule == "genesis"
                else f"rendezvous, {holders} holders"
            )
            lines.append(
                f"| {count:,} | {name} | {one.downloads:,} | {one.covered:.2%} | "
                f"{_shown(one.readers_spread)} | {_shown(one.held_spread)} |"
            )
    return lines


def loss_lines(nodes: int, shards: int, holders: int = 3) -> list[str]:
    """A table of how many shards still have a holder when nodes are lost."""
    both = (simulate_genesis(nodes, shards), simulate_rendezvous(nodes, shards, holders))
    lines = ["| nodes lost | Genesis | rendezvous |", "|---|---|---|"]
    for lost in (0.0, 0.01, 0.1, 0.3, 0.5):
        shares = [after_losses(one, lost, holders) for one in both]
        lines.append(f"| {lost:.0%} | {shares[0]:.2%} | {shares[1]:.2%} |")
    return lines


def plateau_lines() -> list[str]:
    """The lesson's table of coverage with and without the detection of plateaus, by LossModel."""
    memorised, text = LossModel(), LossModel(irreducible=2.5)
    cases = [
        ("memorises, exhausted after 100 passes", memorised, Trainee(), None),
        ("the same", memorised, Trainee(), PlateauRule()),
        ("irreducible loss 2.5, 100 passes", text, Trainee(), None),
        ("the same", text, Trainee(), PlateauRule()),
        ("irreducible loss 2.5, 1 pass", text, Trainee(passes=1), None),
    ]
    lines = [
        "| model, exhaustion | plateau rule | shards seen of 500 | coverage | passes a shard |",
        "|---|---|---|---|---|",
    ]
    for name, model, node, rule in cases:
        found = train(model, node, rule)
        lines.append(
            f"| {name} | {'no' if rule is None else 'Genesis'} | {found.seen} | "
            f"{found.coverage:.0%} | {found.passes:.1f} |"
        )
    return lines


def _shown(spread: Spread) -> str:
    return f"{spread.least:,} to {spread.most:,}, mean {spread.mean:,.1f}"


def holders_of(shards: Sequence[str], nodes: Sequence[str], holders: int) -> np.ndarray:
    """The holders of every shard by rendezvous hashing, as places in `nodes`, sorted:
    (shards, min(holders, nodes)) int64. Raises RecipeError.
    """
    seeds, names = _node_seeds(nodes, holders), _seeds(shards)
    count = min(holders, len(seeds))
    found = np.empty((len(names), count), np.int64)
    step = max(BLOCK // len(seeds), 1)
    for at in range(0, len(names), step):
        weights = _weights(seeds[None, :], names[at : at + step, None])
        best = np.argpartition(weights, len(seeds) - count, axis=1)[:, len(seeds) - count :]
        found[at : at + step] = np.sort(best, axis=1)
    return found
