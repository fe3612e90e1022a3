"""Repeated substrings through whole runs: what is listed, what is cut, and that a dictionary of all
windows says the same.
"""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill
from gristmill import run
from gristmill.dedup.substrings import repeated_spans, windows
from gristmill.errors import RecipeError
from tests.support import naive_substrings, strategies
from tests.support.corpora import article, digests, jsonl
from tests.support.every_phase import in_process

LIST = "duplicates/substrings.parquet"
RECIPE = """
seed = 7
[[source]]
name = "news"
files = ["news.jsonl"]
[[source]]
name = "shop"
files = ["shop-*.jsonl"]
[deduplicate]
exact = false
[deduplicate.substrings]
bytes = 60
"""


def texts(seed: str, count: int) -> list[str]:
    """Pages of prose with stretches that come again on other pages, in the middle of words and over
    the bounds of characters; empty ones, spaces, periodic ones.
    """
    pick = random.Random(seed)
    again = [article(f"again {number}", 2) for number in range(4)] + ["日本語の文章です。" * 9]
    out = ["", " " * 500, "ab" * 300, again[0], article("whole", 8), article("whole", 8)]
    for number in range(count):
        found = article(f"{seed} {number}", 4)
        for piece in pick.choices(again, k=pick.randrange(3)):
            at = pick.randrange(len(found))
            found = found[:at] + piece[pick.randrange(9) :] + found[at:]
        out.append(found)
    pick.shuffle(out)
    return out


SHARDS = {"news": texts("n", 12), "shop-1": texts("s", 12), "shop-2": texts("t", 6)}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("substrings")
    for name, batch in SHARDS.items():
        (folder / f"{name}.jsonl").write_bytes(jsonl([{"text": text} for text in batch]))
    (folder / "recipe.toml").write_text(RECIPE, "utf-8")
    return folder / "recipe.toml"


def rows(corpus: Path, folder: str) -> dict[int, str]:
    return {
        row["document"]: row["text"]
        for path in sorted((corpus / folder).rglob("*.parquet"))
        for row in pq.read_table(path, columns=["document", "text"]).to_pylist()
    }


def settings(**named: Any) -> dict[str, str]:
    return {f"deduplicate.substrings.{name}": json.dumps(value) for name, value in named.items()}


@pytest.mark.parametrize(
    ("asked", "scope"),
    [
        ({}, "corpus"),
        ({"keep": "none", "boundary": "characters"}, "corpus"),
        ({"most": 2, "boundary": "lines"}, "source"),
        ({"bytes": 16, "action": "count"}, "source"),
    ],
)
def test_a_run_lists_and_cuts_what_the_twin_does(
    recipe: Path, tmp_path: Path, asked: dict[str, Any], scope: str
) -> None:
    funnel = run(
        recipe,
        out=tmp_path / "corpus",
        workers=1,
        settings={**settings(**asked), "deduplicate.scope": json.dumps(scope)},
    ).table
    documents = rows(tmp_path / "corpus", "documents")
    groups: dict[Any, list[tuple[int, bytes]]] = {}
    for document, text in documents.items():
        own = scope == "source" and document >> 32 > 0
        groups.setdefault(own, []).append((document, text.encode()))
    wanted = [
        row
        for group in groups.values()
        for row in naive_substrings.spans(
            group,
            asked.get("bytes", 60),
            asked.get("most", 1),
            keeps_first=asked.get("keep", "first") == "first",
        )
    ]
    assert [
        tuple(row.values()) for row in pq.read_table(tmp_path / "corpus" / LIST).to_pylist()
    ] == wanted
    assert len(wanted) > 20
    left = rows(tmp_path / "corpus", "text")
    cuts = {document: (text, 0) for document, text in documents.items()}
    if asked.get("action") != "count":
        cuts = {
            document: naive_substrings.cut(
                text,
                [(row[1], row[2]) for row in wanted if row[0] == document],
                asked.get("boundary", "words"),
            )
            for document, text in documents.items()
        }
    assert left == {document: text for document, (text, _) in cuts.items()}
    told = funnel["substrings"]
    assert told["listed"] == len(wanted)
    assert told["listed_bytes"] == sum(row[2] - row[1] for row in wanted)
    assert told["listed_documents"] == len({row[0] for row in wanted})
    assert told["cut"] == sum(count for _, count in cuts.values())
    changed = [number for number in documents if documents[number] != left[number]]
    assert told["documents"] == len(changed)
    assert told["characters"] == sum(len(documents[one]) - len(left[one]) for one in changed)
    assert told["emptied"] == sum(not left[one] for one in changed)
    gristmill.verify(tmp_path / "corpus")


def test_workers_change_no_byte(recipe: Path, tmp_path: Path) -> None:
    run(recipe, out=tmp_path / "one", workers=1)
    run(recipe, out=tmp_path / "four", workers=4)
    assert digests(tmp_path / "four") == digests(tmp_path / "one")


def test_another_boundary_lists_nothing_again(recipe: Path, tmp_path: Path) -> None:
    corpus, record = tmp_path / "corpus", "work/state/repeated_substrings/all.json"
    run(recipe, out=corpus, workers=1)
    before = (corpus / record).stat().st_mtime_ns
    run(recipe, out=corpus, workers=1, settings=settings(boundary="lines"))
    assert (corpus / record).stat().st_mtime_ns == before
    run(recipe, out=tmp_path / "fresh", workers=1, settings=settings(boundary="lines"))
    assert digests(corpus) == digests(tmp_path / "fresh")


def test_export_has_the_texts_that_were_cut(recipe: Path, tmp_path: Path) -> None:
    from gristmill.phases.output.corpus_texts import corpus_texts
    from gristmill.reports.integrity.verify import finished

    run(recipe, out=tmp_path, workers=1)
    text = rows(tmp_path, "text")
    for path in (tmp_path / "text").rglob("*.parquet"):
        path.unlink()
    manifest, _ = finished(tmp_path)
    for number, source in ((0, "news"), (1, "shop"), (2, "shop")):
        for batch in corpus_texts(tmp_path, manifest, source, number):
            for row in batch.select(["document", "text"]).to_pylist():
                assert row["text"] == text[row["document"]]


def test_the_verb_and_why_show_spans(recipe: Path, tmp_path: Path) -> None:
    run(recipe, out=tmp_path, workers=1)
    documents = rows(tmp_path, "documents")
    listed = pq.read_table(tmp_path / LIST).to_pylist()
    told = gristmill.substrings(tmp_path, top=3)
    assert told["listed"] == len(listed)
    assert told["spans"][0]["places"] == max(row["places"] for row in listed)
    assert len({row["text"] for row in told["spans"]}) == 3
    for row in told["spans"]:
        text = documents[row["document"]].encode()[row["first_byte"] : row["end_byte"]]
        assert row["text"] == text.decode("utf-8", "replace")[:500]
    document = listed[-1]["document"]
    found = gristmill.why(tmp_path, str(document))[0]["substrings"]
    assert [row["first_byte"] for row in found] == [
        row["first_byte"] for row in listed if row["document"] == document
    ]


@pytest.mark.parametrize("value", [15, 65537, 0, "x"])
def test_bytes_has_bounds(recipe: Path, tmp_path: Path, value: Any) -> None:
    with pytest.raises(RecipeError, match="bytes"):
        run(recipe, out=tmp_path, settings=settings(bytes=value))


PIECE = st.text("ab", min_size=1, max_size=25).map(str.encode)
SHARD = st.lists(
    st.lists(st.tuples(PIECE, st.integers(1, 5)), max_size=4).map(
        lambda found: b"".join(piece * count for piece, count in found)
    ),
    max_size=3,
)


@strategies.fuzz(60)
@given(
    st.lists(st.tuples(SHARD, st.integers(0, 1)), max_size=3),
    st.integers(1, 2),
    st.booleans(),
    st.integers(0, 3),
    st.booleans(),
)
def test_fuzz_partitions(
    tmp_path_factory: pytest.TempPathFactory,
    shards: list[tuple[list[bytes], int]],
    most: int,
    keeps_first: bool,
    bits: int,
    tiny: bool,
) -> None:
    """Any number of partitions, of blocks and of shards, in memory or not, gives what the twin
    says.
    """
    from gristmill.engine.relations import duckdb_with

    work = tmp_path_factory.mktemp("work")
    files, anchors, groups = [], [], {}
    with pytest.MonkeyPatch.context() as patch:
        if tiny:
            patch.setattr(windows, "BLOCK", 1)
            patch.setattr(repeated_spans, "IN_MEMORY", 1)
        batches = []
        for number, (batch, scope) in enumerate(shards):
            documents = [(number << 32) + row for row in range(len(batch))]
            groups.setdefault(scope, []).extend(zip(documents, batch, strict=True))
            columns = [
                pa.array(documents, pa.int64()),
                pa.array([one.decode() for one in batch], pa.string()),
            ]
            batches.append(pa.RecordBatch.from_arrays(columns, ["document", "text"]))
            anchors.append(work / f"anchors-{number}")
            with pq.ParquetWriter(anchors[-1], windows.ANCHORS) as writer:
                for found in windows.make_anchors([batches[-1]], 16):
                    writer.write_batch(windows.scoped(found, scope))
        if not anchors:
            return

        def opened() -> Any:
            return duckdb_with(1, 200)(work / "spill", [work])

        repeated, _ = repeated_spans.repeated_anchors(anchors, most, opened, work)
        for number, (_, scope) in enumerate(shards):
            made = windows.MemberFiles(
                work / f"{number}.m", work / f"{number}.c", work / f"{number}.i", scope
            )
            known = windows.map_array(repeated, "<i8")
            windows.write_members([batches[number]], 16, known, bits, made)
            files.append(made)
        asked = repeated_spans.WindowSettings(16, most, keeps_first)
        out = repeated_spans.find_repeated_spans(
            files, bits, asked, work, relations=opened, executor=map
        )
        got = [tuple(row.values()) for batch in out for row in batch.to_pylist()]
    wanted = [
        row
        for _, group in sorted(groups.items())
        for row in naive_substrings.spans(group, 16, most, keeps_first=keeps_first)
    ]
    assert got == sorted(wanted)


def test_a_kill_at_any_write_leaves_what_the_next_run_completes(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soak: int
) -> None:
    """A kill between two system calls of looking for substrings and cutting them, at two of them
    (soak: at every other).
    """

    class Killed(BaseException):
        pass

    left = 0

    def counted(function: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return function(*given, **named)

        return call

    base = tmp_path / "base"
    with in_process():
        run(recipe, out=base, workers=1, until="deduplicate")
        shutil.rmtree(base / "work/state/repeated_substrings")
        run(recipe, out=tmp_path / "whole", workers=1)
    wanted, stopped, finished = digests(tmp_path / "whole"), 0, False
    steps = 30 if soak == 1 else 0
    while not finished and steps < 2000:
        corpus = tmp_path / f"stopped-{steps}"
        shutil.copytree(base, corpus)
        left = steps
        with monkeypatch.context() as patch, in_process():
            patch.setattr(Path, "rename", counted(Path.rename))
            patch.setattr(Path, "unlink", counted(Path.unlink))
            patch.setattr(os, "fsync", counted(os.fsync))
            try:
                run(recipe, out=corpus, workers=1)
                finished = True
            except Killed:
                stopped += 1
        with in_process():
            run(recipe, out=corpus, workers=1)
        assert digests(corpus) == wanted
        shutil.rmtree(corpus)
        steps += 30 if soak == 1 else 2
    assert finished and stopped > 1
