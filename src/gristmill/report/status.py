"""Status: where a run stands, and what was dropped where.

Reads records only; asks nothing of a run that is at work.
"""

import fcntl
import os
from pathlib import Path
from typing import Any

from gristmill.corpus.corpus import Corpus, Record
from gristmill.errors import RecipeError
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.output.publish import read_plan
from gristmill.schema import shard_name
from gristmill.store.manifest import MANIFEST

PER_SHARD = ("process", "write_verdicts", "tokenize")


def status(corpus: Path | str) -> dict[str, Any]:
    """Where a corpus stands: `finished`, `running`, shards done by phase, and the reasons counted
    so far.
    """
    root = Path(corpus)
    if not root.is_dir() or not ((root / "work").is_dir() or (root / MANIFEST).exists()):
        raise RecipeError(f"{root}: no corpus there")
    here = Corpus(root)
    published = here.published()
    plan = read_plan(here, None)
    told: dict[str, Any] = {
        "finished": published is not None,
        "running": held(root),
        "shards": len(plan.shards),
        "fetched": sum(1 for shard in plan.shards if shard.sha256 is not None),
        "missing": sum(1 for shard in plan.shards if shard.missing is not None),
    }
    records = {phase: _records(here, phase, plan) for phase in PER_SHARD}
    told["phases"] = {
        phase: sum(record is not None for record in found) for phase, found in records.items()
    }
    if published is not None:
        told["funnel"] = published[0].funnel
    documents = reasons = 0
    for processed, verdicts_written in zip(
        records["process"], records["write_verdicts"], strict=True
    ):
        if verdicts_written is not None:
            documents += verdicts_written.counts["documents"]
            reasons += sum(verdicts_written.counts["reasons"].values())
        elif processed is not None:
            documents += processed.counts["raw"]["documents"]
            reasons += processed.counts["raw"]["documents"] - processed.counts["kept"]["documents"]
    told["documents"], told["dropped"] = documents, reasons
    return told


def _records(corpus: Corpus, phase: str, plan: Plan) -> list[Record | None]:
    return [corpus.last(phase, shard_name(shard.number)) for shard in plan.shards]


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


def lines(told: dict[str, Any]) -> list[str]:
    """For people."""
    state = (
        "running"
        if told["running"]
        else "finished"
        if told["finished"]
        else "not finished: run the recipe again"
    )
    out = [
        state,
        f"raw shards {told['shards']}, fetched {told['fetched']}"
        + (f", absent {told['missing']}" if told["missing"] else ""),
    ]
    out += [f"  {phase}: {done} of {told['shards']}" for phase, done in told["phases"].items()]
    out.append(f"documents {told['documents']:,}, dropped so far {told['dropped']:,}")
    return out
