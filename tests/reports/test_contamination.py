"""Contamination in whole runs: the part, its bytes when thresholds move, the report, and leaks
planted in real documents.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from gristmill import RecipeError, rejudge, run, verify, why
from gristmill.reports.documents.contamination import COUNTS, contamination, lines
from gristmill.store.manifest import decode
from tests.support import ROOT, naive
from tests.support.command import command_line
from tests.support.corpora import article, digests, jsonl

ITEMS = [
    {
        "task": f"b/{number}",
        "question": article(f"question {number}", 4),
        "answer": article(f"answer {number}", 2),
    }
    for number in range(30)
]
STEPS = """
seed = 3
[[source]]
name = "web"
files = ["raw/*.jsonl"]
[[step]]
use = "normalise"
[[step]]
use = "gopher"
rules = "datatrove-0.10"
min_words = 60
[[step]]
use = "decontaminate"
benchmarks = [{ name = "made", file = "items.jsonl", fields = ["question", "answer"], id = "task" }]
[[step]]
use = "simple"
min_words = 80
[deduplicate]
near = { bands = 16, rows = 4 }
"""
CHANGES = (
    {"step.2.threshold": "0.9"},
    {"step.1.min_words": "150"},  # documents no longer get to the step
    {"step.1.min_words": "10", "step.2.threshold": "0.2"},  # more do, and are read again
    {"step.2.threshold": "0.1", "step.3.min_words": "120"},
    {},
)


def lay_out(folder: Path) -> Path:
    raw = folder / "raw"
    raw.mkdir(parents=True)
    for shard in range(2):
        rows = []
        for number in range(60):
            text = article(f"{shard} {number}", 4 + number % 17)
            item = ITEMS[(number + shard * 7) % 30]
            if number % 5 == 0:
                text = f"{text}\n{item['question']}\n{article(number, 3)}\n{item['answer']}"
            elif number % 5 == 1:
                words = str(item["question"]).split()
                text = f"{' '.join(words[: len(words) * (number % 7) // 7])} {text}"
            rows.append({"url": f"https://w.example/{shard}/{number}", "text": text})
        (raw / f"{shard}.jsonl").write_bytes(jsonl(rows))
    (folder / "items.jsonl").write_bytes(jsonl(ITEMS))
    (folder / "recipe.toml").write_text(STEPS, "utf-8")
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("contamination"))


@pytest.mark.parametrize("measure", ["needed", pytest.param("all", marks=pytest.mark.soak)])
def test_rows_found_are_a_fresh_runs_when_thresholds_move(
    recipe: Path, tmp_path: Path, measure: str
) -> None:
    corpus, settings = tmp_path / "corpus", {"measure": f'"{measure}"'}
    run(recipe, out=corpus, workers=1, settings=settings)
    for number, changed in enumerate(CHANGES):
        told = rejudge(recipe, out=corpus, settings=settings | changed)
        fresh = tmp_path / f"fresh{number}"
        run(recipe, out=fresh, workers=1, settings=settings | changed)
        run(recipe, out=corpus, workers=1, settings=settings | changed)
        assert digests(corpus) == digests(fresh)
        verify(corpus)
        gone = decode((corpus / "manifest.json").read_bytes()).funnel
        reasons = {name: count for step in gone["steps"] for name, count in step["reasons"].items()}
        if not told["unread"] and not told["anew"]:
            assert (
                told["reasons"]["decontaminate.overlap"]["now"] == reasons["decontaminate.overlap"]
            )
    # Rows are told of documents that got to the step, and of no other.
    for shard in ("00000", "00001"):
        rows = pq.read_table(corpus / f"contamination/{shard}.parquet")
        measures = pq.read_table(corpus / f"measures/{shard}.parquet").to_pylist()
        held = {row["document"] for row in measures if (row["decontaminate.overlap"] or 0) >= 0.1}
        assert set(rows["document"].to_pylist()) == held


def test_a_raw_shard_is_not_opened_for_another_threshold(recipe: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    settings = {"samples": "0"}
    run(recipe, out=corpus, workers=1, settings=settings)
    run(recipe, out=corpus, workers=1, settings={**settings, "step.2.threshold": "0.3"})
    state = json.loads((corpus / "work/state/process/00000.json").read_bytes())
    assert "read" not in state["counts"]["seconds"]


def test_the_report_names_items_documents_and_text(recipe: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    run(recipe, out=corpus, workers=1)
    told = contamination(corpus)
    (one,) = told["benchmarks"]
    assert [one[name] for name in COUNTS[:6]] == [30, 30, 0, 0, 0, 0]
    assert one["found"] > 10
    assert "items" not in told
    found = contamination(corpus, benchmark="made")["items"]
    assert len(found) == told["benchmarks"][0]["found"]
    documents = {row["document"] for entry in found for row in entry["documents"]}
    assert len(documents) == told["benchmarks"][0]["documents"]
    for entry in found:
        overlaps = [row["overlap"] for row in entry["documents"]]
        assert overlaps == sorted(overlaps, reverse=True)
        assert len({row["document"] for row in entry["documents"]}) == len(overlaps)
    one = contamination(corpus, item="b/5")["items"]
    assert one == contamination(corpus, item="5")["items"]
    assert [entry["id"] for entry in one] == ["b/5"]
    shown = lines(contamination(corpus, item="5"))
    assert "made item 5 (b/5)" in shown[2]
    best = one[0]["documents"][0]
    assert best["overlap"] == 1.0
    assert (
        why(corpus, f"{best['document'] >> 32}:{best['document'] & 0xFFFFFFFF}")[0]["reason"]
        == "decontaminate.overlap"
    )
    assert lines(contamination(corpus, item="7", benchmark="made"))[-1]
    with pytest.raises(RecipeError, match="no benchmark 'nade'; there are: made"):
        contamination(corpus, benchmark="nade")
    with pytest.raises(RecipeError, match="no item 30"):
        contamination(corpus, item="30")
    done = subprocess.run(
        command_line("contamination", str(corpus), "--item", "b/5", "--json"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["items"] == one


def test_a_corpus_without_the_step_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"text": article(1)}]))
    run([str(tmp_path / "a.jsonl")], out=tmp_path / "corpus", workers=1)
    assert not (tmp_path / "corpus/contamination").exists()
    with pytest.raises(RecipeError, match="decontaminate"):
        contamination(tmp_path / "corpus")


def test_a_missing_or_changed_part_is_no_corpus(recipe: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    run(recipe, out=corpus, workers=1)
    part = corpus / "contamination/00000.parquet"
    data = part.read_bytes()
    part.write_bytes(data[:-9] + b"x" + data[-8:])
    with pytest.raises(Exception, match="contamination/00000.parquet: sha256"):
        verify(corpus)
    part.unlink()
    with pytest.raises(Exception, match="contamination/00000.parquet: missing"):
        verify(corpus)


def test_common_ngrams_do_not_count(recipe: Path, tmp_path: Path) -> None:
    """Judged over the whole corpus, of what all steps keep, as sets of words do it; rejudge tells
    it and another threshold.
    """
    folder, corpus = tmp_path / "in", tmp_path / "corpus"
    shutil.copytree(recipe.parent, folder)
    recipe = folder / recipe.name
    licence = article("licence", 5)
    items = [{**item, "question": f"{licence} {item['question']}"} for item in ITEMS]
    (folder / "items.jsonl").write_bytes(jsonl(items))
    for path in sorted((folder / "raw").iterdir()):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows[::3]:
            row["text"] += f"\n{licence}"
        path.write_bytes(jsonl(rows))
    asked = {"step.2.common": "3", "step.2.threshold": "0.9", "step.2.template_items": "0"}
    run(recipe, out=corpus, workers=1, settings=asked)
    tables = {name: read_all(corpus / name) for name in ("verdicts", "documents", "contamination")}
    judged = {row["document"]: row for row in tables["verdicts"]}
    texts = {row["document"]: row["text"] for row in tables["documents"]}  # what the steps keep
    held = {document: set(ngrams_of(text)) for document, text in texts.items()}
    often = Counter(ngram for members in held.values() for ngram in members)
    wanted = []
    for item in items:
        fields = [item["question"], item["answer"]]
        wanted += [set(ngrams_of(text)) for text in (" ".join(fields), *fields)]
    listed = {ngram for members in wanted for ngram in members if often[ngram] > 3}
    expected = {}
    for document, members in held.items():
        shares = [
            len(own & members - listed) / len(own - listed)
            for own in wanted
            if own & members - listed
        ]
        if max(shares, default=0.0) >= 0.9:
            expected[document] = max(shares)
    got = {
        number: row["value"]
        for number, row in judged.items()
        if row["reason"] == "decontaminate.overlap"
    }
    assert got == pytest.approx(expected) and 3 < len(got) < len(texts)
    (rule,) = json.loads((corpus / "judgement/rules.json").read_text())
    assert (rule["common"], rule["ngrams"], rule["dropped"]) == (3, len(listed), len(expected))
    assert len(pq.read_table(corpus / "judgement/ngrams.parquet")) == len(listed) > 0
    verify(corpus)
    for threshold in ("0.9", "0.3"):
        changed = asked | {"step.2.threshold": threshold}
        told = rejudge(recipe, out=corpus, settings=changed)
        run(recipe, out=tmp_path / threshold, workers=2, settings=changed)
        funnel = decode((tmp_path / threshold / "manifest.json").read_bytes()).funnel
        assert told["kept"]["now"] == funnel["kept"]
    assert digests(tmp_path / "0.9") == digests(corpus)


def ngrams_of(text: str) -> dict[tuple[str, ...], int]:
    """Of a text, as the step sees it."""
    return naive.ngrams_of(naive.normalise(naive.blank(text)), 13)


def read_all(folder: Path) -> list[dict]:
    return [row for path in sorted(folder.iterdir()) for row in pq.read_table(path).to_pylist()]


@pytest.mark.soak
def test_planted_leaks_are_found_and_plain_text_is_not(data: Path) -> None:
    """The experiment of docs/decontamination.md, smaller: its benchmark script on real items and
    documents.
    """
    place = ROOT / "benchmarks/leaks.py"
    spec = importlib.util.spec_from_file_location("leaks", place)
    leaks = importlib.util.module_from_spec(spec)
    sys.modules["leaks"] = leaks
    spec.loader.exec_module(leaks)
    told = leaks.experiment(data, items=60, novels=2)
    for name in ("verbatim", "reformatted", "padded"):
        assert told["kinds"][name]["found at 0.5"] >= 0.98 * told["kinds"][name]["planted"], name
    assert (
        told["kinds"]["question alone"]["found at 0.5"]
        >= 0.7 * told["kinds"]["question alone"]["planted"]
    )
    assert (
        told["kinds"]["cut in half"]["found at 0"] >= 0.85 * told["kinds"]["cut in half"]["planted"]
    )
    assert told["plain"]["dropped at 0.5"] == 0
    assert told["differs from sets"] == 0


def lettered() -> ModuleType:
    """The benchmark script of planted choices."""
    folder = ROOT / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("lettered")
    finally:
        sys.path.remove(str(folder))


def test_choices_are_found_whatever_their_labels(data: Path) -> None:
    """MMLU's dev items and some of ARC-easy, with letters, digits, bullets and none; of 1,951 clean
    documents none goes.
    """
    told = lettered().experiment(data)
    assert told["planted"] == {"mmlu": 285, "arc": 215}
    for layout, found in told["found"].items():
        least = (
            0.97 if layout != "the question alone" else 0.95
        )  # 6 of MMLU's have less than 5 words
        assert found["mmlu"] >= least * 285, layout
        assert found["arc"] >= least * 215, layout
    assert sum(of["documents"] for of in told["clean"].values()) == 1951
    assert [of["dropped"] for of in told["clean"].values()] == [0, 0, 0, 0]


def test_the_report_names_what_was_planted_and_counts_what_is_not_looked_for(
    tmp_path: Path,
) -> None:
    """Items of one passage, of one template and of one question: those that are there are named,
    the others are `shared`.
    """
    passage = article("passage", 12)
    items = [
        {"q": f"{passage} And {article(f'question {number}', 2)}", "a": "Yes"}
        for number in range(4)
    ]
    items += [
        {"q": "Which of these is a good reason?", "a": f"{article(f'reason {number}', 2)}"}
        for number in range(5)
    ]
    items += [
        {"q": f"{article('template', 3)} {article(f'case {number}', 2)}", "a": "No"}
        for number in range(30)
    ]
    items += [{"q": "Why?", "a": "So"}]
    (tmp_path / "items.json").write_text(json.dumps(items))
    (tmp_path / "recipe.toml").write_text(
        """
[[source]]
name = "web"
files = ["raw.jsonl"]
[[step]]
use = "decontaminate"
benchmarks = [{ name = "made", file = "items.json", fields = ["q", "a"] }]
"""
    )
    planted = [1, 6, 20]
    texts = [
        f"{article(number, 5)}\n{items[number]['q']}\nA. {items[number]['a']}\n"
        for number in planted
    ]
    texts += [article("template", 3), passage]
    (tmp_path / "raw.jsonl").write_bytes(jsonl([{"text": text} for text in texts]))
    corpus = tmp_path / "corpus"
    run(tmp_path / "recipe.toml", out=corpus, workers=1)
    told = contamination(corpus, benchmark="made")
    (counts,) = told["benchmarks"]
    assert [counts[name] for name in COUNTS] == [40, 34, 5, 0, 0, 1, 4, 6, 4]
    named = {
        (row["document"], entry["item"]) for entry in told["items"] for row in entry["documents"]
    }
    assert named >= set(enumerate(planted))
    (alone,) = named - set(enumerate(planted))  # the passage by itself: the item that it is most of
    assert alone in {(4, number) for number in range(4)}
    assert (
        contamination(corpus, item="7")["items"][0]["documents"][0]["document"] == 1
    )  # asked for by name it is told
    assert lines(told)[0].split() == ["benchmark", *COUNTS]
    assert lines(told)[1].split() == ["made", *map(str, (40, 34, 5, 0, 0, 1, 4, 6, 4))]


def test_a_part_of_a_recipe_that_is_gone_is_left_alone(recipe: Path, tmp_path: Path) -> None:
    """The step is taken out, the run stops after process, a threshold moves: the finished
    contamination/ is another recipe's.
    """
    corpus, without = tmp_path / "corpus", tmp_path / "without"
    shutil.copytree(recipe.parent, without)
    text = recipe.read_text()
    start = text.index('[[step]]\nuse = "decontaminate"')
    (without / "recipe.toml").write_text(text[:start] + text[text.index("[[step]]", start + 1) :])
    run(recipe, out=corpus, workers=1)
    run(without / "recipe.toml", out=corpus, workers=1, until="process")
    settings = {"step.2.min_words": "90"}
    run(without / "recipe.toml", out=corpus, workers=1, settings=settings)
    run(without / "recipe.toml", out=tmp_path / "fresh", workers=1, settings=settings)
    assert digests(corpus) == digests(tmp_path / "fresh")
