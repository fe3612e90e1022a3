"""fineweb-v1 and fineweb-edu over real pages: every step of theirs, redaction after deduplication,
a learned score, judged again.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gristmill import init, rejudge, run, train_classifier, verify, why
from gristmill.store.manifest import decode
from tests.support.corpora import article, digests, jsonl
from tests.support.fasttext_files import LABELS, assemble

LISTS = {
    "domains": "bad.example",
    "urls": "bad.example/page",
    "words": "badword",
    "soft_words": "softword",
    "subwords": "subbad",
}


def settings_of(folder: Path, warc: Path) -> dict[str, str]:
    """The preset's lists as small files, and its crawl as one real WARC."""
    settings = {"source.0.files": json.dumps([str(warc)]), "source.0.kind": '"warc"'}
    for name, line in LISTS.items():
        (folder / f"{name}.txt").write_text(line + "\n")
        settings[f"step.0.{name}"] = json.dumps([f"{name}.txt"])
    return settings


def read(folder: Path) -> list[dict]:
    return [
        row for path in sorted(folder.rglob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


def test_fineweb_redacts_after_deduplication_on_real_pages(data: Path, tmp_path: Path) -> None:
    warc = data / "J_debian_docs/open_docs_gzip.warc.gz"
    init(tmp_path / "recipe.toml", preset="fineweb-v1")
    # These pages are manuals: the language is what varies, and few keep to the rules of prose.
    settings = settings_of(tmp_path, warc) | {
        "source.0.limit": "40",
        "step.2.min_score": "0.3",
        "step.4.min_stop_words": "0",
    }
    funnel = run(tmp_path / "recipe.toml", out=tmp_path / "c", workers=2, settings=settings).table
    verify(tmp_path / "c")
    assert funnel["documents"] == 40 and funnel["kept"] > 3
    texts = {row["document"]: row["text"] for row in read(tmp_path / "c/text")}
    raw = {row["document"]: row["text"] for row in read(tmp_path / "c/documents")}
    measured = {row["document"]: row for row in read(tmp_path / "c/finished")}
    assert measured.keys() == texts.keys()
    for number, text in texts.items():
        changed = measured[number]["private.emails"] + measured[number]["private.ips"] > 0
        assert (text != raw[number]) == changed
    assert [step["step"] for step in funnel["steps"]][:3] == ["read", "url", "extract"]


@pytest.mark.soak
def test_fineweb_edu_keeps_the_highest_scores_of_real_pages(data: Path, tmp_path: Path) -> None:
    warc = data / "J_debian_docs/open_docs_gzip.warc.gz"
    novels = sorted((data / "I_prose").rglob("*.txt"))[:3]
    texts = tmp_path / "bad.txt"
    texts.write_text(
        "\n\n".join(
            f"Home Products Contact Login Cart {number} Next Previous Top" for number in range(200)
        )
    )
    train_classifier(novels, [texts], tmp_path / "quality.model", bits=16)
    init(tmp_path / "recipe.toml", preset="fineweb-edu")
    settings = settings_of(tmp_path, warc) | {
        "step.2.min_score": "0.3",
        "step.4.min_stop_words": "0",
        "step.7.drop_lowest": "0.5",
    }
    recipe, corpus = tmp_path / "recipe.toml", tmp_path / "c"
    run(recipe, out=corpus, workers=1, settings=settings)
    (rule,) = json.loads((corpus / "judgement/rules.json").read_text())
    assert rule["documents"] > 5 and 0 < rule["dropped"] <= rule["documents"] // 2
    rows = [row for row in read(corpus / "verdicts") if row["reason"] == "classifier.lowest"]
    assert len(rows) == rule["dropped"] and all(
        row["value"] < row["threshold"] == rule["quantile"] for row in rows
    )
    (answer,) = why(corpus, str(rows[0]["document"]))
    assert answer["measures"]["classifier.score"] == rows[0]["value"]
    moved = settings | {"step.7.drop_lowest": "0.2"}
    told = rejudge(recipe, out=corpus, settings=moved)
    run(recipe, out=tmp_path / "fresh", workers=2, settings=moved)
    assert told["unread"] == told["anew"] == 0
    assert (
        told["kept"]["now"]
        == decode((tmp_path / "fresh/manifest.json").read_bytes()).funnel["kept"]
    )
    run(recipe, out=corpus, workers=1, settings=moved)
    assert digests(corpus) == digests(tmp_path / "fresh")


def test_presets_whose_models_are_brought_run_with_small_ones(tmp_path: Path) -> None:
    """DCLM's classifier and GlotLID's kind, of random weights: every step of the presets."""
    rows = [{"url": f"https://a.example/{one}", "text": article(one, 40)} for one in range(24)]
    (tmp_path / "a.jsonl").write_bytes(jsonl([*rows, {**rows[0], "url": "https://b.example/"}]))
    (tmp_path / "model.bin").write_bytes(assemble())
    model = json.dumps(str(tmp_path / "model.bin"))
    lists = settings_of(tmp_path, tmp_path / "a.jsonl") | {"source.0.kind": '"jsonl"'}
    dclm = lists | {"step.5.model": model, "step.5.label": '"__label__eng_Latn"'}
    glotlid = {
        "source.0.files": lists["source.0.files"],
        "step.1.model": model,
        "step.1.keep": '["fra_Latn", "deu_Latn", "eng_Latn"]',
        "languages.missing": '"defaults"',
        "measure": '"all"',
    }
    for preset, settings, step in (("dclm", dclm, "classifier"), ("fineweb2", glotlid, "gopher")):
        init(tmp_path / f"{preset}.toml", preset=preset)
        corpus = tmp_path / preset
        funnel = run(tmp_path / f"{preset}.toml", out=corpus, workers=1, settings=settings).table
        verify(corpus)
        assert funnel["documents"] == 25
        assert step in [one["step"] for one in funnel["steps"]]
    measures = read(tmp_path / "fineweb2/measures")
    judged = {row["gopher.language"] for row in measures} - {None}
    assert judged and judged <= {label.removeprefix("__label__") for label in LABELS}
    scores = {row["classifier.score"] for row in read(tmp_path / "dclm/measures")}
    assert scores == {None} or all(0 <= score <= 1 for score in scores - {None})
