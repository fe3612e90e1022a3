"""Downloads from nginx on loopback, one connection: ours beside curl, and what hashing, fsync and
resuming cost.

Each way takes its turn in every round; times are wall seconds, medians, and each way's file is
removed before the next. Ours is timed inside a process that has its modules loaded, from the call
to the file under its name; curl from outside, which adds some 5 ms.
"""

import hashlib
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

from section import Section

HERE = Path(__file__).parent
MB = 1_000_000
CHILD = """
import json, sys, time
from pathlib import Path
from gristmill.store.cache import Cache
from gristmill.store.http.settings import Settings
from gristmill.store.http.remotes import Remote
from gristmill.store.http.transfer import Transfer
import urllib3
url, cache, every, stop = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
first = []
class Enough(BaseException): pass
def tell(here, size, resumed):
    first.append(time.perf_counter()) if not first else None
    if stop and here >= stop: raise Enough
begin, cpu = time.perf_counter(), time.process_time()
try:
    Transfer(Cache(cache), Settings(checkpoint_bytes=every)).fetch(Remote(url), on_progress=tell)
except Enough:
    pass
end = time.perf_counter()
# ru_maxrss would begin with that of the process before exec.
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(json.dumps({"seconds": end - begin, "cpu": time.process_time() - cpu,
    "first": first[0] - begin, "rss": int(peak) * 1024}))
"""


def make(path: Path, size: int) -> None:
    """A file of bytes that do not pack."""
    block = os.urandom(64 << 20)
    with path.open("wb") as file:
        for number in range(-(-size // len(block))):
            file.write((number.to_bytes(8, "little") + block[8:])[: size - file.tell()])


def ours(
    url: str, cache: Path, every: int = 64 << 20, stop: int = 0, keep: bool = False
) -> dict[str, float]:
    """One download by gristmill, in a process of its own."""
    if not keep:
        shutil.rmtree(cache, ignore_errors=True)
    command = [sys.executable, "-c", CHILD, url, str(cache), str(every), str(stop)]
    told: dict[str, float] = json.loads(
        subprocess.run(command, capture_output=True, check=True, text=True).stdout
    )
    return told


def shell(command: str, target: Path) -> float:
    """Seconds of a shell's pipeline."""
    target.unlink(missing_ok=True)
    begin = time.perf_counter()
    subprocess.run(["bash", "-c", command], check=True, capture_output=True)
    return time.perf_counter() - begin


def measure(data: Path, rounds: int, say: Any) -> list[dict[str, Any]]:
    """All rows; empty of numbers where nginx or curl is missing."""
    sys.path.insert(0, str(HERE.parent))
    from tests.support import servers

    if servers.nginx_binary() is None or shutil.which("curl") is None:
        return [{"failed": "nginx or curl is not installed"}]
    with tempfile.TemporaryDirectory(dir=data) as name:
        folder = Path(name)
        served, cache, target = folder / "served", folder / "cache", folder / "target"
        served.mkdir()
        make(served / "small", 1000 * MB)
        os.utime(served / "small", (1_600_000_000, 1_600_000_000))
        with servers.nginx(served, folder / "nginx") as address:
            rows = _beside_curl(f"{address}/small", cache, target, rounds, say)
            rows += _resume(f"{address}/small", cache, served / "small")
            make(served / "large", 5000 * MB)
            shutil.rmtree(cache, ignore_errors=True)
            small, large = (
                ours(f"{address}/small", cache)["rss"],
                ours(f"{address}/large", cache)["rss"],
            )
            rows.append({"what": "memory", "small": small, "large": large})
            shutil.rmtree(cache, ignore_errors=True)
        rows.append(_verify(served))
    return rows


def _beside_curl(
    url: str, cache: Path, target: Path, rounds: int, say: Any
) -> list[dict[str, Any]]:
    ways = {
        "gristmill: sha256, fsync, a checkpoint every 64 MiB": lambda: ours(url, cache)["seconds"],
        "gristmill: sha256, fsync, no checkpoint before the end": lambda: ours(url, cache, 1 << 40)[
            "seconds"
        ],
        "curl | tee FILE | sha256sum": lambda: shell(
            f"curl -sf {url} | tee {target} | sha256sum", target
        ),
        "curl -o FILE, then fsync": lambda: shell(
            f"curl -sf -o {target} {url} && sync {target}", target
        ),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way, run in ways.items():
            took = run()
            if turn:  # the first round fills caches
                seconds[way].append(took)
        say(f"download, round {turn}")
    target.unlink(missing_ok=True)
    own = seconds[next(iter(ways))]
    return [
        {
            "what": "way",
            "way": way,
            "seconds": statistics.median(took),
            "ratio": statistics.median(
                theirs / mine for theirs, mine in zip(took, own, strict=True)
            ),
            "all": took,
        }
        for way, took in seconds.items()
    ]


def _resume(url: str, cache: Path, path: Path) -> list[dict[str, Any]]:
    """From the start to the first new byte behind a partial of 960 MB, beside hashing as much."""
    shutil.rmtree(cache, ignore_errors=True)
    ours(url, cache, stop=960 * MB)
    held = next((cache / "partial").glob("*.partial")).stat().st_size // (64 << 20) * (64 << 20)
    told = ours(url, cache, keep=True)
    begin = time.perf_counter()
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    hashing = path.stat().st_size / (time.perf_counter() - begin)
    return [{"what": "resume", "bytes": held, "seconds": told["first"], "hashing": hashing}]


def _verify(served: Path) -> dict[str, Any]:
    """The check of parts, 5 GB in 50 files, on all cores, beside hashing on one."""
    from gristmill.reports.integrity.verify import check_parts
    from gristmill.store.parts import Part, hash_file

    parts = []
    for number in range(50):
        make(served / f"part{number}", 100 * MB)
        size, sha256 = hash_file(served / f"part{number}")
        parts.append(Part(f"part{number}", size, sha256))
    begin = time.perf_counter()
    for part in parts[:10]:
        hash_file(served / part.path)
    one = 1000 * MB / (time.perf_counter() - begin)
    begin = time.perf_counter()
    wrong: list[str] = []
    check_parts(served, parts, wrong, False, lambda _: None)
    if wrong:
        raise SystemExit(f"verify found what is not wrong: {wrong[:3]}")
    return {
        "what": "verify",
        "rate": 5000 * MB / (time.perf_counter() - begin),
        "one": one,
        "cores": os.cpu_count(),
    }


def render(rows: list[dict[str, Any]]) -> list[str]:
    """The section's lines."""
    if "failed" in rows[0]:
        return [f"Not measured: {rows[0]['failed']}."]
    ways = [row for row in rows if row["what"] == "way"]
    targets = {"curl | tee FILE | sha256sum": 2.0, "curl -o FILE, then fsync": 0.8}
    lines = [
        "| way | seconds for 1 GB | times ours, median of the rounds | target |",
        "|---|---|---|---|",
    ]
    for row in ways:
        target = targets.get(row["way"])
        met = (
            ""
            if target is None
            else f"at least {target}: " + ("met" if row["ratio"] >= target else "**not met**")
        )
        lines.append(
            f"| {row['way'].replace('|', '&#124;')} | {row['seconds']:.2f} | "
            f"{row['ratio']:.2f} | {met} |"
        )
    cost = 1 - ways[1]["ratio"]
    resume, memory, verify = (
        next(row for row in rows if row["what"] == what) for what in ("resume", "memory", "verify")
    )
    rate = resume["bytes"] / resume["seconds"]
    return [
        *lines,
        "",
        (
            f"* What checkpoints every 64 MiB cost, of the whole: {cost:.1%} (target under 5 %: "
            f"{'met' if cost < 0.05 else '**not met**'})."
        ),
        (
            f"* From the start to the first new byte behind {resume['bytes'] / MB:,.0f} MB that "
            f"were here: {resume['seconds']:.2f} s, "
            f"{rate / MB:,.0f} MB/s; hashing alone does {resume['hashing'] / MB:,.0f} MB/s."
        ),
        (
            f"* Peak memory of the process: {memory['small'] / MB:,.0f} MB over a shard of 1 GB, "
            f"{memory['large'] / MB:,.0f} MB over one of 5 GB."
        ),
        (
            f"* `verify`, the check of parts: {verify['rate'] / MB:,.0f} MB/s on "
            f"{verify['cores']} cores; hashing on one does "
            f"{verify['one'] / MB:,.0f} MB/s."
        ),
    ]


SECTION = Section(
    name="download",
    title="Downloading 1 GB from nginx on loopback, one connection",
    remarks=(
        "In every round each way runs once. Ours is timed in a process that has its modules "
        "loaded, up to the file under its final name; curl is timed from outside. The server uses"
        " the same cores."
    ),
    measure=lambda bench: measure(bench.data, bench.asked.rounds, bench.say),
    table=render,
)
