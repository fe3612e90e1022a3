"""Status: which phases of a run are done, and what was dropped where.

Reads records only; asks nothing of a run that is at work.
"""

import fcntl
import os
from pathlib import Path
from typing import Any

from gristmill.corpus.corpus import Corpus, Record
from gristmill.errors import RecipeError
from gristmill.phases.all_phases import PHASES
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.output.write_manifest import read_plan
from gristmill.phases.phase import Phase
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.write_verdicts import WRITE_VERDICTS
from gristmill.schema import shard_name
from gristmill.store.manifest import MANIFEST


def status(corpus: Path | str) -> dict[str, Any]:
    """The state of a corpus: `finished`, `running`, shards done by phase, and the reasons counted
    so far.
    """
    root = Path(corpus)
    if not root.is_dir() or not ((root / "work").is_dir() or (root / MANIFEST).exists()):
        raise RecipeError(f"{root}: no corpus there")
    here = Corpus(root)
    finished = here.finished()
    plan = read_plan(here, None)
    found: dict[str, Any] = {
        "finished": finished is not None,
        "running": held(root),
        "shards": len(plan.shards),
        "fetched": sum(1 for shard in plan.shards if shard.sha256 is not None),
        "missing": sum(1 for shard in plan.shards if shard.missing is not None),
    }
    records = {
        phase.name: _records(here, phase, plan) for phase in PHASES if phase.scope == "shard"
    }
    # Of a phase that only some recipes ask for, nothing is said until it has begun.
    found["phases"] = {
        phase.name: len(records[phase.name])
        for phase in PHASES
        if phase.name in records and (phase.is_asked is None or records[phase.name])
    }
    if finished is not None:
        found["funnel"] = finished[0].funnel
    documents = dropped = 0
    written = records[WRITE_VERDICTS.name]
    for number, processed in records[PROCESS.name].items():
        if number in written:
            documents += written[number].counts.documents
            dropped += sum(written[number].counts.reasons.values())
        else:
            raw, kept = processed.counts.raw, processed.counts.kept
            documents += raw.documents
            dropped += raw.documents - kept.documents
    found["documents"], found["dropped"] = documents, dropped
    return found


def _records(corpus: Corpus, phase: Phase[Any], plan: Plan) -> dict[int, Record[Any]]:
    """The records of a phase's tasks that are done, by shard."""
    found = {}
    for shard in plan.shards:
        record = corpus.last(phase.name, shard_name(shard.number), phase.counts)
        if record is not None:
            found[shard.number] = record
    return found


def held(root: Path) -> bool:
    """Whether a run holds the corpus."""
    try:
        handle = os.open(root / "work/lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def lines(found: dict[str, Any]) -> list[str]:
    """For people."""
    state = (
        "running"
        if found["running"]
        else "finished"
        if found["finished"]
        else "not finished: run the recipe again"
    )
    out = [
        state,
        f"raw shards {found['shards']}, fetched {found['fetched']}"
        + (f", absent {found['missing']}" if found["missing"] else ""),
    ]
    out += [f"  {phase}: {done} of {found['shards']}" for phase, done in found["phases"].items()]
    out.append(f"documents {found['documents']:,}, dropped so far {found['dropped']:,}")
    return out
