"""Answers to the exercises of the five lessons, measured: what docs/exercises.md shows.

    python scripts/exercises.py                     all that take seconds
    python scripts/exercises.py widths sketch       these alone
    python scripts/exercises.py --write             and put what they print into docs/exercises.md

The data are the sets of $GRISTMILL_DATA (default ~/.cache/gristmill-data): pages of gov.uk as
Common Crawl has them, manual pages of PostgreSQL 13 and 15, texts of WikiText-2, tweets that were
labelled for hate, evaluation sets, FLORES-200.
"""

import argparse
import csv
import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

import gristmill
from gristmill import GristmillError, filters

DATA = Path(os.environ.get("GRISTMILL_DATA", Path.home() / ".cache/gristmill-data"))
PAGE = Path(__file__).parent.parent / "docs/exercises.md"
BANNER = (
    "We use cookies to give you the best possible experience on our site; by going on without "
    "changing your settings you agree that they are stored on your device."
)


def texts_of(name: str) -> list[str]:
    """The texts of a set of C_neardup."""
    with gzip.open(DATA / f"C_neardup/{name}/docs.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def wiki() -> list[str]:
    """WikiText-2's validation articles, one text for each paragraph of 200 characters or more."""
    text = (DATA / "I_prose/wikitext-2_valid.txt").read_text("utf-8")
    return [line.strip() for line in text.splitlines() if len(line) >= 200]


def tweets() -> list[tuple[str, str]]:
    """(label, text) of Davidson's tweets; 0 hate, 1 offensive, 2 neither."""
    with open(DATA / "G_toxic/davidson_labeled_data.csv", encoding="utf-8", newline="") as rows:
        return [(row["class"], row["tweet"]) for row in csv.DictReader(rows)]


def write(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


def run(folder: Path, texts: list[str], more: str, name: str = "corpus") -> Path:
    """A corpus of texts, by a recipe of `more`."""
    write(folder / f"{name}.jsonl", texts)
    source = f'[[source]]\nname = "web"\nfiles = ["{name}.jsonl"]\n'
    (folder / f"{name}.toml").write_text(f'output = "{name}"\n{source}{more}')
    gristmill.run(folder / f"{name}.toml", workers=1)
    return folder / name


def widths(folder: Path) -> Iterator[str]:
    yield f"{'set':<22}{'width':>6}{'near duplicates':>17}{'exact':>7}{'of':>7}"
    for name in ("govuk_cc_wet_2024a", "postgresql_doc_13_15"):
        texts = texts_of(name)
        for width in (3, 5, 9):
            found = gristmill.deduplicate(texts, near={"shingle": width})["reason"].to_pylist()
            near, exact = (found.count(f"deduplicate.{kind}_duplicate") for kind in KINDS)
            yield f"{name:<22}{width:>6}{near:>17}{exact:>7}{len(texts):>7}"


KINDS = ("near", "exact")


def codecs(folder: Path) -> Iterator[str]:
    from backports import zstd

    data = write(folder / "plain", texts_of("govuk_cc_wet_2024a")[:100]).read_bytes()
    (folder / "one").write_bytes(data)
    (folder / "two").write_bytes(gzip.compress(data))
    (folder / "three").write_bytes(zstd.compress(data))
    source = '[[source]]\nname = "web"\nfiles = ["one", "two", "three"]\n'
    (folder / "recipe.toml").write_text(f'output = "corpus"\n{source}')
    gristmill.run(folder / "recipe.toml", workers=1)
    for shard, name in enumerate(("one", "two", "three")):
        rows = pq.read_table(folder / f"corpus/verdicts/{shard:05d}.parquet").num_rows
        first = (folder / name).read_bytes()[:4].hex(" ")
        yield f"{name:<6} begins with {first}: {rows} documents"


def resume(folder: Path) -> Iterator[str]:
    write(folder / "shard.jsonl", ["One text."])
    source = f'[[source]]\nname = "web"\nurls = ["file://{folder}/shard.jsonl"]\n'
    remote = source.replace(f"file://{folder}", "http://127.0.0.1:9")
    for kind, table in (("local", source), ("not yet fetched", remote)):
        (folder / "recipe.toml").write_text(f'output = "{kind}"\n{table}')
        try:
            gristmill.run(
                folder / "recipe.toml", workers=1, resume_only=True, cache_dir=folder / "cache"
            )
            yield f"{kind}: exit code 0"
        except GristmillError as error:
            said = str(error).splitlines()[0].replace(str(folder), "")
            yield f"{kind}: exit code {error.exit_code}: {said}"


def index(folder: Path) -> Iterator[str]:
    texts = [text for name in SETS for text in texts_of(name)]
    verdicts = []
    for where, path in (("in memory", None), ("SQLite file", folder / "seen.index")):
        index = gristmill.DuplicateIndex(path)
        start = time.process_time()
        verdicts.append([verdict.reason for verdict in index.add_batch(texts)])
        seconds = time.process_time() - start
        index.close()
        size = "" if path is None else f", {path.stat().st_size / 1e6:.1f} MB"
        yield f"{where}: {len(texts) / seconds:,.0f} documents a second of processor{size}"
    yield f"same verdicts: {verdicts[0] == verdicts[1]}"


SETS = ("govuk_cc_wet_2024a", "postgresql_doc_13_15")


def lock(folder: Path) -> Iterator[str]:
    corpus = run(folder, texts_of("govuk_cc_wet_2024a")[:50], "")
    good = gristmill.verify(corpus)
    yield f"before: {good['parts']} parts as the manifest says"
    text = (corpus / "manifest.json").read_text()
    (corpus / "manifest.json").write_text(text.replace("50", "51", 1))
    try:
        gristmill.verify(corpus)
        yield "after one digit of the manifest was changed: nothing found"
    except GristmillError as error:
        first = re.sub(r"[0-9a-f]{64}", "...", str(error).splitlines()[0].replace(str(folder), ""))
        yield f"after one digit of the manifest was changed: exit code {error.exit_code}"
        yield f"  {first.lstrip('/')}"


def classifier(folder: Path) -> Iterator[str]:
    good, bad = wiki(), [text for label, text in tweets() if label != "0"]
    half = len(good) // 2
    model = folder / "quality.model"
    gristmill.train_classifier(
        [write(folder / "good.jsonl", good[:half])],
        [write(folder / "bad.jsonl", bad[: 4 * half])],
        model,
    )
    held = {"WikiText paragraphs": good[half:], "tweets": bad[-half:]}
    pages = texts_of("govuk_cc_wet_2024a")
    for name, texts in (held | {"gov.uk pages": pages}).items():
        scores = filters.Classifier(model=str(model))(texts)["classifier.score"].to_pylist()
        high = sum(score >= 0.5 for score in scores)
        said = f"{high / len(texts):>6.1%} score 0.5 or more"
        yield f"{name:<20}{len(texts):>6} texts not trained on, {said}"
    step = f'[[step]]\nuse = "classifier"\nmodel = "{model}"\ndrop_lowest = 0.3\n'
    corpus = gristmill.Corpus(run(folder, pages, step))
    rows = corpus.arrow("verdicts").to_pylist()
    dropped = [row for row in rows if row["reason"] == "classifier.lowest"]
    yield (
        f"drop_lowest = 0.3: {len(dropped)} of {len(rows)} pages dropped, at a score below "
        f"{dropped[0]['threshold']:.4f}"
    )


def contamination(folder: Path) -> Iterator[str]:
    sets = {
        "humaneval": ("HumanEval.jsonl.gz", ["prompt", "canonical_solution"]),
        "gsm8k": ("gsm8k_test.jsonl", ["question", "answer"]),
        "lambada": ("llmfoundry_lambada_openai.jsonl", ["context", "continuation"]),
        "piqa": ("llmfoundry_piqa.jsonl", ["query"]),
    }
    step = filters.Decontaminate(
        benchmarks=[
            {"name": name, "file": str(DATA / "E_bench" / file), "fields": fields}
            for name, (file, fields) in sets.items()
        ]
    )
    with gzip.open(DATA / "E_bench/HumanEval.jsonl.gz", "rt", encoding="utf-8") as lines:
        items = [json.loads(line) for line in lines][:10]
    leaks = [
        f"{page}\n{item['prompt']}{item['canonical_solution']}"
        for page, item in zip(texts_of("postgresql_doc_13_15"), items, strict=False)
    ]
    novels = sorted((DATA / "I_prose/english_novels").rglob("*.txt"))[:20]
    chapters = [
        text[at : at + 20_000]
        for text in (path.read_text("utf-8", "replace") for path in novels)
        for at in range(0, len(text), 20_000)
    ]
    for name, texts in (
        ("gov.uk pages", texts_of("govuk_cc_wet_2024a")),
        ("PostgreSQL's manual", texts_of("postgresql_doc_13_15")),
        ("pieces of novels", chapters),
        ("10 manual pages with a HumanEval item each", leaks),
    ):
        found = step(texts)
        dropped = sum(reason is not None for reason in found["reason"].to_pylist())
        touched = sum(items > 0 for items in found["decontaminate.items"].to_pylist())
        said = f"{touched:>4} share an n-gram, {dropped:>3} dropped"
        yield f"{name:<44}{len(texts):>6} texts, {said}"


def personal(folder: Path) -> Iterator[str]:
    rows = json.loads((DATA / "F_pii/presidio_synth_dataset_v2.json").read_text("utf-8"))
    texts = [row["full_text"] for row in rows]
    planted: dict[str, int] = {}
    for row in rows:
        for span in row["spans"]:
            planted[span["entity_type"]] = planted.get(span["entity_type"], 0) + 1
    found = filters.Private(regions=["US", "GB", "DE", "FR", "ES", "IT"])(texts)
    for kind, label in (
        ("email", "EMAIL_ADDRESS"),
        ("phone", "PHONE_NUMBER"),
        ("ssn", "US_SSN"),
        ("ip", "IP_ADDRESS"),
        ("card", "CREDIT_CARD"),
        ("iban", "IBAN_CODE"),
    ):
        count = sum(found[f"private.{kind}s"].to_pylist())
        yield f"{kind:<6} redacted {count:>4}, planted {planted.get(label, 0):>4}"


def toxic(folder: Path) -> Iterator[str]:
    words = str(DATA / "G_toxic/ldnoobw/en")
    step = filters.Toxicity(lists=[words], max_words=0)
    for label, name in (("0", "hate"), ("1", "offensive"), ("2", "neither")):
        texts = [text for kind, text in tweets() if kind == label]
        yield with_words(f"tweets labelled {name}", texts, step)
    yield with_words("gov.uk pages", texts_of("govuk_cc_wet_2024a"), step)


def with_words(name: str, texts: list[str], step: filters.Step) -> str:
    dropped = sum(reason is not None for reason in step(texts)["reason"].to_pylist())
    return f"{name:<26}{len(texts):>6}, with a listed word {dropped / len(texts):>6.1%}"


def ratio(folder: Path) -> Iterator[str]:
    sets = {
        "gov.uk pages": texts_of("govuk_cc_wet_2024a"),
        "PostgreSQL's manual": texts_of("postgresql_doc_13_15"),
        "WikiText paragraphs": wiki(),
        "tweets": [text for _, text in tweets()],
        "a Hungarian novel": ["".join(prose("eltec_hun"))],
    }
    for name in ("gpt2", "cl100k_base", "o200k_base"):
        tokenizer = gristmill.Tokenizer(name)
        for title, texts in sets.items():
            tokens = len(tokenizer.encode_batch(texts).tokens)
            size = sum(len(text.encode()) for text in texts)
            words = sum(len(text.split()) for text in texts)
            yield (
                f"{name:<12}{title:<21}{tokens / size:>6.3f} tokens a byte, {size / tokens:>5.2f} "
                f"bytes a token, {tokens / words:>5.2f} tokens a word"
            )


def prose(folder: str) -> list[str]:
    path = min((DATA / f"I_prose/{folder}").rglob("*.xml"))
    text = re.sub(r"(?s)^.*<text[ >]", "", path.read_text("utf-8"))
    return [re.sub(r"<[^>]+>", " ", text)]


def sketch(folder: Path) -> Iterator[str]:
    yield f"{'bands x rows':<14}{'at 0.5':>9}{'at 0.8':>9}{'at 0.9':>9}{'half at':>9}"
    for shape in gristmill.curve(bands=[32, 16], rows=[4, 8])["shapes"]:
        chance = [1 - (1 - s ** shape["rows"]) ** shape["bands"] for s in (0.5, 0.8, 0.9)]
        name = f"{shape['bands']} x {shape['rows']}"
        shown = "".join(f"{one:>9.4f}" for one in chance)
        yield f"{name:<14}{shown}{shape['middle']:>9.3f}"


def savings(folder: Path) -> Iterator[str]:
    base = [text[:600] for text in wiki()[:200]]
    more = "[deduplicate]\nnear = {}\n[deduplicate.lines]\nmost = 2\n"
    heads = ("p", "copies: documents", "words", "banner: documents", "characters")
    yield "{:>4}{:>19}{:>8}{:>19}{:>12}".format(*heads)
    for percent in (0, 10, 20, 30, 40, 50):
        some = len(base) * percent // 100
        said = []
        for name, texts in (
            ("copies", base + [f"{text} Copied." for text in base[:some]]),
            ("banner", [f"{BANNER}\n{text}" for text in base[:some]] + base[some:]),
        ):
            corpus = run(folder, texts, more, f"{name}{percent}")
            parts = sorted((corpus / "text").rglob("*.parquet"))
            kept = [text for part in parts for text in pq.read_table(part)["text"].to_pylist()]
            said += [1 - len(kept) / len(texts), saved(texts, kept, name)]
        yield "{:>4.1f}{:>19.1%}{:>8.1%}{:>19.1%}{:>12.1%}".format(percent / 100, *said)


def saved(before: list[str], after: list[str], name: str) -> float:
    def size(texts: list[str]) -> int:
        return sum(len(text.split()) if name == "copies" else len(text) for text in texts)

    return 1 - size(after) / size(before)


def bucket(folder: Path) -> Iterator[str]:
    words = [word for text in wiki()[:40] for word in text.split()]
    licence = " ".join(words[:300])
    yield f"{'documents':>10}{'all pairs':>12}{'pairs compared':>16}{'a document':>12}{'kept':>6}"
    for count in (250, 500, 1000, 2000):
        own = [" ".join(words[300 + place : 303 + place]) for place in range(count)]
        texts = [f"{licence} {one} {place}" for place, one in enumerate(own)]
        corpus = run(folder, texts, "[deduplicate]\nnear = {}\n", f"bucket{count}")
        pairs = pq.read_table(corpus / "duplicates/pairs.parquet").num_rows
        kept = gristmill.Corpus(corpus).arrow()["reason"].null_count
        every = count * (count - 1) // 2
        yield f"{count:>10,}{every:>12,}{pairs:>16,}{pairs / count:>12.1f}{kept:>6}"


def scripts(folder: Path) -> Iterator[str]:
    files = sorted((DATA / "D_langid/flores200_devtest").rglob("*.devtest"))
    texts, english = [], []
    for file in files:
        lines = file.read_text("utf-8").splitlines()[:20]
        texts += lines
        english += [file.name.startswith("eng")] * len(lines)
    for name, step in (
        ("letters: keep Latin", filters.Language(keep=["Latn"], rules="script")),
        ("lid.176: keep en, 0.65", filters.Language(keep=["en"])),
    ):
        kept = [reason is None for reason in step(texts)["reason"].to_pylist()]
        right = sum(keep and is_english for keep, is_english in zip(kept, english, strict=True))
        yield (
            f"{name:<24}{len(texts) - sum(kept):>6} of {len(texts)} removed; English: {right} of "
            f"{sum(english)} kept, other languages among the kept: {sum(kept) - right}"
        )


def methods(folder: Path) -> Iterator[str]:
    texts = texts_of("govuk_cc_wet_2024a")
    for name, exact, near in (
        ("sha256 of the bytes", None, False),
        ("exact, normalised text", True, False),
        ("near alone, 0.8", False, True),
        ("both", True, True),
    ):
        if exact is None:
            dropped = len(texts) - len(set(texts))
        else:
            found = gristmill.deduplicate(texts, exact=exact, near=near)["reason"].to_pylist()
            dropped = sum(reason is not None for reason in found)
        yield f"{name:<24}{dropped:>5} of {len(texts)} dropped ({dropped / len(texts):.1%})"


def usual(folder: Path) -> Iterator[str]:
    model = folder / "wiki.model"
    good = wiki()
    gristmill.train_perplexity([write(folder / "wiki.jsonl", good)], model, order=2)
    pages = texts_of("govuk_cc_wet_2024a")
    step = f'[[step]]\nuse = "perplexity"\nmodel = "{model}"\ndrop_highest = 0.2\n'
    corpus = gristmill.Corpus(run(folder, pages, step))
    rows = corpus.arrow("verdicts").to_pylist()
    dropped = [row for row in rows if row["reason"] == "perplexity.highest"]
    values = sorted(corpus.arrow("measures")["perplexity.perplexity"].drop_null().to_pylist())
    middle = values[len(values) // 2]
    yield f"the pages: median {middle:,.0f}, least {values[0]:,.0f}, most {values[-1]:,.0f}"
    limit = dropped[0]["threshold"]
    yield f"drop_highest = 0.2: {len(dropped)} of {len(rows)} dropped, above {limit:,.0f}"


ANSWERS: dict[str, Callable[[Path], Iterator[str]]] = {
    one.__name__: one
    for one in (
        widths,
        codecs,
        resume,
        index,
        lock,
        classifier,
        contamination,
        personal,
        toxic,
        ratio,
        sketch,
        savings,
        bucket,
        scripts,
        methods,
        usual,
    )
}
TIMED = {"index"}  # what it prints is another time each run


def answer(name: str) -> str:
    """What an exercise prints."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-exercise-"))
    try:
        lines = [
            part
            for line in ANSWERS[name](folder)
            for part in textwrap.wrap(line, 98, subsequent_indent="  ", break_on_hyphens=False)
        ]
        return "\n".join(lines) + "\n"
    finally:
        shutil.rmtree(folder)


def shown(page: str) -> dict[str, str]:
    """What the page shows, by exercise."""
    return dict(re.findall(r"exercises\.py (\w+)\n```\n\n```text\n(.*?)```\n", page, re.DOTALL))


def main() -> None:
    parser = argparse.ArgumentParser(description="Answers to the exercises of the lessons.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ANSWERS)}; none: all")
    parser.add_argument("--write", action="store_true", help="put them into docs/exercises.md")
    given = parser.parse_args()
    for name in given.names or ANSWERS:
        start = time.monotonic()
        text = answer(name)
        print(f"# {name} ({time.monotonic() - start:.1f} s)\n{text}", flush=True)
        if given.write:
            page = PAGE.read_text("utf-8")
            old = shown(page)[name]
            head = f"exercises.py {name}\n```\n\n```text\n"
            PAGE.write_text(page.replace(head + old, head + text), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
