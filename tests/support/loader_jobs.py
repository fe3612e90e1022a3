"""Jobs of several ranks, each with several workers, in one process, as their trainer sees them."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gristmill import Loader, TokenCorpus
from gristmill.loader.batch import Batch


def batches_of(
    corpus: TokenCorpus | Path, workers: int, state: Mapping[str, Any] | None, **settings: Any
) -> Iterator[tuple[Batch, dict[str, Any]]]:
    """The batches of a rank, and after each the state that a trainer saves: of one loader, or of
    `workers` that take turns, as torch's DataLoader has them.
    """
    loaders = [Loader(corpus, state=state, **settings) for _ in range(max(workers, 1))]
    for number, loader in enumerate(loaders[:workers]):
        loader.share(number, workers)
    try:
        for loader in itertools.cycle(loaders):
            batch = next(loader)
            yield batch, loader.state_dict()
    finally:
        for loader in loaders:
            loader.close()


def job(
    corpus: TokenCorpus | Path,
    world: int,
    steps: int,
    *,
    workers: int = 0,
    state: Mapping[str, Any] | None = None,
    lost: int = 0,
    **settings: Any,
) -> tuple[list[Batch], list[dict[str, Any]]]:
    """The batches of all ranks of a job, step by step in the order of the ranks, and the ranks'
    states behind the last step. `lost`: batches of the next step that each rank has trained on when
    the job dies, fewer than a step has; the states are of then.
    """
    with Loader(corpus, world_size=world, state=state, **settings) as first:
        start = first.state_dict()
        window = first.plan.window_of(first.step + steps)
        per_step, next_step = batches_of_step(first, first.windows), batches_of_step(first, window)
    ranks = [
        batches_of(corpus, workers, state, rank=rank, world_size=world, **settings)
        for rank in range(world)
    ]
    found: list[Batch] = []
    states = [start] * world
    for _ in range(steps):
        for rank, stream in enumerate(ranks):
            for batch, after in itertools.islice(stream, per_step):
                found.append(batch)
                states[rank] = after
    for rank, stream in enumerate(ranks):
        for _, after in itertools.islice(stream, min(lost, next_step - 1)):
            states[rank] = after
        stream.close()  # type: ignore[attr-defined]
    return found, states


def batches_of_step(loader: Loader, window: int) -> int:
    """The batches of a rank in the step that begins at a window."""
    rows, micro = loader._maker.rows_of(loader.plan.segments[loader.plan.segment_at(window)])
    return rows // micro


def rows(batches: list[Batch]) -> list[list[int]]:
    """The tokens of all rows."""
    return [row for batch in batches for row in batch.tokens.tolist()]
