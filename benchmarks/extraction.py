r"""What HTML extraction keeps of pages whose true main content is known, beside the libraries
called directly.

    python benchmarks/extraction.py --data DIR [--wcxb DIR] [--peers PYTHON]
        a Markdown table of the sets in DIR/B_html

Words are `\w+`, in lower case, as a bag: precision, recall and F1 of each page, and their means. A
page on both sides empty counts 1, on one side 0. Each extractor runs over all pages of a set in one
process; times are seconds of processor time, the best of ROUNDS; MB are of HTML. ROUGE-LSum is
that of benchmarks/rouge.py, compared with the package rouge-score where that is installed. Our own
forest was trained on these pages among others: its F1 here is not what it reaches on other pages,
which scripts/main_text_forest.py --judge shows. Extractors of an environment of their own
(extraction_peers.py) run in the same run. --wcxb or GRISTMILL_WCXB: a copy of
github.com/Murrough-Foley/web-content-extraction-benchmark, whose test pages are shown by type.

The sets: article-extraction-benchmark (articleBody), mozilla-readability (the text of
expected.html: what Readability.js keeps, not a person's judgement), cleaneval-dev and
CleanPortalEval (GoldStandard: text with <h>, <p> and <l>).
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import make_corpus
import pyarrow as pa
import rouge
import shingles
from section import Section

from gristmill.filters.extract.extract import Extract, LibraryExtract
from gristmill.tables import schema

if TYPE_CHECKING:
    from harness import Bench

ROUNDS, PEER_ROUNDS = 3, 1
COMPARED = 6  # pages of a set whose sum is compared with rouge-score's, each of at most LONGEST
LONGEST = 4000
WORD = re.compile(r"\w+")


class Pages(NamedTuple):
    """A set of n pages."""

    name: str
    sources: list[str]
    texts: list[str]  # the true main content of each
    urls: list[str]  # where each is from; empty: it does not say


def _text(path: Path) -> str:
    """A file's text: UTF-8, or where it is none Windows' Latin letters, as web pages of that age
    are.
    """
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def sets(data: Path) -> list[Pages]:
    """The sets with ground truth below a data folder."""
    folder = data / "B_html"
    found = []
    truth = json.loads(
        (folder / "article-extraction-benchmark/ground-truth.json").read_text("utf-8")
    )
    names = sorted(truth)
    sources = [
        gzip.decompress(
            (folder / f"article-extraction-benchmark/html/{name}.html.gz").read_bytes()
        ).decode("utf-8", "replace")
        for name in names
    ]
    found.append(
        Pages(
            "article-extraction-benchmark",
            sources,
            [truth[name]["articleBody"] for name in names],
            [truth[name]["url"] for name in names],
        )
    )
    folders = sorted(
        path.parent for path in (folder / "mozilla-readability").glob("*/expected.html")
    )
    found.append(
        Pages(
            "mozilla-readability",
            [_text(path / "source.html") for path in folders],
            [whole_text(_text(path / "expected.html")) for path in folders],
            [_own_url(_text(path / "source.html")) for path in folders],
        )
    )
    for name in ("cleaneval-dev", "CleanPortalEval-master"):
        paths = sorted((folder / name / "GoldStandard").glob("*.txt"))
        golds = [
            re.sub(
                r"</?[hpl]>",
                " ",
                _text(path).split("\n", 1)[1] if _text(path).startswith("URL:") else _text(path),
            )
            for path in paths
        ]
        pages = [_text(folder / name / "input" / f"{path.stem}.html") for path in paths]
        urls = [re.sub(r"\AURL:\s*|\s.*", "", _text(path), flags=re.DOTALL) for path in paths]
        found.append(Pages(name.removesuffix("-master"), pages, golds, urls))
    return found


def wcxb_sets(folder: Path) -> list[Pages]:
    """The test pages of WCXB that have a true text, by their type."""
    files = json.loads((folder / "metadata.json").read_text())["files"]
    found: dict[str, Pages] = {}
    for path in sorted((folder / "test/ground-truth").glob("*.json")):
        truth = json.loads(path.read_text())["ground_truth"].get("main_content")
        if truth:
            name = f"WCXB, {files[path.stem]['page_type']}"
            packed = (folder / f"test/html/{path.stem}.html.gz").read_bytes()
            pages = found.setdefault(name, Pages(name, [], [], []))
            pages.sources.append(gzip.decompress(packed).decode("utf-8", "replace"))
            pages.texts.append(truth)
            pages.urls.append(files[path.stem]["domain"])
    return [found[name] for name in sorted(found)]


def _own_url(source: str) -> str:
    """The address that a page says is its own; else the first one in it."""
    for pattern in (
        r"""<link[^>]*rel=["']?canonical["']?[^>]*href=["']([^"']+)""",
        r"""property=["']og:url["'][^>]*content=["']([^"']+)""",
        r"""(https?://[a-z0-9.-]+/)""",
    ):
        if match := re.search(pattern, source):
            return match[1]
    return ""


def whole_text(source: str) -> str:
    """All visible text of a page, by resiliparse."""
    from resiliparse.extract.html2text import extract_plain_text

    return extract_plain_text(source, main_content=False, alt_texts=False)


def _main_content(source: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return extract_plain_text(source, main_content=True, alt_texts=False)


def _trafilatura(source: str) -> str:
    from trafilatura import extract

    return extract(source, favor_precision=True, include_comments=False, deduplicate=False) or ""


def _balanced(source: str) -> str:
    from trafilatura import extract

    return extract(source, include_comments=False, deduplicate=False) or ""


def _justext(source: str) -> str:
    import justext

    words = frozenset().union(*(justext.get_stoplist(name) for name in ("English", "German")))
    try:
        found = justext.justext(source.encode(), words, encoding="utf-8")
    except (ValueError, TypeError):
        return ""
    return "\n".join(part.text for part in found if not part.is_boilerplate)


OWN = "gristmill, rules (pages seen)"
Way = Callable[
    [list[str], pa.RecordBatch], list[str]
]  # the sources, and the same as a batch of DOCUMENTS -> texts


def _directly(extract: Callable[[str], str]) -> Way:
    return lambda sources, batch: [extract(source) for source in sources]


def batch_of(sources: list[str]) -> pa.RecordBatch:
    """Pages as the step takes them."""
    columns = {name: [None] * len(sources) for name in schema.DOCUMENTS.names}
    columns |= {"document": list(range(len(sources))), "text": sources}
    return pa.RecordBatch.from_pydict(columns, schema.DOCUMENTS)


def _by_step(step: Extract | LibraryExtract) -> Way:
    measure = step.load({})

    def run(sources: list[str], batch: pa.RecordBatch) -> list[str]:
        found = measure(batch)
        dropped = step.decide(found.measures).reason.to_pylist()
        return [
            "" if reason else text
            for reason, text in zip(dropped, found.text.to_pylist(), strict=True)
        ]

    return run


def ways() -> dict[str, Way]:
    """Every extractor that is compared, by the name in the table."""
    return {
        "gristmill, resiliparse": _by_step(LibraryExtract()),
        "resiliparse, directly": _directly(_main_content),
        "gristmill, trafilatura": _by_step(LibraryExtract(extractor="trafilatura")),
        "trafilatura, directly": _directly(_trafilatura),
        "gristmill, whole text": _by_step(LibraryExtract(main_content=False)),
        "resiliparse, whole text": _directly(whole_text),
        "trafilatura, balanced": _directly(_balanced),
        "justext": _directly(_justext),
        OWN: _by_step(Extract()),
    }


# Ours by what they call.
LIBRARIES = {
    "gristmill, resiliparse": "resiliparse, directly",
    "gristmill, trafilatura": "trafilatura, directly",
    "gristmill, whole text": "resiliparse, whole text",
}


def score(kept: str, true: str) -> tuple[float, float, float]:
    """Precision, recall and F1 of one page's bag of words."""
    ours, theirs = Counter(WORD.findall(kept.lower())), Counter(WORD.findall(true.lower()))
    if not ours or not theirs:
        both = float(not ours and not theirs)
        return both, both, both
    common = (ours & theirs).total()
    precision, recall = common / ours.total(), common / theirs.total()
    return precision, recall, 2 * common / (ours.total() + theirs.total())


def rows(
    data: Path,
    wcxb: Path | None = None,
    peers: str | None = None,
    versions: dict[str, str] | None = None,
) -> list[dict[str, Any]]:
    """One row a set and extractor: its name, pages, mean precision, recall, F1 and ROUGE-LSum, F1
    of shingles, pages/s, MB/s; `equal`: pages whose text is the library's. Versions of peers go to
    `versions`.
    """
    found: list[dict[str, Any]] = []
    here = [*sets(data), *(wcxb_sets(wcxb) if wcxb else [])]
    others, away = _by_peers(here, peers)
    (versions if versions is not None else {}).update(away["versions"])
    for pages in here:
        texts: dict[str, list[str]] = {}
        seconds: dict[str, float] = {}
        batch = batch_of(pages.sources)
        for _ in range(ROUNDS):
            for way, extract in ways().items():
                start = time.process_time()
                texts[way] = extract(pages.sources, batch)
                seconds[way] = min(seconds.get(way, 1e9), time.process_time() - start)
        for way in others:
            texts[way], seconds[way] = away[way][pages.name]
        size = sum(len(source.encode("utf-8", "replace")) for source in pages.sources) / 1e6
        for way, ours in texts.items():
            pairs = list(zip(ours, pages.texts, strict=True))
            scores = [(*score(*pair), rouge.rouge_lsum(*pair)) for pair in pairs]
            precision, recall, f1, lsum = (
                sum(column) / len(scores) for column in zip(*scores, strict=True)
            )
            runs = [shingles.of_page(*pair) for pair in pairs]
            library = texts[LIBRARIES.get(way, way)]
            found.append(
                {
                    "set": pages.name,
                    "extractor": way,
                    "pages": len(scores),
                    "precision": precision,
                    "recall": recall,
                    "f1": f1,
                    "rouge_lsum": lsum,
                    "shingles": shingles.f1(runs),
                    "pages_per_second": len(scores) / seconds[way],
                    "megabytes_per_second": size / seconds[way],
                    "equal": sum(map(str.__eq__, ours, library)),
                    "rouge_score_differs_by": away["differs"],
                }
            )
    return found


def _seconds(measure: Callable[[pa.RecordBatch], object], source: str, times: int) -> float:
    """Processor time of one page by the step, the least of ROUNDS."""
    batch, least = batch_of([source]), float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(times):
            measure(batch)
        least = min(least, (time.process_time() - start) / times)
    return least


def limits(data: Path) -> list[dict[str, object]]:
    """Our own kernels' time by a page's size, 1 KB to 16 MB, and of all pages of the sets: which
    share of 2 ms and 20 ms a MB each takes.
    """
    measure = Extract(max_bytes=1 << 25).load({})
    found: list[dict[str, object]] = []
    sources = [source for pages in sets(data) for source in pages.sources]
    whole = "".join(source for source in sources if len(source) < 1 << 17)
    for size in (1 << power for power in range(10, 25, 2)):
        source = (whole * (size // len(whole) + 1))[:size]
        seconds = _seconds(measure, source, max((1 << 19) // size, 1))
        found.append({"bytes": len(source.encode()), "seconds": seconds})
    shares = sorted(
        1000 * _seconds(measure, source, 1) / (2 + 20 * len(source.encode()) / 1e6)
        for source in sources
    )
    found.append(
        {
            "pages": len(shares),
            "half": shares[len(shares) // 2],
            "p999": shares[min(999 * len(shares) // 1000, len(shares) - 1)],
            "largest": shares[-1],
        }
    )
    return found


def _by_peers(here: list[Pages], peers: str | None) -> tuple[list[str], dict[str, Any]]:
    """The names of the extractors of the peers' environment, and what each gave: (texts, seconds)
    by set; `differs`: the largest difference of our ROUGE-LSum to rouge-score's, None: not here.
    """
    if peers is None:
        return [], {"differs": None, "versions": {}}
    pairs = [
        (whole_text(source)[:LONGEST], text[:LONGEST])
        for pages in here
        for source, text in list(zip(pages.sources, pages.texts, strict=True))[:COMPARED]
    ]
    with tempfile.TemporaryDirectory() as folder:
        asked, answer = Path(folder, "asked.json"), Path(folder, "answer.json")
        work = {
            "sets": {pages.name: pages.sources for pages in here},
            "pairs": pairs,
            "rounds": PEER_ROUNDS,
        }
        asked.write_text(json.dumps(work), "utf-8")
        script = Path(__file__).with_name("extraction_peers.py")
        environment = {**os.environ, "PYTHONPATH": ""}
        subprocess.run([peers, str(script), asked, answer], check=True, env=environment)
        told = json.loads(answer.read_text("utf-8"))
    theirs = told.pop("rouge")
    versions = told.pop("versions")
    differs = theirs and max(
        abs(rouge.rouge_lsum(*pair) - value) for pair, value in zip(pairs, theirs, strict=True)
    )
    return list(told), {**told, "differs": differs, "versions": versions}


def table(found: list[dict[str, object]]) -> str:
    """The rows in Markdown."""
    sizes = [row for row in found if "bytes" in row]
    bounds = [row for row in found if "p999" in row]
    lines = _table_of_sets([row for row in found if "set" in row])
    if sizes:
        lines += ["", "Our own kernels, pages of one text cut at a size:", ""]
        lines += ["| bytes of a page | ms | ms a MB |", "|---:|---:|---:|"]
    for row in sizes:
        size, seconds = float(str(row["bytes"])), float(str(row["seconds"]))
        lines.append(f"| {size:,.0f} | {1e3 * seconds:.2f} | {1e9 * seconds / size:.1f} |")
    for row in bounds:
        lines += [
            "",
            f"Of the {row['pages']} pages of all sets, by share of 2 ms and 20 ms a MB: half take",
            f"at most {row['half']:.2f} of it, 99.9 % {row['p999']:.2f}, all {row['largest']:.2f}.",
        ]
    return "\n".join(lines)


def _shown(row: dict[str, object], name: str, digits: int) -> str:
    """A figure; what was not measured yet when the rows were made is a dash."""
    return f"{row[name]:.{digits}f}" if name in row else "-"


def _table_of_sets(found: list[dict[str, object]]) -> list[str]:
    lines = [
        (
            "| set | extractor | precision | recall | F1 | ROUGE-LSum | shingles | pages/s | MB/s "
            "| equal |"
        ),
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in found:
        equal = f"{row['equal']} of {row['pages']}" if row["extractor"] in LIBRARIES else ""
        lines.append(
            f"| {row['set']} | {row['extractor']} | {row['precision']:.3f} | "
            f"{row['recall']:.3f} | {row['f1']:.3f} | "
            f"{_shown(row, 'rouge_lsum', 3)} | {_shown(row, 'shingles', 3)} | "
            f"{row['pages_per_second']:.0f} | "
            f"{_shown(row, 'megabytes_per_second', 1)} | {equal} |"
        )
    differs = found[0].get("rouge_score_differs_by") if found else None
    if differs is not None:
        lines += ["", f"rouge-score's ROUGE-LSum differs by at most {differs:.1e}."]
    return lines


def _measure(bench: "Bench") -> list[dict[str, Any]]:
    wcxb = os.environ.get("GRISTMILL_WCXB")
    data = make_corpus.data_folder()
    found = rows(data, Path(wcxb) if wcxb else None, bench.peers, bench.versions)
    return found + limits(data)


SECTION = Section(
    name="extraction",
    title="Main text of pages whose true main content is known",
    remarks=(
        "Word-level precision, recall and F1 (bags of `\\w+`, lower case) and ROUGE-LSum by lines, "
        "means over pages; shingles: F1 as article-extraction-benchmark's own scorer takes it "
        "(`benchmarks/shingles.py`); pages and MB of HTML per second of one core. The steps "
        "return what the libraries return when they are called directly (`equal`: pages with the "
        "same text). The shipped forest of gristmill's rules was trained on these pages among "
        "others: what it reaches on sites that it did not see is in docs/adr/0026-main-text.md, by "
        "the script's --judge (scripts/main_text_forest.py)."
    ),
    measure=_measure,
    table=lambda found: table(found).splitlines(),
)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds B_html")
    parser.add_argument("--wcxb", type=Path, help="a copy of WCXB")
    parser.add_argument("--peers", help="the Python of other extractors")
    given = parser.parse_args()
    print(table(rows(given.data, given.wcxb, given.peers) + limits(given.data)))
