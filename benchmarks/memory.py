"""The most memory that a whole run takes, by its workers."""

import json
import shutil
import statistics
import sys
from typing import Any

import whole_runs
from harness import HERE, Bench
from section import Rows, Section

WORKERS = (1, 2, 4)
LIMITS = {2: 500}  # MB at most
RUNS = 3


def rows(bench: Bench) -> Rows:
    """A row for each number of workers."""
    return [_measured(bench, workers) for workers in WORKERS]


def _measured(bench: Bench, workers: int) -> dict[str, Any]:
    """Whole runs by the command line."""
    files = whole_runs.corpus(bench, bench.asked.bytes) / "*.warc.wet.gz"
    out, runs = bench.data / "out", []
    command = [sys.executable, "-m", "gristmill", "run", str(HERE / "whole.toml")]
    command += ["--set", f"source.0.files={json.dumps([str(files)])}"]
    command += ["--workers", str(workers), "--out", str(out)]
    for _ in range(RUNS):
        shutil.rmtree(out, ignore_errors=True)
        runs.append(bench.tree(command, bench.plain(), pinned=False))
        bench.say(f"{workers} workers: {runs[-1]['peak_pss'] / 1e6:,.0f} MB at the peak")
    shutil.rmtree(out, ignore_errors=True)
    return {
        "workers": workers,
        "peaks": [run["peak_pss"] for run in runs],
        "cpu": statistics.median(run["cpu"] for run in runs),
        "wall": statistics.median(run["wall"] for run in runs),
    }


def table(rows: Rows) -> list[str]:
    """The peaks, and whether they are below their limit."""
    lines = [
        "| workers | runs | peak PSS, MB (least to most) | processor s | wall s |",
        "|---|---|---|---|---|",
    ]
    limits = []
    for row in rows:
        least, peak, most = (
            function(row["peaks"]) / 1e6 for function in (min, statistics.median, max)
        )
        lines.append(
            f"| {row['workers']} | {len(row['peaks'])} | {peak:,.0f} ({least:,.0f} to {most:,.0f})"
            f" | {row['cpu']:.1f} | {row['wall']:.1f} |"
        )
        if limit := LIMITS.get(row["workers"]):
            limits.append(
                f"* MB of {row['workers']} workers, target at most {limit}: "
                + ("met" if peak <= limit else "**not met**")
                + f" ({peak:,.0f})."
            )
    return [*lines, "", *limits]


SECTION = Section(
    name="memory",
    title="Memory of a whole run, by workers",
    remarks=(
        "`gristmill run` over the corpus of the whole run above, on all cores. The peak is of the "
        "command line, the fork server and the workers together; a page that several of them have "
        "counts once, files that are only in the system's cache do not count."
    ),
    measure=rows,
    table=table,
)
