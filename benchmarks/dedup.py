"""The whole near-deduplication of the same Parquet shards by gristmill and its peers, each a
process tree measured from outside.

What each tool keeps is compared with the truth of dedup_corpus.py, group by group: an original and
its copies. Of a group, one document should be kept, and those copies that are not near duplicates.
Which of several equal documents is kept does not count.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dedup_corpus
import numpy as np
import rounds
from section import Section

HERE = Path(__file__).parent
LIMIT = 600  # seconds that a tool may take
SLICE = 10  # datatrove also does a part of the documents, of which it surely comes to an end
OURS = [(bands, rows, workers) for bands, rows in ((14, 8), (32, 4)) for workers in (1, 2)]
BASE = (14, 8, 2)  # bands, rows and workers of the run that peers are compared with
PEERS = {
    "datatrove": "datatrove, its four stages, 14 x 8",
    "text-dedup": "text-dedup, 14 x 8",
    "rensa": "rensa, 14 x 8",
    "rensa-readme": "rensa, as its README: single words",
    "daft": "Daft, its guide's script, 14 x 8",
}
# These end within a minute: each of their runs comes right after one of ours, so that both meet the
# machine in the same state.
IN_TURNS = ("rensa", "rensa-readme", "daft")
TURNS = 5  # rounds of these, at least
LEAST = {"datatrove": 20, "daft": 1.5}  # times our wall and processor time: the targets
VERIFIED = {"rensa": "signatures", "rensa-readme": "signatures"}
PACKAGES = {"datatrove": "datatrove", "text-dedup": "text-dedup", "rensa": "rensa", "daft": "daft"}


class Hands(NamedTuple):
    """What the harness lends: Pythons, places, and how to measure a process tree."""

    data: Path
    seed: int
    peers: str | None
    text_dedup: str | None  # the Python of an environment with text-dedup
    ours: dict[str, str]  # environments
    theirs: dict[str, str]
    tree: Callable[..., dict[str, Any]]
    say: Callable[[str], None]
    versions: dict[str, str]


def corpus(hands: Hands, count: int) -> Path:
    """So many documents and their truth; made once."""
    source = b"".join(
        Path(module).read_bytes()
        for module in (dedup_corpus.__file__, dedup_corpus.make_corpus.__file__)
    )
    folder = hands.data / f"dedup-{count}-{hands.seed}-{hashlib.sha256(source).hexdigest()[:8]}"
    if not (folder / "truth.npz").exists():
        hands.say(f"making {count:,} documents in {folder}")
        command = [
            sys.executable,
            dedup_corpus.__file__,
            str(folder),
            "--documents",
            str(count),
            "--seed",
            str(hands.seed),
        ]
        subprocess.run(command, check=True)
    return folder


def score(folder: Path, kept: np.ndarray) -> dict[str, Any]:
    """How many documents were kept, and how far that is from what should have been."""
    with np.load(folder / "truth.npz") as truth:
        groups, similarities, size = truth["group"], truth["similarity"], int(truth["bytes"])
    count = len(groups)
    stays = (groups == np.arange(count)) | (similarities < 0.8)
    right = np.bincount(groups[stays], minlength=count)
    found = np.bincount(groups[kept], minlength=count)
    return {
        "documents": count,
        "megabytes": size / 1e6,
        "kept": len(kept),
        "right": int(right.sum()),
        "left_in": int(np.maximum(found - right, 0).sum()),
        "lost": int(np.maximum(right - found, 0).sum()),
    }


def ours(
    hands: Hands, folder: Path, bands: int, rows: int, workers: int, times: int
) -> dict[str, Any]:
    """Our runs: medians. One worker runs on one core, more on all."""
    out, runs, inner = hands.data / "out", [], {}
    for _ in range(times):
        run, inner = _our_run(hands, folder, bands, rows, workers)
        runs.append(run)
    row = _row(f"gristmill, {bands} x {rows}, {_workers(workers)}", "texts", runs)
    row |= score(folder, np.fromiter(_kept_by_us(out, folder / "shards"), np.int64)) | {
        "phases": inner["phases"],
        "rates": inner["rates"],
    }
    shutil.rmtree(out, ignore_errors=True)
    return row


def _our_run(
    hands: Hands, folder: Path, bands: int, rows: int, workers: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run, measured, and what it told of itself; its corpus stays in the folder `out`."""
    out, told = hands.data / "out", hands.data / "told.json"
    settings = {"deduplicate.near.bands": str(bands), "deduplicate.near.rows": str(rows)}
    environment = {
        **hands.ours,
        "GRISTMILL_BENCH_SET": json.dumps(settings),
        "GRISTMILL_BENCH_WORKERS": str(workers),
    }
    command = [
        sys.executable,
        HERE / "ours.py",
        "whole",
        HERE / "dedup.toml",
        folder / "shards" / "*.parquet",
        out,
        told,
    ]
    shutil.rmtree(out, ignore_errors=True)
    run = hands.tree([str(part) for part in command], environment, pinned=workers == 1)
    hands.say(
        f"ours, {bands} x {rows}, {workers} workers: {run['wall']:.1f} s, cpu {run['cpu']:.1f}"
    )
    return run, json.loads(told.read_text())


def _workers(count: int) -> str:
    return "one worker on one core" if count == 1 else f"{count} workers"


def _row(who: str, verified: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "who": who,
        "verified": verified,
        "runs": runs,
        "wall": statistics.median(run["wall"] for run in runs),
        "cpu": statistics.median(run["cpu"] for run in runs),
        "pss": max(run["peak_pss"] for run in runs),
    }


def _kept_by_us(out: Path, shards: Path) -> Iterator[int]:
    import pyarrow.parquet as pq

    first = 0
    for number, path in enumerate(sorted(shards.glob("*.parquet"))):
        verdicts = pq.read_table(
            out / "verdicts" / f"{number:05d}.parquet", columns=["document", "reason"]
        )
        kept = verdicts["document"].filter(verdicts["reason"].is_null()).to_numpy() & 0xFFFFFFFF
        yield from (kept + first).tolist()
        first += pq.read_metadata(path).num_rows


def theirs(hands: Hands, folder: Path, tool: str, times: int) -> dict[str, Any]:
    """A peer on all cores: once, or TURNS times or more, in turns with ours."""
    python = hands.text_dedup if tool == "text-dedup" else hands.peers
    told = {"who": PEERS[tool], "verified": VERIFIED.get(tool, "no"), "tool": tool}
    if python is None:
        return {**told, "failed": "no environment of peers"}
    out, cores = hands.data / "out-peer", len(os.sched_getaffinity(0))
    environment = {
        name: value for name, value in hands.theirs.items() if name not in rounds.ONE_THREAD
    }
    environment |= {"HF_HOME": str(hands.data / "hf"), "PYTHONPATH": ""}
    command = [
        python,
        str(HERE / "dedup_peers.py"),
        tool,
        str(folder / "shards"),
        str(out),
        str(cores),
    ]
    runs, beside = [], []
    try:
        for _ in range(max(times, TURNS) if tool in IN_TURNS else 1):
            if tool in IN_TURNS:
                beside.append(_our_run(hands, folder, *BASE)[0])
            shutil.rmtree(out, ignore_errors=True)
            runs.append(hands.tree(command, environment, pinned=False, limit=LIMIT))
            hands.say(f"{tool}: {runs[-1]['wall']:.1f} s, cpu {runs[-1]['cpu']:.1f}")
        told |= _row(told["who"], told["verified"], runs)
        if beside:
            told["beside"] = beside
        told |= score(folder, np.fromiter(_kept_by_them(out / "kept"), np.int64))
        package = PACKAGES[tool.partition("-readme")[0]]
        asked = f"import importlib.metadata as m; print(m.version({package!r}))"
        found = subprocess.run(
            [python, "-c", asked], capture_output=True, text=True, check=False
        ).stdout.strip()
        hands.versions[package] = found
    except RuntimeError as error:
        hands.say(f"{tool}: {error}")
        told["failed"] = str(error)
    finally:
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(hands.data / "out", ignore_errors=True)
    return told


def _kept_by_them(folder: Path) -> Iterator[int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted(folder.rglob("*.parquet")):
        yield from map(int, pq.read_table(path, columns=["id"])["id"].to_pylist())
    for path in sorted(folder.rglob("*.arrow")):
        with pa.memory_map(str(path)) as file:
            yield from map(int, pa.ipc.open_stream(file).read_all()["id"].to_pylist())
    for path in sorted(folder.rglob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield int(json.loads(line)["id"])


def measure(hands: Hands, count: int, times: int) -> list[dict[str, Any]]:
    """All rows: ours, then each peer."""
    ours(hands, corpus(hands, 2000), 14, 8, 2, 1)  # kernels compiled
    folder = corpus(hands, count)
    rows = [ours(hands, folder, *form, times) for form in OURS]
    rows += [theirs(hands, folder, tool, times) for tool in PEERS]
    return rows + fewer(hands, count // SLICE, times)


def fewer(hands: Hands, count: int, times: int) -> list[dict[str, Any]]:
    """Ours and datatrove's on fewer documents."""
    folder = corpus(hands, count)
    return [ours(hands, folder, *BASE, times), theirs(hands, folder, "datatrove", 1)]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as Markdown.

    Ratios are to our two workers with datatrove's bands, on as many documents.
    """
    bases = {row["documents"]: row for row in rows if row["who"].startswith("gristmill, 14 x 8, 2")}
    most = bases[max(bases)]
    lines = [
        (
            f"{most['documents']:,} documents are {most['megabytes']:,.0f} MB, of which "
            f"{most['right']:,} documents should be kept."
        ),
        "",
        (
            "| who | verified on | documents | wall s | processor s | peak PSS, MB | kept | "
            "copies left in | lost | wall; processor; memory, times ours |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(
                f"| {row['who']} | {row['verified']} | | not measured: {row['failed']} | | | "
                "| | | |"
            )
            continue
        base = bases[row["documents"]]
        ratios = "; ".join(f"{ratio:.2f}" for ratio in _ratios(row, base))
        lines.append(
            f"| {row['who']} | {row['verified']} | {row['documents']:,} | {row['wall']:.1f} "
            f"| {row['cpu']:.1f} "
            f"| {row['pss'] / 1e6:,.0f} | {row['kept']:,} | {row['left_in']:,} | {row['lost']:,} "
            f"| {'1' if row is base else ratios} |"
        )
    lines.append("")
    for row in rows:
        if "tool" in row:
            base = bases.get(row.get("documents"), most)
            lines += _target(row, base, part=base is not most)
    named = ", ".join(f"{name} {took:.1f}" for name, took in most["phases"].items())
    return [
        *lines,
        f"* Ours by phase, wall seconds of two workers: {named}; starting takes the rest.",
    ]


def _ratios(row: dict[str, Any], base: dict[str, Any]) -> tuple[float, float, float]:
    """A row's wall time, processor time and memory, times ours: of runs in turns the medians of the
    rounds' ratios.
    """
    if "beside" not in row:
        return row["wall"] / base["wall"], row["cpu"] / base["cpu"], row["pss"] / base["pss"]
    rounds_of = list(zip(row["runs"], row["beside"], strict=True))
    wall, cpu, memory = (
        statistics.median(run[name] / own[name] for run, own in rounds_of)
        for name in ("wall", "cpu", "peak_pss")
    )
    return wall, cpu, memory


def _target(row: dict[str, Any], base: dict[str, Any], *, part: bool) -> list[str]:
    """A peer's wall and processor time and memory beside ours; of one that was stopped its wall
    time until then.

    Targets are for all documents; what did a part is told beside ours on that part, where starting
    weighs.
    """
    least = LEAST.get(row["tool"], 1)
    if "failed" in row:
        stopped = re.match(r"stopped after ([0-9,]+) s", row["failed"])
        if stopped is None:
            return []
        wall = float(stopped[1].replace(",", "")) / base["wall"]
        met = "met" if wall >= least else "**not met**"
        return [
            (
                f"* {row['who']}: at least {least} times our wall time: {met} (more than "
                f"{wall:.1f}; {base['documents']:,} documents)."
            )
        ]
    wall, cpu, memory = _ratios(row, base)
    told = f"({wall:.2f}, {cpu:.2f}; {memory:.2f}; {row['documents']:,} documents)."
    if part:
        return [f"* {row['who']}: times our wall and processor time, and our memory {told}"]
    met = "met" if min(wall, cpu) >= least and memory >= 1 else "**not met**"
    return [
        (
            f"* {row['who']}: at least {least} times our wall and processor time, and our "
            f"memory: {met} {told}"
        )
    ]


SECTION = Section(
    name="dedup",
    title="Whole near-deduplication: Parquet in, kept documents out",
    remarks=(
        "Each tool is a whole process, timed from outside, start and imports included, on all "
        "cores unless one is named. Each run of rensa and of Daft comes right after one of ours, "
        "and their ratios are medians of these rounds; other peers run once. Documents and their "
        "known copies are from dedup_corpus.py, none near a similarity of 0.8: `copies left in` "
        "should have been dropped, `lost` should have been kept. Bands miss some copies in every "
        "tool; a tool that does not verify also drops documents that are only similar. datatrove "
        "hashes with 64-bit xxhash, its default, on spaCy's words, and counts no tokens here. A "
        "tool is stopped after 10 minutes; it then also runs on a tenth of the documents. Daft's "
        "script is that of its guide. text-dedup is 0.4.0, the last version on PyPI."
    ),
    measure=lambda bench: measure(bench.hands(), bench.asked.documents, bench.asked.whole_rounds),
    table=table,
)
