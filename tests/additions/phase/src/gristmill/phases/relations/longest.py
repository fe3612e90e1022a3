"""The longest documents: a list of the largest raw shards, by the documents they keep."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gristmill.corpus.corpus import Corpus
from gristmill.phases.phase import Output, Phase, Runtime, State
from gristmill.phases.process.process import PROCESS
from gristmill.store.parts import write_json


class Longest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """List the largest raw shards."""

    most: Annotated[int, Meta(ge=1)] = 10  # How many are listed.


class LongestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was listed."""

    shards: int


class LongestTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that the list needs."""

    root: Runtime[str]
    kept: dict[int, int]  # of each raw shard its bytes of text
    most: int


def longest(task: LongestTask, on_progress: Callable[[int], None], session: Any) -> Output:
    """List the largest shards."""
    listed = sorted(task.kept, key=lambda number: (-task.kept[number], number))[: task.most]
    part = write_json(Corpus(Path(task.root)).stage, "judgement/longest.json", listed)
    return Output(LongestCounts(shards=len(listed)), [part])


def tasks(state: State) -> Iterator[dict[int, LongestTask]]:
    """Give one task, of all shards that were processed."""
    kept = {number: record.counts.kept.bytes for number, record in state.of(PROCESS).items()}
    yield {0: LongestTask(root=str(state.corpus.root), kept=kept, most=state.settings.most)}


LONGEST = Phase(
    name="longest",
    scope="corpus",
    recipe=(),
    settings=Longest,
    example="most = 3",
    reads=("documents",),
    writes=("judgement",),
    formats=("longest",),
    counts=LongestCounts,
    function=longest,
    tasks=tasks,
)
