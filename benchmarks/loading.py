"""The loader beside other loaders of tokens, on the same tokens: each a process on one core
(loading_ways.py), in turns. And the time to the first batch and to resume.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from section import Section

HERE = Path(__file__).parent
TOKENS, LENGTH, ROWS = 60_000_000, 2048, 64
BATCHES = {"gristmill": 1000, "gristmill-thread": 1000, "copy": 1000}
OTHERS = 100  # batches of a round of a peer
NAMES = {
    "gristmill": "gristmill",
    "gristmill-thread": "gristmill, made ahead by a thread",
    "copy": "a bare copy into one buffer (numpy)",
    "nanogpt": "nanoGPT's get_batch (int64)",
    "grain": "grain: MapDataset, shuffled, batched",
    "datatrove": "datatrove: DatatroveFileDataset in torch's DataLoader",
    "mds": "MosaicML StreamingDataset in torch's DataLoader",
    "litdata": "litdata: TokensLoader in its StreamingDataLoader",
}


def _corpus(folder: Path, tokens: int) -> None:
    """Documents of random tokens whose lengths are spread as those of web pages."""
    sys.path.insert(0, str(HERE.parent))
    from tests.support.token_corpora import token_corpus

    generator = np.random.default_rng(1)
    lengths = np.minimum(generator.lognormal(6.3, 1.1, tokens // 900).astype(int) + 2, 60_000)
    documents = [np.append(generator.integers(1, 50_000, length - 1), 0) for length in lengths]
    token_corpus(
        folder / "corpus", {"web": documents}, vocabulary=50_257, tokens_per_shard=10_000_000
    )
    np.concatenate(documents).astype(np.uint16).tofile(folder / "tokens.bin")


class Way:
    """A process that reads batches when it is asked to."""

    def __init__(self, name: str, python: str, folder: Path, environment: dict[str, str]) -> None:
        """Waits until it is ready."""
        self.name = name
        command = [python, str(HERE / "loading_ways.py"), name, str(folder)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.version = self._line().split()

    def _line(self) -> str:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith("ready") or line[0].isdigit():
                return line
        assert self.process.stderr is not None
        last = (self.process.stderr.read().strip().splitlines() or ["nothing"])[-1]
        raise RuntimeError(last[:200])

    def round(self) -> tuple[float, float]:
        """Tokens a second of one round, by processor time and by the clock."""
        batches = BATCHES.get(self.name, OTHERS)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{batches}\n")
        self.process.stdin.flush()
        cpu, wall = map(float, self._line().split())
        return batches * ROWS * LENGTH / cpu, batches * ROWS * LENGTH / wall

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def measure(
    data: Path, peers: str | None, rounds: int, say: Any
) -> tuple[list[Any], dict[str, str]]:
    """All rows, and the versions of the peers."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=data) as name:
        folder = Path(name)
        _corpus(folder, TOKENS)
        ways, versions = [], {}
        for way in NAMES:
            ours = way in BATCHES
            try:
                python = sys.executable if ours else peers
                if python is None:
                    raise RuntimeError("there is no environment of the peers")
                ways.append(Way(way, python, folder, environment))
                versions[ways[-1].version[1]] = ways[-1].version[2]
            except (RuntimeError, OSError) as error:
                rows.append({"way": way, "failed": str(error)})
        found: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
        for turn in range(rounds):
            for way in ways:
                found[way.name].append(way.round())
            say(f"loader, round {turn + 1}")
        for way in ways:
            way.close()
        own = found["gristmill"]
        for name, took in found.items():
            rows.append(
                {
                    "way": name,
                    "cpu": statistics.median(cpu for cpu, _ in took),
                    "wall": statistics.median(wall for _, wall in took),
                    "ratio": statistics.median(
                        mine[0] / theirs[0] for mine, theirs in zip(own, took, strict=True)
                    ),
                    "all": took,
                }
            )
        rows.append({"way": "start", **_start(folder / "corpus")})
    return rows, versions


def _start(root: Path) -> dict[str, float]:
    """Seconds to open a corpus and have a batch, at the beginning and far into the run; and how
    long `next` takes.
    """
    from gristmill.loader.loader import Loader

    settings = {"sequence_length": LENGTH, "batch_size": ROWS}
    begin = time.perf_counter()
    with Loader(root, **settings) as loader:  # type: ignore[arg-type]
        next(loader)
        first = time.perf_counter() - begin
        state = {**loader.state_dict(), "windows": 10**9 * ROWS}
        waits = []
        for _ in range(5000):
            begin = time.perf_counter()
            next(loader)
            waits.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    with Loader(root, **settings, state=state) as loader:  # type: ignore[arg-type]
        next(loader)
    resume = time.perf_counter() - begin
    p50, p999 = np.percentile(waits, (50, 99.9)).tolist()
    return {"first": first, "resume": resume, "p50": p50, "p999": p999}


def render(rows: list[dict[str, Any]]) -> list[str]:
    """The section's lines."""
    lines = [
        "| way | M tokens/s of processor time | by the clock | ours is times as fast, median |",
        "|---|---|---|---|",
    ]
    for row in sorted(
        rows, key=lambda row: list(NAMES).index(row["way"]) if row["way"] in NAMES else 99
    ):
        if row["way"] == "start":
            continue
        if "failed" in row:
            lines.append(f"| {NAMES[row['way']]} | not run: {row['failed']} | | |")
            continue
        lines.append(
            f"| {NAMES[row['way']]} | {row['cpu'] / 1e6:,.0f} | {row['wall'] / 1e6:,.0f} | "
            f"{row['ratio']:.2f} |"
        )
    start = next(row for row in rows if row["way"] == "start")
    met = "met" if next(r for r in rows if r["way"] == "gristmill")["cpu"] >= 4e8 else "NOT met"
    return [
        *lines,
        "",
        (
            f"Target: 400 M tokens a second of processor time, {met}. First batch "
            f"{start['first']:.3f} s after the corpus is opened, exact resume at step 10^9 "
            f"{start['resume']:.3f} s; `next()` p50 {start['p50'] * 1e6:,.0f} us, p99.9 "
            f"{start['p999'] * 1e6:,.0f} us, on a machine that does other work as well."
        ),
    ]


def _measure(bench: Any) -> list[dict[str, Any]]:
    rows, versions = measure(bench.data, bench.peers, bench.asked.rounds, bench.say)
    bench.versions |= versions
    return rows


SECTION = Section(
    name="loader",
    title="Loading: random windows of 2,048 tokens in batches of 64, one process",
    remarks=(
        "The same 60 M random tokens (uint16), in memory; documents as long as web pages. Every "
        "way yields windows in random order. Ours also yields the documents of every window, and "
        "its tokens stay uint16; nanoGPT's are int64, drawn with replacement. "
        "benchmarks/loading_ways.py is what each does. Processor time is of all threads."
    ),
    measure=_measure,
    table=render,
)
