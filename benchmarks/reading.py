"""Reading raw shards: ours, other readers and the bare libraries by turns, on the same files."""

import gzip
import json
import statistics
import sys
from pathlib import Path

import make_corpus
from harness import Bench
from measured import Measured, PeerFailed
from section import Rows, Section, number
from whole_runs import corpus

CORPUS_BYTES = 100_000_000
OURS, ISAL = "gristmill", "gristmill, isal alone"
# Of each kind of file: the ways beside ours, and whether they need the environment of the peers.
WAYS = {
    "WET.gz": {
        ISAL: False,
        "libdeflate and sha256 alone": False,
        "fastwarc": True,
        "warcio": True,
        "datatrove WarcReader": True,
    },
    "WARC.gz, pages": {
        ISAL: False,
        "libdeflate and sha256 alone": False,
        "fastwarc": True,
        "warcio": True,
        "datatrove WarcReader": True,
    },
    "JSONL.zst": {"zstd and msgspec alone": False, "datatrove JsonlReader": True},
    "JSONL.gz": {ISAL: False, "datatrove JsonlReader": True},
    "Parquet": {
        "pyarrow alone": False,
        "pyarrow and sha256 alone": False,
        "datatrove ParquetReader": True,
    },
}


def files(bench: Bench) -> dict[str, tuple[Path, float]]:
    """The files, with their megabytes decoded (of Parquet, of all strings); made once."""
    wet = min(corpus(bench, CORPUS_BYTES).glob("*.gz"))
    folder = bench.data / "reading"
    folder.mkdir(exist_ok=True)
    lines, table = folder / f"{wet.parent.name}.jsonl.zst", folder / f"{wet.parent.name}.parquet"
    packed = lines.with_suffix(".gz")
    rows = _rows(wet)
    data = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    if not table.exists():
        import pyarrow as pa
        import pyarrow.parquet as pq
        from backports import zstd

        lines.write_bytes(zstd.compress(data, 3))
        packed.write_bytes(gzip.compress(data))
        pq.write_table(pa.Table.from_pylist(rows), table, compression="zstd", row_group_size=1000)
    pages = make_corpus.data_folder() / "J_debian_docs/open_docs.warc.gz"
    strings = sum(len(value.encode()) for row in rows for value in row.values()) / 1e6
    return {
        "WET.gz": (wet, len(gzip.decompress(wet.read_bytes())) / 1e6),
        "WARC.gz, pages": (pages, len(gzip.decompress(pages.read_bytes())) / 1e6),
        "JSONL.zst": (lines, len(data) / 1e6),
        "JSONL.gz": (packed, len(data) / 1e6),
        "Parquet": (table, strings),
    }


def _rows(wet: Path) -> list[dict[str, str]]:
    from gristmill.source.read import ShardReader

    return [
        {"text": row["text"], "url": row["url"], "id": row["record_id"], "date": row["date"]}
        for batch in ShardReader(wet, 0)
        for row in batch.to_pylist()
    ]


def measure(bench: Bench) -> Rows:
    """Every way on every kind of file; of one kind they take turns."""
    rows: Rows = []
    for kind, (path, megabytes) in files(bench).items():
        running: dict[str, Measured] = {}
        failed: dict[str, str] = {}
        times: dict[str, list[float]] = {}
        try:
            for way, theirs in {OURS: False, **WAYS[kind]}.items():
                python = bench.peers if theirs else sys.executable
                environment = bench.peer_environment if theirs else bench.environment
                try:
                    if python is None:
                        raise PeerFailed("no environment of peers")
                    running[way] = Measured(python, "reading_ways.py", way, path, 0, environment)
                except PeerFailed as error:
                    failed[way] = str(error)
            for _ in range(bench.asked.rounds):
                for way, process in running.items():
                    times.setdefault(way, []).append(process.ask("round")["cpu"])
        finally:
            for process in running.values():
                process.close()
        for way, process in running.items():
            bench.versions |= process.about["versions"]
            rows.append(_row(kind, way, megabytes, process, times))
        rows += [{"kind": kind, "way": way, "failed": why} for way, why in failed.items()]
    return rows


def _row(
    kind: str, way: str, megabytes: float, process: Measured, times: dict[str, list[float]]
) -> dict[str, object]:
    ratios = [theirs / ours for ours, theirs in zip(times[OURS], times[way], strict=True)]
    return {
        "kind": kind,
        "way": way,
        "megabytes": megabytes,
        "documents": process.about["documents"],
        "seconds": times[way],
        "speed": megabytes / statistics.median(times[way]),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


def table(rows: Rows) -> list[str]:
    """A line for each way."""
    lines = [
        "| file | MB | reader | documents | MB/s a core | ours is faster by (least to most) |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['kind']} | | {row['way']} | not measured: {row['failed']} | | |")
            continue
        ratio = f"{number(row['ratio'])} ({number(row['least'])} to {number(row['most'])})"
        lines.append(
            f"| {row['kind']} | {row['megabytes']:.1f} | {row['way']} | {row['documents']:,} | "
            f"{number(row['speed'])} | {'-' if row['way'] == OURS else ratio} |"
        )
    return lines


SECTION = Section(
    name="read",
    title="Reading raw shards",
    remarks=(
        "One core, processor time, medians of rounds in which all readers take turns. MB are of "
        "decoded bytes; of Parquet, of all strings. Ours computes the sha256 of the file, checks "
        "UTF-8 and the length of each record, and gives all columns as Arrow batches; fastwarc "
        "and warcio give the body and the URL of each record; datatrove's readers give documents "
        "and read WARC by warcio. The rows named alone are the libraries that we stand on, "
        "without anything around them. Of pages, ours decodes chunks, content codings and "
        "charsets, and reports each record that is no HTML; the numbers of documents differ by "
        "what each side takes for one."
    ),
    measure=measure,
    table=table,
)
