"""What `gristmill size` predicts, and what a run takes: `python size.py RECIPE OUT [--set
key=value] [--sample BYTES]`.

OUT must not exist. The run is measured in the same way as the sample (report/meter.py), with one
worker per core. Input: `make_corpus.py`, and whole.toml with its files set, as bench.py does.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from gristmill.arguments import settings_of
from gristmill.pipeline import run
from gristmill.report.meter import Meter, folder_bytes
from gristmill.report.size import SAMPLE, lines, size


def main() -> None:
    """Predict, run, and print both."""
    parser = argparse.ArgumentParser(description="Predictions beside a run.")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--sample", type=int, default=SAMPLE)
    asked = parser.parse_args()
    if asked.out.exists():
        raise SystemExit(f"{asked.out} is there: what is measured is a fresh run")
    settings = settings_of(asked.set)
    told = size(asked.recipe, out=asked.out, settings=settings, sample=asked.sample)
    print("\n".join(lines(told)) + "\n")
    workers = os.cpu_count() or 1
    with Meter(asked.out) as meter:
        funnel = run(
            asked.recipe, out=asked.out, settings=settings, workers=workers, show=meter.show
        )
    rows: list[tuple[str, float, float, str]] = []
    for name in ("documents", "kept", "tokens"):
        if told[name] is not None:
            rows.append((name, told[name], funnel.table[name], ""))
    for phase in told["phases"]:
        name, cost = phase["phase"], meter.phases[phase["phase"]]
        rows.append((f"{name}: CPU", phase["cpu_hours"] * 3600, cost.cpu, "s"))
        if phase["wall_hours"][0] is not None:
            rows.append((f"{name}: wall", phase["wall_hours"][0] * 3600, cost.wall, "s"))
    for name, predicted in told["disk"]["folders"].items():
        if name != "rest":
            real = folder_bytes(asked.out / name)
            rows.append((f"{name}/", predicted / 1e6, real / 1e6, "MB"))
    shards = [
        cost.worker
        for name, cost in meter.phases.items()
        if name in ("process", "write_verdicts", "tokenize")
    ]
    rows += [
        ("memory: a worker", told["memory"]["worker"] / 1e6, max(shards) / 1e6, "MB"),
        (
            "memory: deduplicate",
            told["memory"]["deduplicate"] / 1e6,
            _worker(meter, "deduplicate") / 1e6,
            "MB",
        ),
        (
            "memory: assemble",
            told["memory"]["assemble"] / 1e6,
            _worker(meter, "assemble") / 1e6,
            "MB",
        ),
        (
            "memory: machine",
            told["memory"]["machine"] / 1e6,
            max(cost.tree for cost in meter.phases.values()) / 1e6,
            "MB",
        ),
        (
            "disk: peak",
            told["disk"]["peak"] / 1e6,
            max(cost.disk for cost in meter.phases.values()) / 1e6,
            "MB",
        ),
        ("disk: end", told["disk"]["end"] / 1e6, folder_bytes(asked.out) / 1e6, "MB"),
    ]
    print(f"{'':<24}{'predicted':>16}{'real':>16}{'':>4}{'predicted/real':>16}")
    for name, predicted, real, unit in rows:
        print(
            f"{name:<24}{_shown(predicted):>16}{_shown(real):>16} "
            f"{unit:<3}{predicted / max(real, 1e-9):>16.2f}"
        )
    print(json.dumps({"predicted": told, "real": [list(row) for row in rows]}))


def _worker(meter: Meter, phase: str) -> float:
    return meter.phases[phase].worker if phase in meter.phases else 0.0


def _shown(value: Any) -> str:
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
