"""Settle: where a source with a target ends, from the tokens of its kept documents.

    tokens of a source's documents, in document order -> the first at which they reach the target
      -> the plan: `cut` in its shard, and the shards after it set aside

Documents behind a cut are left out before duplicates are looked for, so a cut may change what later
sources keep, and where those reach their targets. Therefore the phases are run again until no cut
moves. A document depends on earlier ones only, so that is after two rounds for each source at most,
and the result is the only one: it does not depend on how many shards were read on the way.
"""

import math
from collections.abc import Mapping

import numpy as np
import pyarrow.parquet as pq

from gristmill.errors import RecipeError
from gristmill.phases.inputs.plan import (
    Plan,
    PlannedShard,
    TargetCut,
    find_cut,
    with_cut,
    without_cut,
)
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.phase import State
from gristmill.recipe import Recipe
from gristmill.store.proof import proven
from gristmill.tables.schema import shard_name

SPARE = 1.1  # shards that are read, for each that seems to be needed
MOST_GROWTH = 4  # shards of a wave, for each that was read before


def settle(state: State, finished: int) -> Plan:
    """Return the plan, its sources cut where their tokens reach their targets; the same plan where
    all cuts are right. `finished` is how many shards a finished state has.
    """
    shards: list[PlannedShard] = list(state.plan.shards)
    for name, target in state.recipe.targets().items():
        cut = _reached(state, name, target)
        if cut is not None:
            shards = with_cut(shards, *cut, finished)
        elif find_cut(shards, name) is not None:
            shards = without_cut(shards, name)
    return Plan(shards=shards)


def _reached(state: State, source: str, target: int) -> tuple[int, TargetCut] | None:
    """Return the shard in which a source reaches its target, and where; None: it does not."""
    total = 0
    for number, record in sorted(state.of(TOKENIZE).items()):
        if state.plan.shards[number].source != source:
            continue
        if total + record.counts.tokens < target:
            total += record.counts.tokens
            continue
        path = state.corpus.work_file(f"tokens/{shard_name(number)}.parquet")
        sha256 = next(part.sha256 for part in record.work if part.path.endswith(path.name))
        index = pq.read_table(proven(path, sha256), columns=["document", "tokens"])
        sums = total + np.cumsum(index["tokens"].to_numpy())
        place = int(np.searchsorted(sums, target))
        row = (index["document"][place].as_py() & 0xFFFFFFFF) + 1
        return number, TargetCut(row=row, tokens=int(sums[place]), target=target)
    return None


def count_tokens(state: State) -> dict[str, tuple[int, int]]:
    """Of each source how many of its shards were tokenized, and their tokens."""
    counts: dict[str, tuple[int, int]] = {}
    for number, record in state.of(TOKENIZE).items():
        name = state.plan.shards[number].source
        count, tokens = counts.get(name, (0, 0))
        counts[name] = (count + 1, tokens + record.counts.tokens)
    return counts


def next_wave(
    plan: Plan, recipe: Recipe, read: Mapping[str, tuple[int, int]], least: int
) -> list[int]:
    """Return the shards to read next: by priority, all of a source without a target, and of one
    with a target about as many as it needs, at least `least`; later sources wait for it.

    `read` is what `count_tokens` says. No result depends on how many are read at once.
    """
    targets = recipe.targets()
    wave: list[int] = []
    for source in sorted(recipe.source, key=lambda source: -source.priority):
        waiting = [
            shard.number
            for shard in plan.shards
            if shard.source == source.name and shard.missing is None and shard.sha256 is None
        ]
        if not waiting:
            continue
        if source.name not in targets:
            wave += waiting
            continue
        count, tokens = read.get(source.name, (0, 0))
        needed = least
        if tokens:
            missing = targets[source.name] - tokens
            needed = min(math.ceil(SPARE * missing * count / tokens), MOST_GROWTH * count)
        return sorted([*wave, *waiting[: max(needed, least)]])
    return sorted(wave)


def refuse_shrinking(before: Plan, plan: Plan) -> None:
    """Raise RecipeError where the full shards of an append-only corpus would lose documents.
    `before` is the finished plan.
    """
    for old, new in zip(before.shards, plan.shards, strict=False):
        rows = [shard.cut.row if shard.cut is not None else None for shard in (old, new)]
        if rows[0] != rows[1] or bool(old.missing) != bool(new.missing):
            raise RecipeError(
                f"source {new.source!r}: with its target as it is now it would lose documents of "
                f'raw shard {new.number}, and with order = "append" token shards that are written '
                "never change. Keep the target, raise it, or start a new corpus"
            )
