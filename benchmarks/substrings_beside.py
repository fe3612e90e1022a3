"""Repeated substrings beside Google's deduplicate-text-datasets (Lee et al. 2022): one text and
length of windows, and whether the spans agree.

    python substrings_beside.py FOLDER WINDOW MEGABYTES     what our process does

The peer reads one file, in which two bytes 0xff and a number that no other document has are before
each document, as its README asks: so no window of two documents occurs again. Ours lists all places
(`keep = "none"`), as the peer does. The peer's binary is built by hand (substrings_peer.py).
"""

import json
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import documents
import numpy as np
import substrings
from measured import PeerFailed
from section import Section

if TYPE_CHECKING:
    import pyarrow as pa
    from harness import Bench

MADE = 200  # MB of made texts
SETS = (("made", 500), ("code", 500), ("code", 100))  # texts, bytes of a window
REAL_BATCH = 800


class Stored(NamedTuple):
    """One shard of real texts."""

    number: int
    path: Path  # {"texts": [...]}
    work: Path
    window: int

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """The documents: `document`, `text`."""
        import pyarrow as pa

        texts = json.loads(self.path.read_text())["texts"]
        for first in range(0, len(texts), REAL_BATCH):
            part = texts[first : first + REAL_BATCH]
            numbers = np.arange(first, first + len(part))
            columns = [pa.array(numbers), pa.array(part)]
            yield pa.RecordBatch.from_arrays(columns, ["document", "text"])


def shards_of(texts: str, window: int, work: Path) -> list[Any]:
    """The shards of a set: made ones by their size, real ones by their file."""
    if texts.isdecimal():
        return [one._replace(window=window) for one in substrings.shards_of(int(texts), work)]
    return [Stored(0, Path(texts), work, window)]


def lay_out(shards: list[Any], target: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write all texts into one file for the peer: the number and the first byte of each."""
    numbers, begins, place = [], [], 0
    with target.open("wb") as file:
        for shard in shards:
            for batch in shard.batches():
                for number, text in zip(
                    batch["document"].to_pylist(), batch["text"].to_pylist(), strict=True
                ):
                    data = b"\xff\xff" + struct.pack("<I", len(numbers)) + text.encode()
                    numbers.append(number)
                    begins.append(place + 6)
                    place += file.write(data)
    return np.array(numbers), np.array(begins)


def covered(first: np.ndarray, end: np.ndarray, size: int) -> np.ndarray:
    """Which bytes spans cover, (size,) bool."""
    changes = np.zeros(size + 1, np.int32)
    np.add.at(changes, first, 1)
    np.add.at(changes, end, -1)
    return np.cumsum(changes)[:size] > 0


def ours(folder: Path, window: int, texts: str) -> None:
    """Find the spans and write them, with what they cost."""
    work = folder / "ours"
    work.mkdir()
    found = substrings.find_spans(shards_of(texts, window, work), work, keep_first=False)
    np.save(folder / "ours.npy", np.concatenate([np.zeros((3, 0), np.int64), *found.spans], axis=1))
    (folder / "ours.json").write_text(json.dumps({"disk": found.disk}))


def _row(bench: "Bench", name: str, window: int) -> dict[str, Any]:
    folder = bench.data / "substrings-beside"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = str(MADE) if name == "made" else str(documents.prepare(bench.data, [name])[name])
    text = folder / "text"
    numbers, begins = lay_out(shards_of(texts, window, folder), text)
    size = text.stat().st_size
    row: dict[str, Any] = {"texts": name, "window": window, "bytes": size - 6 * len(numbers)}
    command = [sys.executable, __file__, str(folder), str(window), texts]
    row["ours"] = _costs(bench.tree(command, bench.plain(), pinned=False), folder / "ours.json")
    document, first, end = np.load(folder / "ours.npy")
    base = begins[np.searchsorted(numbers, document)]
    mine = covered(base + first, base + end, size)
    row["ours"]["bytes"] = int(mine.sum())
    if not bench.asked.suffix_arrays.exists():
        return row | {"failed": f"no binary at {bench.asked.suffix_arrays.name}"}
    peer = str(Path(__file__).with_name("substrings_peer.py"))
    files = [str(folder / one) for one in ("peer.npy", "peer.json")]
    command = [sys.executable, peer, str(bench.asked.suffix_arrays), str(text), str(window), *files]
    try:
        found = bench.tree(command, bench.plain(), pinned=False)
    except PeerFailed as error:
        return row | {"failed": str(error)}
    row["peer"] = _costs(found, folder / "peer.json")
    spans = np.load(folder / "peer.npy")
    theirs = covered(spans[:, 0], spans[:, 1], size)
    between = np.ones(size, bool)  # what is in no document
    for offset in range(6):
        between[begins - 6 + offset] = False
    theirs &= between
    row["peer"]["bytes"] = int(theirs.sum())
    row["only_ours"], row["only_peer"] = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    shutil.rmtree(folder)
    return row


def _costs(run: dict[str, Any], answer: Path) -> dict[str, Any]:
    named = {name: run[name] for name in ("wall", "cpu", "peak_pss")}
    return {**named, **json.loads(answer.read_text())}


def measure(bench: "Bench") -> list[dict[str, Any]]:
    """Each set, ours and then the peer, each in a process of its own."""
    rows = []
    for name, window in SETS:
        rows.append(_row(bench, name, window))
        bench.say(f"{name}, {window} bytes: {rows[-1]}")
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as Markdown."""
    lines = [
        "| texts | MB | window | | wall s | CPU s | peak PSS, MB | disk, MB | bytes | it alone |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        for name, tool in (("ours", "gristmill"), ("peer", "deduplicate-text-datasets")):
            start = f"| {row['texts']} | {row['bytes'] / 1e6:.0f} | {row['window']} | {tool} | "
            found = row.get(name)
            if found is None:
                lines.append(f"{start}not measured: {row['failed']} | | | | | |")
                continue
            only = row.get(f"only_{name}")
            lines.append(
                f"{start}{found['wall']:.1f} | {found['cpu']:.1f} | "
                f"{found['peak_pss'] / 1e6:,.0f} | {found['disk'] / 1e6:,.0f} | "
                f"{found['bytes']:,} | {'' if only is None else f'{only:,}'} |"
            )
    return lines


SECTION = Section(
    name="substrings-beside",
    title="Repeated substrings beside suffix arrays",
    remarks=(
        "Google's deduplicate-text-datasets (Lee et al. 2022) on the same text and the same length "
        "of windows, one run each, all cores, whole processes (substrings_beside.py): made texts "
        "as above, which ours makes twice within its time, and the files of Python's standard "
        "library. All places of a window are listed; bytes are those of all spans, and of those "
        "that one alone found. Disk is what lies beside the text."
    ),
    measure=measure,
    table=table,
    large=True,
)


if __name__ == "__main__":
    ours(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
