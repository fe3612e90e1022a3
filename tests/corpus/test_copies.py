"""Copies: the column of text/ and of exports, and the sizes of clusters over corpora that were
compared with one another.
"""

import hashlib
import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gristmill import RecipeError, VerificationError, copies, export, run, train_tokenizer
from tests.support.corpora import article, digests, jsonl
from tests.support.crawls import crawl, digest_of, recipe, verdicts
from tests.support.duplicates import edited


def truth(*corpora: Path) -> Counter[tuple[str, int]]:
    """How many verdicts name each keeper, by the sha256 of its corpus' manifest: counted one by
    one.
    """
    found: Counter[tuple[str, int]] = Counter()
    for corpus in corpora:
        for row in verdicts(corpus):
            if row["keeper"] is not None:
                found[row["keeper_corpus"] or digest_of(corpus), row["keeper"]] += 1
    return found


def told(*corpora: Path) -> dict[tuple[str, int], int]:
    return {
        (row["corpus"], row["document"]): row["copies"]
        for row in copies(*corpora).read_all().to_pylist()
    }


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three crawls, each compared with those before it.

    Their documents have equal numbers, and keepers among all.
    """
    folder = tmp_path_factory.mktemp("crawls")
    names: list[str] = []
    for place, name in enumerate("abc"):
        (folder / f"{name}.jsonl").write_bytes(jsonl(crawl(120, place)))
        run(recipe(folder, [name], list(names)), out=folder / name, workers=1)
        names.append(name)
    return folder


def test_copies_over_all_corpora(crawls: Path) -> None:
    corpora = [crawls / name for name in "abc"]
    expected = truth(*corpora)
    found = told(*corpora)
    kept = {
        (digest_of(corpus), row["document"])
        for corpus in corpora
        for row in verdicts(corpus)
        if row["reason"] is None
    }
    assert found.keys() == kept
    assert {key: count for key, count in found.items() if count} == expected
    # Keepers of an older corpus and documents of this one share numbers: by number alone many would
    # be wrong.
    last = digest_of(corpora[2])
    by_number = Counter(row["keeper"] for row in verdicts(corpora[2]) if row["keeper"] is not None)
    wrong = [key for key in kept if key[0] == last and by_number[key[1]] != found[key]]
    assert len(wrong) > 10


def test_text_and_exports_say_copies(crawls: Path, tmp_path: Path) -> None:
    corpus = crawls / "c"
    expected = {
        document: count
        for (digest, document), count in truth(corpus).items()
        if digest == digest_of(corpus)
    }
    text = pq.read_table(corpus / "text/web/00000.parquet").to_pylist()
    assert {row["document"]: row["copies"] for row in text if row["copies"]} == expected
    export(corpus, tmp_path / "lines", to="jsonl")
    export(corpus, tmp_path / "table", to="parquet")
    lines = [
        json.loads(line) for line in (tmp_path / "lines/web/00000.jsonl").read_bytes().splitlines()
    ]
    table = pq.read_table(tmp_path / "table/web/00000.parquet")
    assert (
        [line["copies"] for line in lines]
        == table["copies"].to_pylist()
        == [row["copies"] for row in text]
    )


def test_exports_of_tokens_say_copies_and_keep_a_field_of_that_name(tmp_path: Path) -> None:
    pick = random.Random(1)
    text = article("copied")
    rows = [
        {"text": text, "copies": 7},
        {"text": edited(text, 0.005, pick)},
        {"text": text + "!"},
        {"text": article("other")},
    ]
    (tmp_path / "pages.jsonl").write_bytes(jsonl(rows))
    train_tokenizer([tmp_path / "pages.jsonl"], tmp_path / "tokenizer.json", vocabulary=300)
    for name, tokens in (("tokens", '[tokens]\ntokenizer = "tokenizer.json"\n'), ("text", "")):
        path = tmp_path / f"{name}.toml"
        path.write_text(
            '[[source]]\nname = "web"\nfiles = ["pages.jsonl"]\n[deduplicate]\nnear = {}\n' + tokens
        )
        run(path, out=tmp_path / name, workers=1)
        export(tmp_path / name, tmp_path / f"{name}-out", to="jsonl")
        lines = [
            json.loads(line)
            for line in (tmp_path / f"{name}-out/web/00000.jsonl").read_bytes().splitlines()
        ]
        assert [(line["copies"], line.get("original_copies")) for line in lines] == [
            (2, 7),
            (0, None),
        ]


def test_without_deduplication_nobody_has_copies(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_bytes(jsonl([{"text": article(1)}, {"text": article(1)}]))
    path = tmp_path / "recipe.toml"
    with_dedup = '[[source]]\nname = "web"\nfiles = ["pages.jsonl"]\n[deduplicate]\n'
    path.write_text(with_dedup)
    run(path, out=tmp_path / "corpus", workers=1)
    assert list(told(tmp_path / "corpus").values()) == [1]
    path.write_text(with_dedup.replace("[deduplicate]\n", ""))
    run(path, out=tmp_path / "corpus", workers=1)
    assert list(told(tmp_path / "corpus").values()) == [0, 0]
    assert pq.read_table(tmp_path / "corpus/text/web/00000.parquet")["copies"].to_pylist() == [0, 0]


def test_a_copy_that_comes_later_counts_in_text(tmp_path: Path) -> None:
    """A corpus that grows shows the copies of earlier shards' documents as a corpus that was made
    at once does.
    """
    recipe_text = '[[source]]\nname = "web"\nfiles = ["raw/*"]\n[deduplicate]\n'
    (tmp_path / "recipe.toml").write_text(recipe_text)
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.jsonl").write_bytes(jsonl([{"text": article(number)} for number in range(5)]))
    run(tmp_path / "recipe.toml", out=tmp_path / "grown", workers=1)
    (raw / "b.jsonl").write_bytes(jsonl([{"text": article(number)} for number in (3, 3, 8)]))
    run(tmp_path / "recipe.toml", out=tmp_path / "grown", workers=2)
    run(tmp_path / "recipe.toml", out=tmp_path / "fresh", workers=1)
    assert digests(tmp_path / "grown") == digests(tmp_path / "fresh")
    assert pq.read_table(tmp_path / "grown/text/web/00000.parquet")["copies"].to_pylist() == [
        0,
        0,
        0,
        2,
        0,
    ]


def test_what_copies_refuses(crawls: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="at least one"):
        copies()
    with pytest.raises(RecipeError, match="is named twice"):
        copies(crawls / "a", crawls / "a")
    with pytest.raises(RecipeError, match=r"which is not named\. Name that corpus too"):
        copies(crawls / "a", crawls / "c")
    with pytest.raises(VerificationError, match="not a corpus, or not finished"):
        copies(tmp_path)
    changed = tmp_path / "b"
    shutil.copytree(crawls / "b", changed)
    data = (changed / "manifest.json").read_bytes().replace(b'"licence": null', b'"licence": "x"')
    (changed / "manifest.json").write_bytes(data)
    (changed / "manifest.lock").write_text(f"{hashlib.sha256(data).hexdigest()}  manifest.json\n")
    with pytest.raises(RecipeError, match="changed since"):
        copies(crawls / "a", changed, crawls / "c")
