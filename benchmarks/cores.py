"""How much faster 16 cores make a whole run: computed from processor time (processor.py)."""

import statistics
from typing import Any

import whole_runs
from harness import HERE, Bench
from processor import START, Costs, Run, by_phase, costs, speed_up
from section import Rows, Section, met, number

FEW, MANY = 8, 64  # raw shards of the two small runs
WORKERS = 2
TIMES = 5  # of each run
CORES, TARGET = 16, 14
SHARD_COUNTS = (16, 160, 1600)


def _measured(bench: Bench, size: int, shards: int) -> dict[str, dict[str, float]]:
    """The seconds of a whole run's processes, by phase."""
    folder = whole_runs.corpus(bench, size, shards)
    told = whole_runs.run_ours(
        bench,
        HERE / "whole.toml",
        folder / "*.warc.wet.gz",
        {"GRISTMILL_BENCH_WORKERS": str(WORKERS)},
        pinned=False,  # on one core a run takes twice the time, and its caller twice the messages
    )[1]
    return by_phase(told["processor"])


def _row(size: int, shards: int, runs: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Of runs over one corpus, the medians."""
    phases = {
        name: {
            kind: statistics.median(run[name][kind] for run in runs)
            for kind in ("alone", "divided")
        }
        for name in runs[0]
    }
    start = phases[START]["alone"]
    run = Run(
        shards,
        size / 1e6,
        WORKERS,
        start,
        sum(phase["alone"] for phase in phases.values()) - start,
        sum(phase["divided"] for phase in phases.values()),
    )
    return {"phases": phases, "run": run._asdict(), "runs": runs}


def rows(bench: Bench) -> Rows:
    """The two small runs, and the two long ones: medians of TIMES of each, in turns."""
    corpora = [
        (whole_runs.START_BYTES, FEW),
        (whole_runs.START_BYTES, MANY),
        (bench.asked.bytes, whole_runs.SHARDS),
        (2 * bench.asked.bytes, 2 * whole_runs.SHARDS),
    ]
    _measured(bench, *corpora[0])  # kernels compiled, files cached
    rounds = [[_measured(bench, *corpus) for corpus in corpora] for _ in range(TIMES)]
    return [
        _row(*corpus, list(runs))
        for corpus, runs in zip(corpora, zip(*rounds, strict=True), strict=True)
    ]


def table(rows: Rows) -> list[str]:
    """The long runs by phase, what a shard costs, and what follows for more cores."""
    few, many, large, larger = (Run(**row["run"]) for row in rows)
    found: Costs = costs(few, many, large, larger)
    size = large.megabytes / large.shards
    lines = []
    for run, row in ((large, rows[2]), (larger, rows[3])):
        lines += [
            *([""] if lines else []),
            (
                f"| {run.megabytes:,.0f} MB in {run.shards} raw shards | one process or thread, s "
                "| divided among workers or threads, s |"
            ),
            "|---|---|---|",
        ]
        for name, phase in row["phases"].items():
            lines.append(f"| {name} | {phase['alone']:.2f} | {phase['divided']:.2f} |")
    lines += [
        "",
        (
            f"* Start: {found.start:.2f} s of the caller, the fork server and the processes that "
            f"deduplicate and assemble, {found.worker:.2f} s "
            f"of each worker. A raw shard more: {1e3 * found.shard:.1f} ms of the caller. "
            f"A MB: {1e3 * found.alone:.2f} ms of one thread, {1e3 * found.divided:.1f} ms "
            "that cores divide."
        ),
    ]
    for shards in SHARD_COUNTS:
        times = speed_up(found, shards, size, CORES)
        without = speed_up(found._replace(alone=0.0), shards, size, CORES)
        even = found._replace(alone=0.0, start=0.0, worker=0.0)
        lines.append(
            f"* {CORES} cores, {shards:,} raw shards of {size:,.0f} MB, times one core, target at "
            f"least {met(times, TARGET)} ({number(times)}; {number(without)} if nothing that goes "
            f"by the MB were done by one process; {number(speed_up(even, shards, size, CORES))} if "
            "a run had no start either)."
        )
    return lines


SECTION = Section(
    name="cores",
    title="Sixteen cores: what one process does of a whole run",
    remarks=(
        "Computed from processor time; this machine has two cores. The run above, with two "
        f"workers on two cores, and one of twice as much, medians of {TIMES} of each, in turns: "
        "what their phases differ by goes by the MB. By Amdahl's law: what the fork server and the "
        "first threads of the caller, of a task about the whole corpus and of a task about a "
        "source do is counted as done while all else waits, also where DuckDB would give a part of "
        "it to more threads; what other threads do (hashing, sorting, comparing) cores divide. "
        "Memory and disk are taken to be as fast for sixteen cores as for one."
    ),
    measure=rows,
    table=table,
)
