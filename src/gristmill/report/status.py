"""Status: where a run stands, and what was dropped where. Reads records only; asks nothing of a run that is at work."""

import fcntl
import os
from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError
from gristmill.phases.corpus import Corpus, Record
from gristmill.phases.plan import Plan
from gristmill.phases.publish import read_plan
from gristmill.store.manifest import MANIFEST

PER_SHARD = ("refine", "settle", "tokenize")


def status(corpus: Path | str) -> dict[str, Any]:
    """Where a corpus stands: `finished`, `running`, shards done by phase, and the reasons counted so far."""
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
    told["phases"] = {phase: sum(record is not None for record in found) for phase, found in records.items()}
    if published is not None:
        told["funnel"] = published[0].funnel
    documents = reasons = 0
    for refined, settled in zip(records["refine"], records["settle"], strict=True):
        if settled is not None:
            documents += settled.counts["documents"]
            reasons += sum(settled.counts["reasons"].values())
        elif refined is not None:
            documents += refined.counts["raw"]["documents"]
            reasons += refined.counts["raw"]["documents"] - refined.counts["kept"]["documents"]
    told["documents"], told["dropped"] = documents, reasons
    return told


def _records(corpus: Corpus, phase: str, plan: Plan) -> list[Record | None]:
    return [corpus.last(phase, f"{shard.number:05d}") for shard in plan.shards]


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
    state = "running" if told["running"] else "finished" if told["finished"] else "not finished: run the recipe again"
    out = [
        state,
        f"raw shards {told['shards']}, fetched {told['fetched']}"
        + (f", absent {told['missing']}" if told["missing"] else ""),
    ]
    out += [f"  {phase}: {done} of {told['shards']}" for phase, done in told["phases"].items()]
    out.append(f"documents {told['documents']:,}, dropped so far {told['dropped']:,}")
    return out
