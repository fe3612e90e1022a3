"""Whole runs over WARC files of pages, with each extractor, and datatrove's."""

import gzip
import json
import os
import shutil

import make_corpus
from harness import Bench
from measured import PeerFailed
from section import Rows, Section, number
from whole_runs import FINEWEB, FINEWEB_FAST, fineweb_settings, run_ours, run_theirs


def measure(bench: Bench) -> Rows:
    """FineWeb's steps on real WARC files: ours with each extractor, and datatrove."""
    folder = bench.data / "pages"
    folder.mkdir(exist_ok=True)
    source = make_corpus.data_folder() / "J_debian_docs"
    for name in ("open_docs.warc.gz", "open_crawl.warc.gz"):
        if not (folder / name).exists():
            shutil.copyfile(source / name, folder / name)
    size = (
        sum(len(gzip.decompress((folder / name).read_bytes())) for name in os.listdir(folder)) / 1e6
    )
    rows = []
    for extractor in ("trafilatura", "resiliparse", "fineweb-v1-fast"):
        more = {"source.0.kind": '"warc"'}
        recipe = FINEWEB_FAST if extractor == "fineweb-v1-fast" else FINEWEB
        if recipe is FINEWEB:
            more["step.1.extractor"] = json.dumps(extractor)
        settings = fineweb_settings(bench, **more)
        run, inner = run_ours(bench, recipe, folder / "*.warc.gz", settings)
        kept = inner["funnel"]
        rows.append(
            {
                "who": f"gristmill, {extractor}",
                "megabytes": size,
                "cpu": run["cpu"],
                "wall": run["wall"],
                "pss": run["peak_pss"],
                "read": kept["documents"],
                "kept": kept["kept"],
                "steps": {step["step"]: step["dropped"] for step in kept["steps"]},
            }
        )
        bench.say(
            f"pages, {extractor}: processor {run['cpu']:.1f} s, {kept['kept']} of "
            f"{kept['documents']} kept"
        )
    if bench.peers is not None:
        try:
            run, inner = run_theirs(bench, folder, "fineweb-pages")
            rows.append(
                {
                    "who": "datatrove, trafilatura",
                    "megabytes": size,
                    "cpu": run["cpu"],
                    "wall": inner["wall"],
                    "pss": run["peak_pss"],
                    "read": inner["read"],
                    "kept": inner["kept"],
                    "steps": {},
                }
            )
        except PeerFailed as error:
            rows.append({"who": "datatrove", "failed": str(error)})
    return rows


def table(rows: Rows) -> list[str]:
    """A line for each run."""
    lines = [
        (
            "| who | MB | pages read | kept | processor s | ms a page read | MB/s a core | wall "
            "s | peak PSS, MB |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['who']} | not measured: {row['failed']} | | | | | | | |")
            continue
        lines.append(
            f"| {row['who']} | {row['megabytes']:.1f} | {row['read']:,} | {row['kept']:,} | "
            f"{row['cpu']:.1f} "
            f"| {1000 * row['cpu'] / max(row['read'], 1):,.0f} | "
            f"{number(row['megabytes'] / row['cpu'])} "
            f"| {row['wall']:.1f} | {row['pss'] / 1e6:,.0f} |"
        )
    return lines


SECTION = Section(
    name="pages",
    title="The same on WARC.gz: pages of Debian's documentation",
    remarks=(
        "MB are of HTML. trafilatura takes most of the time on both sides: version 2.x here, 1.x "
        "with datatrove, each page in a process of its own there. The recipe with resiliparse "
        "instead is shown as well, and the preset fineweb-v1-fast, with gristmill's own rules. One "
        "run each; the times of ours include start and imports, "
        "which are a large share here. datatrove's reader returns few of these pages and does not"
        " mention the others: compare the time per page."
    ),
    measure=measure,
    table=table,
)
