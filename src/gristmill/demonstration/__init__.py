"""The demo: a small corpus through all phases, offline, in a minute.

It makes several hundred documents, writes them as WET, JSONL.zst and JSONL.gz, serves them over
HTTP on 127.0.0.1, trains a tokenizer, runs a recipe, verifies the corpus and asks why a planted
copy was dropped.
"""

import os
import shutil
import sys
import time
from pathlib import Path

from gristmill.demonstration.server import serving
from gristmill.demonstration.texts import NEAR_COPY_URL, write_shards
from gristmill.kernels.jit.build import prepare
from gristmill.kernels.jit.places import DEMO
from gristmill.pipeline import run
from gristmill.progress.terminal import Display
from gristmill.reports.documents import why as explanation
from gristmill.reports.integrity.verify import verify
from gristmill.store.parts import machine_errors
from gristmill.system.kernels_folder import kernels_folder
from gristmill.system.ownership import claim_folder

RECIPE = """\
output = "corpus"
seed = 1

[[source]]
name = "docs"
urls = [{urls}]

[[step]]
use = "language"
keep = ["en"]
min_score = 0.65

[[step]]
use = "gopher"
rules = "lab"

[deduplicate]
exact = true
near = {{ shingle = 5, bands = 32, rows = 4, threshold = 0.8, verify = "text" }}

[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 100_000
validation = 0.05
"""


def _compile_kernels() -> float:
    """Compile the kernels, where they are not yet; the seconds that it took."""
    start = time.monotonic()
    if not prepare(DEMO):
        print(f"{kernels_folder()} cannot keep kernels: every start compiles those that it needs")
    return time.monotonic() - start


def demo(folder: Path | str = "demo", *, workers: int | None = None) -> None:
    """Make the demo's corpus in `folder`, and print each step. An earlier demo there is removed.

    Raises MachineError for a folder that holds anything else.
    """
    start = time.monotonic()
    root = Path(folder)
    with machine_errors(root, every=True):
        claim_folder(root, "demo")
    compiling = _compile_kernels()
    from gristmill.training.train_tokenizer import train_tokenizer

    for name in ("raw", "corpus", "cache"):
        shutil.rmtree(root / name, ignore_errors=True)
    print("1. Documents: Python's own documentation, and planted copies, spam and broken pages")
    names = write_shards(root / "raw")
    for name in names:
        print(f"   raw/{name}  {(root / 'raw' / name).stat().st_size:,} bytes")
    print("2. A tokenizer, trained on them")
    trained = train_tokenizer(
        [root / "raw" / name for name in names],
        root / "tokenizer.json",
        vocabulary=8192,
        force=True,
    )
    print(
        f"   tokenizer.json: {trained['vocabulary']:,} tokens from "
        f"{trained['documents']:,} documents"
    )
    print("3. The recipe, over HTTP from this machine")
    with serving(root / "raw") as address:
        urls = ", ".join(f'"{address}/{name}"' for name in names)
        (root / "recipe.toml").write_text(RECIPE.format(urls=urls), "utf-8")
        with Display(as_json=False) as display:
            funnel = run(
                root / "recipe.toml", workers=workers, cache_dir=root / "cache", show=display.show
            )
    print()
    print("\n".join(funnel.lines()))
    corpus = root / "corpus"
    checked = verify(corpus)
    print(
        f"\n4. Verified: {checked['parts']} parts, {checked['bytes']:,} bytes, every sha256 "
        "and every count"
    )
    print(f"   manifest {checked['manifest']}")
    print("\n5. Why was this page dropped?")
    for answer in explanation.why(corpus, NEAR_COPY_URL):
        print("\n".join(explanation.lines(answer)))
    of_it = f", {compiling:.0f} s of it for the kernels" if compiling >= 1 else ""
    print(f"\nDone in {time.monotonic() - start:.0f} s{of_it}. The corpus is {corpus}. Try next:")
    # A command that works here: a program that is not on PATH is named by its path.
    name = "gristmill" if shutil.which("gristmill") else os.path.relpath(sys.argv[0])
    for command in (
        f"{name} report {corpus}",
        f"{name} explore {corpus} --out {root / 'explore.parquet'}",
        f"{name} status {corpus}",
        f"{name} why {corpus} 0:5",
        f"{name} verify {corpus}",
        f"{name} export {corpus} --to jsonl.zst --out {root / 'export'}",
        (
            f"{name} tokenizer show {root / 'tokenizer.json'} --text 'Raw web in, verified "
            "training tokens out.'"
        ),
        f"(cd {corpus} && sha256sum -c manifest.lock && sha256sum --quiet -c SHA256SUMS)",
        f"{name} init && $EDITOR recipe.toml && {name} run recipe.toml",
    ):
        print(f"  {command}")
