"""Google's deduplicate-text-datasets on one file of text, by the steps of its README:

    python substrings_peer.py BINARY TEXT WINDOW SPANS.npy ANSWER.json

    make-part, merge    a suffix array of each of four parts, and of all of them
    self-similar        the windows of WINDOW bytes that are at two places or more
    collect             the spans that such windows cover

The binary is github.com/google-research/deduplicate-text-datasets, built by cargo. What it writes
lies beside TEXT, and is removed. Parts overlap by 100,000 bytes, as in its make_suffix_array.py.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

PARTS = 4  # of texts of 10 MB to 1 GB
OVERLAP = 100_000


def main(binary: str, text: Path, window: str, spans: Path, answer: Path) -> None:
    """Find the spans, (n, 2) int64 of byte places."""
    threads, size = str(len(os.sched_getaffinity(0))), text.stat().st_size
    table, cache = text.with_name(f"{text.name}.table.bin"), text.with_name("cache")
    seconds: dict[str, float] = {}
    disk = 0

    def call(step: str, *commands: list[str]) -> str:
        nonlocal disk
        start = time.perf_counter()
        running = [
            subprocess.Popen([binary, *command], stdout=subprocess.PIPE, text=True)
            for command in commands
        ]
        told = "".join(process.communicate()[0] for process in running)
        if any(process.returncode for process in running):
            raise SystemExit(f"{step}: {told.strip()[-300:]}")
        seconds[step] = time.perf_counter() - start
        disk = max(disk, sum(path.stat().st_size for path in text.parent.rglob("*")) - size)
        return told

    begins = [place * (size // PARTS) for place in range(PARTS)]
    ends = [min(begin + OVERLAP, size) for begin in begins[1:]] + [size]
    parts = [f"{text}.part.{begin}-{end}" for begin, end in zip(begins, ends, strict=True)]
    call(
        "make-part",
        *(
            ["make-part", "--data-file", str(text), "--start-byte", str(a), "--end-byte", str(b)]
            for a, b in zip(begins, ends, strict=True)
        ),
    )
    named = [word for part in parts for word in ("--suffix-path", part)]
    merged = text.with_name("merged")
    call("merge", ["merge", "--output-file", str(merged), "--num-threads", threads, *named])
    with table.open("wb") as whole:
        for piece in sorted(text.parent.glob("merged.table.bin.*")):
            with piece.open("rb") as file:
                shutil.copyfileobj(file, whole, 1 << 20)
            piece.unlink()
    merged.unlink(missing_ok=True)
    for part in parts:
        Path(part).unlink()
        Path(f"{part}.table.bin").unlink()
    common = ["--data-file", str(text), "--length-threshold", window, "--cache-dir", str(cache)]
    call("self-similar", ["self-similar", *common, "--num-threads", threads])
    told = call("collect", ["collect", *common])
    found = np.array(told.partition("out\n")[2].split(), np.int64).reshape(-1, 2)
    shutil.rmtree(cache)
    table.unlink()
    np.save(spans, found)
    answer.write_text(json.dumps({"disk": disk, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
