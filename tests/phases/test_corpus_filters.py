"""What goes by its rank in the whole corpus: quantiles against sorted lists, in whole runs, judged
again, and against older corpora.
"""

import json
import math
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gristmill import rejudge, run, train_classifier, train_perplexity, verify, why
from gristmill.store.manifest import decode
from tests.support.corpora import article, digests, jsonl

RECIPE = """
[[source]]
name = "web"
files = ["raw/*"]
[[step]]
use = "simple"
min_words = 40
max_special = 0.5
[[step]]
use = "classifier"
model = "good.model"
drop_lowest = 0.3
[[step]]
use = "perplexity"
model = "usual.model"
drop_highest = 0.2
drop_lowest = 0.05
[deduplicate]
near = { threshold = 0.8 }
"""
RULES = [
    ("classifier.score", "lowest", 0.3),
    ("perplexity.perplexity", "lowest", 0.05),
    ("perplexity.perplexity", "highest", 0.2),
]


def noise(number: int) -> str:
    """Other words than an article's, in part."""
    words = article(f"noise {number}", 6 + number % 4).split(" ")
    return " ".join(
        f"zx{word}" if place % 7 < number % 6 else word for place, word in enumerate(words)
    )


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus_filters")
    good = [{"text": article(f"good {number}", 6)} for number in range(150)]
    bad = [{"text": noise(number)} for number in range(5, 155)]
    (folder / "good.jsonl").write_bytes(jsonl(good))
    (folder / "bad.jsonl").write_bytes(jsonl(bad))
    train_classifier(
        [folder / "good.jsonl"], [folder / "bad.jsonl"], folder / "good.model", bits=14
    )
    train_perplexity([folder / "good.jsonl"], folder / "usual.model")
    (folder / "raw").mkdir()
    for shard in range(2):
        texts = [noise(1000 + 97 * shard + number) for number in range(90)]
        texts += [text + " again" for text in texts[:20]] + texts[20:30] + ["too short"] * 5
        (folder / f"raw/{shard}.jsonl").write_bytes(
            jsonl(
                [
                    {"url": f"https://{shard}.example/{n}", "text": text}
                    for n, text in enumerate(texts)
                ]
            )
        )
    path = folder / "recipe.toml"
    path.write_text(RECIPE, "utf-8")
    return path


def read(folder: Path) -> list[dict]:
    return [row for path in sorted(folder.iterdir()) for row in pq.read_table(path).to_pylist()]


def slow(
    rows: dict[int, dict], rules: list[tuple[str, str, float]]
) -> dict[int, tuple[str, float, float]]:
    """The rules by sorted lists: (reason, value, quantile) of each document that goes."""
    gone: dict[int, tuple[str, float, float]] = {}
    for measure, end, share in rules:
        values = sorted(row[measure] for number, row in rows.items() if number not in gone)
        beyond = math.floor(len(values) * share)
        quantile = values[beyond] if end == "lowest" else values[len(values) - 1 - beyond]
        for number, row in rows.items():
            if number not in gone and (
                row[measure] < quantile if end == "lowest" else row[measure] > quantile
            ):
                gone[number] = (f"{measure.partition('.')[0]}.{end}", row[measure], quantile)
    return gone


def test_ranks_are_those_of_sorted_lists(recipe: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "1"
    for workers in (1, 2):
        run(recipe, out=tmp_path / str(workers), workers=workers)
    assert digests(corpus) == digests(tmp_path / "2")
    verify(corpus)
    verdicts = {row["document"]: row for row in read(corpus / "verdicts")}
    measured = {
        row["document"]: row
        for row in read(corpus / "measures")
        if verdicts[row["document"]]["reason"] != "simple.few_words"
    }
    expected = slow(measured, RULES)
    got = {
        number: (row["reason"], row["value"], row["threshold"])
        for number, row in verdicts.items()
        if row["reason"] and row["reason"].startswith(("classifier", "perplexity"))
    }
    assert got == expected
    assert {reason for reason, _, _ in got.values()} == {
        "classifier.lowest",
        "perplexity.lowest",
        "perplexity.highest",
    }
    told = json.loads((corpus / "judgement/rules.json").read_text())
    assert [(rule["step"], rule["end"], rule["share"]) for rule in told] == [
        (m.partition(".")[0], e, s) for m, e, s in RULES
    ]
    assert told[0]["documents"] == len(measured) and sum(rule["dropped"] for rule in told) == len(
        expected
    )
    # Nobody is kept out by a document that goes itself.
    keepers = {row["keeper"] for row in verdicts.values() if row["keeper"] is not None}
    assert keepers and not keepers & got.keys()
    number = next(iter(got))
    (answer,) = why(corpus, str(number))
    assert (answer["reason"], answer["value"], answer["threshold"]) == got[number]
    steps = decode((corpus / "manifest.json").read_bytes()).funnel["steps"]
    assert sum(step["reasons"].get("classifier.lowest", 0) for step in steps) == told[0]["dropped"]


@pytest.mark.parametrize(
    "change",
    [
        {"step.1.drop_lowest": "0.5"},
        {"step.1.drop_lowest": "0.1", "step.2.drop_highest": "0.4", "step.0.min_words": "60"},
    ],
)
def test_another_share_reads_no_text(recipe: Path, tmp_path: Path, change: dict[str, str]) -> None:
    folder = tmp_path / "in"
    shutil.copytree(recipe.parent, folder)
    moved, corpus = folder / "recipe.toml", tmp_path / "corpus"
    run(moved, out=corpus, workers=1)
    run(moved, out=tmp_path / "fresh", workers=1, settings=change)
    hidden = folder / "raw"
    hidden.rename(folder / "hidden")
    told = rejudge(moved, out=corpus, settings=change)
    (folder / "hidden").rename(hidden)
    funnel = decode((tmp_path / "fresh/manifest.json").read_bytes()).funnel
    assert told["unread"] == told["anew"] == 0
    assert told["kept"]["now"] == funnel["kept"]
    reasons = {
        reason: count for step in funnel["steps"] for reason, count in step["reasons"].items()
    }
    assert {reason: count["now"] for reason, count in told["reasons"].items() if count["now"]} == {
        r: c for r, c in reasons.items() if c
    }
    run(moved, out=corpus, workers=1, settings=change)
    assert digests(corpus) == digests(tmp_path / "fresh")


def test_a_share_of_an_empty_corpus(recipe: Path, tmp_path: Path) -> None:
    settings = {"step.0.min_words": "100000"}
    funnel = run(recipe, out=tmp_path, workers=1, settings=settings).table
    assert funnel["kept"] == 0
    told = json.loads((tmp_path / "judgement/rules.json").read_text())
    assert [(rule["documents"], rule["quantile"], rule["dropped"]) for rule in told] == [
        (0, None, 0)
    ] * 3
    assert rejudge(recipe, out=tmp_path, settings=settings)["kept"] == {"was": 0, "now": 0}


def test_equal_values_stay_together(tmp_path: Path, recipe: Path) -> None:
    """At most the share goes: of forty documents with one score none is beyond the quantile."""
    folder = tmp_path / "in"
    (folder / "raw").mkdir(parents=True)
    for name in ("good.model", "usual.model"):
        shutil.copy(recipe.parent / name, folder / name)
    (folder / "raw/a.jsonl").write_bytes(jsonl([{"text": article("one", 8)}] * 40))
    (folder / "recipe.toml").write_text(RECIPE, "utf-8")
    run(folder / "recipe.toml", out=tmp_path / "c", workers=1)
    assert [
        rule["dropped"] for rule in json.loads((tmp_path / "c/judgement/rules.json").read_text())
    ] == [0, 0, 0]


def test_what_went_by_rank_keeps_nobody_out_of_a_later_corpus(recipe: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    indexed = {"deduplicate.index": "true", "deduplicate.url": "true"}
    run(recipe, out=first, workers=1, settings=indexed)
    gone = {
        row["document"]
        for row in read(first / "verdicts")
        if row["reason"] and not row["reason"].startswith("deduplicate")
    }
    later = {
        **indexed,
        "deduplicate.against": json.dumps([str(first)]),
        "step.1.drop_lowest": "0.01",
        "step.2.drop_highest": "0.01",
    }
    run(recipe, out=second, workers=1, settings=later)
    rows = read(second / "verdicts")
    assert gone and not {row["keeper"] for row in rows if row["keeper_corpus"] is not None} & gone
    stays = [row["document"] for row in rows if row["reason"] is None]
    assert (
        stays and set(stays) <= gone
    )  # the same pages once more: who went by rank comes back, all others are there


def test_rules_are_asked_in_the_order_of_the_steps(recipe: Path, tmp_path: Path) -> None:
    """Whatever source comes first: a classifier of source b, then perplexity of all."""
    told = []
    for names in (("a", "b"), ("b", "a")):
        folder = tmp_path / "".join(names)
        folder.mkdir()
        for name in ("good.model", "usual.model"):
            shutil.copy(recipe.parent / name, folder / name)
        text = "".join(f'[[source]]\nname = "{name}"\nfiles = ["{name}.jsonl"]\n' for name in names)
        for place, name in enumerate("ab"):
            shutil.copy(recipe.parent / f"raw/{place}.jsonl", folder / f"{name}.jsonl")
        text += (
            '[[step]]\nuse = "classifier"\nmodel = "good.model"\ndrop_lowest = 0.4\nsources = '
            '["b"]\n'
        )
        text += '[[step]]\nuse = "perplexity"\nmodel = "usual.model"\ndrop_highest = 0.2\n'
        (folder / "recipe.toml").write_text(text)
        run(folder / "recipe.toml", out=folder / "c", workers=1)
        told.append(json.loads((folder / "c/judgement/rules.json").read_text()))
    assert told[0] == told[1] and [rule["step"] for rule in told[0]] == ["classifier", "perplexity"]
