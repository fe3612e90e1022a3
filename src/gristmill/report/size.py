"""Predict what a run will cost before it runs: time, memory and disk, from a measured sample.

    plan             raw shards and their bytes, as `run --dry-run` lists them
    sample           a few shards of each source, or the start of one              sample.py
    three runs       through the real phases with one worker: the first bytes of each source, to
                     load code; the same again; the sample. Each phase is measured     meter.py
    cost of a phase  fixed + unit * units: the line through the second and the third run
    bytes of a file  those of an empty one, and what is beyond them times the source's factor

A source's factor is its raw bytes over those of its sample. Units are what a phase works on, summed
over sources with their factors (UNITS). What names every shard (plan, records) grows with the
number of shards.

A sample contains fewer copies than the whole: what is predicted to be kept, and its tokens, are
upper bounds; the cost of comparing duplicates is a lower bound. Disk at the peak is an upper bound:
all that a run writes, with the tables of deduplicate, as if nothing were removed before the end.
"""

import os
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import msgspec

from gristmill.corpus.corpus import Corpus
from gristmill.phases.inputs import plan as plans
from gristmill.phases.inputs.fetch import Asked, Fetch, Row
from gristmill.phases.output import publish
from gristmill.pipeline import run
from gristmill.recipe import Loaded, check_pages, load, stored
from gristmill.report.meter import Meter
from gristmill.report.predict import Machines, Seen, predict, whole_of
from gristmill.report.sample import Piece, Taker, sampled, start_of
from gristmill.schema import shard_name
from gristmill.store.cache import Cache, default_cache
from gristmill.store.settings import asked_of
from gristmill.store.transfer import Transfer
from gristmill.user_input import output

SAMPLE = 64 << 20  # decoded bytes to measure
SMALL = 128 << 10  # decoded bytes of each source in the small runs


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
    on_line: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Predict what a fresh run of a recipe will cost on this machine, and on `machines` like it
    with `cores` each (None: as many as this one has).

    `sample` is in decoded bytes; `shards` asks for this many whole shards of each source instead.
    Nothing in the corpus changes; raw shards of the sample stay in the cache. `on_line` gets lines
    about progress. Raises what `run` raises.
    """
    loaded = recipe if isinstance(recipe, Loaded) else load(Path(recipe), settings)
    check_pages(loaded.recipe)
    root = beside = None
    if out or loaded.recipe.output:
        root = output(out, loaded.recipe.output, loaded.folder).absolute()
        beside = next(folder for folder in root.parents if folder.is_dir())
    client = asked_of(None, None, allow_env=allow_env)._replace(contact=loaded.recipe.contact)
    transfer = Transfer(Cache(Path(cache_dir or default_cache()).absolute()), client)
    # On the disk of the corpus, if that is known: a sample measures the disk too.
    prefix = f".{root.name}.size-" if root else "gristmill-size-"
    try:
        with tempfile.TemporaryDirectory(prefix=prefix, dir=beside) as temporary:
            folder = Path(temporary)
            rows, sources = _plan(loaded, Corpus(root or folder / "corpus"), transfer)
            on_line(f"{len(rows):,} raw shards; measuring a sample")
            taker = Taker(loaded, rows, sources, transfer, folder)
            try:
                pieces = taker.take(sample, shards)
                starts = _starts(pieces, folder)
                runs = []
                for name, members in (("loading", starts), ("small", starts), ("sample", pieces)):
                    on_line(f"run: {name}")
                    cache = transfer.cache.root
                    runs.append(_run(loaded, members, folder / name, cache, allow_code))
            finally:
                transfer.cache.release(folder)
    finally:
        transfer.close()
    here = Machines(1, os.cpu_count() or 1)
    there = Machines(machines, cores or here.cores)
    whole = whole_of(loaded.recipe, rows, pieces, runs[2])
    return predict(loaded.recipe, whole, pieces, runs[1], runs[2], taker.download, [here, there])


def _plan(loaded: Loaded, corpus: Corpus, transfer: Transfer) -> tuple[list[Row], plans.Sources]:
    """All raw shards, with their sizes; those that a corpus has planned before come first."""
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


def _starts(pieces: list[Piece], folder: Path) -> list[Piece]:
    """The first bytes of the first piece of each source."""
    first = {piece.source: piece for piece in reversed(pieces)}
    return [
        start_of(piece, folder / f"start-{number}{''.join(piece.path.suffixes[-2:])}", SMALL)[0]
        for number, piece in enumerate(first.values())
    ]


def _run(loaded: Loaded, pieces: list[Piece], root: Path, cache: Path, allow_code: bool) -> Seen:
    """Run the recipe over pieces, and measure it."""
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
    corpus = Corpus(root)
    plan = msgspec.json.decode((root / "plan.json").read_bytes(), type=plans.Plan)
    names = {shard_name(shard.number): shard.source for shard in plan.shards}
    shards = [(source, _units(corpus, name)) for name, source in names.items()]
    files: dict[str, dict[str | None, int]] = {}
    rest = 0
    for path in root.rglob("*"):
        if not path.is_file():
            continue
        parts = path.relative_to(root).parts
        folder = "/".join(parts[: 2 if parts[0] == "work" else 1])
        if len(parts) == 1 or folder in ("work/state", f"work/{path.name}"):
            rest += path.stat().st_size
            continue
        source = parts[1] if parts[0] == "tokens" else names.get(path.name.partition(".")[0])
        own = files.setdefault(folder, {})
        own[source] = own.get(source, 0) + path.stat().st_size
    raw: dict[str, float] = {}
    for piece in pieces:
        raw[piece.source] = raw.get(piece.source, 0.0) + piece.raw
    return Seen(shards, meter.phases, files, rest, raw)


def _units(corpus: Corpus, name: str) -> dict[str, float]:
    """What a shard came to, in units of each kind."""
    processed, verdicts, written = (
        record.counts
        for phase in ("process", "write_verdicts", "tokenize")
        if (record := corpus.last(phase, name)) is not None
    )
    return {
        "decoded": processed["raw"]["decompressed_bytes"],
        "documents": verdicts["documents"],
        "passed": processed["kept"]["documents"],
        "kept": written["documents"],
        "text": written["bytes"],
        "tokens": written["tokens"],
    }


def lines(cost: dict[str, Any]) -> list[str]:
    """For people: a line for each phase, then memory and disk, then what limits the prediction."""
    here, there = cost["machines"]
    columns = [f"{here['cores']} cores here"]
    if there != here:
        columns.append(f"{there['machines']} x {there['cores']} cores")
    tokens = f", {cost['tokens']:,} tokens" if cost["tokens"] is not None else ""
    rows = [(one["phase"], one["cpu_hours"], one["wall_hours"]) for one in cost["phases"]]
    walls = [sum(row[2][place] or 0.0 for row in rows) for place in range(len(columns))]
    rows.append(("in all", sum(row[1] for row in rows), walls))
    memory, disk, sample = cost["memory"], cost["disk"], cost["sample"]
    processes = ", ".join(
        f"{name} {_bytes(memory[name])}"
        for name in ("worker", "deduplicate", "assemble", "driver")
        if memory[name]
    )
    out = [
        (
            f"{cost['shards']:,} raw shards, {_bytes(cost['raw_bytes'])}, of which "
            f"{_bytes(cost['to_fetch'])} are to be fetched"
        ),
        (
            f"{cost['documents']:,} documents; at most {cost['kept']:,} kept, "
            f"{_bytes(cost['text_bytes'])} of text{tokens}"
        ),
        "",
        f"{'phase':<16}{'CPU':>12}" + "".join(f"{column:>18}" for column in columns),
        *(
            f"{name:<16}{_hours(cpu):>12}"
            + "".join(f"{_hours(wall):>18}" for wall in walls[: len(columns)])
            for name, cpu, walls in rows
        ),
        "",
        f"memory: {processes}; this machine {_bytes(memory['machine'])}",
        (
            f"disk: at most {_bytes(disk['peak'])}; {_bytes(disk['end'])} in the end, of which "
            f"{_bytes(disk['cache'])} are raw shards in the cache and {_bytes(disk['work'])} are "
            "work/, which you may remove"
        ),
        (
            f"measured on {sample['documents']:,} documents of {sample['shards']:,} raw shards "
            f"({_bytes(sample['raw_bytes'])}, {_bytes(sample['decoded_bytes'])} decoded) with one "
            "worker; other programs on this machine make both slower"
        ),
        (
            "a sample contains fewer copies than the whole: what is kept is an upper bound, the "
            "cost of deduplicate a lower bound"
        ),
    ]
    if sample["raw_bytes"] * 50 < cost["raw_bytes"] and sample["decoded_bytes"] < SAMPLE // 2:
        out.append("the sample is small: --sample 256MB predicts better")
    if not memory["worker"]:
        out.append("the memory of processes is unknown here: there is no /proc")
    if cost["unknown"]:
        out.append(
            f"{cost['unknown']:,} raw shards of unknown length count as the mean of the others"
        )
    if cost["to_fetch"]:
        out.append("the time to fetch is at the rate of the sample; unknown if none was fetched")
    if there != here:
        out.append("one machine fetches, one process deduplicates: these times are not divided")
    return out


def _bytes(length: float) -> str:
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if length >= unit:
            return f"{length / unit:,.2f} {name}"
    return f"{length / 1e3:,.1f} kB" if length else "0"


def _hours(hours: float | None) -> str:
    if hours is None:
        return "unknown"
    if hours >= 1.0:
        return f"{hours:,.2f} h"
    return f"{hours * 60:,.1f} min" if hours * 60 >= 1.0 else f"{hours * 3600:,.2f} s"
