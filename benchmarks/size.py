"""What `gristmill size` predicts, and what a run takes: `python size.py RECIPE OUT
[--set key=value] [--sample BYTES]`.

OUT must not exist. The run is measured in the same way as the sample
(reports/planning/size.py), with one worker per core. Input: `make_corpus.py`, and whole.toml with
its files set, as bench.py does.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from gristmill.cli.arguments import read_settings
from gristmill.pipeline import run
from gristmill.reports.planning.size import SAMPLE, Meter, lines, size


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
    settings = read_settings(asked.set)
    cost = size(asked.recipe, out=asked.out, settings=settings, sample=asked.sample)
    print("\n".join(lines(cost)) + "\n")
    workers, peak, meter = os.cpu_count() or 1, 0, Meter()
    walls: dict[str, float] = {}

    def show(event: dict[str, Any]) -> None:
        nonlocal peak
        meter.show(event)
        if event["event"] == "done":
            walls[event["phase"]] = walls.get(event["phase"], 0.0) + event["seconds"]
        if event["event"] in ("progress", "done"):
            peak = max(peak, folder_bytes(asked.out))

    table = run(asked.recipe, out=asked.out, settings=settings, workers=workers, show=show).table
    rows = [
        (name, cost[name], table["bytes" if name == "text_bytes" else name])
        for name in ("documents", "kept", "text_bytes", "tokens")
        if cost[name] is not None
    ]
    for phase in cost["phases"]:
        name = phase["phase"]
        rows.append((f"{name}: processor s", phase["cpu_hours"] * 3600, meter.phases[name]))
        rows.append((f"{name}: wall s", (phase["wall_hours"][0] or 0) * 3600, walls[name]))
    for name, length in cost["disk"]["folders"].items():
        if name != "files":
            rows.append((f"{name}/ MB", length / 1e6, folder_bytes(asked.out / name) / 1e6))
    held = folder_bytes(asked.out)
    for name, predicted, real in (
        ("disk: peak", cost["disk"]["peak"] - cost["disk"]["cache"], max(peak, held)),
        ("disk: end", cost["disk"]["end"] - cost["disk"]["cache"], held),
    ):
        rows.append((f"{name} MB", predicted / 1e6, real / 1e6))
    print(f"range {cost['range']}")
    print(f"{'':<34}{'predicted':>16}{'real':>16}{'predicted/real':>16}")
    for name, predicted, real in rows:
        print(f"{name:<34}{predicted:>16,.2f}{real:>16,.2f}{predicted / max(real, 1e-9):>16.2f}")
    print(json.dumps({"predicted": cost, "real": rows}))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, as they are at the moment."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue  # it was removed meanwhile
    return total


if __name__ == "__main__":
    main()
