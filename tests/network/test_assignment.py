"""Assignment: Genesis' rule against the code of its page, rendezvous hashing against plain Python,
and what follows from them.
"""

import hashlib
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulate import holders_of
from gristmill.errors import RecipeError
from gristmill.network.node.assignment import genesis, rendezvous, turn
from tests.support import strategies


def genesis_twin(node_id: str, num_shards: int) -> list[int]:
    """As NeuroShard's page shows it (docs-site/architecture/genesis-data.md)."""
    node_hash = int(hashlib.sha256(node_id.encode()).hexdigest(), 16)
    primary = node_hash % num_shards
    return [(primary + i) % num_shards for i in range(10)]


def weight_twin(node: str, shard: str) -> int:
    """SplitMix64's finaliser in Python's own integers."""
    first, second = (
        int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) for name in (node, shard)
    )
    x = first ^ second
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = ((x ^ (x >> shift)) * factor) % (1 << 64)
    return x ^ (x >> 31)


@strategies.fuzz(100)
@given(node=st.text(min_size=1), shards=st.integers(1, 700_000), rotation=st.integers(0, 80_000))
def test_genesis_is_the_rule_of_its_page(node: str, shards: int, rotation: int) -> None:
    try:
        node.encode()
    except UnicodeEncodeError:
        with pytest.raises(RecipeError, match="UTF-8"):
            genesis(node, shards)
        return
    first = genesis_twin(node, shards)
    assert genesis(node, shards) == first
    assert genesis(node, shards, rotation) == [(n + 10 * rotation) % shards for n in first]


def test_genesis_has_known_values() -> None:
    assert genesis("node-1", 128)[0] == int(hashlib.sha256(b"node-1").hexdigest(), 16) % 128
    assert genesis("a", 3) == [(genesis("a", 3)[0] + i) % 3 for i in range(10)]
    seen = {shard for rotation in range(50) for shard in genesis("node", 500, rotation)}
    assert seen == set(range(500))


@strategies.fuzz(60)
@given(
    nodes=st.lists(st.text("abcdefgh", min_size=1), min_size=1, max_size=12, unique=True),
    shards=st.integers(0, 40),
    holders=st.integers(1, 5),
)
def test_rendezvous_is_plain_python(nodes: list[str], shards: int, holders: int) -> None:
    names = [f"tokens/web/train_{number:05}.bin" for number in range(shards)]
    expected: dict[str, list[tuple[int, int]]] = {node: [] for node in nodes}
    for number, name in enumerate(names):
        best = sorted(nodes, key=lambda node: weight_twin(node, name), reverse=True)[:holders]
        for node in best:
            expected[node].append((-weight_twin(node, name), number))
    table = holders_of(names, nodes, holders)
    assert table.shape == (shards, min(holders, len(nodes)))
    for place, node in enumerate(nodes):
        own = rendezvous(node, names, nodes, holders)
        assert own == [number for _, number in sorted(expected[node])]
        assert sorted(own) == np.flatnonzero((table == place).any(axis=1)).tolist()


def test_when_a_node_leaves_only_its_shards_move() -> None:
    nodes = [f"node-{number}" for number in range(60)]
    names = [f"tokens/web/train_{number:05}.bin" for number in range(2000)]
    before = holders_of(names, nodes, 3)
    assert len(np.unique(before.reshape(-1))) == 60  # every node has some
    after = holders_of(names, nodes[:-1], 3)
    lost = (before == 59).any(axis=1)
    assert np.array_equal(before[~lost], after[~lost])
    assert 0 < lost.sum() < 200
    for old, new in zip(before[lost], after[lost], strict=True):
        assert len(set(old) & set(new)) == 2
    # Neither the order of the list nor further shards change a holder.
    mixed = random.Random(1).sample(nodes, len(nodes))
    assert rendezvous("node-7", names, mixed, 3) == rendezvous("node-7", names, nodes, 3)
    more = rendezvous("node-7", [*names, "tokens/web/train_02000.bin"], nodes, 3)
    assert [n for n in more if n < 2000] == rendezvous("node-7", names, nodes, 3)


def test_turns_go_through_all_shards_of_a_node() -> None:
    own = list(range(100, 123))
    assert turn(own, 0) == own[:10]
    assert turn(own, 2) == [*own[20:], *own[:7]]
    assert turn([4, 5], 3) == [4, 5]
    assert turn([], 0) == []


def test_what_is_refused() -> None:
    for call, said in [
        (lambda: genesis("", 5), "node_id = ''"),
        (lambda: genesis(7, 5), "node_id = 7"),  # type: ignore[arg-type]
        (lambda: genesis("a", 0), "no shards to assign"),
        (lambda: genesis("a", 5, -1), "rotation = -1"),
        (lambda: genesis("a", 5, 0, 0), "shards = 0"),
        (lambda: rendezvous("a", ["x"], ["b"], 1), "node 'a' is not in the list of 1 nodes"),
        (lambda: rendezvous("a", ["x"], ["a", "a"], 1), "names 'a' twice"),
        (lambda: rendezvous("a", ["x"], [], 1), "list of nodes is empty"),
        (lambda: rendezvous("a", ["x"], ["a"], 0), "holders = 0"),
    ]:
        with pytest.raises(RecipeError, match=said):
            call()
