"""Whole runs over a WET corpus, ours and datatrove's: plain, FineWeb's, ten times more."""

import hashlib
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import make_corpus
from harness import HERE, Bench
from measured import PeerFailed
from section import Rows, Section, met, number

FINEWEB = HERE.parent / "recipes/fineweb-v1.toml"
FINEWEB_FAST = HERE.parent / "recipes/fineweb-v1-fast.toml"
SCALE_BYTES = (1_000_000_000, 10_000_000_000)
SHARDS = 8
START_BYTES = 1_000_000


def corpus(bench: Bench, size: int, shards: int = SHARDS) -> Path:
    """A WET corpus of about `size` bytes of text; made once."""
    key = hashlib.sha256(Path(make_corpus.__file__).read_bytes()).hexdigest()[:8]
    many = f"-{shards}" if shards != SHARDS else ""
    folder = bench.data / f"wet-{size}-{bench.asked.seed}-{key}{many}"
    if not (folder / "corpus.json").exists():
        bench.say(f"making {size / 1e6:,.0f} MB of WET in {folder}")
        command = [
            sys.executable,
            str(HERE / "make_corpus.py"),
            str(folder),
            "--bytes",
            str(size),
            "--seed",
            str(bench.asked.seed),
        ]
        subprocess.run([*command, "--shards", str(shards)], check=True, stdout=subprocess.DEVNULL)
    return folder


def run_ours(
    bench: Bench, recipe: Path, shards: Path, settings: dict[str, str], *, pinned: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what its process tree took, what it says of itself) of one whole run of ours, on one core
    where it is `pinned`.
    """
    out, answer = bench.data / "out", bench.data / "answer.json"
    shutil.rmtree(out, ignore_errors=True)
    command = [
        sys.executable,
        str(HERE / "ours.py"),
        "whole",
        str(recipe),
        str(shards),
        str(out),
        str(answer),
    ]
    run = bench.tree(command, bench.plain() | settings, pinned=pinned)
    shutil.rmtree(out, ignore_errors=True)
    return run, json.loads(answer.read_text())


def run_theirs(bench: Bench, folder: Path, rules: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same of one of datatrove's, over the shards of a folder."""
    if bench.peers is None:
        raise PeerFailed("no environment of peers")
    out, answer = bench.data / "out-peer", bench.data / "answer-peer.json"
    shutil.rmtree(out, ignore_errors=True)
    names = (
        HERE / "peers.py",
        "whole",
        folder,
        out,
        bench.lid,
        bench.tokenizer["json"],
        rules,
        answer,
    )
    try:
        command = [bench.peers, *map(str, names)]
        run = bench.tree(command, {**bench.peer_environment, "HF_HOME": str(bench.data / "hf")})
    finally:
        shutil.rmtree(out, ignore_errors=True)
    inner = json.loads(answer.read_text())
    bench.versions |= inner.pop("versions")
    return run, inner


def ours_whole(bench: Bench, size: int, times: int, recipe: str = "whole") -> dict[str, Any]:
    """Our whole run over a corpus: medians of `times` runs."""
    folder = corpus(bench, size)
    path, settings = (
        (FINEWEB, fineweb_settings(bench)) if recipe == "fineweb" else (HERE / "whole.toml", {})
    )
    made = json.loads((folder / "corpus.json").read_text())
    runs = []
    for _ in range(times):
        run, inner = run_ours(bench, path, folder / "*.warc.wet.gz", settings)
        runs.append(run)
        bench.say(
            f"whole, {made['text_bytes'] / 1e6:,.0f} MB: {run['wall']:.1f} s, processor "
            f"{run['cpu']:.1f}"
        )
    funnel = inner["funnel"]
    if funnel["documents"] != made["documents"]:
        raise SystemExit(
            f"{funnel['documents']} documents were read, {made['documents']} were made"
        )
    steps = {step["step"]: step["dropped"] for step in funnel["steps"]}
    return {
        "who": "gristmill",
        "megabytes": made["text_bytes"] / 1e6,
        "documents": made["documents"],
        "runs": runs,
        "cpu": statistics.median(run["cpu"] for run in runs),
        "wall": statistics.median(run["wall"] for run in runs),
        "pss": max(run["peak_pss"] for run in runs),
        "kept_megabytes": funnel["bytes"] / 1e6,
        "dropped": steps,
        "kept": funnel["kept"] / funnel["documents"],
        "copies": steps.get("deduplicate", 0) / funnel["documents"],
        "tokens": funnel["tokens"],
        "phases": inner["phases"],
        "rates": inner["rates"],
    }


def fineweb_settings(bench: Bench, **more: str) -> dict[str, str]:
    """What recipes/fineweb-v1.toml is run with here: datatrove's own lists as files, and a
    tokenizer.
    """
    lists = {
        "domains": "url_filterblacklistsv0_3_0.tar.gz",
        "urls": "url_filterblacklistsv0_3_0.tar.gz",
    }
    lists |= {
        name: f"{word}.txt"
        for name, word in (("words", "banned_words"), ("soft_words", "soft_banned_words"))
    }
    lists["subwords"] = "banned_subwords.txt"
    settings = {
        f"step.0.{name}": json.dumps([f"{bench.lists}/{file}"]) for name, file in lists.items()
    }
    return {"GRISTMILL_BENCH_SET": json.dumps({**settings, "tokens.tokenizer": '"gpt2"', **more})}


def their_whole(bench: Bench, size: int, rules: str = "lab") -> dict[str, Any]:
    """datatrove's whole run over a corpus, once."""
    folder = corpus(bench, size)
    try:
        run, inner = run_theirs(bench, folder, rules)
    except PeerFailed as error:
        return {"who": "datatrove", "failed": str(error)}
    made = json.loads((folder / "corpus.json").read_text())
    bench.say(f"datatrove, {made['text_bytes'] / 1e6:,.1f} MB: processor {inner['cpu']:.1f} s")
    return {
        "who": "datatrove",
        "megabytes": made["text_bytes"] / 1e6,
        "documents": made["documents"],
        "runs": [run],
        "cpu": inner["cpu"],
        "wall": inner["wall"],
        "pss": run["peak_pss"],
        "kept_megabytes": inner["kept_bytes"] / 1e6,
        "kept": inner["kept"] / made["documents"],
        "copies": (inner["clean"] - inner["kept"]) / made["documents"],
        "read": inner["read"],
        "phases": inner["stages"],
    }


def _beside(bench: Bench, recipe: str, rules: str) -> Rows:
    """Ours on the large corpus, with its start; ours and datatrove's on the small one."""
    rounds = bench.asked.whole_rounds
    ours_whole(bench, START_BYTES, 1, recipe)  # kernels compiled, files cached
    start = ours_whole(bench, START_BYTES, rounds, recipe)
    small = ours_whole(bench, bench.asked.slice, rounds, recipe)
    large = ours_whole(bench, bench.asked.bytes, rounds, recipe)
    return [large | {"start": start["cpu"]}, small, their_whole(bench, bench.asked.slice, rules)]


def whole(bench: Bench) -> Rows:
    """Of whole.toml."""
    return _beside(bench, "whole", "lab")


def fineweb(bench: Bench) -> Rows:
    """The same with all of FineWeb's steps."""
    return _beside(bench, "fineweb", "fineweb")


def scale(bench: Bench) -> Rows:
    """Ours on 1 GB and on 10 GB."""
    return [ours_whole(bench, size, 1) for size in SCALE_BYTES]


WHOLE_HEAD = [
    (
        "| who | MB | documents | kept | copies | processor s | MB/s a core | kept MB/s | wall s "
        "| peak PSS, MB | runs |"
    ),
    "|---|---|---|---|---|---|---|---|---|---|---|",
]


def _whole_row(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"| {row['who']} | not measured: {row['failed']} | | | | | | | | | |"
    return (
        f"| {row['who']} | {row['megabytes']:,.1f} | {row['documents']:,} | "
        f"{row['kept']:.1%} | {row['copies']:.1%} "
        f"| {row['cpu']:.1f} | {number(row['megabytes'] / row['cpu'])} "
        f"| {number(row['kept_megabytes'] / row['cpu'])} | {row['wall']:.1f} "
        f"| {row['pss'] / 1e6:,.0f} | {len(row['runs'])} |"
    )


def whole_table(rows: Rows) -> list[str]:
    """The runs, speed against its target, and ours by phase and step."""
    large, small, theirs = rows
    speed = large["megabytes"] / large["cpu"]
    lines = [
        *WHOLE_HEAD,
        *map(_whole_row, rows),
        "",
        f"* MB a second of one core, target at least {met(speed, 20)} ({number(speed)}).",
    ]
    if "start" in large:  # as good as nothing else happens in a run over 1 MB
        lines.append(
            f"* Of it {large['start']:.2f} s, {large['start'] / large['cpu']:.1%}, are what a run "
            f"over {START_BYTES / 1e6:.0f} MB takes, start and end; processor time is of all "
            "processes of a run."
        )
    if "failed" not in theirs:
        slow = theirs["megabytes"] / theirs["cpu"]
        same = small["megabytes"] / small["cpu"] / slow
        lines.append(
            f"* Times datatrove, target at least {met(speed / slow, 100)} "
            f"({number(speed / slow)}, ours on the large "
            f"corpus; {number(same)} on the same small one, where starting dominates). "
            "datatrove read "
            f"{theirs['read']:,} of {theirs['documents']:,} documents."
        )
    lines.append(
        "* Ours by phase, wall seconds: "
        + ", ".join(f"{name} {took:.1f}" for name, took in large["phases"].items())
        + "."
    )
    lines.append(
        "* Ours by step, MB of its text a second: "
        + ", ".join(f"{name} {number(rate)}" for name, rate in large["rates"].items())
        + "."
    )
    return lines


def scale_table(rows: Rows) -> list[str]:
    """Both sizes, and their ratios."""
    small, large = rows
    ratio = (large["cpu"] / large["megabytes"]) / (small["cpu"] / small["megabytes"])
    met = "met" if ratio <= 1.1 else "**not met**"
    return [
        *WHOLE_HEAD,
        *map(_whole_row, rows),
        "",
        f"* Time per byte, ratio at most 1.1: {met} ({ratio:.2f}).",
        f"* Memory, ratio: {large['pss'] / small['pss']:.2f}.",
    ]


WHOLE = Section(
    name="whole",
    title="Whole run: WET.gz to GPT-2 token shards, language on, one worker on one core",
    remarks=(
        "MB are of uncompressed text. Ours is timed from outside, start and imports included. "
        "datatrove's single pipeline (WarcReader, LanguageFilter, Gopher, the four stages of "
        "MinHash as 32 x 4, DocumentTokenizer; one task per stage, its cache of words on) is "
        "timed from inside, without imports and without loading its models. Its language model is"
        " lid.176.ftz, as ours; it reads whole documents where ours reads 1,000 characters, and "
        "it drops candidates without verifying them."
    ),
    measure=whole,
    table=whole_table,
)
FINEWEB_RUN = Section(
    name="fineweb",
    title=(
        "Whole run of recipes/fineweb-v1.toml on WET.gz, to GPT-2 token shards, one worker on one"
        " core"
    ),
    remarks=(
        "As the whole run above, with all steps of FineWeb: block lists, language, Gopher "
        "repetition and quality, C4, FineWeb's own, near duplicates as 14 x 8, redaction. "
        "datatrove's steps are those of its examples/fineweb.py. Ours loads its lists during the "
        "run, datatrove before it."
    ),
    measure=fineweb,
    table=whole_table,
)
SCALE = Section(
    name="scale",
    title="Ten times the input",
    remarks=("One run each."),
    measure=scale,
    table=scale_table,
    large=True,
)
