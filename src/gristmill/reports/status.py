"""Status: which phases of a run are done, what was dropped where, and how far its sources are.

Reads records only; asks nothing of a run that is at work.
"""

import fcntl
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gristmill.corpus import summary
from gristmill.corpus.corpus import Corpus, Record
from gristmill.corpus.funnel import Funnel
from gristmill.errors import GONE, NOT_ABSENT, SET_ASIDE, RecipeError
from gristmill.network.releases import pull_stored, status_remote
from gristmill.network.releases.layout import POINTER
from gristmill.network.releases.release import ReleaseReader
from gristmill.phases.all_phases import PHASES
from gristmill.phases.inputs.local_inputs import seen_changes
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.output.tokenize import TOKENIZE
from gristmill.phases.output.write_manifest import RUN, read_plan
from gristmill.phases.phase import Phase
from gristmill.phases.process.process import PROCESS
from gristmill.phases.relations.write_verdicts import WRITE_VERDICTS
from gristmill.store.http.urls import is_url
from gristmill.store.manifest import MANIFEST
from gristmill.store.proof import unseal
from gristmill.tables.schema import shard_name

SHOWN = 10  # changed files, for people


def status(corpus: Path | str) -> dict[str, Any]:
    """Return the state of a corpus: `finished`, `running`, shards done by phase, and the reasons
    counted so far; `sources` with their tokens; `absent`, raw shards by the reason why they are;
    `gone`, those that were removed or replaced; `changed_inputs`, local files that are not there or
    not as the last run saw them, by a glance at size and times.

    Of a finished corpus also the figures of its manifest (corpus/summary.py) and its `funnel`;
    `megabytes_per_second` by step, of the run that finished it.
    """
    root = Path(corpus)
    if not root.is_dir() or not ((root / "work").is_dir() or (root / MANIFEST).exists()):
        raise RecipeError(f"{root}: no corpus there")
    here = Corpus(root)
    finished = here.finished()
    plan = read_plan(here, None)
    state: dict[str, Any] = {
        "finished": finished is not None,
        "running": held(root),
        "shards": len(plan.shards),
        "fetched": sum(1 for shard in plan.shards if shard.sha256 is not None),
        "missing": sum(1 for one in plan.shards if one.missing not in NOT_ABSENT),
        "set_aside": sum(1 for one in plan.shards if one.missing in (*SET_ASIDE, *GONE)),
    }
    records = {
        phase.name: _records(here, phase, plan) for phase in PHASES if phase.scope == "shard"
    }
    # Of a phase that only some recipes ask for, nothing is said until it has begun.
    state["phases"] = {
        phase.name: len(records[phase.name])
        for phase in PHASES
        if phase.name in records and (phase.is_asked is None or records[phase.name])
    }
    state["absent"] = {
        f"{shard.source} {shard.number}": shard.missing
        for shard in plan.shards
        if shard.missing not in NOT_ABSENT
    }
    state["gone"] = {
        f"{shard.source} {shard.number}": shard.missing
        for shard in plan.shards
        if shard.missing in GONE
    }
    state["changed_inputs"] = seen_changes(plan, here.work, _folder(root))
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
    state["documents"], state["dropped"] = documents, dropped
    state["sources"] = _sources(plan, records)
    state["tokens"] = sum(source["tokens"] for source in state["sources"])
    if finished is not None:
        # What was counted so far says how far a run is; the manifest says what is there.
        state |= {
            name: value
            for name, value in summary.summary(finished[0]).items()
            if name not in ("documents", "absent", "gone")
        }
        state["funnel"] = finished[0].funnel
        state["megabytes_per_second"] = _rates(root)
    return state


def _sources(plan: Plan, records: dict[str, dict[int, Record[Any]]]) -> list[dict[str, Any]]:
    """Return the sources of a run, and what was counted of them so far."""
    processed, tokenized = records[PROCESS.name], records[TOKENIZE.name]
    sources: dict[str, dict[str, Any]] = {}
    for shard in plan.shards:
        empty = {"name": shard.source, "raw_shards": 0, "documents": 0, "tokens": 0}
        source = sources.setdefault(shard.source, {**empty, "not_needed": 0})
        source["raw_shards"] += 1
        source["not_needed"] += shard.missing in (*SET_ASIDE, *GONE)
        if shard.number in processed:
            source["documents"] += processed[shard.number].counts.raw.documents
        if shard.number in tokenized:
            source["tokens"] += tokenized[shard.number].counts.tokens
    return list(sources.values())


def _run(root: Path) -> dict[str, Any]:
    """Return what run.json says of the last run; empty where it cannot be read."""
    try:
        return unseal((root / RUN).read_bytes())
    except (OSError, ValueError):
        return {}


def _rates(root: Path) -> dict[str, float]:
    """MB of text a second by step, of the last run."""
    rates = _run(root).get("megabytes_per_second")
    return rates if isinstance(rates, dict) else {}


def _folder(root: Path) -> Path | None:
    """Return the folder of the recipe of the last run."""
    folder = _run(root).get("folder")
    return Path(folder) if isinstance(folder, str) else None


def status_question(
    given: Sequence[str], root: Path | None = None
) -> tuple[Callable[[], dict[str, Any]], Callable[[dict[str, Any]], list[str]]]:
    """Return (asks for the status of a corpus or of a published one, its lines for people).

    Raises RecipeError for several folders, or a pinned root beside a folder.
    """
    if root is None and (stored := pull_stored.stored_at(given)) is not None:
        return partial(pull_stored.status_of_stored, stored), pull_stored.lines
    if all(is_url(location) or (Path(location) / POINTER).is_file() for location in given):
        # One reader: a look refuses a release that is older than that of the look before.
        reader = ReleaseReader(given, root=root)
        return partial(status_remote.status_of_release, reader), status_remote.lines
    if len(given) > 1 or root is not None:
        raise RecipeError("name one folder of a corpus, or the addresses of a published one")

    def local_lines(found: dict[str, Any]) -> list[str]:
        return lines(found) + (Funnel(found["funnel"]).lines() if "funnel" in found else [])

    return partial(status, given[0]), local_lines


def _records(corpus: Corpus, phase: Phase[Any], plan: Plan) -> dict[int, Record[Any]]:
    """Return the records of a phase's tasks that are done, by shard."""
    records = {}
    for shard in plan.shards:
        if shard.missing in (*SET_ASIDE, *GONE):
            continue  # a wave may have read it before its source reached the target
        record = corpus.last(phase.name, shard_name(shard.number), phase.counts)
        if record is not None:
            records[shard.number] = record
    return records


def held(root: Path) -> bool:
    """Return whether a run holds the corpus."""
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
        + (f", absent {found['missing']}" if found["missing"] else "")
        + (f", not needed {found['set_aside']}" if found["set_aside"] else ""),
    ]
    needed = found["shards"] - found["set_aside"]
    out += [f"  {phase}: {done} of {needed}" for phase, done in found["phases"].items()]
    changed = list(found["changed_inputs"].items())
    out += [f"  changed since the last run: {name}: {how}" for name, how in changed[:SHOWN]]
    if changed:
        more = f"{len(changed) - SHOWN:,} more have changed. " if len(changed) > SHOWN else ""
        out.append(f"  {more}The next run compares their bytes and says what to do")
    out.append(f"documents {found['documents']:,}, dropped so far {found['dropped']:,}")
    if found["finished"]:
        return out + summary.lines(found | {"documents": found["funnel"].get("documents", 0)})
    for source in found["sources"]:
        counted = f"{source['documents']:,} documents, {source['tokens']:,} tokens so far"
        out.append(f"  {source['name']}: {source['raw_shards']} raw shards, {counted}")
    for what in ("absent", "gone"):
        out += [f"  {what}: raw shard {name}: {reason}" for name, reason in found[what].items()]
    return out
