"""Measure, and write RESULTS.md and results.json: `python bench.py [--peers PYTHON] [SECTION...]`.

A kernel's row is one pair of processes on one core, ours and a peer's, each with the same
documents. They take turns: a round of ours, a round of theirs, and so on; a row's ratio is the
median of the rounds' ratios. Times are processor time, of all threads, without imports and loading.
A whole run is timed from outside, its process tree with all imports; the peer's whole run from
inside, without them.

Results are kept by section; a section that is measured again replaces its own. No number is typed
by hand.
"""

import argparse
import datetime
import json
import os
from pathlib import Path
from typing import Any

import agreement
import balance
import comparisons
import cores
import decontaminate
import dedup
import download
import encoding
import extraction
import languages
import loading
import memory
import models
import modes
import node_download
import packing
import page
import pages
import pairs_at_scale
import reading
import startup
import substrings
import substrings_beside
import train_bpe
import whole_runs
from harness import HERE, Bench

DEFAULT_PEERS = HERE / ".peers" / "bin" / "python"
TEXT_DEDUP = HERE / ".peers-text-dedup" / "bin" / "python"
SUFFIX_ARRAYS = HERE / ".peers-suffix-arrays" / "dedup_dataset"
SECTIONS = [  # in the order of the page
    reading.SECTION,
    encoding.SECTION,
    train_bpe.SECTION,
    comparisons.GOPHER,
    comparisons.FILTERS,
    comparisons.LANGUAGE,
    languages.SECTION,
    comparisons.SCORES,
    models.SECTION,
    comparisons.PRIVATE,
    comparisons.MINHASH,
    decontaminate.SECTION,
    packing.SECTION,
    balance.SECTION,
    startup.SECTION,
    download.SECTION,
    node_download.SECTION,
    loading.SECTION,
    extraction.SECTION,
    modes.SECTION,
    whole_runs.WHOLE,
    memory.SECTION,
    cores.SECTION,
    whole_runs.FINEWEB_RUN,
    pages.SECTION,
    agreement.SECTION,
    whole_runs.SCALE,
    dedup.SECTION,
    pairs_at_scale.SECTION,
    substrings.SECTION,
    substrings_beside.SECTION,
]
KNOWN = {section.name: section for section in SECTIONS}
LARGE = [section.name for section in SECTIONS if section.large]
WHOLE_BYTES, SLICE_BYTES = 1_000_000_000, 4_000_000


def main() -> None:
    """Measure the sections asked for, and write the results."""
    asked = _asked()
    asked.out.mkdir(parents=True, exist_ok=True)  # before hours of measuring
    path = asked.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {"sections": {}}
    if not asked.page:
        _measure(asked, results, path)
    print(page.render(results, SECTIONS), end="")


def _measure(asked: argparse.Namespace, results: dict[str, Any], path: Path) -> None:
    """Each section that is asked for; the files are written after each."""
    bench = Bench(asked)
    for name in asked.names:
        bench.versions = page.own_versions()
        bench.say(f"-- {name}")
        before = os.getloadavg()[0]
        rows = KNOWN[name].measure(bench)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        results["sections"][name] = {
            "rows": rows,
            "date": now,
            "machine": page.machine(),
            "versions": bench.versions,
            "load": [before, os.getloadavg()[0]],
            "revision": page.revision(),
        }
        path.write_text(json.dumps(results, indent=1) + "\n")
        (asked.out / "RESULTS.md").write_text(page.render(results, SECTIONS))


def _asked() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure gristmill beside its peers.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="SECTION",
        help=f"of {', '.join(KNOWN)} (default: all but {' and '.join(LARGE)})",
    )
    parser.add_argument(
        "--peers",
        type=Path,
        default=DEFAULT_PEERS,
        help="Python of the peers' environment (see peers.py)",
    )
    parser.add_argument(
        "--text-dedup",
        type=Path,
        default=TEXT_DEDUP,
        help="Python of the environment of text-dedup (see dedup_peers.py)",
    )
    parser.add_argument(
        "--suffix-arrays",
        type=Path,
        default=SUFFIX_ARRAYS,
        help="binary of deduplicate-text-datasets (see substrings_peer.py)",
    )
    parser.add_argument("--rounds", type=int, default=7, help="rounds of a comparison")
    parser.add_argument("--whole-rounds", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=WHOLE_BYTES, help="text of the whole run")
    parser.add_argument(
        "--slice",
        type=int,
        default=SLICE_BYTES,
        help="text of the whole run that the peer does as well",
    )
    parser.add_argument(
        "--documents", type=int, default=100_000, help="documents of the deduplications"
    )
    parser.add_argument(
        "--large",
        action="store_true",
        help="ten times as much as well: long, and tens of GB of disk",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--core", type=int, help="the core that is measured on (default: the last)")
    parser.add_argument(
        "--data", type=Path, default=HERE / "data", help="where documents and corpora are made"
    )
    parser.add_argument(
        "--out", type=Path, default=HERE, help="where RESULTS.md and results.json go"
    )
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; print the page from results.json"
    )
    asked = parser.parse_args()
    unknown = set(asked.names) - set(KNOWN)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(KNOWN)}")
    names = asked.names or [name for name in KNOWN if name not in LARGE]
    asked.names = names + [name for name in LARGE if asked.large and name not in names]
    return asked


if __name__ == "__main__":
    main()
