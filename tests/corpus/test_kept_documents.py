"""Steps with `after_dedup = true`: duplicates are looked for in the text as it was, and what goes
out is rewritten.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import RecipeError, export, rejudge, run, verify, why
from tests.support.corpora import article, digests, jsonl

RECIPE = """
[[source]]
name = "web"
files = ["raw/*"]
[[step]]
use = "private"
kinds = ["email", "ip"]
WHEN
[[step]]
use = "simple"
max_special = 0.5
[deduplicate]
near = { threshold = 0.9 }
"""


def lay_out(folder: Path, when: str = "after_dedup = true") -> Path:
    """Thirty pages that are alike by tens, but for the address in each."""
    rows: list[dict[str, object]] = []
    for number in range(30):
        text = article(f"finished {number // 10}", 6)
        rows.append(
            {
                "url": f"https://x.example/{number}",
                "text": f"{text}\nWrite to editor{number}@mail.debian.org or 88.8.200.{number}.",
            }
        )
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for place in range(2):
        (raw / f"{place}.jsonl").write_bytes(jsonl(rows[place::2]))
    path = folder / "recipe.toml"
    path.write_text(RECIPE.replace("WHEN", when), "utf-8")
    return path


def read(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.rglob("*.parquet")))


def test_what_goes_out_is_rewritten_and_what_is_compared_is_not(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    settings = {"deduplicate.near.threshold": "1.0"}
    for workers in (1, 2):
        run(recipe, out=tmp_path / f"late{workers}", workers=workers, settings=settings)
    assert digests(tmp_path / "late1") == digests(tmp_path / "late2")
    verify(tmp_path / "late1")
    # Compared as they came, all thirty differ.
    texts = read(tmp_path / "late1/text")["text"].to_pylist()
    assert len(texts) == 30 and all("Write to <EMAIL> or <IP>." in text for text in texts)
    assert all(
        "@mail.debian.org" in text
        for text in read(tmp_path / "late1/documents")["text"].to_pylist()
    )
    measured = read(tmp_path / "late1/finished")
    assert measured["private.emails"].to_pylist() == measured["private.ips"].to_pylist() == [1] * 30
    assert "private.emails" not in read(tmp_path / "late1/measures").column_names
    (told,) = why(tmp_path / "late1", "0:3")
    assert told["measures"]["private.emails"] == 1
    # Redacted first, ten of them are one text.
    early = lay_out(tmp_path / "early", "")
    run(early, out=tmp_path / "early/c", workers=1, settings=settings)
    assert len(read(tmp_path / "early/c/text")) == 3
    assert not any("@" in text for text in read(tmp_path / "early/c/documents")["text"].to_pylist())
    assert not (tmp_path / "early/c/finished").exists()


def test_another_placeholder_processes_nothing_again(tmp_path: Path) -> None:
    recipe, corpus, fresh = lay_out(tmp_path), tmp_path / "c", tmp_path / "fresh"
    run(recipe, out=corpus, workers=1)
    changed = {"step.0.placeholder": '"[gone]"'}
    before = {path: path.stat().st_mtime_ns for path in (corpus / "work/state/process").iterdir()}
    assert (
        rejudge(recipe, out=corpus, settings={"deduplicate.near.threshold": "0.95"})["unread"] == 0
    )
    kept = rejudge(recipe, out=corpus, settings=changed)["kept"]
    assert kept["was"] == kept["now"]
    run(recipe, out=corpus, workers=1, settings=changed)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    run(recipe, out=fresh, workers=1, settings=changed)
    assert digests(corpus) == digests(fresh)
    assert "Write to [gone] or [gone]." in read(corpus / "text")["text"][0].as_py()


def test_export_of_documents_rewrites_them_again(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    run(recipe, out=tmp_path / "text", workers=1)
    export(tmp_path / "text", tmp_path / "a", to="jsonl")
    for path in sorted((tmp_path / "text/text").rglob("*.parquet")):
        path.unlink()
    export(tmp_path / "text", tmp_path / "b", to="jsonl")
    for name in ("web/00000.jsonl", "web/00001.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "b/web/00000.jsonl").read_text().splitlines()]
    assert rows and all("<EMAIL>" in row["text"] for row in rows)


def test_only_what_rewrites_can_wait(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    recipe.write_text(
        recipe.read_text().replace('use = "simple"\n', 'use = "simple"\nafter_dedup = true\n')
    )
    with pytest.raises(RecipeError, match="after_dedup"):
        run(recipe, out=tmp_path / "c", workers=1)
