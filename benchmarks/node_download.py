"""A node that fetches its ten shards from nginx on loopback, beside `curl | tee FILE | sha256sum`.

Each way takes its turn in every round; times are wall seconds, medians, and what a way has written
is removed before the next. Ours is timed inside a process that has its modules loaded, from the
call to the view of verified shards in the cache: with the release, the manifest, fsync and locks.
"""

import json
import os
import shutil
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
SHARDS, TOKENS, DOCUMENT = 10, 25_000_000, 250_000  # 50 MB a shard
CHILD = """
import json, sys, time
from gristmill import Node
import numpy, urllib3
begin = time.perf_counter()
with Node(sys.argv[1], "node-1", cache_dir=sys.argv[2]) as node:
    found = node.fetch()
print(json.dumps({"seconds": time.perf_counter() - begin, "shards": len(found["shards"])}))
"""


def measure(data: Path, rounds: int, say: Any) -> list[dict[str, Any]]:
    """All rows; empty of numbers where nginx or curl is missing."""
    sys.path.insert(0, str(HERE.parent))
    from tests.support import servers
    from tests.support.published import published
    from tests.support.token_corpora import token_corpus

    if servers.nginx_binary() is None or shutil.which("curl") is None:
        return [{"failed": "nginx or curl is not installed"}]
    with tempfile.TemporaryDirectory(dir=data) as name:
        folder = Path(name)
        tokens = np.random.default_rng(1).integers(1, 50_000, SHARDS * TOKENS, np.uint16)
        corpus = token_corpus(
            folder / "corpus",
            {"web": list(tokens.reshape(-1, DOCUMENT))},
            vocabulary=50_000,
            tokens_per_shard=TOKENS,
        )
        parts = json.loads((corpus / "manifest.json").read_bytes())["parts"]
        target = published(corpus, folder / "target")
        shutil.rmtree(corpus)
        names = [f"objects/{p['sha256'][:2]}/{p['sha256']}" for p in parts if "train_" in p["path"]]
        with servers.nginx(target, folder / "nginx") as address:
            return _rounds(address, names, folder, rounds, say)


def _rounds(
    address: str, names: list[str], folder: Path, rounds: int, say: Any
) -> list[dict[str, Any]]:
    written = folder / "written"
    listed = folder / "urls"
    listed.write_text("".join(f"{address}/{name}\n" for name in names))
    one = 'curl -sf "$1" | tee "$0/$(basename "$1")" | sha256sum'

    def node() -> float:
        command = [sys.executable, "-c", CHILD, address, str(written)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        found = json.loads(done.stdout)
        assert found["shards"] == SHARDS
        return float(found["seconds"])

    def curl(at_once: int) -> float:
        written.mkdir()
        begin = time.perf_counter()
        command = ["xargs", "-P", str(at_once), "-n", "1", "bash", "-c", one, str(written)]
        with listed.open() as file:
            subprocess.run(command, stdin=file, capture_output=True, check=True)
        return time.perf_counter() - begin

    ways = {
        "gristmill.Node: 10 shards, 4 at once": node,
        "curl | tee FILE | sha256sum, one after another": lambda: curl(1),
        "curl | tee FILE | sha256sum, 4 at once": lambda: curl(4),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way, run in ways.items():
            shutil.rmtree(written, ignore_errors=True)
            took = run()
            if turn:  # the first round fills caches
                seconds[way].append(took)
        say(f"node, round {turn}")
    own = seconds[next(iter(ways))]
    return [
        {
            "way": way,
            "seconds": statistics.median(took),
            "ratio": statistics.median(
                theirs / mine for theirs, mine in zip(took, own, strict=True)
            ),
            "all": took,
            "bytes": SHARDS * TOKENS * 2,
            "cores": os.cpu_count(),
        }
        for way, took in seconds.items()
    ]


def render(rows: list[dict[str, Any]]) -> list[str]:
    """The section's lines."""
    if "failed" in rows[0]:
        return [f"Not measured: {rows[0]['failed']}."]
    size = f"{rows[0]['bytes'] / 1e6:,.0f} MB"
    lines = [
        f"| way | seconds for {size} | times ours, median of the rounds | target |",
        "|---|---|---|---|",
    ]
    for number, row in enumerate(rows):
        met = "met" if row["ratio"] >= 0.8 else "**not met**"
        lines.append(
            f"| {row['way'].replace('|', '&#124;')} | {row['seconds']:.2f} | {row['ratio']:.2f} | "
            f"{'' if number != 1 else f'at least 0.8: {met}'} |"
        )
    return lines


SECTION = Section(
    name="node",
    title="A node fetches ten shards from nginx on loopback",
    remarks=(
        "In every round each way runs once. Ours reads the release and the manifest, fetches the "
        "shards with their documents, hashes and fsyncs them and links them into a view; curl "
        "fetches the shards alone. The server uses the same cores."
    ),
    measure=lambda bench: measure(bench.data, bench.asked.rounds, bench.say),
    table=render,
)
