"""ReferenceCorpus corpora: a run against them gives the verdicts that one run over all documents
gives, and names the corpus of a keeper.
"""

import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gristmill import RecipeError, SourceError, VerificationError, rejudge, run, verify, why
from gristmill.dedup import reference_corpus, shard_tables
from gristmill.dedup.near import corpus_index, key_partitions, signature_rows
from gristmill.reports.documents.why import lines
from gristmill.store.manifest import decode
from tests.support.corpora import digests, jsonl
from tests.support.crawls import RECIPE, crawl, digest_of, recipe, verdicts


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawls")
    for place, (name, count) in enumerate((("a", 220), ("b", 0), ("c", 160), ("d", 180))):
        # Blank lines are rows, and no documents.
        (folder / f"{name}.jsonl").write_bytes(
            jsonl(crawl(count, place)).replace(b"}\n", b"}\n\n\n" if name != "d" else b"}\n")
        )
    return folder


SOAKED = [
    pytest.param(near, marks=pytest.mark.soak)
    for near in ('verify = "signatures"', 'unit = "characters"')
]


@pytest.mark.parametrize("near", ["", "candidates = 1", *SOAKED])
def test_one_after_another_is_all_at_once(crawls: Path, tmp_path: Path, near: str) -> None:
    names = ["a", "b", "c", "d"]
    whole = tmp_path / "whole"
    run(recipe(crawls, names, [], near), out=whole, workers=1)
    expected = verdicts(whole)
    for place, name in enumerate(names):
        before = [str(tmp_path / other) for other in names[:place]]
        run(recipe(crawls, [name], before, near), out=tmp_path / name, workers=1)
        verify(tmp_path / name)
    of_digest = {digest_of(tmp_path / name): place for place, name in enumerate(names)}
    told = []
    foreign = {
        "deduplicate.same_url": 0,
        "deduplicate.exact_duplicate": 0,
        "deduplicate.near_duplicate": 0,
    }
    for place, name in enumerate(names):
        for row in verdicts(tmp_path / name):
            corpus = place if row["keeper_corpus"] is None else of_digest[row["keeper_corpus"]]
            if row["keeper_corpus"] is not None:
                foreign[row["reason"]] += 1
            keeper = None if row["keeper"] is None else (corpus << 32) + row["keeper"]
            told.append(
                row
                | {
                    "document": (place << 32) + row["document"],
                    "keeper": keeper,
                    "keeper_corpus": None,
                }
            )
    assert told == expected
    assert min(foreign.values()) > 5, foreign


def test_small_pieces_and_many_cuts(
    crawls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index cut one way and asked from cuts of another, in small pieces; deduplicate runs here,
    not in a worker.
    """
    from gristmill.engine.relations import duckdb_with
    from gristmill.phases.relations import deduplicate as phase
    from gristmill.recipe import load

    for name, keys in (("a", 500), ("c", 3000)):
        monkeypatch.setattr(signature_rows, "KEYS", keys)
        path = recipe(crawls, [name], [str(tmp_path / "a")] if name == "c" else [])
        run(path, out=tmp_path / name, workers=1)
        before = digests(tmp_path / name)
        settings = load(path, {}).recipe.deduplicate
        monkeypatch.setattr(key_partitions, "CHUNK", 64)
        monkeypatch.setattr(corpus_index, "ENTRIES", 10)
        tables = [
            shard_tables.ShardTables(
                tmp_path / name / "signatures/00000.parquet",
                tmp_path / name / "documents/00000.parquet",
                0,
            )
        ]
        deduplicated = phase.deduplicate(
            tables,
            settings,
            tmp_path / f"work.{name}",
            opener=duckdb_with(1, 300),
            on_progress=lambda _: None,
            against=phase.open_all(settings, crawls),
        )
        drops = {row["document"]: row["keeper"] for row in deduplicated.drops.to_pylist()}
        assert drops == {
            row["document"]: row["keeper"]
            for row in verdicts(tmp_path / name)
            if row["keeper"] is not None
        }
        assert len(deduplicated.entries) == (32 if name == "a" else 4)
        assert digests(tmp_path / name) == before


def test_an_index_in_many_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that share first bits, some of many documents, looked up in pieces of ten."""
    monkeypatch.setattr(corpus_index, "ENTRIES", 10)
    pick = random.Random(9)
    keys = (
        [pick.randrange(1 << 64) for _ in range(60)]
        + [pick.randrange(8) << 61 for _ in range(9)]
        + [(1 << 64) - 1]
    )
    entries = sorted((pick.choice(keys), pick.randrange(500)) for _ in range(900))
    holders: dict[int, list[int]] = {}
    for key, row in dict.fromkeys(entries):
        holders.setdefault(key, []).append(row)
    documents = (
        np.arange(500) + (np.arange(500) // 100 << 32) - np.arange(500) // 100 * 100
    )  # five shards of a hundred
    (tmp_path / "index").mkdir()
    for cut in range(8):
        own = [
            (key, row + 7)
            for key, rows_of in holders.items()
            for row in rows_of
            if key >> 61 == cut
        ]
        pick.shuffle(own)
        table = np.array(own, object).reshape(-1, 2)
        whole = np.stack(
            [table[:, 0].astype(np.uint64).view(np.int64), table[:, 1].astype(np.int64)], axis=1
        )
        written = corpus_index.index_entries(whole, documents, 7)
        for place, column in zip((corpus_index.KEYS, corpus_index.DOCUMENTS), written, strict=True):
            column.tofile(tmp_path / place.format(cut))
    corpus = reference_corpus.ReferenceCorpus(tmp_path, 3, "digest", np.arange(5), 8)
    wanted = sorted({*keys[::2], 0, 5, (1 << 64) - 1, *(cut << 61 for cut in range(8))})
    found = corpus_index.look_up(corpus, np.array(wanted, np.uint64))
    assert list(zip(*(column.tolist() for column in found), strict=True)) == [
        (key, ((3 + row // 100) << 32) + row % 100)
        for key in wanted
        for row in holders.get(key, [])[:16]
    ]
    assert corpus.documents(np.array([3 << 32, (7 << 32) + 99])).tolist() == [0, (4 << 32) + 99]
    with pytest.raises(VerificationError, match="names documents that the corpus does not have"):
        corpus.numbers(np.array([5 << 32]))


def test_an_older_corpus_that_is_damaged(crawls: Path, tmp_path: Path) -> None:
    """What it lacks or has too much is told; nothing is read beyond what is there."""
    run(recipe(crawls, ["a"], []), out=tmp_path / "a", workers=1)
    path = recipe(crawls, ["c"], [str(tmp_path / "a")])
    for name, change in (
        (
            "index/0000.documents",
            lambda data: (np.frombuffer(data, np.int64) + (1 << 20)).tobytes(),
        ),
        (
            "index/0000.documents",
            lambda data: (np.frombuffer(data, np.int64) + (1 << 40)).tobytes(),
        ),
        ("index/0000.keys", lambda data: data[:-8]),
        ("signatures/00000.parquet", lambda data: data + b"x"),
    ):
        part = tmp_path / "a" / name
        data = part.read_bytes()
        part.write_bytes(change(data))
        with pytest.raises(
            (VerificationError, SourceError), match="not the|names documents|have no signature"
        ):
            run(path, out=tmp_path / "c", workers=1)
        part.write_bytes(data)
    run(path, out=tmp_path / "c", workers=1)


def test_an_older_corpus_that_changed_is_another_input(crawls: Path, tmp_path: Path) -> None:
    near = "threshold = 0.8, floor = 0.7"
    run(recipe(crawls, ["a"], []), out=tmp_path / "a", workers=1)
    path = recipe(crawls, ["c"], [str(tmp_path / "a")])
    kept = run(path, out=tmp_path / "c", workers=1).table["kept"]
    named = decode((tmp_path / "c/manifest.json").read_bytes()).inputs["deduplicate.against.0"]
    assert named == {"name": "a", "sha256": digest_of(tmp_path / "a")}
    run(recipe(crawls, ["a"], [], near.replace("0.8", "1.0")), out=tmp_path / "a", workers=1)
    assert run(path, out=tmp_path / "c", workers=1).table["kept"] != kept
    copies = pq.read_table(tmp_path / "c/duplicates/copies.parquet").to_pylist()
    assert sum(row["copies"] for row in copies) == sum(
        row["keeper"] is not None for row in verdicts(tmp_path / "c")
    )
    assert {row["keeper_corpus"] for row in copies} == {None, digest_of(tmp_path / "a")}
    gone = next(row for row in verdicts(tmp_path / "c") if row["keeper_corpus"] is not None)
    told = "\n".join(lines(why(tmp_path / "c", str(gone["document"]))[0]))
    assert f"of the corpus whose manifest is {digest_of(tmp_path / 'a')}" in told


def test_rejudge_compares_with_older_corpora(crawls: Path, tmp_path: Path) -> None:
    run(recipe(crawls, ["a"], []), out=tmp_path / "a", workers=1)
    path = recipe(crawls, ["c"], [str(tmp_path / "a")])
    run(path, out=tmp_path / "c", workers=1)
    for threshold in ("0.8", "0.95"):
        changed = {"deduplicate.near.threshold": threshold}
        told = rejudge(path, out=tmp_path / "c", settings=changed)
        assert (
            told["kept"]["now"]
            == run(path, out=tmp_path / threshold, workers=1, settings=changed).table["kept"]
        )
    run(recipe(crawls, ["a"], [], "threshold = 1.0"), out=tmp_path / "a", workers=1)
    with pytest.raises(RecipeError, match="not the corpus that this one was compared with"):
        rejudge(path, out=tmp_path / "c")


def test_what_cannot_be_compared_is_refused(crawls: Path, tmp_path: Path) -> None:
    run(recipe(crawls, ["a"], [], "bands = 16, rows = 8"), out=tmp_path / "other", workers=1)
    plain = crawls / "plain.toml"
    plain.write_text('[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n[deduplicate.near]\n')
    run(plain, out=tmp_path / "plain", workers=1)
    for name, reason in (
        ("other", "built with other parameters: near.bands is 16 there, 32 in the recipe"),
        ("plain", r"has no index; set `index = true` in `\[deduplicate\]`"),
        ("none", "is no finished corpus"),
    ):
        with pytest.raises(RecipeError, match=reason):
            run(recipe(crawls, ["c"], [str(tmp_path / name)]), out=tmp_path / "c", workers=1)
    text = RECIPE.replace("FILES", '"c.jsonl"').replace("AGAINST", '"x"')
    for changed, reason in (
        (
            text.replace("NEAR", "").replace("url = true", 'scope = "source"'),
            "against and index compare whole corpora",
        ),
        (
            text.replace("NEAR", 'group = "components"'),
            "a document that a reference corpus keeps must stay kept",
        ),
        (
            text.replace("near = { NEAR }", ""),
            r"index: an index holds the bands of signatures; add \[deduplicate.near\]",
        ),
    ):
        (crawls / "bad.toml").write_text(changed)
        with pytest.raises(RecipeError, match=reason):
            run(crawls / "bad.toml", out=tmp_path / "bad", workers=1)
