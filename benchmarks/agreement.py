"""Whether FineWeb's filters keep the same pages with our extraction as with trafilatura's."""

import shutil
import subprocess
import sys
from pathlib import Path

import make_corpus
import pyarrow.parquet as pq
from harness import Bench
from section import Rows, Section, number
from whole_runs import FINEWEB

WAYS = {
    "trafilatura": 'extractor = "trafilatura"',
    "gristmill": 'rules = "gristmill"',
    "resiliparse": 'extractor = "resiliparse"',
}


def recipe(extractor: str, files: list[Path]) -> str:
    """FineWeb's filters without lists of URLs, deduplication and tokens."""
    steps = FINEWEB.read_text("utf-8").split("[[step]]")
    kept = [step.split("[deduplicate]")[0] for step in steps[1:] if '"url"' not in step]
    text = "[[step]]".join(["", *kept]).replace('extractor = "trafilatura"', WAYS[extractor])
    return f"[[source]]\nname = 'crawl'\nkind = 'warc'\nfiles = {[*map(str, files)]}\n{text}"


def _kept(bench: Bench, extractor: str, files: list[Path]) -> tuple[set[int], dict[str, int]]:
    """The documents that all filters keep, and how many of the pages each step dropped."""
    folder = bench.data / f"agreement-{extractor}"
    shutil.rmtree(folder, ignore_errors=True)
    path = folder.with_suffix(".toml")
    path.write_text(recipe(extractor, files))
    command = [sys.executable, "-m", "gristmill", "run", str(path), "--out", str(folder)]
    found = subprocess.run(command, env=bench.plain(), capture_output=True, check=False, text=True)
    if found.returncode not in (0, 3):
        raise RuntimeError(f"{extractor}: {found.stderr[-500:]}")
    kept, reasons = set(), dict[str, int]()
    for part in sorted((folder / "verdicts").glob("*.parquet")):
        for row in pq.read_table(part, columns=["document", "reason"]).to_pylist():
            step = (row["reason"] or "kept").split(".")[0]
            reasons[step] = reasons.get(step, 0) + 1
            if row["reason"] is None:
                kept.add(row["document"])
    shutil.rmtree(folder)
    return kept, reasons


def measure(bench: Bench) -> Rows:
    """A row for each set of WARC files and each other extractor."""
    data = make_corpus.data_folder()
    rows = []
    for name in ("A_warc", "J_debian_docs"):
        # "fixed" files have the pages of the one beside them once more
        files = sorted(path for path in (data / name).rglob("*.warc*") if path.is_file())
        files = [path for path in files if path.name.endswith((".warc", ".warc.gz"))]
        files = [path for path in files if "fixed" not in path.name]
        kept = {extractor: _kept(bench, extractor, files) for extractor in WAYS}
        theirs, _ = kept["trafilatura"]
        for extractor in list(WAYS)[1:]:
            ours, reasons = kept[extractor]
            rows.append(
                {
                    "set": name,
                    "files": len(files),
                    "extractor": extractor,
                    "trafilatura": len(theirs),
                    "ours": len(ours),
                    "both": len(ours & theirs),
                    "reasons": reasons,
                    "reasons_trafilatura": kept["trafilatura"][1],
                }
            )
            bench.say(f"agreement, {name}, {extractor}: {len(ours & theirs)} of both")
    return rows


def table(rows: Rows) -> list[str]:
    """A line for each."""
    lines = [
        "| pages | with | kept with trafilatura | of them kept | kept | of them with trafilatura |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        theirs, ours, both = row["trafilatura"], row["ours"], row["both"]
        lines.append(
            f"| {row['set']} | {row['extractor']} | {theirs:,} | "
            f"{number(100 * both / max(theirs, 1))} % | {ours:,} | "
            f"{number(100 * both / max(ours, 1))} % |"
        )
    return lines


SECTION = Section(
    name="agreement",
    title="FineWeb's filters behind each extraction",
    remarks=(
        "The WARC files at hand through fineweb-v1 without lists of URLs, deduplication and "
        "tokens, the extractor alone being another one: of the documents that all filters keep "
        "with trafilatura, the share that they keep with it, and the other way round."
    ),
    measure=measure,
    table=table,
)
