"""From what a sample cost to what the whole will cost; size.py says how."""

from typing import Any, NamedTuple

from gristmill.dedup.shard_tables import GROUP
from gristmill.engine.relations import RELATIONS_MEMORY_MB
from gristmill.phases.inputs.fetch import Row
from gristmill.recipe import Recipe
from gristmill.report.meter import Cost
from gristmill.report.sample import Download, Piece
from gristmill.store.settings import Settings
from gristmill.store.urls import is_url
from gristmill.tokens.shards import BUCKET_BYTES

# What the cost of a phase is proportional to; of others it is the documents.
UNITS = {
    "process": "decoded",
    "deduplicate": "passed",
    "count_lines": "text",
    "frequent_lines": "text",
    "tokenize": "text",
    "assemble": "tokens",
}
EACH_SHARD = ("process", "write_verdicts", "count_lines", "tokenize")  # run on all workers
CORPUS = ("corpus_filters", "deduplicate", "frequent_lines")  # run in one process
DOCUMENT_BYTES = 33  # of memory a document that passed, in deduplicate
INDEX_BYTES = 48  # of memory a document, in assemble
DEDUPLICATE_BYTES = (RELATIONS_MEMORY_MB + 128) << 20  # of memory, the most for bands of signatures
THREAD_BYTES = 90 << 20  # of memory each thread of deduplicate but the first
WORD_BYTES = 6.0  # of text for each word, about; a text has as many shingles


class Machines(NamedTuple):
    """Machines like this one."""

    machines: int
    cores: int  # of each


class CostLine(NamedTuple):
    """A cost in seconds: fixed + unit * units."""

    fixed: float
    unit: float


class Seen(NamedTuple):
    """A measured run."""

    shards: list[tuple[str, dict[str, float]]]  # each shard's source, and its units
    costs: dict[str, Cost]  # by phase, in order
    files: dict[str, dict[str | None, int]]  # bytes by folder and source; None: of the corpus
    rest: int  # bytes of what names every shard
    raw: dict[str, float]  # bytes of raw shards, by source

    def units(self, name: str, factors: dict[str, float] | None = None) -> float:
        """A unit over all shards, times the factors of their sources."""
        return sum(own[name] * (factors[source] if factors else 1) for source, own in self.shards)


class Whole(NamedTuple):
    """All raw shards of a recipe."""

    shards: dict[str, int]  # by source
    raw: dict[str, float]  # bytes by source; a shard of unknown length counts as the mean
    factors: dict[str, float]
    longest: float  # the largest shard's share of all bytes
    unknown: int  # shards of unknown length
    cached: float  # bytes that are or will be in the cache
    coming: float  # bytes to fetch


def whole_of(recipe: Recipe, rows: list[Row], pieces: list[Piece], seen: Seen) -> Whole:
    """All raw shards, by what the plan knows of them and what the sample read of each source."""
    raw: dict[str, float] = {}
    factors: dict[str, float] = {}
    shards: dict[str, int] = {}
    unknown = 0
    longest = cached = coming = 0.0
    for source in recipe.source:
        own = [row for row in rows if row.shard.source == source.name and row.state != "absent"]
        taken = [piece for piece in pieces if piece.source == source.name]
        known = [row.size for row in own if row.size is not None]
        mean = sum(known) / len(known) if known else sum(p.size for p in taken) / len(taken)
        sizes = [mean if row.size is None else row.size for row in own]
        shards[source.name], unknown = len(own), unknown + len(own) - len(known)
        raw[source.name] = sum(sizes)
        factors[source.name] = sum(sizes) / max(sum(piece.raw for piece in taken), 1)
        if source.limit is not None:
            read = sum(units["documents"] for name, units in seen.shards if name == source.name)
            factors[source.name] = min(factors[source.name], source.limit / max(read, 1))
        longest = max(longest, *sizes)
        for row, length in zip(own, sizes, strict=True):
            if is_url(row.shard.url) and not row.shard.url.startswith("file://"):
                cached += length
                coming += max(length - row.here, 0) if row.state in ("begun", "to fetch") else 0
    return Whole(shards, raw, factors, longest / max(sum(raw.values()), 1), unknown, cached, coming)


def line(small: Seen, seen: Seen, phase: str, what: str) -> CostLine:
    """The line through the costs of a phase in the two runs."""
    (least, first), (most, cost) = (
        (run.units(UNITS.get(phase, "documents")), getattr(run.costs.get(phase, Cost()), what))
        for run in (small, seen)
    )
    if most <= 0:
        return CostLine(0.0, 0.0)
    if most < 2 * least or cost <= first:
        return CostLine(0.0, cost / most)  # too close to separate
    fixed = max(first - least * (cost - first) / (most - least), 0.0)
    return CostLine(fixed, (cost - fixed) / most)


def predict(
    recipe: Recipe,
    whole: Whole,
    pieces: list[Piece],
    small: Seen,
    seen: Seen,
    download: Download,
    machines: list[Machines],
) -> dict[str, Any]:
    """What the whole will cost: `small` and `seen` are the measured runs; wall time is predicted
    for each of `machines`, of which the first is this one.
    """
    units = {name: seen.units(name, whole.factors) for name in seen.shards[0][1]}
    count = sum(whole.shards.values())
    phases = []
    for phase in seen.costs:
        work = units[UNITS.get(phase, "documents")]
        cpu = line(small, seen, phase, "cpu")
        wall = line(small, seen, phase, "wall")
        walls: list[float | None] = []
        for one in machines:
            slots = _slots(phase, one, count, len(recipe.source))
            alone = wall.unit * work * whole.longest if phase in EACH_SHARD else 0.0
            walls.append((wall.fixed + max(wall.unit * work / slots, alone)) / 3600)
        if phase == "fetch" and whole.coming:
            rate = download.seconds / download.bytes if download.bytes else None
            walls = [None if rate is None else whole.coming * rate / 3600] * len(machines)
        slots = _slots(phase, machines[0], count, len(recipe.source))
        hours = (cpu.fixed * slots + cpu.unit * work) / 3600
        phases.append({"phase": phase, "cpu_hours": hours, "wall_hours": walls})
    folders = _folders(recipe, whole, small, seen, units)
    return {
        "shards": count,
        "raw_bytes": round(sum(whole.raw.values())),
        "unknown": whole.unknown,
        "to_fetch": round(whole.coming),
        "sample": {
            "shards": len(pieces),
            "raw_bytes": round(sum(piece.raw for piece in pieces)),
            "decoded_bytes": round(seen.units("decoded")),
            "documents": round(seen.units("documents")),
        },
        "documents": round(units["documents"]),
        "passed": round(units["passed"]),
        "kept": round(units["kept"]),
        "text_bytes": round(units["text"]),
        "tokens": round(units["tokens"]) if recipe.tokens else None,
        "machines": [one._asdict() for one in machines],
        "phases": phases,
        "memory": _memory(recipe, whole, seen, units, folders, machines[0]),
        "disk": _disk(recipe, whole, units, folders),
    }


def _slots(phase: str, machines: Machines, shards: int, sources: int) -> int:
    """How many processes work at a phase at once; fetching is the work of one machine."""
    workers = machines.machines * machines.cores
    if phase == "fetch":
        return max(1, min(machines.cores, shards, Settings().connections))
    jobs = shards if phase in EACH_SHARD else sources if phase == "assemble" else 1
    return max(1, min(workers, jobs))


def _folders(
    recipe: Recipe, whole: Whole, small: Seen, seen: Seen, units: dict[str, float]
) -> dict[str, float]:
    """Bytes of each folder."""
    shards = sum(whole.shards.values()) / len(seen.shards)
    passed = units["passed"] / max(seen.units("passed"), 1.0)
    folders = {"rest": seen.rest * shards}
    for name, sizes in seen.files.items():
        folders[name] = sum(
            length * passed if source is None else _grown(whole, small, seen, name, source)
            for source, length in sizes.items()
        )
    if not recipe.keep_dropped and "samples" in folders:
        # Dropped texts are kept up to a number for each shard, however large the shard is.
        folders["samples"] = sum(seen.files["samples"].values()) * shards
    folders["tokenizer"] = float(sum(seen.files.get("tokenizer", {}).values()))
    return folders


def _grown(whole: Whole, small: Seen, seen: Seen, folder: str, source: str) -> float:
    """Bytes of a folder that come from a source: those of an empty file for each shard, and those
    that grow with the raw bytes.
    """
    files = [name for name, _ in seen.shards].count(source)
    length, raw = seen.files[folder][source], seen.raw[source]
    first, least = small.files.get(folder, {}).get(source, 0), small.raw[source]
    empty = 0.0
    if raw >= 2 * files * least:
        empty = first - least * (length - files * first) / (raw - files * least)
        empty = min(max(empty, 0.0), length / files)
    return empty * whole.shards[source] + (length - files * empty) * whole.factors[source]


def _memory(
    recipe: Recipe,
    whole: Whole,
    seen: Seen,
    units: dict[str, float],
    folders: dict[str, float],
    here: Machines,
) -> dict[str, int]:
    """Bytes: a worker, the process that deduplicates, one that assembles, the main process, and
    all on this machine. Each is the sample's, and what more documents and tokens need.
    """
    peak = {phase: cost.worker for phase, cost in seen.costs.items()}
    worker = max(peak.get(phase, 0) for phase in EACH_SHARD)
    corpus = max(peak.get(phase, 0) for phase in CORPUS)
    assemble = peak.get("assemble", 0)
    workers = _slots("process", here, sum(whole.shards.values()), 1)
    more = max(units["passed"] - seen.units("passed"), 0.0)
    near = recipe.deduplicate.near if recipe.deduplicate else None
    if corpus:
        bands = min(16 * near.bands * more, DEDUPLICATE_BYTES) if near else 0.0
        threads = THREAD_BYTES * min(workers - 1, units["passed"] / GROUP) if near else 0.0
        corpus += round(DOCUMENT_BYTES * more + max(bands, threads))
    if assemble:
        had = min(sum(seen.files.get("work/tokens", {}).values()), BUCKET_BYTES)
        has = min(folders.get("work/tokens", 0.0), BUCKET_BYTES)
        assemble += round(2 * max(has - had, 0.0) + INDEX_BYTES * more)
    writers = min(len(recipe.source), workers)
    busy = max(
        worker * workers,
        corpus + worker * (workers - 1),
        assemble * writers + worker * (workers - writers),
    )
    driver = max(cost.driver for cost in seen.costs.values())
    return {
        "worker": worker,
        "deduplicate": corpus,
        "assemble": assemble,
        "driver": driver,
        "machine": driver + busy,
    }


def _disk(
    recipe: Recipe, whole: Whole, units: dict[str, float], folders: dict[str, float]
) -> dict[str, Any]:
    """Bytes at the peak and in the end, with the raw shards in the cache."""
    near = recipe.deduplicate.near if recipe.deduplicate else None
    tables = 0.0  # which deduplicate writes and removes
    if near is not None:
        shingles = 8 * units["text"] / WORD_BYTES
        each = 8 + 4 * near.numbers
        tables = units["passed"] * each + max(16 * near.bands * units["passed"], shingles)
    held = sum(folders.values())
    end = held - (0.0 if recipe.keep_documents else folders.get("documents", 0.0))
    return {
        "peak": round(held + tables + whole.cached),
        "end": round(end + whole.cached),
        "cache": round(whole.cached),
        "work": round(sum(length for name, length in folders.items() if name[:5] == "work/")),
        "folders": {name: round(length) for name, length in folders.items()},
    }
