"""Which shards a node reads: two rules, both pure functions of names and numbers.

genesis      ten shards in a row, from `sha256(node_id) mod n` on; rotation r takes the ten behind
             10 r. A node needs to know nobody else. Which shards have no reader is chance.
rendezvous   every shard has exactly r holders among the nodes of a list (highest random weight:
             Thaler and Ravishankar 1998). When a node leaves, only its shards move.

Shards are numbered as `shards_of` lists them, from 0.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from gristmill.errors import RecipeError

SHARDS = 10  # that Genesis gives to a node at a time
BLOCK = 1 << 20  # weights that are computed together


def primary_shard(node_id: str, shards: int) -> int:
    """Return Genesis' first shard of a node: `sha256(node_id) mod shards`, the digest as a
    big-endian number. Raises RecipeError.
    """
    if shards < 1:
        raise RecipeError("there are no shards to assign")
    return int.from_bytes(_digest(node_id), "big") % shards


def genesis(node_id: str, shards: int, rotation: int = 0, count: int = SHARDS) -> list[int]:
    """Return the shards of a node in a rotation by Genesis' rule: `count` in a row, after the last
    comes the first. With fewer shards than `count`, some are named twice, as there. Raises
    RecipeError.
    """
    _check_place(rotation, count)
    first = primary_shard(node_id, shards) + rotation * count
    return [(first + i) % shards for i in range(count)]


def rendezvous(
    node_id: str, shards: Sequence[str], nodes: Sequence[str], holders: int
) -> list[int]:
    """Return all shards that a node holds, those of its highest weights first.

    `shards` are the names of the shards (their paths in the corpus), `nodes` the ids of all nodes,
    in any order. With no more nodes than `holders`, every node holds every shard. Raises
    RecipeError.
    """
    seeds = _node_seeds(nodes, holders)
    if node_id not in nodes:
        raise RecipeError(
            f"node {node_id!r} is not in the list of {len(nodes):,} nodes: add it, on all nodes"
        )
    own, names = _seed(node_id), _seeds(shards)
    indexes, weights = [], []
    step = max(BLOCK // len(seeds), 1)
    for at in range(0, len(names), step):
        some = names[at : at + step]
        mine = _weights(own, some)
        higher = (_weights(seeds[None, :], some[:, None]) > mine[:, None]).sum(axis=1)
        held = np.flatnonzero(higher < holders)
        indexes.append(held + at)
        weights.append(mine[held])
    if not indexes:
        return []
    places, weight = np.concatenate(indexes), np.concatenate(weights)
    order = np.lexsort((places, ~weight))  # the highest weight first; of equals the first shard
    return [int(place) for place in places[order]]


def turn(own: Sequence[int], rotation: int, count: int = SHARDS) -> list[int]:
    """Return the shards of a rotation out of all that a node holds: `count` of them, from `rotation
    * count` on; after the last comes the first. No shard is named twice. Raises RecipeError.
    """
    _check_place(rotation, count)
    if not own:
        return []
    first = rotation * count
    return list(dict.fromkeys(own[(first + i) % len(own)] for i in range(count)))


def check_holders(holders: int) -> None:
    """Raise RecipeError unless it is a number of holders."""
    if isinstance(holders, bool) or not isinstance(holders, int) or holders < 1:
        raise RecipeError(f"holders = {holders!r}: it is a number of 1 or more")


def _check_place(rotation: int, count: int) -> None:
    for name, value, least in (("rotation", rotation, 0), ("shards", count, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise RecipeError(f"{name} = {value!r}: it is a number of {least} or more")


def _node_seeds(nodes: Sequence[str], holders: int) -> np.ndarray:
    check_holders(holders)
    if not nodes:
        raise RecipeError("the list of nodes is empty: rendezvous hashing needs the ids of all")
    if len(set(nodes)) != len(nodes):
        twice = next(node for place, node in enumerate(nodes) if node in nodes[:place])
        raise RecipeError(f"the list of nodes names {twice!r} twice")
    return _seeds(nodes)


def _digest(text: str) -> bytes:
    if not isinstance(text, str) or not text:
        raise RecipeError(f"node_id = {text!r}: it is a text of one character or more")
    try:
        return hashlib.sha256(text.encode()).digest()
    except UnicodeEncodeError as error:
        raise RecipeError(f"node_id = {text!r}: it cannot be written as UTF-8") from error


def _seed(text: str) -> np.uint64:
    """Return the first 8 bytes of the sha256 of a name, big-endian."""
    return np.uint64(int.from_bytes(_digest(text)[:8], "big"))


def _seeds(names: Sequence[str]) -> np.ndarray:
    return np.array([_seed(name) for name in names], np.uint64)


def _weights(nodes: np.ndarray | np.uint64, shards: np.ndarray) -> np.ndarray:
    """Return the weights of pairs, uint64: the two seeds combined by exclusive or, through the
    finaliser of SplitMix64 (Steele and others 2014, Stafford's variant 13). It is one to one: of a
    shard, no two nodes have one weight.
    """
    x = np.bitwise_xor(nodes, shards)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
