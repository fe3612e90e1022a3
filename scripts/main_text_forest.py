"""Make src/gristmill/filters/extract/main_text.npz, the forest that tells main text from the rest,
and show what it reaches on sites that it was not trained on.

    pip install lightgbm
    python scripts/main_text_forest.py --data DIR --wcxb DIR [--judge sites|sets] [--write]

Pages, their true text and their sites are those of benchmarks/extraction.py (article-extraction-
benchmark, mozilla-readability, cleaneval-dev, CleanPortalEval in DIR/B_html), and the folder of a
copy of github.com/Murrough-Foley/web-content-extraction-benchmark (WCXB, CC-BY-4.0: 2,008 pages of
seven types). Nothing of a page is written, only the forest. Seed 1; the same pages give the same
file on one version of lightgbm.

A block's label is the share of its words that are in the true text: long blocks take them first,
then short ones, the nearest to these first. A block weighs the square root of its words, a page the
square root of its blocks' sum, a set its SETS.
"""

import argparse
import gzip
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

from gristmill.filters.extract.main_text import BETAS
from gristmill.kernels.html import blocks, counts, features, tokens
from gristmill.kernels.models import page_forest

SETS = {
    "article-extraction-benchmark": 6.0,
    "mozilla-readability": 3.0,
    "cleaneval-dev": 3.0,
    "CleanPortalEval": 4.0,
    "wcxb": 0.6,
}
DEPTH, ROUNDS, FOLDS, KEPT = 6, 180, 5, 140
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
DOMAINS = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
WORD = re.compile(r"\w+")


class Page(NamedTuple):
    """A page with its true text."""

    set: str
    site: str
    source: str
    truth: str


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
    for split in ("dev", "test"):
        for path in sorted((folder / split / "ground-truth").glob("*.json")):
            truth = json.loads(path.read_text())["ground_truth"].get("main_content")
            if truth:
                packed = (folder / split / "html" / f"{path.stem}.html.gz").read_bytes()
                source = gzip.decompress(packed).decode("utf-8", "replace")
                found.append(Page("wcxb", site_of("", files[path.stem]["domain"]), source, truth))
    return found


def site_of(name: str, url: str) -> str:
    """The registered domain of a page's address, or the page's own name."""
    parts = DOMAINS(url)
    return f"{parts.domain}.{parts.suffix}" if parts.domain else name


def labels_of(words: list[list[str]], truth: str) -> np.ndarray:
    """Of each block the share of its words that are in the true text."""
    gold = WORD.findall(truth.lower())
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
    near = {k: int(np.abs(kept - k).min()) if len(kept) else 0 for k in short}
    for place in sorted(short, key=lambda k: (near[k], -len(words[k]))):
        if Counter(words[place]) <= left:
            take(place)
    return labels


def labelled(pages: list[Page]) -> Labelled:
    """Rows and labels of the blocks of all pages."""
    sources = [np.frombuffer(page.source.encode("utf-8", "replace"), np.uint8) for page in pages]
    longest = max(map(len, sources))
    found, attributes = tokens.room(longest)
    work, counted = blocks.room(longest), counts.room(longest)
    rows, labels, sizes, places, bags = [], [], [], [], []
    for number, (page, source) in enumerate(zip(pages, sources, strict=True)):
        count = tokens.tokenize(source, found, attributes)
        elements, many, size = blocks.build(source, found, attributes, count, work)
        counts.count(work.text, work.elements, work.blocks, (elements, many), counted)
        rows += [
            part.copy() for part in features.features(work.elements, work.blocks, many, counted)
        ]
        text = work.text[:size].tobytes()
        words = [
            []
            if work.blocks.flags[k] & blocks.IS_TITLE
            else WORD.findall(
                text[work.blocks.starts[k] : work.blocks.stops[k]]
                .decode("utf-8", "replace")
                .lower()
            )
            for k in range(many)
        ]
        labels.append(labels_of(words, page.truth))
        sizes += map(len, words)
        places += [number] * many
        bags += map(Counter, words)
    return Labelled(
        np.concatenate(rows), np.concatenate(labels), np.array(sizes), np.array(places), bags
    )


def train(data: Labelled, pages: list[Page], seen: np.ndarray, columns: list[int]) -> Any:
    """Train on the pages that `seen` (pages,) bool says."""
    weights = np.sqrt(np.minimum(data.words, 400).astype(float))
    totals = np.bincount(data.pages, weights, len(pages))
    weights /= np.sqrt(np.maximum(totals[data.pages], 1e-9))
    weights *= np.array([SETS[page.set] for page in pages])[data.pages]
    short = data.words < SHORT
    weights[short] /= SAMPLED
    sampled = ~short | (np.random.default_rng(1).random(len(short)) < SAMPLED)
    used = seen[data.pages] & sampled & (data.words > 0)
    rows = lightgbm.Dataset(data.rows[used][:, columns], data.labels[used], weight=weights[used])
    return lightgbm.train(SETTINGS, rows, ROUNDS)


def perfect(model: Any, columns: list[int]) -> dict[str, np.ndarray]:
    """A model's trees as perfect ones (kernels/models/page_forest.py), and their columns' names."""
    nodes, ends = (1 << DEPTH) - 1, 1 << DEPTH
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
        "depth": np.array(DEPTH),
        "names": np.array([features.NAMES[column] for column in columns]),
        "columns": used.reshape(-1).astype(np.int16),
        "thresholds": thresholds.reshape(-1),
        "leaves": leaves.reshape(-1),
    }


def judge(data: Labelled, pages: list[Page], scores: np.ndarray, judged: np.ndarray) -> str:
    """Mean precision, recall and F1 by set of the pages that `judged` (pages,) bool says."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    bounds = np.searchsorted(data.pages, np.arange(len(pages) + 1))
    for number in np.flatnonzero(judged):
        span = slice(bounds[number], bounds[number + 1])
        kept = keep(scores[span], data.words[span])
        bag: Counter[str] = Counter()
        for place in np.flatnonzero(kept):
            bag.update(data.bags[span.start + int(place)])
        true = Counter(WORD.findall(pages[number].truth.lower()))
        common = (bag & true).total()
        size = max(bag.total(), 1), max(true.total(), 1)
        f1 = 2 * common / max(bag.total() + true.total(), 1)
        found.setdefault(pages[number].set, []).append((common / size[0], common / size[1], f1))
    return "\n".join(
        f"{name:30} {len(rows):5} precision {p:.4f} recall {r:.4f} F1 {f:.4f}"
        for name, rows in found.items()
        for p, r, f in [np.mean(rows, axis=0)]
    )


def keep(scores: np.ndarray, words: np.ndarray) -> np.ndarray:
    """What the kernel's `choose` keeps in balanced mode, from the words of these bags."""
    level = np.minimum((scores * page_forest.LEVELS).astype(int), page_forest.LEVELS - 1)
    sizes = np.bincount(level, words, page_forest.LEVELS)[::-1].cumsum()
    likely = np.bincount(level, words * scores, page_forest.LEVELS)[::-1].cumsum()
    squared = BETAS["balanced"] ** 2
    value = (1 + squared) * likely / np.maximum(sizes + squared * likely[-1], 1e-9)
    value[page_forest.LEVELS - 20 :] = -1
    result: np.ndarray = level >= page_forest.LEVELS - 1 - int(np.argmax(value))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds B_html")
    parser.add_argument("--wcxb", type=Path, required=True, help="a copy of WCXB")
    parser.add_argument("--judge", choices=["sites", "sets"], help="train on all others, and show")
    parser.add_argument("--write", action="store_true", help="train on all pages, write the forest")
    given = parser.parse_args()
    pages = [
        Page(found.name, site_of(f"{found.name}/{k}", url), source, text)
        for found in extraction.sets(given.data)
        for k, (source, text, url) in enumerate(
            zip(found.sources, found.texts, found.urls, strict=True)
        )
    ]
    pages += wcxb_pages(given.wcxb)
    data = labelled(pages)
    columns = list(range(len(features.NAMES)))
    everything = np.ones(len(pages), bool)
    # The columns that carry, by a first forest: the others cost time and give nothing.
    gains = train(data, pages, everything, columns).feature_importance("gain")
    columns = sorted(np.argsort(-gains, kind="stable")[:KEPT].tolist())
    print(
        len(pages),
        "pages,",
        len(data.labels),
        "blocks, gain of the columns kept:",
        round(float(gains[columns].sum() / gains.sum()), 4),
        flush=True,
    )
    if given.judge:
        if given.judge == "sites":
            group = np.array([zlib.crc32(page.site.encode()) % FOLDS for page in pages])
        else:
            group = np.array([list(SETS).index(page.set) for page in pages])
        scores = np.zeros(len(data.labels))
        for number in sorted(set(group.tolist())):
            model = train(data, pages, group != number, columns)
            judged = (group == number)[data.pages]
            scores[judged] = model.predict(data.rows[judged][:, columns])
        print(judge(data, pages, scores, everything))
    if given.write:
        target = Path(__file__).parents[1] / "src/gristmill/filters/extract/main_text.npz"
        np.savez_compressed(target, **perfect(train(data, pages, everything, columns), columns))
        print(target, target.stat().st_size)


if __name__ == "__main__":
    main()
