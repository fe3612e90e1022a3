"""Accuracy of trained models: `python models.py --peers PYTHON`. Classifiers by AUC on held-out
texts, compared with scikit-learn's logistic regression on the same words; n-gram models by the rank
correlation of their perplexities with KenLM's.

    tweets     Davidson's labels: hate or offensive against neither; a fifth of the tweets held out
    prose      paragraphs of wikitext-2 and of novels against text of gov.uk's WET and of crawled
               pages; a fifth of the sources held out
    articles   main text of article-extraction-benchmark against the other text of the same pages;
               a fifth of the pages held out

All but tweets are cut into pieces of 50 words, and are also used as whole documents. For these the
benchmark also prints the rank correlation of score and length on crawled pages, and that of one
piece's score with the length of its page, which shows what is in longer pages themselves. KenLM
reads an ARPA file of order 5 with the full vocabulary. An estimator in plain Python
(tests/support/kneser_ney.py) made it from the same reference text, because KenLM's wheel trains no
model.
"""

import argparse
import csv
import gzip
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import make_corpus
import numpy as np
import pyarrow as pa
from section import Section

sys.path.insert(0, str(Path(__file__).parent.parent))
PIECE = 50
Labelled = list[tuple[str, int]]
Cut = Callable[[str], list[str]]
CRAWLS = (
    "A_warc/cc_arc_2008/cc2008_a.warc.gz",
    "A_warc/ia_blackbook_2008/example.warc.gz",
    "J_debian_docs/open_crawl.warc.gz",
)

PEER = r"""
import json, sys, time
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
train, labels, test = json.load(open(sys.argv[1]))
told = {}
for name, kind in (("counts", CountVectorizer), ("tf-idf", TfidfVectorizer)):
    start = time.process_time()
    vectors = kind(ngram_range=(1, 2), token_pattern=r"\S+", lowercase=False)
    found = LogisticRegression(max_iter=2000, class_weight="balanced")
    found.fit(vectors.fit_transform(train), labels)
    took = time.process_time() - start
    scores = found.predict_proba(vectors.transform(test))[:, 1].tolist()
    told[name] = {"seconds": took, "scores": scores}
json.dump(told, open(sys.argv[2], "w"))
"""


def auc(scores: Any, labels: list[int]) -> float:
    """The chance that a positive one scores higher than a negative one (ties: half)."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    positive = np.array(labels) == 1
    return float(
        (ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2)
        / (positive.sum() * (~positive).sum())
    )


def spearman(one: Any, other: Any) -> float:
    """The correlation of ranks; equal values have their mean rank."""

    def ranks(values: Any) -> np.ndarray:
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[places]

    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


def pieces(text: str) -> list[str]:
    """A text in pieces of PIECE words; a rest of less than half is left out."""
    words = text.split()
    return [" ".join(words[k : k + PIECE]) for k in range(0, len(words) - PIECE // 2, PIECE)]


def whole(text: str) -> list[str]:
    """A text as one document, unless it is shorter than a piece may be."""
    return [text] if len(text.split()) > PIECE // 2 else []


def crawl(data: Path) -> list[str]:
    """The different main texts of crawled pages."""
    from resiliparse.extract.html2text import extract_plain_text

    from gristmill.source.read import ShardReader
    from gristmill.source.rows import Fields

    sources = [
        text
        for name in CRAWLS
        for batch in ShardReader(data / name, 0, fields=Fields("text", pages=True))
        for text in batch["text"].to_pylist()
    ]
    found = {
        extract_plain_text(source, main_content=True, alt_texts=False)
        for source in sources
        if source
    }
    return sorted(text for text in found if text.strip())


def tweets(data: Path) -> tuple[Labelled, Labelled]:
    """(to learn from, held out)."""
    with (data / "G_toxic/davidson_labeled_data.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["tweet"], int(row["class"] != "2")) for row in csv.DictReader(file)]
    random.Random(1).shuffle(rows)
    return rows[: len(rows) * 4 // 5], rows[len(rows) * 4 // 5 :]


def _split(sources: list[tuple[str, int]], parts: Cut) -> tuple[Labelled, Labelled]:
    random.Random(1).shuffle(sources)
    cut = len(sources) * 4 // 5
    halves = [
        [(piece, label) for text, label in some for piece in parts(text)]
        for some in (sources[:cut], sources[cut:])
    ]
    return halves[0], halves[1]


def prose(data: Path, parts: Cut = pieces) -> tuple[Labelled, Labelled]:
    """(to learn from, held out); a source is a page, an article of wikitext or a novel's 30th
    part.
    """
    from gristmill.source.read import ShardReader

    csv.field_size_limit(1 << 30)
    sources: list[tuple[str, int]] = []
    for path in sorted((data / "A_warc/cc_wet_govuk_G5").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            sources += [
                (text, 0) for text in sorted({row["content"] or "" for row in csv.DictReader(file)})
            ]
    for batch in ShardReader(data / "A_warc/cc_sparkwarc_CC-MAIN-2016-50/sample.wet.fixed.gz", 0):
        sources += [(text, 0) for text in batch["text"].to_pylist()]
    wikitext = (
        (data / "I_prose/wikitext-2_valid.txt")
        .read_text("utf-8")
        .replace("<unk>", "")
        .replace(" @-@ ", "-")
    )
    sources += [(part, 1) for part in wikitext.split("\n = ")]
    for path in sorted((data / "I_prose/english_novels").glob("*.txt"))[:20]:
        text = path.read_text("utf-8", "replace")
        sources.append((text[len(text) // 2 :][: len(text) // 30], 1))
    return _split(sources, parts)


def articles(data: Path, parts: Cut = pieces) -> tuple[Labelled, Labelled]:
    """(to learn from, held out); both parts of a page are on one side."""
    from resiliparse.extract.html2text import extract_plain_text

    folder = data / "B_html/article-extraction-benchmark"
    truth = json.loads((folder / "ground-truth.json").read_text("utf-8"))
    pages: list[tuple[str, str]] = []
    for name, told in sorted(truth.items()):
        source = gzip.decompress((folder / f"html/{name}.html.gz").read_bytes()).decode(
            "utf-8", "replace"
        )
        whole = told["articleBody"]
        around = [
            line
            for line in extract_plain_text(source).split("\n")
            if line.strip() and " ".join(line.split())[:60] not in whole
        ]
        pages.append((whole, "\n".join(around)))
    random.Random(1).shuffle(pages)
    cut = len(pages) * 4 // 5
    halves = [
        [
            (piece, label)
            for page in some
            for label, text in ((1, page[0]), (0, page[1]))
            for piece in parts(text)
        ]
        for some in (pages[:cut], pages[cut:])
    ]
    return halves[0], halves[1]


def _classified(
    name: str, sets: tuple[Labelled, Labelled], peers: str | None, pages: list[str]
) -> dict[str, Any]:
    from gristmill.filters.api.step import Input
    from gristmill.filters.api.texts import BatchTexts
    from gristmill.filters.models.classifier import scorer
    from gristmill.kernels.unicode.normalised import normalise
    from gristmill.tables.columns import utf8_buffers
    from gristmill.training.train_models import train_classifier

    train, test = sets
    labels = [label for _, label in test]
    row: dict[str, Any] = {
        "what": name,
        "train": len(train),
        "test": len(test),
        "positive": sum(labels) / len(labels),
    }
    with tempfile.TemporaryDirectory() as folder:
        for role, wanted in (("good", 1), ("bad", 0)):
            texts = (json.dumps({"text": text}) + "\n" for text, label in train if label == wanted)
            Path(folder, f"{role}.jsonl").write_text("".join(texts), "utf-8")
        train_classifier(
            [Path(folder, "good.jsonl")],
            [Path(folder, "bad.jsonl")],
            Path(folder, "warm"),
            bits=10,
            epochs=1,
        )
        for bits in (20, 18, 16):
            start = time.process_time()
            train_classifier(
                [Path(folder, "good.jsonl")],
                [Path(folder, "bad.jsonl")],
                Path(folder, f"{bits}"),
                bits=bits,
            )
            took = time.process_time() - start
            scores = scorer("", Input("", str(Path(folder, f"{bits}")), ""), None)(
                BatchTexts(pa.array([text for text, _ in test], pa.string()))
            )
            row[f"ours {bits}"] = {"auc": auc(scores, labels), "seconds": took}
            if pages and bits == 20:
                score = scorer("", Input("", str(Path(folder, "20")), ""), None)
                sizes, one = (
                    [len(page.split()) for page in pages],
                    [random.Random(page).choice(pieces(page) or [page]) for page in pages],
                )
                row["lengths"] = [
                    spearman(score(BatchTexts(pa.array(texts))), sizes) for texts in (pages, one)
                ]
        if peers is not None:
            words = []
            for half in sets:
                offsets, data = normalise(
                    *utf8_buffers(pa.array([text for text, _ in half], pa.string()))
                )
                raw = data.tobytes()
                words.append(
                    [
                        raw[a:b].decode()
                        for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
                    ]
                )
            Path(folder, "in.json").write_text(
                json.dumps([words[0], [label for _, label in train], words[1]])
            )
            subprocess.run(
                [peers, "-c", PEER, f"{folder}/in.json", f"{folder}/out.json"], check=True
            )
            for kind, told in json.loads(Path(folder, "out.json").read_text()).items():
                row[f"scikit-learn, {kind}"] = {
                    "auc": auc(told["scores"], labels),
                    "seconds": told["seconds"],
                }
    return row


def perplexities(data: Path) -> list[dict[str, Any]]:
    """Rank correlations with KenLM, by kind of model."""
    from gristmill.filters.api.step import Input
    from gristmill.filters.models.perplexity import Perplexity
    from gristmill.training.train_models import train_perplexity
    from tests.support import naive
    from tests.support.kneser_ney import Estimate

    novels = sorted((data / "I_prose/english_novels").glob("*.txt"))
    reference = [path.read_text("utf-8", "replace")[:400_000] for path in novels[:8]]
    _, web = prose(data)
    _, main = articles(data)
    held = [text for text, _ in web + main]
    for path in [
        *novels[30:40],
        *sorted((data / "I_prose/eltec_deu").glob("*.xml"))[:3],
        *sorted((data / "I_prose/eltec_fra").glob("*.xml"))[:3],
    ]:
        text = path.read_text("utf-8", "replace")
        held += pieces(text[100_000:160_000])[:60]
    held = [text for text in held if naive.normalise(text)]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "reference.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in reference)
        )
        letters = (json.dumps({"text": _letters(text)}) + "\n" for text in reference)
        (folder / "letters.jsonl").write_text("".join(letters))
        lines = [naive.normalise(line).split() for text in reference for line in text.split("\n")]
        (folder / "arpa").write_text(
            Estimate([line for line in lines if line], 5, 1).arpa(), "utf-8"
        )

        def measured(path: Path, texts: list[str]) -> tuple[list[float], float]:
            step = Perplexity(model="m").load({"m": Input("m", str(path), path.name)})
            batch = pa.RecordBatch.from_pydict({"text": pa.array(texts)})
            start = time.process_time()
            return step(batch).measures["perplexity"].to_pylist(), time.process_time() - start

        theirs, _ = measured(folder / "arpa", held)
        for what, file, options in (
            ("words, order 1", "reference", {"order": 1}),
            ("words, order 2", "reference", {"order": 2}),
            ("words, order 3", "reference", {"order": 3}),
            ("words, order 3, all n-grams", "reference", {"order": 3, "least": 1}),
            ("words, order 3, 5,000 words", "reference", {"order": 3, "vocabulary": 5_000}),
            ("words, order 4", "reference", {"order": 4}),
            ("characters, order 4", "letters", {"order": 4}),
        ):
            path = folder / what
            told = train_perplexity([folder / f"{file}.jsonl"], path, **options)
            ours, _ = measured(
                path, [_letters(text) for text in held] if file == "letters" else held
            )
            rows.append(
                {
                    "what": what,
                    "documents": len(held),
                    "spearman": spearman(ours, theirs),
                    "bytes": told["bytes"],
                    "ngrams": told["counts"]["ngrams"],
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _letters(text: str) -> str:
    """Characters as words, white space as one of them."""
    from tests.support import naive

    return "\n".join(
        " ".join(word for word in naive.normalise(line).replace(" ", "ˍ"))
        for line in text.split("\n")
    )


def rows(data: Path, peers: str | None) -> list[dict[str, Any]]:
    """All rows."""
    found = []
    pages = crawl(data)
    makers = {"tweets": tweets, "prose": prose, "articles": articles}
    makers |= {
        "prose, whole": partial(prose, parts=whole),
        "articles, whole": partial(articles, parts=whole),
    }
    for name, make in makers.items():
        found.append(_classified(name, make(data), peers, pages if name != "tweets" else []))
        print(found[-1], file=sys.stderr, flush=True)
    return found + perplexities(data)


TRAIN_FASTTEXT = r"""
import sys, fasttext
model = fasttext.train_supervised(sys.argv[1], wordNgrams=2, dim=100, bucket=500_000, minn=0,
    maxn=0, epoch=1, thread=1, verbose=0)
model.save_model(sys.argv[2])
"""


def prepare(folder: Path, warm: list[str], peers: str | None) -> Path:
    """The models whose speed is measured, learned from texts of the same kind; made once."""
    from gristmill.training.train_models import train_classifier, train_perplexity
    from tests.support import naive

    key = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    out = folder / f"models-{key}"
    if (out / "ready").exists():
        return out
    out.mkdir(parents=True, exist_ok=True)
    for role, start in (("good", 0), ("bad", 1)):
        (out / f"{role}.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text in warm[start::2]), "utf-8"
        )
    train_classifier([out / "good.jsonl"], [out / "bad.jsonl"], out / "classifier")
    train_perplexity([out / "good.jsonl", out / "bad.jsonl"], out / "perplexity")
    words = {word for text in warm for word in naive.normalise(text).split(" ") if word}
    (out / "model.arpa").write_text(arpa(out / "perplexity", words), "utf-8")
    if peers is not None:
        lines = (
            f"__label__{'hq' if place % 2 else 'cc'} {' '.join(text.split())}\n"
            for place, text in enumerate(warm)
        )
        (out / "fasttext.txt").write_text("".join(lines), "utf-8")
        subprocess.run(
            [peers, "-c", TRAIN_FASTTEXT, str(out / "fasttext.txt"), str(out / "fasttext.bin")],
            check=True,
        )
    (out / "ready").touch()
    return out


def arpa(path: Path, words: set[str]) -> str:
    """A model file of ours as KenLM reads it; `words` are those that its hashes may be of."""
    from gristmill.filters.models import model_file
    from gristmill.kernels.models.ngram_model import BEGIN, END, FIRST, UNIT, UNKNOWN
    from tests.support import naive

    arrays = model_file.decode(path.read_bytes()).arrays
    known = {naive.hash_word(word): word for word in words}
    names = {UNKNOWN: "<unk>", BEGIN: "<s>", END: "</s>"} | {
        n: known[h] for n, h in enumerate(arrays["word_hashes"].tolist(), FIRST)
    }
    sizes: list[list[str]] = [[], [], [], []]
    tables = [
        (
            [(number,) for number in range(1, len(arrays["costs"]))],
            arrays["costs"][1:],
            arrays["backs"][1:],
        )
    ]
    grams = [
        tuple(
            part
            for part in (key >> 48, key >> 32 & 0xFFFF, key >> 16 & 0xFFFF, key & 0xFFFF)
            if part
        )
        for key in arrays["keys"].tolist()
    ]
    tables.append((grams, arrays["gram_costs"], arrays["gram_backs"]))
    longest = max(map(len, grams))
    unit = UNIT * np.log(10)
    for of, costs, backs in tables:
        for gram, cost, back in zip(of, costs.tolist(), backs.tolist(), strict=True):
            share = -99.0 if gram == (BEGIN,) else -cost / unit
            row = f"{share:.7f}\t{' '.join(names[part] for part in gram)}"
            sizes[len(gram) - 1].append(
                row + (f"\t{-back / unit:.7f}" if len(gram) < longest else "")
            )
    found = [some for some in sizes if some]
    text = "\\data\\\n" + "".join(
        f"ngram {size}={len(some)}\n" for size, some in enumerate(found, 1)
    )
    for size, some in enumerate(found, 1):
        text += f"\n\\{size}-grams:\n" + "\n".join(some) + "\n"
    return text + "\n\\end\\\n"


def table(found: list[dict[str, Any]]) -> list[str]:
    """The rows in Markdown."""
    lines = [
        "| set | training texts | held out | positive | model | AUC | training seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        for name, told in row.items():
            if isinstance(told, dict):
                shown = f"gristmill, 2^{name[5:]} weights" if name.startswith("ours") else name
                lines.append(
                    f"| {row['what']} | {row['train']:,} | {row['test']:,} | "
                    f"{row['positive']:.0%} | {shown} | {told['auc']:.4f} | "
                    f"{told['seconds']:.1f} |"
                )
    correlated = [row for row in found if "lengths" in row]
    if correlated:
        lines += [
            "",
            (
                "| set | rank correlation of score and length, crawled pages | of one piece's "
                "score and the page's length |"
            ),
            "|---|---|---|",
        ]
    lines += [
        f"| {row['what']} | {row['lengths'][0]:+.3f} | {row['lengths'][1]:+.3f} |"
        for row in correlated
    ]
    lines += [
        "",
        "| n-gram model | n-grams | MB | held-out texts | rank correlation with KenLM, order 5 |",
        "|---|---|---|---|---|",
    ]
    for row in found:
        if "spearman" in row:
            lines.append(
                f"| {row['what']} | {row['ngrams']:,} | {row['bytes'] / 1e6:.1f} | "
                f"{row['documents']:,} | {row['spearman']:.4f} |"
            )
    return lines


SECTION = Section(
    name="models",
    title="Accuracy of models",
    remarks=(
        "benchmarks/models.py says what each set is. scikit-learn's logistic regression (C = 1, "
        "balanced classes) has the same normalised words and word pairs, unhashed. Seconds are "
        "processor time of one process, for ours including reading. All n-gram models are of the "
        "same text."
    ),
    measure=lambda bench: rows(make_corpus.data_folder(), bench.peers),
    table=table,
)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="Python of the peers' environment")
    asked = parser.parse_args()
    print("\n".join(table(rows(make_corpus.data_folder(), asked.peers))))
