"""Process raw shards while others are still fetched.

    a shard is here, and pinned -> its task of `process` begins (PhaseRunner.begin)
      -> when all are here, the phase takes these tasks over, finished or not

So a run over a slow line takes as long as the slower of the two. Tasks, content keys and records
are those of the phase. What one task fails of is told by the phase, but for errors that would stop
the run anyway: these end the fetch as well. Only shards from the network begin early, on engines
that can take jobs one by one.
"""

from contextlib import suppress
from pathlib import Path

from gristmill.errors import MachineError
from gristmill.phases.inputs.plan import PlannedShard
from gristmill.phases.phase import State
from gristmill.phases.phase_runner import PhaseRunner
from gristmill.phases.process import process


class ProcessWhileFetching:
    """The tasks of `process` that begin before all shards are here."""

    def __init__(self, runner: PhaseRunner, state: State, *, begun: bool) -> None:
        """`begun`: shards were processed before this run (process.check_room)."""
        self._runner, self._state, self._begun = runner, state, begun
        self._seen = state.of_phase(process.PROCESS)
        self._here: list[PlannedShard] = []

    def shard_is_here(self, shard: PlannedShard, path: Path) -> None:
        """Begin with a pinned shard, if there is room on the disk for what is here."""
        self._here.append(shard)
        task = process.make_task(self._seen._replace(paths={shard.number: path}), shard)
        if task is None:
            return
        with suppress(MachineError):  # the phase says it of all shards
            process.check_room(self._state.corpus, self._here, begun=self._begun)
            self._runner.begin(process.PROCESS, shard.number, task, self._state)

    def go_on(self) -> bool:
        """Hand tasks to idle workers, take answers; whether any task is under way. Does not wait.

        Raises MachineError, RecipeError and what is not gristmill's.
        """
        return self._runner.go_on()
