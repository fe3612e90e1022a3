"""Small files that become raw shards together: the same documents as from files that are raw shards
alone, each file still named, pinned and compared by itself.
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from gristmill import explore, run, size, status, train_tokenizer, verify, why, withdraw
from gristmill.errors import RecipeError
from gristmill.phases.inputs import packs
from gristmill.phases.rounds import ShardsFailed
from gristmill.pipeline import dry_run
from gristmill.reports.integrity.consistency import check_consistency
from gristmill.store import manifest as manifests
from tests.support.corpora import digests, jsonl
from tests.support.every_phase import in_process

RECIPE = '[[source]]\nname = "web"\nfiles = ["raw"]\n'
FILES = 150  # of one text each, behind one large file and among some of other kinds


def lay_out(folder: Path) -> dict[str, list[str]]:
    """Small files of several kinds; the texts of each file, by its name, in their order."""
    raw = folder / "raw"
    (raw / "lang=en").mkdir(parents=True)
    texts = {f"raw/{place:03}.txt": [f"Text of file {place}.\n"] for place in range(FILES)}
    texts["raw/005.txt"] = []  # an empty file
    texts["raw/rows.jsonl"] = [f"row {row}" for row in range(5)]
    texts["raw/lang=en/a.jsonl"] = ["with a language"]
    texts["raw/large.jsonl"] = ["x" * (packs.SMALL + 1)]
    for name, rows in texts.items():
        if name.endswith(".txt"):
            (folder / name).write_text("".join(rows))
        else:
            (folder / name).write_bytes(jsonl([{"text": text} for text in rows]))
    (folder / "recipe.toml").write_text(RECIPE)
    return dict(sorted(texts.items()))


def go(folder: Path, out: str = "out", **more: Any) -> list[str]:
    """Run the recipe; the lines that it says."""
    told: list[str] = []

    def show(event: dict[str, Any]) -> None:
        if event["event"] == "line":
            told.append(event["text"])

    with in_process():
        run(folder / "recipe.toml", out=folder / out, cache_dir=folder / "cache", show=show, **more)
    return told


def documents(corpus: Path) -> list[dict[str, Any]]:
    """What a corpus keeps, in order."""
    rows: list[dict[str, Any]] = []
    for path in sorted((corpus / "documents").glob("*.parquet")):
        rows += pq.read_table(path).to_pylist()
    return rows


def raw_shards(corpus: Path) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = json.loads((corpus / "manifest.json").read_bytes())["raw_shards"]
    return table


def test_documents_are_those_of_the_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = lay_out(tmp_path)
    go(tmp_path)
    packed, large = raw_shards(tmp_path / "out")
    assert (packed["kind"], packed["codec"]) == ("pack", "none")
    assert packed["records_skipped"] == {"empty file": 1}
    assert large["url"] == "raw/large.jsonl"
    assert "files" not in large
    assert [file["url"] for file in packed["files"]] == [
        name for name in texts if name != "raw/large.jsonl"
    ]
    made = documents(tmp_path / "out")
    monkeypatch.setattr(packs, "MANY", 10**9)
    go(tmp_path, "alone")
    alone = documents(tmp_path / "alone")
    assert len(raw_shards(tmp_path / "alone")) == len(texts)

    def by_text(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
        return sorted((row["text"], row["extra"] or "") for row in rows)

    assert by_text(made) == by_text(alone)
    assert [row["extra"] for row in made if row["text"] == "with a language"] == ['{"lang":"en"}']


def test_each_document_names_its_file(tmp_path: Path) -> None:
    texts = lay_out(tmp_path)
    go(tmp_path)
    for row in documents(tmp_path / "out"):
        answer = why(tmp_path / "out", str(row["document"]))[0]
        assert row["text"] in texts[answer["raw_shard"]]
    shown = explore(tmp_path / "out", out=tmp_path / "table.parquet")
    assert shown
    table = pq.read_table(tmp_path / "table.parquet", columns=["text", "raw_shard"]).to_pylist()
    assert len(table) == sum(map(len, texts.values()))
    wrong = [row for row in table if row["text"] not in texts[row["raw_shard"]]]
    assert [row["raw_shard"] for row in wrong] == ["raw/large.jsonl"]  # it is shown in part


def test_every_file_is_proven(tmp_path: Path) -> None:
    lay_out(tmp_path)
    go(tmp_path)
    packed = raw_shards(tmp_path / "out")[0]
    names = [file["url"] for file in packed["files"]]
    printed = subprocess.run(
        ["sha256sum", *names], cwd=tmp_path, capture_output=True, check=True
    ).stdout
    assert hashlib.sha256(printed).hexdigest() == packed["sha256"]
    said = verify(tmp_path / "out", raw=True, cache_dir=tmp_path / "cache")
    assert said
    path = tmp_path / "raw/077.txt"
    path.write_bytes(path.read_bytes().replace(b"Text", b"Tent"))
    with pytest.raises(Exception, match=r"raw/077.txt of raw shard 0: sha256"):
        verify(tmp_path / "out", raw=True, cache_dir=tmp_path / "cache")


def test_a_digest_that_is_not_of_the_files_is_refused(tmp_path: Path) -> None:
    lay_out(tmp_path)
    go(tmp_path)
    corpus = tmp_path / "out"
    digest = raw_shards(corpus)[0]["sha256"]
    plan = tmp_path / "plan.json"
    plan.write_bytes((corpus / "plan.json").read_bytes().replace(digest.encode(), b"1" * 64))
    events: list[dict[str, Any]] = []
    with in_process(), pytest.raises(ShardsFailed):
        run(
            tmp_path / "recipe.toml",
            out=tmp_path / "planned",
            cache_dir=tmp_path / "cache",
            plan_file=plan,
            show=events.append,
        )
    said = [event["text"] for event in events if event["event"] == "line"]
    assert any("do not give the sha256 1111" in line for line in said)
    manifest = manifests.decode((corpus / "manifest.json").read_bytes())
    shards = [replace(shard, sha256="1" * 64) for shard in manifest.raw_shards[:1]]
    forged = replace(manifest, raw_shards=[*shards, *manifest.raw_shards[1:]])
    wrong = check_consistency(corpus, forged, {"plan.json"})
    assert "raw_shards.0: its sha256 is not that of its files" in wrong


def test_the_same_bytes_from_processes_and_from_a_plan(tmp_path: Path) -> None:
    lay_out(tmp_path)
    go(tmp_path)
    made = digests(tmp_path / "out")
    recipe = tmp_path / "recipe.toml"
    run(recipe, out=tmp_path / "two", workers=2, cache_dir=tmp_path / "cache")
    run(recipe, out=tmp_path / "part", workers=1, cache_dir=tmp_path / "cache", until="fetch")
    run(recipe, out=tmp_path / "part", workers=1, cache_dir=tmp_path / "cache", shards="1/1")
    run(recipe, out=tmp_path / "part", workers=1, cache_dir=tmp_path / "cache")
    go(tmp_path, "planned", plan_file=tmp_path / "out/plan.json")
    assert made == digests(tmp_path / "two") == digests(tmp_path / "part")
    assert made == digests(tmp_path / "planned")
    before = (tmp_path / "out/manifest.json").stat().st_mtime_ns
    assert go(tmp_path)[-1].endswith("everything in it is up to date")
    assert (tmp_path / "out/manifest.json").stat().st_mtime_ns == before


def test_a_pack_stays_and_later_files_come_behind_it(tmp_path: Path) -> None:
    lay_out(tmp_path)
    go(tmp_path)
    before = raw_shards(tmp_path / "out")
    for place in range(3):
        (tmp_path / f"raw/later {place}.txt").write_text(f"Later {place}.")
    go(tmp_path)
    after = raw_shards(tmp_path / "out")
    assert after[:2] == before
    assert [shard["url"] for shard in after[2:]] == [f"raw/later {place}.txt" for place in range(3)]


def test_packs_are_of_a_stated_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path)
    monkeypatch.setattr(packs, "PACK", 1000)
    go(tmp_path)
    sizes = [
        shard["compressed_bytes"] for shard in raw_shards(tmp_path / "out") if "files" in shard
    ]
    assert len(sizes) > 2
    assert all(1000 <= size < 1200 for size in sizes[:-1])


def test_names_and_files_that_are_not_packed(tmp_path: Path) -> None:
    lay_out(tmp_path)
    for name in ("a\nb.txt", "a\\b.txt"):
        (tmp_path / "raw" / name).write_text(f"{name} is alone")
    go(tmp_path)
    alone = {shard["url"] for shard in raw_shards(tmp_path / "out") if "files" not in shard}
    assert alone == {"raw/large.jsonl", "raw/a\nb.txt", "raw/a\\b.txt"}


def test_changed_and_removed_files_are_asked_about_one_by_one(tmp_path: Path) -> None:
    lay_out(tmp_path)
    go(tmp_path)
    (tmp_path / "raw/007.txt").write_text("Another text.\n")
    (tmp_path / "raw/009.txt").unlink()
    with pytest.raises(RecipeError, match=r"1 input files .* raw/007.txt .*raw/009.txt"):
        go(tmp_path)
    assert set(status(tmp_path / "out")["changed_inputs"]) == {"raw/007.txt", "raw/009.txt"}
    told = go(tmp_path, replace=True, remove=True)
    assert any(line.startswith("replaced: raw shard 00000 (raw/007.txt)") for line in told)
    assert any(line.startswith("removed: raw shard 00000 (raw/009.txt)") for line in told)
    old, _, new = raw_shards(tmp_path / "out")
    assert (old["missing"], new["number"]) == ("replaced", 2)
    assert len(new["files"]) == len(old["files"]) - 1
    kept = [row["text"] for row in documents(tmp_path / "out")]
    assert "Another text.\n" in kept
    assert not {"Text of file 7.\n", "Text of file 9.\n"} & set(kept)
    for path in (tmp_path / "raw").glob("*.txt"):
        path.unlink()
    told = go(tmp_path, remove=True)
    assert len(documents(tmp_path / "out")) == 7
    verify(tmp_path / "out", raw=True, cache_dir=tmp_path / "cache")


def test_a_withdrawn_document_does_not_come_back_in_a_new_pack(tmp_path: Path) -> None:
    lay_out(tmp_path)
    go(tmp_path)
    taken = withdraw(tmp_path / "out", ["0:3"])
    assert taken["raw_shards"] == ["raw/003.txt"]
    listed = tmp_path / "out/withdrawn.txt"
    assert listed.is_file()
    (tmp_path / "list.txt").write_bytes(listed.read_bytes())
    (tmp_path / "recipe.toml").write_text(
        f'{RECIPE}[[step]]\nuse = "withdrawn"\nlist = "list.txt"\n'
    )
    (tmp_path / "raw/009.txt").unlink()
    with pytest.raises(RecipeError, match=r"0:3 was withdrawn, and its file raw/003.txt is read"):
        go(tmp_path, remove=True)
    (tmp_path / "raw/003.txt").unlink()
    go(tmp_path, remove=True)
    kept = [row["text"] for row in documents(tmp_path / "out")]
    assert "Text of file 3.\n" not in kept
    assert "Text of file 4.\n" in kept


def test_files_that_cannot_be_read_are_rows_unless_most_are(tmp_path: Path) -> None:
    lay_out(tmp_path)
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    for place in range(10, 13):
        (tmp_path / f"raw/{place:03}.txt").write_bytes(picture)
    go(tmp_path)
    rows = pq.read_table(tmp_path / "out/verdicts/00000.parquet").to_pylist()
    wrong = [row for row in rows if row["reason"] == "read.unreadable"]
    assert [row["url"] for row in wrong] == [f"raw/{place:03}.txt" for place in range(10, 13)]
    assert why(tmp_path / "out", str(wrong[1]["document"]))[0]["raw_shard"] == "raw/011.txt"
    for place in range(100):
        (tmp_path / f"raw/{place:03}.txt").write_bytes(picture)
    with pytest.raises(ShardsFailed, match=r"100 of 152 packed files .*raw/000.txt.*PNG"):
        go(tmp_path, "most")


def test_a_file_that_changes_between_plan_and_reading_stops_the_run(tmp_path: Path) -> None:
    lay_out(tmp_path)
    go(tmp_path, until="fetch")
    path = tmp_path / "raw/050.txt"
    path.write_bytes(path.read_bytes().replace(b"Text", b"Tent"))
    with pytest.raises(RecipeError, match="raw/050.txt"):
        go(tmp_path)
    go(tmp_path, replace=True)
    assert "Tent of file 50.\n" in [row["text"] for row in documents(tmp_path / "out")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_a_raw_shard_alone(tmp_path: Path) -> None:
    lay_out(tmp_path)
    (tmp_path / "raw/003.txt").chmod(0)
    with pytest.raises(ShardsFailed):
        go(tmp_path)
    go(tmp_path, allow_missing=True)
    assert [one["url"] for one in raw_shards(tmp_path / "out") if one.get("missing")] == [
        "raw/003.txt"
    ]


@pytest.mark.parametrize("limit", [1, 70, 153])
def test_a_limit_ends_within_a_pack(tmp_path: Path, limit: int) -> None:
    lay_out(tmp_path)
    (tmp_path / "recipe.toml").write_text(f"{RECIPE}limit = {limit}\n")
    go(tmp_path)
    texts = [row["text"] for row in documents(tmp_path / "out")]
    assert len(texts) == limit
    assert texts[0] == "Text of file 0.\n"
    verify(tmp_path / "out", raw=True, cache_dir=tmp_path / "cache")


def test_a_target_that_is_raised_reads_the_rest_of_the_pack(tmp_path: Path) -> None:
    lay_out(tmp_path)
    train_tokenizer([tmp_path / "raw/rows.jsonl"], tmp_path / "tokenizer.json", vocabulary=260)
    tokens = '[tokens]\ntokenizer = "tokenizer.json"\nvalidation = 0.0\n'
    recipe = tmp_path / "recipe.toml"

    def at(target: int, out: str) -> list[str]:
        recipe.write_text(f"{RECIPE}target_tokens = {target}\n{tokens}")
        go(tmp_path, out)
        rows = pq.read_table(tmp_path / out / "verdicts").to_pylist()
        return [why(tmp_path / out, str(row["document"]))[0]["raw_shard"] for row in rows]

    few = at(300, "out")
    assert raw_shards(tmp_path / "out")[0]["cut"]["row"] < 30
    more = at(1500, "out")
    assert len(more) > len(few)
    first, _, again, _ = raw_shards(tmp_path / "out")
    assert again["start"] == first["cut"]["row"]
    assert again["files"] != []
    verify(tmp_path / "out", raw=True, cache_dir=tmp_path / "cache")


def test_dry_runs_and_sizes_know_packs(tmp_path: Path) -> None:
    lay_out(tmp_path)
    rows = dry_run(tmp_path / "recipe.toml", out=tmp_path / "out", cache_dir=tmp_path / "cache")
    assert [row.state for row in rows] == ["here", "here"]
    files = sorted((tmp_path / "raw").rglob("*.*"))
    whole = sum(path.stat().st_size for path in files if path.is_file())
    assert sum(row.here for row in rows) == whole
    found = size(tmp_path / "recipe.toml", cache_dir=tmp_path / "cache")
    assert found["raw_bytes"] == whole
    assert found["documents"] >= FILES
