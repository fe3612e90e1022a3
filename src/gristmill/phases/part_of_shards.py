"""A run that does a part of the raw shards: `--shards 3/16`, a job of an array (docs/scale.md).

Such jobs work side by side on one corpus in a shared folder. Each does the phases that work shard
by shard, for its shards: those whose number divided by 16 leaves 2. It ends where a phase about the
whole corpus comes, or where other jobs are not done; then a run without `--shards` goes on. Tasks,
content keys, parts and records are those of a run on one machine.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.corpus.corpus import Corpus, Record
from gristmill.corpus.lock import take
from gristmill.corpus.stored_corpus import StoredCorpus
from gristmill.errors import RecipeError
from gristmill.phases.inputs.fetch import label
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.phase import Phase, State
from gristmill.phases.phase_runner import PhaseRunner, Ran
from gristmill.phases.rounds import PhaseRounds
from gristmill.store.cache import Cache
from gristmill.store.http.urls import is_url, local_path
from gristmill.store.parts import machine_errors

FOLDER = "parts-of-shards"  # of work/: a lock for each part that a job works on
MOST = 1 << 20


class ShardsPart(NamedTuple):
    """Part `number` of `count`, from 1 on."""

    number: int
    of: int

    def has(self, shard: int) -> bool:
        """Return whether a shard is in it."""
        return shard % self.of == self.number - 1


def parse(given: str, engine: str = "local") -> ShardsPart:
    """Return the part that `3/16` names. Raises RecipeError, also for an engine that has no
    parts.
    """
    match = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", given)
    part = ShardsPart(int(match[1]), int(match[2])) if match else ShardsPart(0, 0)
    if not 1 <= part.number <= part.of <= MOST:
        raise RecipeError(
            f"--shards {given}: write I/N, such as 3/16: part 3 of 16, from 1 to {MOST:,}"
        )
    if engine != "local":
        raise RecipeError(f"--shards is for the local engine, and not for {engine}")
    return part


class PartDone(Exception):
    """What this job can do is done; its text says what comes next."""


class PartRunner:
    """Runs those tasks of a phase that are of its shards; for PhaseRounds, as PhaseRunner."""

    def __init__(self, runner: PhaseRunner, corpus: Corpus, part: ShardsPart) -> None:
        """`runner` runs the tasks."""
        self._runner, self._corpus, self._part = runner, corpus, part

    def each(self, phase: Phase[Any], tasks: dict[int, Any], state: State) -> Ran:
        """Run the tasks of the part's shards that are not done.

        Raises PartDone where tasks of others are not, and as PhaseRunner does.
        """
        mine = {
            number: task
            for number, task in tasks.items()
            if phase.scope == "shard" and self._part.has(number)
        }
        ran = self._runner.each(phase, mine, state) if mine else Ran({}, {})
        records, left = dict(ran.records), 0
        for number in tasks.keys() - mine.keys():
            # Its files are checked by the job that goes on with them.
            record = self._record(phase, number, tasks[number], state)
            if record is None:
                left += 1
            else:
                records[number] = record
        if left and not ran.failed:
            raise PartDone(_next(phase, left, self._part))
        return Ran(dict(sorted(records.items())), ran.failed)

    def _record(
        self, phase: Phase[Any], number: int, task: Any, state: State
    ) -> Record[Any] | None:
        name = phase.record_name(number, state.recipe)
        record = self._corpus.last(phase.name, name, phase.counts)
        return record if record is not None and record.key == phase.key(task) else None


def _next(phase: Phase[Any], left: int, part: ShardsPart) -> str:
    said = f"part {part.number} of {part.of} is done up to {phase.name}"
    if phase.scope == "shard":
        return f"{said}; {left:,} shards are for other jobs"
    return f"{said}, which is about the whole corpus: when all parts are done, run without --shards"


@contextmanager
def held(corpus: Corpus, part: ShardsPart) -> Iterator[int]:
    """Hold a part of the shards; the descriptor of the corpus' lock, which workers inherit.

    Raises MachineError where a whole run is at work, or another job on this part, and RecipeError
    where there is no run to be a part of.
    """
    if isinstance(corpus, StoredCorpus):
        raise RecipeError(
            f"--shards is for jobs that share a folder, and {corpus.name} is an object store. Run "
            "with --engine spark://..., or in a folder, and publish the corpus to the store"
        )
    if not corpus.work.is_dir():
        raise RecipeError(_first(corpus))
    with machine_errors(corpus.root, every=True):
        corpus.own()
    folder = corpus.work / FOLDER
    folder.mkdir(exist_ok=True)
    busy = f"{corpus.root}: a run without --shards is at work on this corpus. Wait for it"
    whole = take(corpus.work / "lock", busy, shared=True)
    try:
        busy = f"{corpus.root}: another job is at work on part {part.number} of {part.of}"
        own = take(folder / f"{part.number}-of-{part.of}", busy)
        try:
            finished = corpus.finished()
            corpus.trust(finished[0].parts if finished else [])
            yield whole
        finally:
            os.close(own)
    finally:
        os.close(whole)


def run_part(
    part: ShardsPart, runner: PhaseRunner, state: State, cache: Cache, until: str | None
) -> None:
    """Run the phases for a part of the shards, as far as they go; `state` has the plan, and no
    paths. Raises what PhaseRounds raises.
    """
    if state.recipe.targets():
        raise RecipeError(
            "--shards is for sources without targets: where a source ends hangs on all its shards"
        )
    rounds = PhaseRounds(
        PartRunner(runner, state.corpus, part),
        allow_missing=False,
        fetch=lambda state, _: state,
        drop_damaged=cache.drop_damaged,
        finished=Plan(),
        only_grows=False,
        wave=1,
    )
    paths = raw_paths(state.plan, state.folder, cache, state.corpus)
    try:
        rounds.through(state._replace(paths=paths), until)
    except PartDone as done:
        state.progress.line(str(done))


def raw_paths(plan: Plan, folder: Path, cache: Cache, corpus: Corpus) -> dict[int, Path]:
    """Return where the raw shards of a plan are. Raises RecipeError for one that is not fetched
    yet.
    """
    paths = {}
    for shard in plan.shards:
        if shard.missing is not None:
            continue
        if shard.sha256 is None:
            raise RecipeError(f"{label(shard)} is not fetched. {_first(corpus)}")
        if shard.url.startswith("file://"):
            paths[shard.number] = Path(local_path(shard.url).decode())
        elif is_url(shard.url):
            paths[shard.number] = cache.object(shard.sha256)
        else:
            paths[shard.number] = folder if shard.files else folder / shard.url
    if not paths:
        raise RecipeError(_first(corpus))
    return paths


def _first(corpus: Corpus) -> str:
    return (
        f"{corpus.root}: --shards is for the jobs of an array. Before them, run the recipe "
        "once with --until fetch, which plans and fetches for all"
    )
