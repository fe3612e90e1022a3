"""Seconds to `--help`, and to tiny corpora where the kernels are compiled."""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import documents
from harness import HERE, Bench
from section import Rows, Section


def measure(bench: Bench) -> Rows:
    """Seconds to `--help`, and to tiny corpora where the kernels are compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "tiny.jsonl")
        path = documents.prepare(bench.data, ["web"])["web"]
        texts = json.loads(path.read_text("utf-8"))["texts"][:100]
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        whole = (HERE / "whole.toml").read_text("utf-8").replace('"wet"', '"jsonl"')
        recipe = Path(folder, "whole.toml")
        recipe.write_text(whole.replace("*.warc.wet.gz", source.name))
        return [
            _started(bench, "`--help`", 0.25, ["--help"], None),
            _started(bench, "100 documents to clean text", 2.0, ["run", str(source)], folder),
            _started(
                bench,
                "100 documents to GPT-2 tokens, as in whole.toml",
                2.0,
                ["run", str(recipe), "--workers", "1"],
                folder,
            ),
        ]


def _started(
    bench: Bench, what: str, target: float, words: list[str], folder: str | None
) -> dict[str, Any]:
    """A row of `startup`: processor time of all descendants, and wall time; `folder`: for the
    corpora.
    """
    call = [sys.executable, "-c", "from gristmill.cli.app import main; main()", *words]
    wall, processor = [], []
    for turn in range(bench.asked.rounds + 1):
        out = [] if folder is None else ["--out", str(Path(folder, f"{len(words)}-{turn}"))]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [*call, *out], env=bench.plain(), capture_output=True, text=True, check=False
        )
        seconds, after = (time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN))
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            failed = f"code {done.returncode}: {last[:150]}"
            return {"what": what, "target": target, "failed": failed}
        if turn:  # the first compiles kernels and reads files from the disk
            wall.append(seconds)
            processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        "what": what,
        "target": target,
        "processor": statistics.median(processor),
        "seconds": statistics.median(wall),
        "all": processor,
    }


def table(rows: Rows) -> list[str]:
    """A line for each start."""
    lines = ["| what | processor s | wall s | target |", "|---|---|---|---|"]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['what']} | not measured: {row['failed']} | | {row['target']} |")
        else:
            met = "met" if row["processor"] <= row["target"] else "**not met**"
            lines.append(
                f"| {row['what']} | {row['processor']:.2f} | {row['seconds']:.2f} "
                f"| at most {row['target']} of processor time: {met} |"
            )
    return lines


SECTION = Section(
    name="startup",
    title="Starting",
    remarks=("Processor time of all processes, and wall time, both medians."),
    measure=measure,
    table=table,
)
