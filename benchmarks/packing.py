"""Packing measured: best-fit decreasing beside TRL's and OLMo-core's, an index of 10^8 documents,
masks beside the filling of a batch, and what each packing does to real documents.

Real documents are GPT-2's tokens of pages of www.gov.uk (WET), pages of Debian's documentation,
whole English novels, and the same novels with a document for each paragraph. Other lengths are
lognormal with the median and spread of web pages (median 493 tokens, sigma 1.1), cut to windows.
Each part runs in a process of its own; processor time. Windows are compared: all three pack by the
same rule, so that they are equally many.
"""

import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import make_corpus
import numpy as np
from section import Section

HERE = Path(__file__).parent
LENGTHS = (2048, 8192, 32768)
PIECES, MANY = 200_000, 100_000_000
PEERS = {"trl": "TRL `_pack_bfd`", "olmo-core": "OLMo-core `InstancePacker`"}
ROUNDS = 5
ROWS = 64  # of a batch whose masks are measured


def documents(count: int, seed: int) -> np.ndarray:
    """Lengths of documents, (count,) int64."""
    return np.exp(np.random.default_rng(seed).normal(6.2, 1.1, count)).astype(np.int64) + 1


def rows(data: Path, peers: str | None, versions: dict[str, str]) -> list[dict[str, Any]]:
    """All rows; `peers` is the Python of an environment with TRL and OLMo-core."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for length in LENGTHS:
            lengths = _cut(documents(PIECES, 1), length)
            path = Path(folder, f"{length}.npy")
            np.save(path, lengths)
            out.append(_ours(lengths, length))
            for peer, shown in PEERS.items():
                out.append(_peer(peers, peer, shown, length, path, len(lengths), versions))
        for length in LENGTHS:
            out.append(_child("index", str(length), str(MANY), str(Path(folder, "index"))))
        out += _child("masks", str(Path(folder, "masks")))
        out += _child("real", str(data), str(Path(folder, "real")))
    return out


def _cut(lengths: np.ndarray, limit: int) -> np.ndarray:
    from gristmill.kernels.packing.lengths import cut

    return np.random.default_rng(2).permutation(cut(lengths, limit)).astype(np.int64)


def _ours(lengths: np.ndarray, length: int) -> dict[str, Any]:
    from gristmill.kernels.packing.choose import plan_pieces

    took = []
    for _ in range(ROUNDS):
        start = time.process_time()
        plan = plan_pieces(np.bincount(lengths, minlength=length + 1))
        took.append(time.process_time() - start)
    return {
        "kind": "pack",
        "who": "ours: histogram and plan",
        "length": length,
        "pieces": len(lengths),
        "seconds": statistics.median(took),
        "windows": int(plan.first[-1]),
        "used": float(lengths.sum() / (int(plan.first[-1]) * length)),
    }


def _peer(
    python: str | None,
    peer: str,
    shown: str,
    length: int,
    path: Path,
    pieces: int,
    versions: dict[str, str],
) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "pack", "who": shown, "length": length, "pieces": pieces}
    if python is None or not Path(python).exists():
        return {**row, "missing": "no environment of peers"}
    done = subprocess.run(
        [python, HERE / "packing_peer.py", peer, str(length), path],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {**row, "missing": (done.stderr.strip().splitlines() or ["failed"])[-1][:80]}
    found = json.loads(done.stdout.splitlines()[-1])
    name, _, version = found.pop("version").partition(" ")
    versions[name] = version
    return {**row, **found, "used": float(np.load(path).sum() / (found["windows"] * length))}


def _child(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, __file__, *words], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def index(length: int, count: int, cache: Path) -> dict[str, Any]:
    """Lengths of `count` documents to an index that is whole, and a plan; memory of this process
    before and at its peak.
    """
    from gristmill.kernels.packing.choose import plan_pieces
    from gristmill.kernels.packing.lengths import cut
    from gristmill.loader.packing_index import opened

    base = documents(1_000_000, 1)
    cut(base[:10], length)

    def blocks() -> Any:
        for at in range(0, count, len(base)):
            yield cut(np.roll(base, at // 7 % len(base))[: count - at], length)

    def peak() -> int:  # ru_maxrss would begin with that of the process before exec
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    before, wall, start = peak(), time.time(), time.process_time()
    found = opened(cache, {"length": length}, lambda writer: writer.sort(blocks(), length))
    plan = plan_pieces(found.counts)
    took, waited, after = time.process_time() - start, time.time() - wall, peak()
    tokens = int((found.counts * np.arange(length + 1)).sum())
    windows = int(plan.first[-1])
    (found.folder / "positions").unlink()
    return {
        "kind": "index",
        "length": length,
        "documents": count,
        "pieces": len(found.positions),
        "seconds": took,
        "wall": waited,
        "memory": after - before,
        "windows": windows,
        "used": tokens / (windows * length),
    }


def masks(folder: Path) -> list[dict[str, Any]]:
    """Microseconds a window of filling batches and of each mask, windows of 2,048."""
    sys.path.insert(0, str(HERE.parent))
    from gristmill.loader.loader import Loader
    from tests.support.token_corpora import token_corpus

    lengths, length = documents(20_000, 3), 2048
    tokens = np.random.default_rng(4).integers(1, 50_000, int(lengths.sum())).astype(np.uint16)
    split = np.split(tokens, np.cumsum(lengths)[:-1])
    os.environ["GRISTMILL_PACKING"] = str(folder / "cache")
    root = token_corpus(folder / "corpus", {"web": split}, vocabulary=50_000)
    out = []
    for packing in ("concat", "best_fit", "aligned"):
        ways: dict[str, Any] = {
            "cu_seqlens": lambda batch: batch.cu_seqlens(),
            "document_ids": lambda batch: batch.document_ids(),
            "position_ids": lambda batch: batch.position_ids(),
            "document_starts": lambda batch: batch.document_starts(),
            "loss_mask": lambda batch: batch.loss_mask(),
        }
        times: dict[str, list[float]] = {"fill": [], **{way: [] for way in ways}}
        loader = Loader(
            root, sequence_length=length, batch_size=ROWS, packing=packing, prefetch=0, seed=1
        )
        for turn in range(400):
            start = time.process_time()
            batch = next(loader)
            times["fill"].append(time.process_time() - start)
            for way, call in ways.items():
                start = time.process_time()
                call(batch)
                if turn:
                    times[way].append(time.process_time() - start)
        # Batches are made in blocks: a mean, not a median.
        mean = {way: 1e6 * statistics.fmean(took[8:]) / ROWS for way, took in times.items()}
        out.append({"kind": "masks", "packing": packing, "length": length, "us": mean})
    return out


RECIPE = """seed = 1
{sources}
[[step]]
use = "extract"
extractor = "resiliparse"
only_pages = true

[tokens]
tokenizer = "gpt2"
validation = 0.0
"""
PACKINGS: tuple[dict[str, Any], ...] = (
    {"kind": "concat"},
    {"kind": "best_fit"},
    {"kind": "best_fit", "split_at": "paragraph"},
    {"kind": "best_fit", "split_at": "sentence"},
    {"kind": "aligned"},
    {"kind": "aligned", "keep_rest": True},
)


def _write(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def real(data: Path, folder: Path) -> list[dict[str, Any]]:
    """Packings of real documents; all sources together."""
    from gristmill.corpus.token_corpus import TokenCorpus
    from gristmill.loader.packing_report import packing_report
    from gristmill.pipeline import run

    folder.mkdir()
    os.environ["GRISTMILL_PACKING"] = str(folder / "cache")
    csv.field_size_limit(1 << 30)
    pages = [
        max((value or "" for value in row.values()), key=len)
        for path in sorted((data / "A_warc/cc_wet_govuk_G5").glob("*.csv"))
        for row in csv.DictReader(path.read_text("utf-8", "replace").splitlines(keepends=True))
    ]
    novels = [
        path.read_text("utf-8", "replace")
        for path in sorted((data / "I_prose/english_novels").iterdir())[:30]
    ]
    paragraphs = [
        " ".join(piece.split()) for novel in novels for piece in re.split(r"\n\s*\n", novel)
    ]
    files = {
        "web": _write(folder / "web.jsonl", [page for page in pages if len(page) > 100]),
        "docs": data / "J_debian_docs/open_docs.warc.gz",
        "novels": _write(folder / "novels.jsonl", novels),
        "paragraphs": _write(
            folder / "paragraphs.jsonl", [piece for piece in paragraphs if len(piece) > 20]
        ),
    }
    sources = "".join(
        f'\n[[source]]\nname = "{name}"\nfiles = ["{path}"]\n' for name, path in files.items()
    )
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.format(sources=sources))
    run(recipe, out=folder / "corpus", workers=1)
    corpus = TokenCorpus.open(folder / "corpus")
    out = []
    for length in (1024, 2048, 8192):
        for packing in PACKINGS:
            found = packing_report(corpus, length, packing)
            words = {key: value for key, value in packing.items() if key != "kind"}
            shown = ", ".join(f"{key} = {json.dumps(value)}" for key, value in words.items())
            name = packing["kind"] + (f", {shown}" if shown else "")
            out.append({"kind": "real", "length": length, "packing": name, **found["all"]})
    return out


def table(found: list[dict[str, Any]]) -> list[str]:
    """Four tables."""
    lines = [
        "| L | pieces | packer | seconds | windows | utilisation |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        if row["kind"] == "pack":
            who = f"| {row['length']:,} | {row['pieces']:,} | {row['who']} "
            lines.append(
                who + f"| not measured: {row['missing']} | | |"
                if "missing" in row
                else who + f"| {row['seconds']:.4f} | {row['windows']:,} | {row['used']:.4f} |"
            )
    lines += [
        "",
        "| L | documents | pieces | processor s | wall s | memory, MB | windows | utilisation |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        if row["kind"] == "index":
            lines.append(
                f"| {row['length']:,} | {row['documents']:,} | {row['pieces']:,} "
                f"| {row['seconds']:.1f} | {row['wall']:.1f} | {row['memory'] / 1e6:.0f} "
                f"| {row['windows']:,} | {row['used']:.5f} |"
            )
    ways = ["fill", "cu_seqlens", "document_ids", "position_ids", "document_starts", "loss_mask"]
    head = "".join(f" {way} |" for way in ways)
    lines += ["", f"| packing, us a window |{head}", "|---|" + "---|" * len(ways)]
    for row in found:
        if row["kind"] == "masks":
            lines.append(
                f"| {row['packing']} |" + "".join(f" {row['us'][way]:.2f} |" for way in ways)
            )
    lines += [
        "",
        "| L | packing | windows | utilisation | padding | documents cut | tokens discarded |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        if row["kind"] == "real":
            shares = " | ".join(f"{100 * share:.2f} %" for share in row["shares"].values())
            lines.append(
                f"| {row['length']:,} | {row['packing']} | {row['windows']:,} | {shares} |"
            )
    return lines


SECTION = Section(
    name="packing",
    title="Packing documents into windows, and masks",
    remarks=(
        "Processor time. Lengths are lognormal (median 493 tokens, sigma 1.1), cut to windows of "
        "L positions; the peers pack the same pieces by the same rule, one after another, and TRL"
        " also builds the packed table. Ours packs the histogram, and chooses documents when a "
        "window is read. The second table is the whole index of a corpus: lengths in, positions "
        "sorted by length on disk, and the plan; memory is what the process grew by. Masks are "
        "microseconds for a window of 2,048, beside finding the documents of a batch of 64 "
        "windows and copying their tokens. The last table is of real documents: pages of "
        "www.gov.uk and of Debian's documentation, whole novels, and novels with a document for "
        "each paragraph, all in GPT-2's tokens."
    ),
    measure=lambda bench: rows(make_corpus.data_folder(), bench.peers, bench.versions),
    table=table,
)


if __name__ == "__main__":
    if sys.argv[1] == "index":
        print(json.dumps(index(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))))
    elif sys.argv[1] == "masks":
        print(json.dumps(masks(Path(sys.argv[2]))))
    else:
        print(json.dumps(real(Path(sys.argv[2]), Path(sys.argv[3]))))
