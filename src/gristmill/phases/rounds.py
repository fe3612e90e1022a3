"""Rounds: the phases of a run, in order.

Where sources have targets, the phases up to tokenize run for a few raw shards at a time, until it
is known where each source ends (phases/output/settle.py); then come the others.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from gristmill.errors import GristmillError, SourceError
from gristmill.phases.all_phases import PHASES, is_last
from gristmill.phases.inputs import plan
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.output import write_manifest
from gristmill.phases.output.settle import count_tokens, next_wave, refuse_shrinking, settle
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.phase import Phase, State
from gristmill.phases.phase_runner import Ran
from gristmill.phases.process import process


class ShardsFailed(SourceError):
    """Some raw shards failed; the others are finished, and what was done is kept."""


class Runner(Protocol):
    """Runs the tasks of a phase (PhaseRunner, PartRunner)."""

    def each(self, phase: Phase[Any], tasks: dict[int, Any], state: State) -> Ran:
        """Run those tasks that are not done."""
        ...


class PhaseRounds(NamedTuple):
    """What running the phases needs besides the state."""

    runner: Runner
    allow_missing: bool
    fetch: Callable[[State, Iterable[int]], State]  # have raw shards here, and pin them
    drop_damaged: Callable[[str], bool]  # take a copy out of the cache if it is damaged
    finished: Plan  # of the state that is finished; empty: none is
    only_grows: bool  # whether no document of that state may be lost
    wave: int  # raw shards that are read at once, at least

    def through(self, state: State, until: str | None) -> State | None:
        """Run the phases that are not done; null: `until` stopped it.

        Raises Damaged, and may then be called again.
        """
        state = state._replace(records={})
        if not state.recipe.targets():
            return self._run(state, PHASES, until)
        behind = PHASES.index(TOKENIZE) + 1
        seen = self._settle(state, until, behind)
        if seen is None or until == TOKENIZE.stops_by:
            return None
        return self._run(seen, PHASES[behind:], until)

    def _settle(self, state: State, until: str | None, behind: int) -> State | None:
        """Run the phases up to tokenize until every source has reached its target or its end."""
        before = None if until == TOKENIZE.stops_by else until
        while True:
            seen = self._run(state._replace(records={}), PHASES[:behind], before)
            if seen is None:
                return None
            settled = settle(seen, len(self.finished.shards))
            if self.only_grows:
                refuse_shrinking(self.finished, settled)
            wave = next_wave(settled, seen.recipe, count_tokens(seen), self.wave)
            if settled == seen.plan and not wave:
                return seen
            write_manifest.write_plan(seen.corpus, settled)
            state = self.fetch(seen._replace(plan=settled), wave)

    def _run(self, state: State, phases: Iterable[Phase[Any]], until: str | None) -> State | None:
        for phase in phases:
            state.records[phase.name] = {}
            if phase.is_asked_by(state.recipe):
                state = self._phase(phase, state)
            if until == phase.stops_by and is_last(phase):
                return None
        return state

    def _phase(self, phase: Phase[Any], state: State) -> State:
        """Run one phase; the state with its records."""
        records = state.records[phase.name]
        seen = state.of_phase(phase)
        for tasks in phase.tasks(seen):
            ran = self.runner.each(phase, tasks, state)
            records |= ran.records
            state = self._failed(phase, ran.failed, state)
        refused = phase.check(seen) if phase.check else {}
        state = self._failed(phase, refused, state)
        for number in refused:
            del records[number]
        state.records[phase.name] = dict(sorted(records.items()))
        return state

    def _failed(self, phase: Phase[Any], failed: dict[int, GristmillError], state: State) -> State:
        """Say what failed, and raise ShardsFailed; or go on without shards that could not be read,
        as --allow-missing asks.
        """
        lines = [
            f"{phase.label(number, state)}: {error}{self._mend(phase, number, state)}"
            for number, error in failed.items()
        ]
        absent = phase is process.PROCESS and self.allow_missing
        for line in lines:
            state.progress.line(f"absent: {line}" if absent else f"failed: {phase.name}: {line}")
        if failed and absent:
            state = state._replace(plan=plan.without(state.plan, failed))
            write_manifest.write_plan(state.corpus, state.plan)
        elif failed:
            raise ShardsFailed(
                f"{phase.name} failed for {len(failed)}: {'; '.join(lines[:3])}. "
                "The others are done and kept; run again to try these again"
            )
        return state

    def _mend(self, phase: Phase[Any], number: int, state: State) -> str:
        """Take a damaged copy out of the cache, so that the next run fetches it again."""
        if phase is not process.PROCESS:
            return ""
        sha256 = state.plan.shards[number].sha256
        if sha256 is not None and self.drop_damaged(sha256):
            return " (the copy in the cache was damaged and is removed: run again to fetch it)"
        return ""
