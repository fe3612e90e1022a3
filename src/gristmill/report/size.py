"""Size: what a run will cost, before it runs, from a measured sample.

    plan                 shards and bytes, as `run --dry-run` tells them
    sample               a few shards of each source, or their first part
        sample.py
    four small runs      through the real phases with one worker, each phase measured
        meter.py
    cost of a phase      fixed + each shard * shards + each unit * units
        laws.py
    bytes of a folder    the sample's, times what the source is larger than its sample

The runs are: one small shard of each source, thrown away (it compiles kernels and loads modules);
the same again; several small shards; the sample. Three points tell three unknowns: what a run costs
that does nothing, what a shard costs that is empty, and what a unit of work costs. Units are raw
bytes (fetch), decoded bytes (process), documents (deduplicate, write_verdicts), bytes of text
(lines, tokenize), lines that are counted (frequent), tokens (assemble).

Deduplicate's units are documents that passed every filter, n of them with k numbers in a signature
and b bands; its time is linear in n, its disk on the way 8 n (documents) + 4 k n (signatures), and
the larger of 16 b n (keys) and 8 bytes a shingle of each document that stands in a pair, and its
memory that of the sample, 16 b bytes a document up to what the relational engine and a cut of the
keys may take, and 33 bytes a document beyond (keeper, similarity, drop).

A sample meets fewer copies than the whole: what is predicted to be kept, and its tokens, is an
upper bound; the pairs, and what comparing them costs, a lower one.
"""

import os
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from gristmill.corpus.corpus import Corpus
from gristmill.phases.inputs import plan as plans
from gristmill.phases.inputs.fetch import Asked, Fetch, Row
from gristmill.phases.output import publish
from gristmill.pipeline import run
from gristmill.recipe import Loaded, check_pages, load, stored
from gristmill.report.cost_model import Measured, Seen, seen
from gristmill.report.meter import Meter
from gristmill.report.predict import Machines, predict
from gristmill.report.sample import Piece, Taker, copy_of_start, sampled
from gristmill.store.cache import Cache, default_cache
from gristmill.store.client import asked_of
from gristmill.store.transfer import Transfer
from gristmill.user_input import output

SAMPLE = 64 << 20  # decoded bytes that are measured, unless told otherwise
SMALL = 128 << 10  # decoded bytes of a small shard
SEVERAL = 9  # small shards of a source, where what a shard costs is measured

Tell = Callable[[str], None]


def size(
    recipe: Path | str | Loaded,
    *,
    out: Path | str | None = None,
    machines: int = 1,
    cores: int | None = None,
    sample: int = SAMPLE,
    shards: int | None = None,
    settings: dict[str, str] | None = None,
    cache_dir: Path | str | None = None,
    allow_code: bool = False,
    allow_env: Collection[str] = (),
    tell: Tell = lambda _: None,
) -> dict[str, Any]:
    """What a fresh run of a recipe will cost on this machine, and on `machines` like it with
    `cores` each (null: as many as this one has).

    `sample` is in decoded bytes; `shards` takes so many whole shards of each source instead. Of the
    corpus nothing is changed; raw shards of the sample stay in the cache. Raises what `run` raises,
    over the sample.
    """
    loaded = recipe if isinstance(recipe, Loaded) else load(Path(recipe), settings)
    check_pages(loaded.recipe)
    if not (out or loaded.recipe.output):
        # Nothing says on which disk the corpus will be: the sample runs where temporary files do.
        with tempfile.TemporaryDirectory(prefix="gristmill-size-") as folder:
            return size(
                loaded,
                out=Path(folder) / "corpus",
                machines=machines,
                cores=cores,
                sample=sample,
                shards=shards,
                cache_dir=cache_dir,
                allow_code=allow_code,
                allow_env=allow_env,
                tell=tell,
            )
    root = output(out, loaded.recipe.output, loaded.folder).absolute()
    asked = asked_of(None, None, allow_env=allow_env)._replace(contact=loaded.recipe.contact)
    transfer = Transfer(Cache(Path(cache_dir or default_cache()).absolute()), asked)
    beside = next(folder for folder in root.parents if folder.is_dir())
    try:
        rows, sources = _plan(loaded, Corpus(root), transfer)
        tell(f"{len(rows):,} raw shards; measuring a sample")
        with tempfile.TemporaryDirectory(prefix=f".{root.name}.size-", dir=beside) as folder:
            taker = Taker(loaded, rows, sources, transfer, Path(folder))
            try:
                pieces = taker.take(sample, shards)
                measured = _measure(
                    loaded, pieces, Path(folder), transfer.cache.root, allow_code, tell
                )
            finally:
                transfer.cache.release(Path(folder))
    finally:
        transfer.close()
    here = Machines(1, os.cpu_count() or 1)
    return predict(
        loaded.recipe,
        rows,
        pieces,
        measured,
        taker.download,
        [here, Machines(machines, cores or here.cores)],
    )


def _plan(loaded: Loaded, corpus: Corpus, transfer: Transfer) -> tuple[list[Row], plans.Sources]:
    """All raw shards, with their sizes; what a corpus has planned before stands first."""
    published = corpus.published()
    before = published[0].recipe["source"] if published else []
    plan, sources = plans.extend(
        publish.read_plan(corpus, None),
        loaded.recipe,
        loaded.folder,
        transfer,
        lists=plans.Lists(before, stored(loaded.recipe)["source"]),
    )
    return Fetch(plan, sources, loaded.folder, transfer, Asked()).preview(), sources


def _measure(
    loaded: Loaded, pieces: list[Piece], folder: Path, cache: Path, allow_code: bool, tell: Tell
) -> Measured:
    """Run the small samples and the sample, and find each phase's law."""
    taken: dict[str, Piece] = {}
    for piece in pieces:
        taken.setdefault(piece.source, piece)
    several = [
        copy_of_start(
            piece, folder / f"small-{number}-{copy}{''.join(piece.path.suffixes[-2:])}", SMALL
        )
        for number, piece in enumerate(taken.values())
        for copy in range(SEVERAL)
    ]
    small = several[::SEVERAL]
    runs = {}
    for name, members in {
        "warm": small,
        "one": small,
        "several": several,
        "sample": pieces,
    }.items():
        tell(
            {"warm": "loading", "one": "what a run costs", "several": "what a shard costs"}.get(
                name, "the sample"
            )
        )
        runs[name] = _run(loaded, members, folder / name, cache, allow_code)
    return Measured(runs["one"], runs["several"], runs["sample"])


def _run(loaded: Loaded, pieces: list[Piece], root: Path, cache: Path, allow_code: bool) -> Seen:
    recipe = sampled(loaded.recipe, pieces)
    with Meter(root) as meter:
        run(
            Loaded(recipe, loaded.folder),
            out=root,
            workers=1,
            cache_dir=cache,
            allow_code=allow_code,
            show=meter.show,
        )
    return seen(root, recipe, pieces, meter.phases)


def lines(told: dict[str, Any]) -> list[str]:
    """For people: a line a phase, then what memory and disk it takes, then what to think of it."""
    here, there = told["machines"]
    other = there != here
    columns = [
        f"{here['cores']} cores here",
        *([f"{there['machines']} x {there['cores']} cores"] if other else []),
    ]
    out = [
        (
            f"{told['shards']:,} raw shards, {_bytes(told['raw_bytes'])}, of which "
            f"{_bytes(told['to_fetch'])} are to be fetched"
        ),
        (
            f"{told['documents']:,} documents; at most {told['kept']:,} kept, "
            f"{_bytes(told['text_bytes'])} of text"
        )
        + (f", {told['tokens']:,} tokens" if told["tokens"] is not None else ""),
        "",
        f"{'phase':<10}{'read':>12}{'written':>12}{'CPU':>12}"
        + "".join(f"{column:>18}" for column in columns),
    ]
    for phase in told["phases"]:
        walls = phase["wall_hours"][: len(columns)]
        out.append(
            _line(phase["phase"], phase["read"], phase["written"], phase["cpu_hours"], walls)
        )
    walls = [_total(told, place) for place in range(len(columns))]
    read, written, cpu = (
        sum(phase[name] for phase in told["phases"]) for name in ("read", "written", "cpu_hours")
    )
    memory, disk = told["memory"], told["disk"]
    processes = ", ".join(
        f"{name} {_bytes(memory[name])}"
        for name in ("worker", "deduplicate", "assemble", "driver")
        if memory[name]
    )
    out += [
        _line("in all", read, written, cpu, walls),
        "",
        f"memory: {processes}; this machine {_bytes(memory['machine'])}",
    ]
    out.append(
        f"disk: {_bytes(disk['peak'])} at the peak, in {disk['peak_phase']}; "
        f"{_bytes(disk['end'])} in the end, of which "
        f"{_bytes(disk['cache'])} are raw shards in the cache and {_bytes(disk['work'])} "
        "work/, which may go"
    )
    return out + _notes(told, other)


def _line(name: str, read: float, written: float, cpu: float, walls: list[float | None]) -> str:
    return f"{name:<10}{_bytes(read):>12}{_bytes(written):>12}{_hours(cpu):>12}" + "".join(
        f"{'unknown' if wall is None else _hours(wall):>18}" for wall in walls
    )


def _total(told: dict[str, Any], place: int) -> float:
    """Wall time of all phases whose wall time is known."""
    return sum(phase["wall_hours"][place] or 0.0 for phase in told["phases"])


def _notes(told: dict[str, Any], other: bool) -> list[str]:
    sample = told["sample"]
    out = [
        (
            "a sample meets fewer copies than the whole: what is kept, and what comes of it, is "
            "an upper bound, and deduplicate's cost a lower one"
        )
    ]
    out.append(
        f"measured on {sample['documents']:,} documents of {sample['shards']:,} raw shards "
        f"({_bytes(sample['raw_bytes'])}, "
        f"{_bytes(sample['decoded_bytes'])} decoded), with one worker; others at work on "
        "this machine make it slower, then and now"
    )
    if sample["raw_bytes"] * 50 < told["raw_bytes"] and sample["decoded_bytes"] < SAMPLE // 2:
        out.append("the sample is small: --sample 256MB tells more")
    if not told["memory"]["worker"]:
        out.append("how much memory a process has nobody tells here: there is no /proc")
    if told["unknown"]:
        out.append(
            f"{told['unknown']:,} raw shards of unknown length are counted as the mean of "
            "the others"
        )
    if any(None in phase["wall_hours"] for phase in told["phases"]):
        out.append(
            "nothing had to be fetched for the sample: how long fetching takes is unknown, "
            "and in no sum"
        )
    elif told["to_fetch"]:
        out.append(
            "fetching is told at the rate at which the sample came, whatever the connections"
        )
    if other:
        out.append(
            "fetch and deduplicate are one machine's work and assemble one process's a "
            "source: they are not divided"
        )
    return out


def _bytes(size: float) -> str:
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:,.2f} {name}"
    return f"{size / 1e3:,.1f} kB" if size else "0"


def _hours(hours: float) -> str:
    if hours >= 1.0:
        return f"{hours:,.2f} h"
    return f"{hours * 60:,.1f} min" if hours * 60 >= 1.0 else f"{hours * 3600:,.2f} s"
