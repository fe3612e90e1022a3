"""From what a sample cost to what the whole will: bytes, documents, processor time, wall time,
memory and disk of each phase.
"""

from typing import Any, NamedTuple

from gristmill.dedup.shard_tables import GROUP
from gristmill.engine.relations import RELATIONS_MEMORY_MB
from gristmill.phases.inputs.fetch import Row
from gristmill.recipe import Recipe
from gristmill.report.cost_model import FOLDERS, PHASES, WHOLE, Measured, ShardSeen
from gristmill.report.sample import Download, Piece
from gristmill.store.client import Settings
from gristmill.store.urls import is_url
from gristmill.tokens.shards import BUCKET_BYTES

# of memory a document in deduplicate: keeper, similarity, whether it stands in a pair, its drop
DOCUMENT_BYTES = 33
# of memory a document in assemble: number and length, as they are read, dealt and sorted
INDEX_BYTES = 48
TASK_BYTES = 90 << 20  # of memory each thread of deduplicate but the first
DEDUPLICATE_BYTES = (RELATIONS_MEMORY_MB << 20) + (
    128 << 20
)  # the relational engine, and a cut of the keys with its bitmaps
WORD_BYTES = 6.0  # of text, about, for each word; so many shingles has a text


class Machines(NamedTuple):
    """So many machines like this one, with so many cores each."""

    machines: int
    cores: int


class Whole(NamedTuple):
    """What the plan says, and how much larger each source is than its sample."""

    shards: dict[str, int]
    raw: dict[str, float]  # bytes, a shard of unknown length counted as the mean
    factors: dict[str, float]
    longest: float  # the largest shard's share of all bytes
    unknown: int  # shards whose length nobody tells
    cached: float  # bytes that rest in the cache
    coming: float  # bytes that are still to be fetched

    def of(self, shards: list[ShardSeen], what: dict[int, float]) -> float:
        """The whole of something of which each sampled shard has so much."""
        return sum(self.factors[shard.source] * what[place] for place, shard in enumerate(shards))


def predict(
    recipe: Recipe,
    rows: list[Row],
    pieces: list[Piece],
    measured: Measured,
    download: Download,
    machines: list[Machines],
) -> dict[str, Any]:
    """What the whole will cost; see size.py for the formulas. `machines` are what wall time is told
    for, this one first.
    """
    whole = _whole(recipe, rows, pieces, measured.sample.shards)
    units = {
        name: _units(whole, measured.sample.shards, name)
        for name in (*PHASES, "kept", "passed_bytes")
    }
    folders = _folders(recipe, whole, measured, units)
    slots = [_slots(one, sum(whole.shards.values()), len(recipe.source)) for one in machines]
    phases = []
    for phase in PHASES:
        if not measured.sample.costs[phase].wall:
            continue  # the recipe has no such phase
        read, written = _traffic(recipe, phase, folders, whole)
        cpu = measured.law(phase, "cpu").of(
            sum(whole.shards.values()), units[phase], slots[0][phase]
        )
        walls = [_wall(measured, whole, phase, units[phase], own[phase], download) for own in slots]
        phases.append(
            {
                "phase": phase,
                "read": round(read),
                "written": round(written),
                "cpu_hours": cpu / 3600,
                "wall_hours": walls,
            }
        )
    return {
        "shards": sum(whole.shards.values()),
        "raw_bytes": round(sum(whole.raw.values())),
        "unknown": whole.unknown,
        "to_fetch": round(whole.coming),
        "sample": {
            "shards": len(pieces),
            "raw_bytes": round(sum(piece.raw for piece in pieces)),
            "decoded_bytes": round(measured.sample.units("process")),
            "documents": round(measured.sample.units("write_verdicts")),
        },
        "documents": round(units["write_verdicts"]),
        "passed": round(units["deduplicate"]),
        "kept": round(units["kept"]),
        "text_bytes": round(units["tokenize"]),
        "tokens": round(units["assemble"]) if recipe.tokens else None,
        "machines": [one._asdict() for one in machines],
        "phases": phases,
        "memory": _memory(recipe, measured, units, folders, slots[0]),
        "disk": _disk(recipe, measured, units, folders, whole),
    }


def _whole(recipe: Recipe, rows: list[Row], pieces: list[Piece], shards: list[ShardSeen]) -> Whole:
    counts: dict[str, int] = {}
    raw: dict[str, float] = {}
    factors: dict[str, float] = {}
    unknown = 0
    largest = cached = coming = 0.0
    for source in recipe.source:
        name = source.name
        own = [row for row in rows if row.shard.source == name and row.state != "absent"]
        known = [row.size for row in own if row.size is not None] or [
            piece.size for piece in pieces if piece.source == name
        ]
        sizes = [sum(known) / len(known) if row.size is None else row.size for row in own]
        unknown += sum(row.size is None for row in own)
        counts[name], raw[name] = len(sizes), sum(sizes)
        factors[name] = raw[name] / max(
            sum(piece.raw for piece in pieces if piece.source == name), 1
        )
        if source.limit is not None:
            read = sum(shard.units["write_verdicts"] for shard in shards if shard.source == name)
            factors[name] = min(factors[name], source.limit / max(read, 1))
        largest = max(largest, *sizes)
        for row, size in zip(own, sizes, strict=True):
            if is_url(row.shard.url) and not row.shard.url.startswith("file://"):
                cached += size
                coming += max(size - row.here, 0) if row.state in ("begun", "to fetch") else 0
    return Whole(counts, raw, factors, largest / max(sum(raw.values()), 1), unknown, cached, coming)


def _units(whole: Whole, shards: list[ShardSeen], name: str) -> float:
    """How much work a phase has in all: the sample's, grown by each source's factor, each shard
    counting by what it cost.
    """
    total = sum(shard.units[name] for shard in shards)
    weights = {place: shard.weights[name] for place, shard in enumerate(shards)}
    if name == "fetch":
        return sum(whole.raw.values())
    return (
        total * whole.of(shards, weights) / sum(weights.values())
        if total and sum(weights.values())
        else 0.0
    )


def _folders(
    recipe: Recipe, whole: Whole, measured: Measured, units: dict[str, float]
) -> dict[str, float]:
    """Bytes of each folder."""
    shards = measured.sample.shards
    out = {
        name: sum(_grown(measured, whole, name, source) for source in whole.shards)
        for name in FOLDERS
    }
    if not recipe.keep_dropped:  # so many texts of a shard, however large it is
        out["samples"] = 0.0
        for source, count in whole.shards.items():
            own = [shard.folders["samples"] for shard in shards if shard.source == source]
            out["samples"] += sum(own) / len(own) * count
    grown = units["deduplicate"] / max(measured.sample.units("deduplicate"), 1.0)
    for name in WHOLE:
        out[name] = measured.sample.whole[name] * grown
    out["tokenizer"] = float(measured.sample.tokenizer)
    out["rest"] = measured.rest(sum(whole.shards.values()))
    return out


def _grown(measured: Measured, whole: Whole, folder: str, source: str) -> float:
    """Bytes of a folder that are a source's: what a file has that is empty, and what grows with the
    raw bytes.
    """
    runs = [
        [shard for shard in run.shards if shard.source == source]
        for run in (measured.one, measured.sample)
    ]
    (small, least), (size, raw) = (
        (sum(shard.folders[folder] for shard in own), sum(shard.raw for shard in own))
        for own in runs
    )
    files, factor = len(runs[1]), whole.factors[source]
    if raw < 2 * files * least:
        return size * factor
    empty = max(small - least * (size - files * small) / (raw - files * least), 0.0)
    return empty * whole.shards[source] + max(size - files * empty, 0.0) * factor


def _traffic(
    recipe: Recipe, phase: str, folders: dict[str, float], whole: Whole
) -> tuple[float, float]:
    """(bytes read, bytes written) by a phase, as files; what goes and comes within deduplicate is
    not in it.
    """
    raw, settings = sum(whole.raw.values()), recipe.deduplicate
    texts = settings is not None and (
        settings.url or (settings.near is not None and settings.near.verify == "text")
    )
    processed = ("documents", "measures", "signatures", "samples", "contamination", "work/process")
    return {
        "fetch": (raw, whole.coming),
        "process": (raw, sum(folders[name] for name in processed)),
        "corpus_filters": (
            folders["measures"] + folders["work/process"] + folders["contamination"],
            folders["judgement"],
        ),
        "deduplicate": (
            folders["signatures"] + texts * folders["documents"],
            folders["duplicates"] + folders["index"] + folders["work/deduplicate"],
        ),
        "write_verdicts": (folders["work/process"], folders["verdicts"]),
        "count_lines": (folders["documents"] + folders["verdicts"], folders["work/count_lines"]),
        "frequent_lines": (folders["work/count_lines"], 0.0),
        "tokenize": (
            folders["documents"] + folders["verdicts"],
            folders["work/tokens"] + folders["text"] + folders["finished"],
        ),
        "assemble": (folders["work/tokens"], folders["tokens"]),
    }[phase]


def _slots(machines: Machines, shards: int, sources: int) -> dict[str, int]:
    """How many work at once. Fetching is one machine's, deduplicating one process's."""
    workers = machines.machines * machines.cores
    per_shard = dict.fromkeys(
        ("process", "write_verdicts", "count_lines", "tokenize"), max(1, min(workers, shards))
    )
    fetching = max(1, min(machines.cores, shards, Settings().connections))
    return {
        "fetch": fetching,
        "corpus_filters": 1,
        "deduplicate": 1,
        "frequent_lines": 1,
        "assemble": max(1, min(workers, sources)),
        **per_shard,
    }


def _wall(
    measured: Measured, whole: Whole, phase: str, units: float, slots: int, download: Download
) -> float | None:
    """Hours; null: what is to be fetched comes at a rate that nobody knows."""
    law = measured.law(phase, "wall")
    if phase == "fetch" and whole.coming:
        return whole.coming / download.bytes * download.seconds / 3600 if download.bytes else None
    work = law.of(sum(whole.shards.values()), units, 0)
    longest = (
        max(whole.raw.values()) / max(sum(whole.raw.values()), 1)
        if phase == "assemble"
        else whole.longest
    )
    return (law.fixed + max(work / slots, work * longest)) / 3600


def _memory(
    recipe: Recipe,
    measured: Measured,
    units: dict[str, float],
    folders: dict[str, float],
    slots: dict[str, int],
) -> dict[str, int]:
    """Bytes: a worker, the process that deduplicates, the one that assembles, the run's own
    process, and all on this machine.

    What a process has had stays its own for a while: each is the sample's, and what more documents
    and tokens need besides.
    """
    costs = measured.sample.costs
    worker = max(
        costs[phase].worker for phase in ("process", "write_verdicts", "count_lines", "tokenize")
    )
    near = recipe.deduplicate.near if recipe.deduplicate else None
    more = max(
        units["deduplicate"] - measured.sample.units("deduplicate"), 0.0
    )  # documents than in the sample
    deduplicate = costs["deduplicate"].worker + DOCUMENT_BYTES * more
    if near:
        threads = min(
            slots["process"], units["deduplicate"] / GROUP
        )  # the relational engine works before them, or after
        deduplicate += max(
            min(16 * near.bands * more, DEDUPLICATE_BYTES), TASK_BYTES * max(threads - 1, 0)
        )
    deduplicate = max(deduplicate, costs["frequent_lines"].worker, costs["corpus_filters"].worker)
    tokens = sum(shard.folders["work/tokens"] for shard in measured.sample.shards)
    had, has = min(tokens, BUCKET_BYTES), min(folders["work/tokens"], BUCKET_BYTES)
    assemble = costs["assemble"].worker + 2 * max(has - had, 0) + INDEX_BYTES * more
    deduplicate = (
        round(deduplicate) if costs["deduplicate"].worker or costs["frequent_lines"].worker else 0
    )  # 0: there is no such phase, or nobody tells
    assemble = round(assemble) if costs["assemble"].worker else 0
    driver = max(cost.driver for cost in costs.values())
    workers = slots["process"]  # they stay, also while others deduplicate or assemble
    busy = max(worker * workers, deduplicate + worker * (workers - 1))
    if assemble:
        busy = max(
            busy,
            assemble * min(slots["assemble"], workers)
            + worker * max(workers - slots["assemble"], 0),
        )
    return {
        "worker": worker,
        "deduplicate": deduplicate,
        "assemble": assemble,
        "driver": driver,
        "machine": driver + busy,
    }


def _disk(
    recipe: Recipe,
    measured: Measured,
    units: dict[str, float],
    folders: dict[str, float],
    whole: Whole,
) -> dict[str, Any]:
    """Bytes at the peak and in the end, raw shards in the cache included."""
    near = recipe.deduplicate.near if recipe.deduplicate else None
    passing = 0.0  # what deduplicate needs on its way
    if near is not None and units["deduplicate"]:
        shingles = (
            measured.sample.paired
            / max(measured.sample.units("deduplicate"), 1.0)
            * units["passed_bytes"]
            / WORD_BYTES
        )
        passing = units["deduplicate"] * (8 + 4 * near.numbers) + max(
            16 * near.bands * units["deduplicate"], 8 * shingles
        )
    held, peak = folders["tokenizer"] + folders["rest"], (0.0, "fetch")
    for phase in PHASES:
        held += 0.0 if phase == "fetch" else _traffic(recipe, phase, folders, whole)[1]
        # Assembling frees each bucket before it writes what was in it.
        peak = max(peak, (held + (passing if phase == "deduplicate" else 0.0), phase))
    end = held - (0.0 if recipe.keep_documents else folders["documents"])
    return {
        "peak": round(peak[0] + whole.cached),
        "peak_phase": peak[1],
        "end": round(end + whole.cached),
        "cache": round(whole.cached),
        "work": round(sum(folders[name] for name in folders if name.startswith("work/"))),
        "folders": {name: round(size) for name, size in folders.items()},
    }
