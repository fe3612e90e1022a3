"""Bytes read as a raw shard, and what must hold of every reading."""

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from gristmill.source.read import ShardReader


class Reading(NamedTuple):
    """The rows and counts of a shard."""

    rows: list[dict[str, Any]]  # of RAW
    counts: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The documents."""
        return [row["text"] for row in self.rows if row["reason"] is None]

    @property
    def failed(self) -> list[tuple[int, str, float]]:
        """(row, reason, value) of the rows that are not readable documents."""
        return [
            (row["document"], row["reason"], row["value"])
            for row in self.rows
            if row["reason"] is not None
        ]


def read(data: bytes | Path, **options: Any) -> Reading:
    """Read bytes, or a file, as shard 0; check what holds of every reading."""
    with tempfile.NamedTemporaryFile() as file:
        if isinstance(data, bytes):
            file.write(data)
            file.flush()
        shard = ShardReader(Path(file.name) if isinstance(data, bytes) else data, 0, **options)
        rows = [row for batch in shard for row in batch.to_pylist()]
    numbers = [row["document"] for row in rows]
    skipped = sum(shard.counts["records_skipped"].values())
    assert shard.counts["documents"] == len(rows)
    # Every record takes one number, in order: those that are missing are records that were counted
    # as skipped.
    assert numbers == sorted(set(numbers))
    assert not numbers or numbers[-1] < len(rows) + skipped
    for row in rows:
        if row["reason"] is not None:
            assert row["reason"].startswith("read.")
            assert row["value"] is not None
            assert row["text"] == ""
        row["text"].encode()  # no lone surrogates
    return Reading(rows, shard.counts)


def peak_memory(path: Path) -> tuple[list[str], float]:
    """Read a file in a process of its own: (reasons of the rows that failed, and texts' sizes; peak
    memory in MB).
    """
    program = """
        import sys
        from pathlib import Path
        from gristmill.source.read import ShardReader
        for batch in ShardReader(Path(sys.argv[1]), 0):
            for reason, text in zip(batch["reason"].to_pylist(), batch["text"].to_pylist()):
                print(reason or len(text))
        # getrusage would count what the parent held when it started this process.
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(peak.split()[1])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), path],
        capture_output=True,
        text=True,
        check=True,
    )
    *told, peak = done.stdout.split()
    return told, int(peak) / 1024
