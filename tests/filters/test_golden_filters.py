"""Golden digests: every built-in filter and every preset gives these verdicts, measures and texts
for a fixed set of documents. One that changes without a raised `version` fails.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w

import gristmill
from gristmill import filters, train_classifier, train_perplexity
from gristmill.corpus.corpus import versions
from gristmill.errors import ArgumentError, RecipeError
from gristmill.filters.api import registry
from gristmill.filters.api.in_memory import VERDICT
from gristmill.filters.api.judge import LEFT, judge
from gristmill.filters.api.step import Input, Step
from gristmill.filters.api.step_inputs import find
from gristmill.filters.api.texts import BatchTexts
from gristmill.phases.process import process
from gristmill.recipe import PRESETS, Recipe, make_step, packaged, parse
from gristmill.store.cache import Cache
from gristmill.store.http.client import Settings
from gristmill.store.http.transfer import Transfer
from gristmill.tables import schema
from tests.support.corpora import article, jsonl
from tests.support.fasttext_files import assemble

GOLDEN = Path(__file__).parent / "golden.json"
# The parameters with which a filter is run; one that is not here is run as it is by default.
CASES: dict[str, dict[str, Any]] = {
    "c4": {"use": "c4", "bad_words": "words.txt"},
    "c4, few rules": {"use": "c4", "line_stops": False, "citations": False, "min_sentences": 2},
    "classifier": {"use": "classifier", "model": "good.model", "min_score": 0.5},
    "rights": {"use": "rights", "drop": ["noai"]},
    "decontaminate": {
        "use": "decontaminate",
        "benchmarks": [{"name": "b", "file": "items.jsonl", "fields": ["text"]}],
        "ngram": 8,
    },
    "decontaminate, similarity": {
        "use": "decontaminate",
        "benchmarks": [{"name": "b", "file": "items.jsonl", "fields": ["text"]}],
        "similarity": 0.6,
    },
    "decontaminate, common": {
        "use": "decontaminate",
        "benchmarks": [{"name": "b", "file": "items.jsonl", "fields": ["text"]}],
        "common": 2,
    },
    "extract": {"use": "extract", "extractor": "resiliparse"},
    "extract, gristmill": {"use": "extract"},
    "extract, gristmill, markdown": {
        "use": "extract",
        "rules": "gristmill",
        "format": "markdown",
        "favor": "precision",
    },
    "extract, trafilatura": {"use": "extract", "extractor": "trafilatura", "only_pages": True},
    "fineweb": {"use": "fineweb"},
    "fineweb, 0.2": {"use": "fineweb", "rules": "datatrove-0.2"},
    "gopher": {"use": "gopher"},
    "gopher, 0.10": {"use": "gopher", "rules": "datatrove-0.10"},
    "gopher, 0.2": {"use": "gopher", "rules": "datatrove-0.2"},
    "language": {"use": "language", "keep": ["en"]},
    "language, all": {"use": "language", "keep": ["en", "de"], "characters": "all"},
    "language, script": {"use": "language", "keep": ["Latn"], "rules": "script"},
    "normalise": {"use": "normalise"},
    "normalise, NFKC": {"use": "normalise", "form": "NFKC", "urls": "drop"},
    "normalise, entities": {"use": "normalise", "entities": "all"},
    "perplexity": {"use": "perplexity", "model": "usual.model", "max_perplexity": 200.0},
    "private": {"use": "private", "regions": ["DE"]},
    "private, datatrove": {
        "use": "private",
        "kinds": ["email", "ip"],
        "rules": "datatrove",
        "placeholder": "datatrove",
    },
    "repetition": {"use": "repetition"},
    "repetition, 0.2": {"use": "repetition", "rules": "datatrove-0.2"},
    "regex": {"use": "regex", "pattern": r"(?i)\b(watch\w*|noise)\b", "max_matches": 3},
    "regex, replacement": {
        "use": "regex",
        "pattern": r"([A-Z])(\w+)",
        "replacement": r"\2\1",
        "most": 60,
    },
    "repeated_paragraphs": {"use": "repeated_paragraphs"},
    "sample": {"use": "sample", "share": 0.5},
    "sample, by host": {"use": "sample", "share": 0.5, "by": "host", "seed": 7},
    "scores": {
        "use": "scores",
        "files": ["scores.jsonl"],
        "numbers": ["edu"],
        "labels": ["topic"],
        "min": {"edu": 2.0},
        "keep": {"topic": ["news"]},
    },
    "ensemble": {"use": "ensemble", "scores": ["scores.edu"]},
    "simple": {"use": "simple"},
    "toxicity": {"use": "toxicity", "lists": ["words.txt"], "max_words": 0},
    "withdrawn": {"use": "withdrawn", "list": "withdrawn.txt"},
    "url": {"use": "url", "domains": ["domains.txt"], "words": ["words.txt"]},
}
WITHOUT = {"transformers"}  # scores of torch, whose last digits differ by processor
CASES |= {
    step.name: {"use": step.name}
    for step in registry.all_built_in()
    if step.name not in {table["use"] for table in CASES.values()} | WITHOUT
}
# What a preset fetches or expects to be there, and what stands for it.
LISTS = {
    "domains": "domains.txt",
    "urls": "urls.txt",
    "words": "words.txt",
    "soft_words": "soft.txt",
    "subwords": "subwords.txt",
}


PERSONAL = (
    "Write to anna.berg@mill-house.org or call +49 30 901820, from 203.0.113.9 or 8.8.8.8.\n"
    "Card 4111 1111 1111 1111, IBAN DE89 3704 0044 0532 0130 00, SSN 219-09-9999."
)


def texts() -> list[str]:
    """Documents of many kinds: prose, noise, lists, other scripts, personal data, pages."""
    prose = [article(f"golden {number}", 10 + number) for number in range(8)]
    pages = [
        f"<!doctype html><html lang='en'><head><title>Page {number}</title></head><body>"
        f"<nav><a href=/>home</a></nav><main><h1>Story</h1><p>{article(number, 12)}</p></main>"
        "</body></html>"
        for number in range(3)
    ]
    return [
        *prose,
        *pages,
        "",
        "...",
        "Page not found.",
        "BUY CHEAP WATCHES NOW! " * 40,
        "- a link\n" * 60,
        "The story went on …\n" * 30,
        "lorem ipsum dolor. " * 20,
        "function() { return 1; }\nPlease enable javascript.\nuse of cookies\n" * 6,
        "Der Müller geht am Morgen zur Mühle. " * 30,
        "Мельник идёт утром на мельницу. " * 30,
        "水車は川のそばにあります。小麦粉を作ります。" * 20,
        "cafe\u0301 ﬁne\u200b 100\u00a0km\r\n\r\n\r\n\tand\x07 more \ufeff" * 10,
        PERSONAL,
        f"A question. {prose[0][:400]} And an answer.",
        f"{article('bad', 6)} A badword stands here.",
        " ".join(f"zx{word}" for word in article("noise", 20).split(" ")),
    ]


def documents() -> pa.RecordBatch:
    """The documents as a reader gives them."""
    rows = [
        {
            "document": (3 << 32) + row,
            "text": text,
            "url": ["https://www.bad.example/x", "https://good.example/badword", None][row % 3],
            "content_type": "text/html" if text.startswith("<!") else "text/plain",
        }
        for row, text in enumerate(texts())
    ]
    return pa.RecordBatch.from_pylist(rows, schema.RAW)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("golden"))


def prepared(folder: Path) -> Path:
    """A folder with the lists, items and models that the cases name."""
    for name, line in (
        ("domains.txt", "bad.example"),
        ("urls.txt", "bad.example/page"),
        ("words.txt", "badword"),
        ("soft.txt", "softword"),
        ("subwords.txt", "subbad"),
        ("withdrawn.txt", "3:0 https://www.bad.example/x\nhttps://good.example/badword"),
    ):
        (folder / name).write_text(line + "\n")
    scored = [
        {"document": f"3:{row}", "edu": row % 5, "topic": ["news", "sport"][row % 2]}
        for row in range(0, 24, 2)
    ] + [{"document": "3:1", "edu": 4, "topic": "sport"}]
    (folder / "scores.jsonl").write_bytes(jsonl(scored))
    judges = ("fineweb_edu_mistral", "fineweb_edu_nemotron", "dclm", "quality")
    judged = [
        {"document": f"3:{row}", "topic": "news"}
        | {name: (row * 7 + place) % 5 for place, name in enumerate(judges)}
        for row in range(20)
    ]
    (folder / "judged.jsonl").write_bytes(jsonl(judged))
    items = [{"text": article(f"golden {number}", 10 + number)[:300]} for number in range(3)]
    (folder / "items.jsonl").write_bytes(jsonl(items))
    good = [{"text": article(f"good {number}", 6)} for number in range(60)]
    bad = [{"text": f"zx{row['text']}".replace(" ", " zx")} for row in good]
    (folder / "good.jsonl").write_bytes(jsonl(good))
    (folder / "bad.jsonl").write_bytes(jsonl(bad))
    train_classifier(
        [folder / "good.jsonl"], [folder / "bad.jsonl"], folder / "good.model", bits=12
    )
    (folder / "random.bin").write_bytes(assemble())
    train_perplexity([folder / "good.jsonl"], folder / "usual.model")
    return folder


def inputs_of(step: Step, folder: Path) -> dict[str, Input]:
    """What a step reads, by its location; cases and presets fetch nothing."""
    transfer = Transfer(Cache(folder / "cache"), Settings())
    try:
        found = {}
        for what, location in step.inputs().items():
            found[location] = find(what, location, folder, transfer)
        return found
    finally:
        transfer.close()


def plain(value: Any) -> Any:
    """Values for a digest: floats to nine digits, which no processor's last bit changes."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def digest(tables: Mapping[str, Any]) -> str:
    """One digest of rows."""
    rows = json.dumps({name: plain(value) for name, value in tables.items()}, ensure_ascii=False)
    return hashlib.sha256(rows.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def entry(steps: list[Step], folder: Path) -> dict[str, Any]:
    """What golden.json says of steps: their versions, the libraries that they ask, what they
    give.
    """
    libraries = {
        what: inputs_of(step, folder)[location].sha256[:16]
        for step in steps
        for what, location in step.inputs().items()
        if location.startswith(("version:", "package:"))
    }
    if any(step.takes_pages for step in steps):
        libraries["resiliparse"] = versions()["resiliparse"]
    judged = judge_all(steps, folder)
    return {
        "version": {step.name: step.version for step in steps},
        "libraries": libraries,
        "digest": digest(judged),
    }


def judge_all(steps: list[Step], folder: Path) -> dict[str, Any]:
    """The rows that the steps leave, drop, measure and find."""
    calls = []
    fields = [schema.DOCUMENTS.field("document")]
    for step in steps:
        measure = step.load(inputs_of(step, folder))

        calls.append(process.named(step, measure))
        nothing = pa.RecordBatch.from_pylist([], schema.DOCUMENTS)
        _, said = calls[-1].call(nothing, BatchTexts(nothing["text"]))
        columns = (
            said.measures
            if said.text is None
            else {**said.measures, LEFT: pa.array([], pa.int64())}
        )
        fields += [pa.field(f"{step.name}.{name}", column.type) for name, column in columns.items()]
    judged = judge(documents(), calls, pa.schema(fields))
    return {
        "verdicts": judged.verdicts.to_pylist(),
        "measures": judged.measures.to_pylist(),
        "kept": judged.kept.select(["document", "text", "title", "declared_language"]).to_pylist(),
        "found": {name: [b.to_pylist() for b in rows] for name, rows in judged.found.items()},
    }


def preset(name: str) -> Recipe:
    """A preset over no file, with small lists and models for those that it fetches."""
    text = packaged(name).read_text("utf-8").replace("files = []", 'files = ["-"]')
    tables = parse(text, name).step
    settings = {}
    for place, table in enumerate(tables):
        if table["use"] == "url":
            settings |= {f"step.{place}.{key}": json.dumps([file]) for key, file in LISTS.items()}
        if table["use"] == "classifier":
            settings[f"step.{place}.model"] = '"good.model"'
            if "label" in table:
                settings[f"step.{place}.model"] = '"random.bin"'
                settings[f"step.{place}.label"] = '"__label__eng_Latn"'
        if table["use"] == "language" and "model" in table:
            settings[f"step.{place}.model"] = '"random.bin"'
            settings[f"step.{place}.keep"] = '["fra_Latn", "deu_Latn"]'
            settings[f"step.{place}.min_score"] = "{ fra_Latn = 0.0, deu_Latn = 0.0 }"
        if table["use"] == "scores":
            settings[f"step.{place}.files"] = '["judged.jsonl"]'
    return parse(text, name, settings)


def entries(folder: Path, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Make golden.json of the entries that are known and those that are not known of a version.
    Raises RecipeError where an optional package is missing.
    """
    cases = {name: [make_step(0, table)] for name, table in CASES.items()}
    recipes = {name: preset(name) for name in PRESETS}
    presets = {name: recipe.all_steps(recipe.source[0].name) for name, recipe in recipes.items()}
    return {
        kind: {
            name: known[kind][name]
            if {step.name: step.version for step in steps}
            == known[kind].get(name, {}).get("version")
            else entry(steps, folder)
            for name, steps in named.items()
        }
        for kind, named in (("filters", cases), ("presets", presets))
    }


def compare(name: str, got: dict[str, Any], golden: dict[str, Any]) -> None:
    if got["libraries"] != golden["libraries"]:
        pytest.skip(f"{name}: other libraries than golden.json was written with")
    if got["version"] == golden["version"]:
        assert got["digest"] == golden["digest"], (
            f"{name} gives something else for the same documents: raise its `version`, then write "
            "golden.json anew"
        )
    assert got == golden, f"{name}: write golden.json anew, and say why in the changelog"


@pytest.mark.parametrize("name", CASES)
def test_a_filter_gives_what_its_version_gave(name: str, folder: Path) -> None:
    try:
        got = entry([make_step(0, CASES[name])], folder)
    except RecipeError as error:
        pytest.skip(str(error))
    compare(name, got, json.loads(GOLDEN.read_text())["filters"][name])


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_gives_what_its_filters_gave(name: str, folder: Path) -> None:
    recipe = preset(name)
    try:
        got = entry(recipe.all_steps(recipe.source[0].name), folder)
    except RecipeError as error:
        pytest.skip(str(error))
    compare(name, got, json.loads(GOLDEN.read_text())["presets"][name])


def undeclared(step: Step, judged: dict[str, Any]) -> list[str]:
    """The reasons and measures that a step gave and that its class does not explain."""
    found = {row["reason"] for row in judged["verdicts"] if row["reason"]}
    measures = {name for row in judged["measures"] for name in row if name != "document"}
    found |= {name for name in measures if name != f"{step.name}.{LEFT}"}
    known = {
        f"{step.name}.{re.sub('NAME|(?<![A-Z])N(?![A-Z])', '[A-Za-z0-9_]+', name)}"
        for name in (*step.reasons, *step.measures)
    }
    return sorted(name for name in found if not re.fullmatch("|".join(known), name))


@pytest.mark.parametrize("name", CASES)
def test_a_filter_in_memory_says_what_the_run_says(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # inputs are named from there
    step = make_step(0, CASES[name])
    rows = documents()
    given = pa.table(rows.select(["document", "text", "url", "content_type"]).to_pydict())
    if step.ranks or step.corpus_rules:
        with pytest.raises(ArgumentError, match="whole corpus"):
            step(given)
        return
    try:
        expected = judge_all([step], folder)
    except RecipeError as error:
        pytest.skip(str(error))
    assert undeclared(step, expected) == []
    got = step(given)
    verdicts = [{key: row[key] for key in VERDICT} for row in expected["verdicts"]]
    assert got.select(list(VERDICT)).to_pylist() == verdicts
    measures = [name for name in got.column_names if name.startswith(f"{step.name}.")]
    expected_measures = [{name: row[name] for name in measures} for row in expected["measures"]]
    assert got.select(measures).to_pylist() == expected_measures
    assert measures == [name for name in expected["measures"][0] if name != "document"]
    kept = {row["document"]: row["text"] for row in expected["kept"]}
    left = filters.keep(given, [step])
    assert left["text"].to_pylist() == list(kept.values())
    if "text" in got.column_names:
        of_rows = [kept.get(number) for number in given["document"].to_pylist()]
        assert got["text"].to_pylist() == of_rows


def test_filters_in_memory_say_what_a_run_says(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All filters, one after another, in a run over a file and in memory."""
    monkeypatch.chdir(folder)
    tables = {}
    for table in CASES.values():
        step = make_step(0, table)
        if not (step.ranks or step.corpus_rules or step.takes_pages):
            tables.setdefault(table["use"], table)
    columns = documents().select(["text", "url"]).to_pylist()
    # An empty text is `read.empty` in a run; a filter in memory judges it.
    rows = [row for row in columns if row["text"] != "..." and row["text"].strip()]
    rows.append({"text": None, "url": None})
    (tmp_path / "rows.jsonl").write_bytes(jsonl(rows))
    recipe = {"output": str(tmp_path / "corpus"), "measure": "all", "step": list(tables.values())}
    recipe["source"] = [{"name": "web", "files": [str(tmp_path / "rows.jsonl")]}]
    (folder / "all.toml").write_text(tomli_w.dumps(recipe))
    gristmill.run(folder / "all.toml", workers=1)
    verdicts = pq.read_table(tmp_path / "corpus/verdicts/00000.parquet")
    got = filters.judge(
        pa.Table.from_pylist(rows), [make_step(0, table) for table in tables.values()]
    )
    assert len(set(verdicts["reason"].to_pylist())) > 3
    for name in ("reason", "threshold"):
        assert got[name].to_pylist() == verdicts[name].to_pylist()
    judged = [row["reason"] != "read.no_text" for row in verdicts.to_pylist()]
    assert got["value"].filter(pa.array(judged)).to_pylist() == (
        verdicts["value"].filter(pa.array(judged)).to_pylist()
    )


def test_every_filter_and_preset_has_its_digest() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert (set(golden["filters"]), set(golden["presets"])) == (set(CASES), set(PRESETS))
    shown = {path.stem for path in (Path(__file__).parents[2] / "recipes").glob("*.toml")}
    assert shown == {*PRESETS, "start"}


def test_a_change_without_a_version_fails() -> None:
    golden = {"version": {"simple": 1}, "libraries": {}, "digest": "a"}
    compare("simple", golden, golden)
    with pytest.raises(AssertionError, match="raise its `version`"):
        compare("simple", {**golden, "digest": "b"}, golden)
    with pytest.raises(AssertionError, match="anew"):
        compare("simple", {**golden, "version": {"simple": 2}, "digest": "b"}, golden)


def test_the_documents_tell_filters_apart(folder: Path) -> None:
    """The documents are of use: each judging filter drops some of them, and not all."""
    for name in ("c4", "fineweb", "gopher", "language", "repetition", "simple", "url", "toxicity"):
        verdicts = judge_all([make_step(0, CASES[name])], folder)["verdicts"]
        dropped = np.array([row["reason"] is not None for row in verdicts])
        assert 0 < dropped.sum() < len(dropped), name


def write(*, all_anew: bool = False) -> None:
    """Write what the golden file has not: entries of new filters and raised versions.
    `python -c "from tests.filters.test_golden_filters import write; write()"`. Say in the changelog
    why. `all_anew`: also where another library gives something else.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        nothing: dict[str, dict[str, Any]] = {"filters": {}, "presets": {}}
        known = nothing if all_anew else json.loads(GOLDEN.read_text())
        table = entries(prepared(Path(name)), known)
    GOLDEN.write_text(json.dumps(table, indent=1) + "\n")
