"""Predict what a run will cost before it runs, from runs of the recipe over a sample.

    plan      the raw shards and their bytes, as `run --dry-run` lists them
    sample    the first bytes of several shards of each source                 size_sample.py
    runs      with one worker: one that loads code, a small one, the sample
    predict   documents grow with the raw bytes of their source, and the rest with the documents

Processor time of a phase is fixed + each * documents: the line through the small run and the
sample. Wall time is processor time over the processes that share it. What is not linear:

    largest shard    a phase over shards takes no less wall time than it needs for this one
    tables           of deduplicate, on disk until it ends, grow with all documents and their text
    per shard        samples of dropped texts, plan and records grow with the number of shards
    copies           a sample contains fewer than the whole: what is kept, tokens and disk are
                     upper bounds, the time of deduplicate is a lower bound
"""

import math
import os
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gristmill.corpus.corpus import Corpus
from gristmill.errors import SourceError
from gristmill.phases.all_phases import PHASES
from gristmill.phases.inputs.fetch import Asked, Row
from gristmill.phases.inputs.plan import Plan
from gristmill.phases.output import write_manifest
from gristmill.phases.running.progress import Progress
from gristmill.pipeline import Planned, Run, prepare, run
from gristmill.progress.counted_work import timed
from gristmill.recipe import Loaded, Recipe, check_pages, load, make_step, refuse_code, with_classes
from gristmill.reports.planning.size_sample import LEAST, SampledShard, choose, cut, take_packed
from gristmill.store.http.settings import Settings, merge_settings
from gristmill.store.http.urls import is_url
from gristmill.system.memory_use import PROC, processes
from gristmill.tables.schema import shard_name

SAMPLE = 16 << 20  # bytes of raw shards to measure
SCOPES = {"fetch": "fetch", **{phase.name: phase.scope for phase in PHASES}}
COUNTS = ("documents", "kept", "text_bytes", "tokens")
WORD_BYTES = 6.0  # of text a word, about; a text that is compared has a shingle of 8 bytes for each
LEAST_RANGE = 0.05


class Meter:
    """Measures the processor seconds of each phase of a run, of all processes together; without
    /proc (macOS) seconds of wall time.
    """

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}

    def show(self, event: dict[str, Any]) -> None:
        """Take an event of the run (phases/running/progress.py)."""
        if event["event"] in ("phase", "done"):
            now = sum(processes().values()) if PROC.exists() else time.perf_counter()
            before = self.phases.get(event["phase"], 0.0)
            self.phases[event["phase"]] = before + (now if event["event"] == "done" else -now)


class SampleRun(NamedTuple):
    """A measured run over a sample."""

    shards: list[tuple[SampledShard, dict[str, int]]]  # with their COUNTS
    phases: dict[str, float]  # their processor seconds, in their order
    folders: dict[str, int]  # bytes; "": files beside the folders

    def total(self, count: str, factors: dict[str, float] | None = None) -> float:
        """Return a count over all shards, times the factors of their sources."""
        return sum(
            counts[count] * (factors[shard.source] if factors else 1.0)
            for shard, counts in self.shards
        )


def size(
    recipe: Path | str | Loaded,
    *,
    out: Path | str | None = None,
    machines: int = 1,
    cores: int | None = None,
    sample: int | None = None,
    settings: dict[str, str] | None = None,
    cache_dir: Path | str | None = None,
    allow_code: bool = False,
    allow_env: Collection[str] = (),
    allow_hosts: Collection[str] = (),
    on_line: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Predict what a fresh run of a recipe will cost on this machine, and on `machines` like it
    with `cores` each (None: as many as this one has), from `sample` bytes of raw shards (None:
    SAMPLE).

    Nothing in the corpus changes; raw shards of the sample stay in the cache. `on_line` gets lines
    about progress. Raises what `run` raises.
    """
    loaded = recipe if isinstance(recipe, Loaded) else load(Path(recipe), settings)
    if not allow_code:
        refuse_code(loaded.recipe)
    check_pages(with_classes(loaded).recipe)
    with tempfile.TemporaryDirectory(prefix="gristmill-size-") as temporary:
        folder = Path(temporary).resolve()
        root = out or (None if loaded.recipe.output else folder / "corpus")
        asked = merge_settings(None, None, allow_env=allow_env, allow_hosts=allow_hosts)
        whole = prepare(loaded, root, None, cache_dir, asked, None)
        try:
            whole.corpus.look()
            planned = whole.planned(whole.corpus.finished(), None)
            rows = whole.fetching(planned).preview()
            on_line(f"{len(rows):,} raw shards; measuring a sample")
            taken, rate = _take(
                whole, planned, choose(loaded.recipe, rows, sample or SAMPLE), folder
            )
            first = {shard.source: shard for shard in reversed(taken)}
            start = [cut(one, LEAST, folder / f"start-{name}") for name, one in first.items()]
            runs = []
            for name, shards in (("loading", start), ("small", start), ("sample", taken)):
                with timed(f"run {name}"):
                    runs.append(_run(whole, shards, folder / name, allow_code))
        finally:
            whole.transfer.cache.release(folder)
            whole.transfer.close()
    here = (1, os.cpu_count() or 1)
    rows = [row for row in rows if row.state != "absent"]
    return _predict(
        loaded.recipe, rows, runs[1], runs[2], rate, [here, (machines, cores or here[1])]
    )


def _take(
    whole: Run, planned: Planned, chosen: list[tuple[Row, int]], folder: Path
) -> tuple[list[SampledShard], float | None]:
    """Return (the sample, seconds for each byte that was fetched). Raises SourceError."""
    shards = [
        msgspec.structs.replace(row.shard, number=number) for number, (row, _) in enumerate(chosen)
    ]
    subset = planned._replace(plan=Plan(shards=shards))
    progress = Progress(None)
    fetch = whole._replace(asked=Asked(allow_missing=True)).fetching(subset)
    got = fetch.all(folder, progress, lambda _: None)
    taken, fetched = [], 0
    for number, path in sorted(got.paths.items()):
        row, length = chosen[number]
        if row.shard.files:
            taken += take_packed(row.shard, path.resolve(), length)
            continue
        all_bytes = path.stat().st_size
        fetched += all_bytes if row.state == "to fetch" else 0
        shard = SampledShard(row.shard.source, path.resolve(), all_bytes, all_bytes)
        taken.append(cut(shard, length, folder / f"shard-{number}"))
    for source in whole.recipe.source:
        if source.enabled and source.name not in {shard.source for shard in taken}:
            failed = "; ".join(map(str, got.failed.values())) or "all of its shards are absent"
            raise SourceError(
                f"source {source.name!r}: no raw shard can be had to measure a sample: {failed}"
            )
    return taken, progress.seconds["fetch"] / fetched if fetched else None


def _run(whole: Run, shards: list[SampledShard], root: Path, allow_code: bool) -> SampleRun:
    """Run the recipe over sampled shards, and measure it."""
    where: dict[str, Any] = {"urls": [], "commoncrawl": None, "paths": None, "sample": None}
    where |= {"sha256sums": None, "authorization": None, "hub": None, "subset": None}
    where |= {"target_shards": None, "target_tokens": None}
    sources = []
    for source in whole.recipe.source:
        files = [str(shard.path) for shard in shards if shard.source == source.name]
        sources.append(msgspec.structs.replace(source, files=files, **where))
    changes: dict[str, Any] = {"source": sources, "keep_documents": True}  # to count their bytes
    if whole.recipe.deduplicate is not None:  # a sample has other clusters
        settings = msgspec.structs.replace(whole.recipe.deduplicate, largest_cluster=None)
        changes["deduplicate"] = settings
    changes |= _without_numbers(whole.recipe)
    recipe = Loaded(msgspec.structs.replace(whole.recipe, **changes), whole.folder)
    cache = whole.transfer.cache.root
    meter = Meter()
    run(recipe, out=root, workers=1, cache_dir=cache, allow_code=allow_code, show=meter.show)
    corpus, counted = Corpus(root), []
    times = _repeats(corpus, recipe.recipe)
    for planned in write_manifest.read_plan(corpus, None).shards:
        paths = {(whole.folder / url).resolve() for url in planned.urls()}
        read = [sample for sample in shards if sample.path in paths]
        size, raw = sum(sample.size for sample in read), sum(sample.raw for sample in read)
        shard = read[0]._replace(size=size, raw=raw)
        verdicts, written = (
            record.counts
            for phase in ("write_verdicts", "tokenize")
            if (record := corpus.last(phase, shard_name(planned.number))) is not None
        )
        tokens = round(written["tokens"] * times.get(planned.source, 1.0))
        values = (verdicts["documents"], written["documents"], written["bytes"], tokens)
        counted.append((shard, dict(zip(COUNTS, values, strict=True))))
    folders: dict[str, int] = {}
    for path in root.rglob("*"):
        if path.is_file():
            name = path.relative_to(root).parts[0] if path.parent != root else ""
            folders[name] = folders.get(name, 0) + path.stat().st_size
    return SampleRun(counted, meter.phases, folders)


def _predict(
    recipe: Recipe,
    rows: list[Row],
    small: SampleRun,
    run: SampleRun,
    rate: float | None,
    machines: list[tuple[int, int]],
) -> dict[str, Any]:
    """Return what the whole will cost, on each of `machines` (how many, cores of each); the first
    is this one. `rate`: seconds for each byte fetched.
    """
    known = [row.size for row in rows if row.size is not None]
    measured = [shard.size for shard, _ in run.shards]
    mean = sum(known or measured) / len(known or measured)
    sizes = {row: mean if row.size is None else row.size for row in rows}
    factors = _factors(recipe, sizes, run)
    counts = {name: round(run.total(name, factors)) for name in COUNTS}
    documents = run.total("documents", factors)
    growth = documents / max(run.total("documents"), 1)
    far = {row for row in rows if is_url(row.shard.url) and row.shard.url[:7] != "file://"}
    cached = sum(sizes[row] for row in far)
    to_fetch = sum(sizes[row] - row.here for row in far if row.state != "here")
    phases = []
    for phase in run.phases:
        fixed, each = line(small, run, phase)
        largest = max(sizes.values()) / sum(sizes.values()) if SCOPES[phase] == "shard" else 0.0
        used = [_processes(SCOPES[phase], len(rows), len(recipe.source), *of) for of in machines]
        walls: list[float | None] = [
            (fixed + each * documents * max(1 / count, largest)) / 3600 for count in used
        ]
        if phase == "fetch" and to_fetch:
            walls = [to_fetch * rate / 3600 if rate else None] * len(machines)
        hours = (fixed * used[0] + each * documents) / 3600
        phases.append({"phase": phase, "cpu_hours": hours, "wall_hours": walls})
    near = recipe.deduplicate.near if recipe.deduplicate else None
    shards = len(rows) / len(run.shards)
    growths = {"tokenizer": 1.0, "": shards, "samples": growth if recipe.keep_dropped else shards}
    folders = {name: length * growths.get(name, growth) for name, length in run.folders.items()}
    tables = 0.0
    if near is not None:
        shingles = 8 * counts["text_bytes"] / WORD_BYTES
        tables = documents * (8 + 4 * near.numbers) + max(16 * near.bands * documents, shingles)
    held = sum(folders.values()) + cached
    dropped = 0.0 if recipe.keep_documents else folders["documents"]
    return {
        "shards": len(rows),
        "raw_bytes": round(sum(sizes.values())),
        "unknown": len(rows) - len(known),
        "to_fetch": round(to_fetch),
        "sample": {
            "shards": len(run.shards),
            "raw_bytes": round(sum(shard.raw for shard, _ in run.shards)),
            "documents": round(run.total("documents")),
        },
        **counts,
        "tokens": counts["tokens"] if recipe.tokens else None,
        "range": spread(run, factors),
        "machines": [{"machines": number, "cores": cores} for number, cores in machines],
        "phases": phases,
        "disk": {
            "peak": round(held + tables),
            "end": round(held - dropped),
            "cache": round(cached),
            "folders": {name or "files": round(length) for name, length in folders.items()},
        },
    }


def _without_numbers(recipe: Recipe) -> dict[str, Any]:
    """Return the steps and [tokens] of a recipe without what is joined by documents' numbers, which
    a sample has not, and without what is made of that.
    """
    gone: set[str] = set()
    kept = []
    for place, table in enumerate(recipe.step):
        step = make_step(place, table)
        if step.by_number or any(measure.partition(".")[0] in gone for measure in step.reads):
            gone.add(step.name)
        else:
            kept.append(table)
    tokens = recipe.tokens
    if tokens is not None and any(name.partition(".")[0] in gone for name in tokens.reads()):
        tokens = msgspec.structs.replace(tokens, repeat=None, partition=None)
    return {"step": kept, "tokens": tokens}


def _repeats(corpus: Corpus, recipe: Recipe) -> dict[str, float]:
    """By source, the tokens that its shards have over those of its documents once."""
    if recipe.tokens is None or recipe.tokens.repeat is None:
        return {}
    ratios = {}
    for source in recipe.source:
        if (record := corpus.last("assemble", source.name)) is not None:
            repeats = record.counts["repeats"]
            once = sum(row["tokens"] for row in repeats) + record.counts["val_tokens"]
            written = record.counts["train_tokens"] + record.counts["val_tokens"]
            ratios[source.name] = written / max(once, 1)
    return ratios


def _factors(recipe: Recipe, sizes: dict[Row, float], run: SampleRun) -> dict[str, float]:
    """By source: its raw bytes, as far as its limit or target, over those of its sample."""
    factors = {}
    for source in recipe.source:
        whole = sum(size for row, size in sizes.items() if row.shard.source == source.name)
        own = [pair for pair in run.shards if pair[0].source == source.name]
        factors[source.name] = whole / max(sum(shard.raw for shard, _ in own), 1)
        if source.limit is not None:
            read = sum(counts["documents"] for _, counts in own)
            factors[source.name] = min(factors[source.name], source.limit / max(read, 1))
        target = recipe.target(source)
        if target is not None:
            read = sum(counts["tokens"] for _, counts in own)
            factors[source.name] = min(factors[source.name], target / max(read, 1))
    return factors


def line(small: SampleRun, run: SampleRun, phase: str) -> tuple[float, float]:
    """Return (fixed, each): a phase's processor seconds are fixed + each * documents, in both
    runs.
    """
    (least, first), (most, last) = (
        (sample.total("documents"), sample.phases.get(phase, 0.0)) for sample in (small, run)
    )
    if most < 2 * least or last <= first:
        return 0.0, last / max(most, 1)  # too close to separate
    fixed = max(first - least * (last - first) / (most - least), 0.0)
    return fixed, (last - fixed) / most


def spread(run: SampleRun, factors: dict[str, float]) -> float | None:
    """By how much the kept text may differ from the prediction, as a share of it, if shards differ
    as those of the sample do: twice the standard error of a ratio estimate (Cochran, Sampling
    Techniques, 6.3), and LEAST_RANGE. None: one shard of several was measured.
    """
    if max(factors.values()) <= 1.0:
        return 0.0  # the sample is the whole
    variance = 0.0
    for source, factor in factors.items():
        own = [
            (shard.raw, counts["text_bytes"])
            for shard, counts in run.shards
            if shard.source == source
        ]
        if factor > 1.0 and len(own) == 1:
            return None
        rate = sum(text for _, text in own) / max(sum(raw for raw, _ in own), 1)
        squares = sum((text - rate * raw) ** 2 for raw, text in own)
        variance += factor**2 * squares * len(own) / max(len(own) - 1, 1)
    return LEAST_RANGE + 2 * math.sqrt(variance) / max(run.total("text_bytes", factors), 1)


def _processes(scope: str, shards: int, sources: int, machines: int, cores: int) -> int:
    """Return how many processes work at a phase at once; one machine fetches."""
    jobs = {"fetch": Settings().connections, "shard": shards, "source": sources}.get(scope, 1)
    return max(1, min(jobs, cores if scope == "fetch" else machines * cores))


def lines(cost: dict[str, Any]) -> list[str]:
    """For people: counts, a line for each phase, disk, and the limits of the prediction."""
    here, there = (f"{row['machines']} x {row['cores']} cores" for row in cost["machines"])
    phases = [(row["phase"], row["cpu_hours"], *row["wall_hours"]) for row in cost["phases"]]
    phases.append(("in all", *(sum(row[place] or 0.0 for row in phases) for place in (1, 2, 3))))
    spread = "unknown, because one shard of a source was measured"
    if cost["range"] is not None:
        spread = f"{cost['range']:.0%} more or less, if all shards are like those of the sample"
    tokens = f", {cost['tokens']:,} tokens" if cost["tokens"] is not None else ""
    sample, disk = cost["sample"], cost["disk"]
    return f"""\
{cost["shards"]:,} raw shards, {_gb(cost["raw_bytes"])}; {cost["unknown"]:,} of unknown size
to fetch: {_gb(cost["to_fetch"])}
{cost["documents"]:,} documents; at most {cost["kept"]:,} kept, {_gb(cost["text_bytes"])}{tokens}
range: {spread}

{"minutes":<16}{"processors":>18}{here:>18}{there:>18}
{chr(10).join(f"{name:<16}{''.join(map(_minutes, values))}" for name, *values in phases)}

disk: at most {_gb(disk["peak"])}; in the end {_gb(disk["end"])}
of which the cache {_gb(disk["cache"])}, work/ {_gb(disk["folders"].get("work", 0))}
measured with one worker: {sample["documents"]:,} documents of {sample["shards"]:,} raw shards
A sample contains fewer copies than the whole: fewer documents may be kept, and deduplicate may take
longer. Times are for processors that nothing else uses. docs/scale.md says how exact they are.
""".splitlines()


def _gb(length: float) -> str:
    return f"{length / 1e9:,.2f} GB"


def _minutes(hours: float | None) -> str:
    return f"{'unknown' if hours is None else f'{hours * 60:,.2f}':>18}"
