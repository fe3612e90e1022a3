"""Kernels beside peers: one pair of processes on one core, by turns, with the same documents."""

import json
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import documents
import models
from harness import Bench
from measured import Measured, PeerFailed
from section import Rows, Section, met, number

# mean difference of a signature's estimate from the true similarity; 128 numbers give 0.02 to 0.04
LARGEST_ERROR = 0.05


class Comparison(NamedTuple):
    """A row: ours against a peer on the same documents."""

    section: str
    documents: str
    ours: str
    peer: str
    shown: str
    megabytes: float
    target: float | None = None
    equal: bool = True  # whether results are to be compared
    own_python: bool = False  # the peer needs no environment of its own


def _comparisons() -> list[Comparison]:
    return [
        Comparison(
            "gopher",
            "web",
            "lab",
            "lab-joined",
            "the course's Python, `joined`",
            4,
            own_python=True,
        ),
        Comparison(
            "gopher",
            "web",
            "lab",
            "lab-zipped",
            "the course's Python, `zipped`",
            8,
            own_python=True,
        ),
        Comparison(
            "gopher",
            "web",
            "lab",
            "datatrove-gopher",
            "datatrove as shipped",
            0.8,
            100.0,
            equal=False,
        ),
        Comparison(
            "gopher",
            "web",
            "lab",
            "datatrove-gopher-split",
            "datatrove, words by `split()`",
            3,
            60.0,
            equal=False,
        ),
        *(
            Comparison(
                "filters",
                "web",
                ours,
                f"datatrove-{ours}{suffix}",
                f"{name}: datatrove {shown}",
                size,
                target,
                equal=False,
            )
            for ours, name, targets in (
                ("quality", "Gopher quality", (100.0, 60.0)),
                ("repetition", "Gopher repetition", (100.0, 30.0)),
                ("c4", "C4", (50.0, None)),
                ("fineweb", "FineWeb", (50.0, None)),
            )
            for suffix, shown, size, target in (
                ("", "as shipped", 1.0, targets[0]),
                ("-split", "with `split()`", 4.0, targets[1]),
            )
        ),
        Comparison(
            "filters", "web", "url", "datatrove-url", "URL lists: datatrove", 4.0, equal=False
        ),
        Comparison(
            "language",
            "web",
            "language",
            "fasttext-predict",
            "fasttext-predict",
            8.0,
            8.0,
            own_python=True,
        ),
        Comparison("language", "web", "language", "fasttext", "fastText's own library", 8.0, 8.0),
        Comparison(
            "language",
            "web",
            "script",
            "fasttext",
            "by script: fastText's own library",
            8.0,
            equal=False,
        ),
        Comparison(
            "scores",
            "web",
            "bag",
            "fasttext-bag",
            "the same fastText model: fasttext-predict",
            8.0,
            own_python=True,
        ),
        Comparison(
            "scores",
            "web",
            "classifier",
            "fasttext-bag",
            "classifier of our own: fasttext-predict",
            8.0,
            equal=False,
            own_python=True,
        ),
        Comparison(
            "scores",
            "web",
            "toxicity",
            "fasttext-bag",
            "toxicity, list and classifier: fasttext-predict",
            8.0,
            equal=False,
            own_python=True,
        ),
        Comparison("scores", "web", "perplexity", "kenlm", "perplexity: KenLM", 8.0, equal=False),
        Comparison(
            "private",
            "web",
            "private",
            "datatrove-private",
            "six kinds: datatrove's PIIFormatter",
            8,
            equal=False,
        ),
        Comparison(
            "private",
            "web",
            "private-datatrove",
            "datatrove-private",
            '`rules = "datatrove"`: PIIFormatter',
            8,
        ),
        Comparison(
            "private",
            "web",
            "private",
            "presidio",
            "six kinds: presidio's recognisers",
            0.5,
            equal=False,
        ),
        Comparison(
            "minhash", "web", "sign", "datatrove-minhash", "datatrove as shipped", 0.5, 100.0
        ),
        Comparison(
            "minhash", "web", "sign", "datatrove-minhash-split", "datatrove, words by `split()`", 2
        ),
        Comparison("minhash", "web", "sign", "datasketch", "datasketch, bulk", 3, 25.0),
        Comparison("minhash", "web", "sign", "rensa", "rensa, batch", 8, 4.0),
        Comparison("minhash", "web", "sign", "fast-sketch", "FastSketchLSH, batch", 8),
        Comparison("minhash", "web", "sign", "daft", "Daft", 20, 2.0),
    ]


def kernels(section: str, bench: Bench) -> Rows:
    """The rows of a section of comparisons."""
    mine = [row for row in _comparisons() if row.section == section]
    paths = documents.prepare(bench.data, sorted({row.documents for row in mine}))
    if section == "scores":
        warm = json.loads(paths["web"].read_text("utf-8"))["warm"]
        made = str(models.prepare(bench.data, warm, bench.peers))
        bench.environment["GRISTMILL_BENCH_MODELS"] = bench.peer_environment[
            "GRISTMILL_BENCH_MODELS"
        ] = made
    return [_compare(bench, row, paths[row.documents]) for row in mine]


def _compare(bench: Bench, row: Comparison, path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"documents": row.documents, "peer": row.shown, "target": row.target}
    limit = int(row.megabytes * 1e6)
    python = sys.executable if row.own_python else bench.peers
    if python is None:
        return {**found, "failed": "no environment of peers"}
    pair: list[Measured] = []
    try:
        pair.append(Measured(sys.executable, "ours.py", row.ours, path, limit, bench.environment))
        pair.append(Measured(python, "peers.py", row.peer, path, limit, bench.peer_environment))
        times: list[list[float]] = [[], []]
        for turn in range(bench.asked.rounds + 1):
            for place, process in enumerate(pair):
                took = process.ask("round")["cpu"]
                if turn:  # the first round is for caches and branch predictors
                    times[place].append(took)
        checks = [process.ask("check")["check"] for process in pair]
    except PeerFailed as error:
        return {**found, "failed": str(error)}
    finally:
        for process in pair:
            process.close()
    for process in pair:
        bench.versions |= process.about["versions"]
    size = pair[0].about["megabytes"]
    ratios = [theirs / ours for ours, theirs in zip(*times, strict=True)]
    found |= {
        "megabytes": size,
        "count": pair[0].about["documents"],
        "rounds": len(ratios),
        "seconds": times,
        "checks": checks,
        "ours": size / statistics.median(times[0]),
        "theirs": size / statistics.median(times[1]),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "equal": _equal(*checks) if row.equal else None,
    }
    bench.say(
        f"{row.section} {row.documents}: ours {found['ours']:.1f}, {row.shown} "
        f"{found['theirs']:.1f} MB/s, "
        f"equal {found['equal']}"
    )
    return found


def _equal(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    if "digest" in ours:
        return bool(ours["digest"] == theirs["digest"])
    return bool(max(ours["error"], theirs["error"]) <= LARGEST_ERROR)


def table(rows: Rows) -> list[str]:
    """A line for each comparison."""
    lines = [
        (
            "| text | MB | ours, MB/s | peer | peer, MB/s | ratio (least to most) | target ratio "
            "| equal |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(
                f"| {row['documents']} | | | {row['peer']} | not measured: {row['failed']} | | | |"
            )
            continue
        equal = {True: "yes", False: "**no**", None: "other rules"}[row["equal"]]
        lines.append(
            f"| {row['documents']} | {row['megabytes']:.1f} | {number(row['ours'])} | "
            f"{row['peer']} "
            f"| {number(row['theirs'])} "
            f"| {number(row['ratio'])} ({number(row['least'])} to {number(row['most'])}) "
            f"| {met(row['ratio'], row['target'])} | {equal} |"
        )
    return lines


GOPHER = Section(
    name="gopher",
    title="Gopher, the lab's rules",
    remarks=(
        "Equal: the same verdict for every document. The course's own Python has "
        "`top_ngram_fraction` in the course's style (`joined`) and in the fastest plain Python "
        "(`zipped`). datatrove has similar rules (Gopher quality, then the top 2- and 3-grams) on"
        " its own words: its verdicts differ by design, and it stops at the first rule that "
        "fails. Ours computes all values."
    ),
    measure=partial(kernels, "gopher"),
    table=table,
)
FILTERS = Section(
    name="filters",
    title="Each filter alone",
    remarks=(
        "Rules of datatrove 0.10.1. On equal words our verdicts are equal to its own (PARITY.md);"
        " here each side has its own words. `split()`: datatrove's words are replaced by "
        "`str.split()`, and in C4 its sentences by words that end in a full stop. Ours computes "
        "and keeps every value, datatrove stops at the first rule that fails. Both sides split "
        "words again for each filter. There is one URL per document, none is listed, and the full"
        " lists are loaded before; MB are of the documents' text there, too."
    ),
    measure=partial(kernels, "filters"),
    table=table,
)
LANGUAGE = Section(
    name="language",
    title="Language, of the first 1,000 characters",
    remarks=(
        "Equal: the same label for every document. MB are of whole documents. The script is "
        "detected without a model."
    ),
    measure=partial(kernels, "language"),
    table=table,
)
SCORES = Section(
    name="scores",
    title="Scores by models",
    remarks=(
        "fastText: a model of words and word pairs, 100 dimensions, 500,000 buckets, softmax "
        "(DCLM's kind); equal: the same documents below 0.5. Our own classifier, also on words "
        "and word pairs, is compared with the same peer. KenLM reads our n-gram model as an ARPA "
        "file and gets lines in lower case, made before; the time of ours includes normalisation."
        " Models are trained on other texts of the same kind."
    ),
    measure=partial(kernels, "scores"),
    table=table,
)
PRIVATE = Section(
    name="private",
    title="Personal data, redacted",
    remarks=(
        "Patterns alone, no names; docs/private.md has precision and recall. `rules = "
        '"datatrove"`: the same texts result if the addresses of its list count as equal, because'
        " PIIFormatter continues its list from document to document. The other rows have our six "
        "kinds; presidio has its recognisers of these kinds, called without its NLP engine."
    ),
    measure=partial(kernels, "private"),
    table=table,
)
MINHASH = Section(
    name="minhash",
    title="MinHash signatures, 128 numbers, shingles of 5 words, from raw text",
    remarks=(
        f"Equal: the estimates of each side for {documents.PAIRS} planted pairs differ on average"
        f" by at most {LARGEST_ERROR} from their true Jaccard similarity. Each side has its own "
        "words and normalisation: ours lower-cases and removes punctuation, datatrove removes "
        "more (numbers, accents), datasketch, rensa, FastSketchLSH and Daft remove nothing. "
        "FastSketchLSH's numbers are not minima, and estimate the same."
    ),
    measure=partial(kernels, "minhash"),
    table=table,
)
