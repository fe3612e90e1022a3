"""Make src/gristmill/filters/extract/main_text.npz, the forests that tell main text from the rest
and the type of a page, and show what they reach on sites that they were not trained on.

    pip install lightgbm
    python scripts/main_text_forest.py --data DIR --wcxb DIR --manuals DIR [--write]
        [--judge sites|sets|both]

Pages, their true text and their sites are those of benchmarks/extraction.py (article-extraction-
benchmark, mozilla-readability, cleaneval-dev, CleanPortalEval in DIR/B_html), the folder of a copy
of github.com/Murrough-Foley/web-content-extraction-benchmark (WCXB, CC-BY-4.0: 2,008 pages of seven
types), and manuals in many languages (scripts/manual_pages.py). Nothing of a page is written, only
the forests. Seed 1; the same pages give the same file on one version of lightgbm.

A block's label is the share of its words that are in the true text: long blocks take them first,
then short ones, the nearest to these first. A block weighs the square root of its words, a page the
square root of its blocks' sum, a set its SETS. Types are those of WCXB's pages.

What was chosen where: the columns (kernels/html/features.py) by the gain of a forest on WCXB's
development part, manuals and pages that trafilatura labelled, none of them judged below but the
manuals; the weight of recall of balanced mode on all pages; that of documentation on WCXB's
development part, and that other types have none of their own on all pages.
"""

import argparse
import gzip
import itertools
import json
import re
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import tldextract

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import extraction
import manual_pages
import shingles

from gristmill.filters.extract.main_text import BETAS, DOCUMENTATION_BETA, TYPES
from gristmill.kernels.html import blocks, copies, counts, features, tokens, written
from gristmill.kernels.models import page_forest, page_types

SETS = {
    "article-extraction-benchmark": 6.0,
    "mozilla-readability": 3.0,
    "cleaneval-dev": 3.0,
    "CleanPortalEval": 4.0,
    "wcxb": 0.6,
    "wcxb-test": 0.6,
    "manuals": 0.3,
}
DEPTH, ROUNDS, FOLDS = 6, 160, 5
TYPE_DEPTH, TYPE_ROUNDS = 4, 40
SHORT, SAMPLED = 8, 0.3  # of blocks of fewer words this share is seen, and weighs the more
SETTINGS = {
    "objective": "cross_entropy",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "max_depth": DEPTH,
    "min_data_in_leaf": 40,
    "feature_fraction": 0.4,
    "lambda_l2": 5,
    "max_bin": 63,
    "seed": 1,
    "deterministic": True,
    "num_threads": 1,
    "verbosity": -1,
}
TYPE_SETTINGS = {
    **SETTINGS,
    "objective": "multiclass",
    "num_class": len(TYPES),
    "learning_rate": 0.12,
    "num_leaves": 12,
    "max_depth": TYPE_DEPTH,
    "min_data_in_leaf": 15,
    "feature_fraction": 0.3,
}
DOMAINS = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
WORD = re.compile(r"\w+")
# In manuals a character of a script without spaces is a word: their runs are cut by tags.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
CHARACTER = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


class Page(NamedTuple):
    """A page with its true text."""

    set: str
    site: str
    source: str
    truth: str
    kind: str = ""  # its type, or what manual it is of

    def words(self, text: str) -> list[str]:
        """The words of its true text, or of a block."""
        return (CHARACTER if self.set == "manuals" else WORD).findall(text.lower())


class Labelled(NamedTuple):
    """The blocks of all pages, one after another."""

    rows: np.ndarray  # (blocks, columns) float32
    labels: np.ndarray
    words: np.ndarray
    pages: np.ndarray  # of each block
    bags: list[Counter[str]]  # of each block's words


def wcxb_pages(folder: Path) -> list[Page]:
    """The pages of WCXB that have a true text."""
    files = json.loads((folder / "metadata.json").read_text())["files"]
    found = []
    for split, name in (("dev", "wcxb"), ("test", "wcxb-test")):
        for path in sorted((folder / split / "ground-truth").glob("*.json")):
            truth = json.loads(path.read_text())["ground_truth"].get("main_content")
            if truth:
                packed = (folder / split / "html" / f"{path.stem}.html.gz").read_bytes()
                source = gzip.decompress(packed).decode("utf-8", "replace")
                site, kind = site_of("", files[path.stem]["domain"]), files[path.stem]["page_type"]
                found.append(Page(name, site, source, truth, kind))
    return found


def site_of(name: str, url: str) -> str:
    """The registered domain of a page's address, or the page's own name."""
    parts = DOMAINS(url)
    return f"{parts.domain}.{parts.suffix}" if parts.domain else name


def labels_of(words: list[list[str]], gold: list[str]) -> np.ndarray:
    """Of each block the share of its words that are in the true text."""
    left = Counter(gold)
    runs = [{tuple(gold[i : i + n]) for i in range(len(gold) - n + 1)} for n in range(5)]
    labels = np.zeros(len(words), np.float32)
    covered = np.zeros(len(words))
    for place, block in enumerate(words):
        n = min(4, len(block))
        grams = [tuple(block[i : i + n]) for i in range(len(block) - n + 1)] if n else []
        covered[place] = sum(gram in runs[n] for gram in grams) / max(len(grams), 1)

    def take(place: int) -> None:
        block = Counter(words[place]) & left
        labels[place] = block.total() / len(words[place])
        left.subtract(block)

    long = [k for k in range(len(words)) if len(words[k]) >= SHORT and covered[k] > 0.35]
    for place in sorted(long, key=lambda k: -round(covered[k], 1)):
        take(place)
    kept = np.array([k for k in long if labels[k] > 0.5])
    short = [k for k in range(len(words)) if 0 < len(words[k]) < SHORT and covered[k] >= 0.99]
    near = dict(zip(short, _distances(np.array(short, int), kept).tolist(), strict=True))
    for place in sorted(short, key=lambda k: (near[k], -len(words[k]))):
        if Counter(words[place]) <= left:
            take(place)
    return labels


def _distances(places: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """How far each place is from the nearest of those that are kept."""
    if not len(kept):
        return np.zeros(len(places), int)
    behind = np.minimum(np.searchsorted(kept, places), len(kept) - 1)
    before = np.maximum(behind - 1, 0)
    return np.minimum(np.abs(kept[behind] - places), np.abs(kept[before] - places))


class Reader:
    """The blocks of one page after another, by the kernels."""

    def __init__(self, pages: list[Page]) -> None:
        self.longest = max(len(page.source.encode("utf-8", "replace")) for page in pages)
        self.tokens, self.attributes = tokens.room(self.longest)
        self.work, self.counted = blocks.room(self.longest), counts.room(self.longest)

    def read(self, page: Page) -> tuple[int, int]:
        """Read a page: how many blocks it has, bytes of their text."""
        source = np.frombuffer(page.source.encode("utf-8", "replace"), np.uint8)
        count = tokens.tokenize(source, self.tokens, self.attributes)
        elements, many, size = blocks.build(source, self.tokens, self.attributes, count, self.work)
        counts.count(
            self.work.text, self.work.elements, self.work.blocks, (elements, many), self.counted
        )
        return many, size

    def keep(self, many: int, scores: np.ndarray, manual: bool) -> np.ndarray:
        """Which blocks of the page the kernels keep with these scores, (blocks,) bool."""
        beta = DOCUMENTATION_BETA if manual else BETAS["balanced"]
        work, counted = self.work, self.counted.counts
        kept = page_forest.choose(work.blocks, many, counted, scores, beta)
        return copies.leave_copies(work.text, work.blocks, counted.words[:many], kept)

    def words(self, page: Page, many: int) -> list[list[str]]:
        """The words of each block; of the title none."""
        found, text = self.work.blocks, self.work.text
        return [
            []
            if found.flags[k] & blocks.IS_TITLE
            else page.words(
                text[found.starts[k] : found.stops[k]].tobytes().decode("utf-8", "replace")
            )
            for k in range(many)
        ]


def labelled(pages: list[Page]) -> Labelled:
    """Rows and labels of the blocks of all pages."""
    reader = Reader(pages)
    rows, labels, sizes, places, bags = [], [], [], [], []
    for number, page in enumerate(pages):
        many, _ = reader.read(page)
        work = reader.work
        rows += [
            part.copy()
            for part in features.features(work.elements, work.blocks, many, reader.counted)
        ]
        words = reader.words(page, many)
        labels.append(labels_of(words, page.words(page.truth)))
        sizes += map(len, words)
        places += [number] * many
        bags += map(Counter, words)
    return Labelled(
        np.concatenate(rows), np.concatenate(labels), np.array(sizes), np.array(places), bags
    )


def train(data: Labelled, pages: list[Page], seen: np.ndarray) -> Any:
    """Train on the pages that `seen` (pages,) bool says."""
    weights = np.sqrt(np.minimum(data.words, 400).astype(float))
    totals = np.bincount(data.pages, weights, len(pages))
    weights /= np.sqrt(np.maximum(totals[data.pages], 1e-9))
    weights *= np.array([SETS[page.set] for page in pages])[data.pages]
    short = data.words < SHORT
    weights[short] /= SAMPLED
    sampled = ~short | (np.random.default_rng(1).random(len(short)) < SAMPLED)
    used = seen[data.pages] & sampled & (data.words > 0)
    rows = lightgbm.Dataset(data.rows[used], data.labels[used], weight=weights[used])
    return lightgbm.train(SETTINGS, rows, ROUNDS)


def type_rows(data: Labelled, pages: list[Page]) -> np.ndarray:
    """A row for each page: the means of its blocks' rows, as the kernel takes them."""
    bounds = np.searchsorted(data.pages, np.arange(len(pages) + 1))
    return np.stack(
        [page_types.mean_row(data.rows[first:stop]) for first, stop in itertools.pairwise(bounds)]
    )


def train_types(rows: np.ndarray, pages: list[Page], seen: np.ndarray) -> Any:
    """Train on the pages of a known type that `seen` (pages,) bool says."""
    known = seen & np.array([page.kind in TYPES for page in pages])
    kinds = [TYPES.index(page.kind) for page, used in zip(pages, known, strict=True) if used]
    return lightgbm.train(TYPE_SETTINGS, lightgbm.Dataset(rows[known], kinds), TYPE_ROUNDS)


def perfect(model: Any, depth: int) -> dict[str, np.ndarray]:
    """A model's trees as perfect ones (kernels/models/page_forest.py), and their columns' names."""
    nodes, ends = (1 << depth) - 1, 1 << depth
    trees = model.dump_model()["tree_info"]
    used = np.zeros((len(trees), nodes), np.int32)
    thresholds = np.full((len(trees), nodes), np.inf, np.float32)
    leaves = np.zeros((len(trees), ends), np.float32)

    def walk(tree: int, node: int, part: dict[str, Any]) -> None:
        if node >= nodes:
            leaves[tree, node - nodes] = part["leaf_value"]
        elif "leaf_value" in part:
            walk(tree, 2 * node + 1, part)
            walk(tree, 2 * node + 2, part)
        else:
            used[tree, node] = part["split_feature"]
            # The largest float32 that is not above it: rows are float32.
            below = np.float32(part["threshold"])
            if float(below) > part["threshold"]:
                below = np.nextafter(below, np.float32(-np.inf))
            thresholds[tree, node] = below
            walk(tree, 2 * node + 1, part["left_child"])
            walk(tree, 2 * node + 2, part["right_child"])

    for number, tree in enumerate(trees):
        walk(number, 0, tree["tree_structure"])
    return {
        "depth": np.array(depth),
        "names": np.array(features.NAMES),
        "columns": used.reshape(-1).astype(np.int16),
        "thresholds": thresholds.reshape(-1),
        "leaves": leaves.reshape(-1),
    }


def judge(
    data: Labelled, pages: list[Page], scores: np.ndarray, manual: np.ndarray, shown: np.ndarray
) -> str:
    """Mean precision, recall and F1 by set and by type of the pages that `shown` (pages,) bool
    says, what 95 % of bootstraps of F1 lie between, and F1 by shingles (benchmarks/shingles.py);
    manual: whether a page's likeliest type is documentation, (pages,) bool.

    What is kept is what the kernels keep with these scores.
    """
    found: dict[str, list[tuple[float, float, float]]] = {}
    runs: dict[str, list[tuple[float | None, float | None]]] = {}
    bounds = np.searchsorted(data.pages, np.arange(len(pages) + 1))
    reader = Reader(pages)
    for number in np.flatnonzero(shown):
        page = pages[number]
        span = slice(bounds[number], bounds[number + 1])
        many, size = reader.read(page)
        kept = reader.keep(many, scores[span], bool(manual[number]))
        bag: Counter[str] = Counter()
        for place in np.flatnonzero(kept):
            bag.update(data.bags[span.start + int(place)])
        true = Counter(page.words(page.truth))
        common = (bag & true).total()
        f1 = 2 * common / max(bag.total() + true.total(), 1)
        row = common / max(bag.total(), 1), common / max(true.total(), 1), f1
        work = reader.work
        text = written.write(work.text, work.elements, work.blocks, kept, size)
        run = shingles.of_page(text.decode("utf-8", "replace"), page.truth)
        groups = [page.set, f"{page.set}, {page.kind}" if page.kind else "all without a type"]
        for group in groups:
            found.setdefault(group, []).append(row)
            runs.setdefault(group, []).append(run)
    return "\n".join(
        f"{name:45} {len(rows):5} precision {p:.4f} recall {r:.4f} F1 {f:.4f} "
        f"({low:.4f} to {high:.4f}), shingles {shingles.f1(runs[name]):.4f}"
        for name, rows in sorted(found.items())
        for p, r, f in [np.mean(rows, axis=0)]
        for low, high in [interval(np.array(rows)[:, 2])]
    )


def interval(values: np.ndarray) -> tuple[float, float]:
    """What 95 % of the means of bootstraps lie between."""
    chosen = np.random.default_rng(1).integers(0, len(values), (2000, len(values)))
    low, high = np.percentile(values[chosen].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def judged(data: Labelled, pages: list[Page], rows: np.ndarray, group: np.ndarray) -> str:
    """What forests reach that saw no page of the same group, (pages,) int; negative: not judged."""
    scores = np.zeros(len(data.labels))
    kinds = np.zeros(len(pages), int)
    for number in sorted(set(group.tolist()) - {-1}):
        seen = group != number
        blocks_of = ~seen[data.pages]
        scores[blocks_of] = train(data, pages, seen).predict(data.rows[blocks_of])
        kinds[~seen] = train_types(rows, pages, seen).predict(rows[~seen]).argmax(axis=1)
    known = [n for n, page in enumerate(pages) if page.kind in TYPES and group[n] >= 0]
    right = sum(TYPES[kinds[number]] == pages[number].kind for number in known)
    manual = kinds == TYPES.index("documentation")
    said = f"types: {right} of {len(known)} right\n"
    return said + judge(data, pages, scores, manual, group >= 0)


def pages_of(data: Path, wcxb: Path, manuals: Path) -> list[Page]:
    """All pages."""
    pages = [
        Page(found.name, site_of(f"{found.name}/{k}", url), source, text)
        for found in extraction.sets(data)
        for k, (source, text, url) in enumerate(
            zip(found.sources, found.texts, found.urls, strict=True)
        )
    ]
    return [
        *pages,
        *wcxb_pages(wcxb),
        *(
            Page("manuals", page.generator, page.source, page.truth, page.name)
            for page in manual_pages.manuals(manuals)
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds B_html")
    parser.add_argument("--wcxb", type=Path, required=True, help="a copy of WCXB")
    parser.add_argument("--manuals", type=Path, required=True, help="unpacked packages")
    parser.add_argument("--judge", choices=["sites", "sets", "both"], help="train on all others")
    parser.add_argument("--write", action="store_true", help="train on all pages, write the forest")
    given = parser.parse_args()
    pages = pages_of(given.data, given.wcxb, given.manuals)
    data = labelled(pages)
    rows = type_rows(data, pages)
    print(len(pages), "pages,", len(data.labels), "blocks", flush=True)
    if given.write:
        target = Path(__file__).parents[1] / "src/gristmill/filters/extract/main_text.npz"
        everything = np.ones(len(pages), bool)
        forest = perfect(train(data, pages, everything), DEPTH)
        types = perfect(train_types(rows, pages, everything), TYPE_DEPTH)
        np.savez_compressed(
            target, **forest, **{f"types_{name}": table for name, table in types.items()}
        )
        print(target, target.stat().st_size, flush=True)
    if given.judge in ("sites", "both"):
        group = np.array([zlib.crc32(page.site.encode()) % FOLDS for page in pages])
        print("by site", judged(data, pages, rows, group), sep="\n", flush=True)
    if given.judge in ("sets", "both"):
        # WCXB is one set, and not left out: types are known of its pages alone.
        sets = list(SETS)[:4]
        group = np.array([sets.index(p.set) if p.set in sets else -1 for p in pages])
        print("left out", judged(data, pages, rows, group), sep="\n", flush=True)


if __name__ == "__main__":
    main()
