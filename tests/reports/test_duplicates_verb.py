"""Duplicates told from the corpus alone, beside a slow twin that reads it all; and the guard that
stops a run for a giant cluster.
"""

import json
import os
import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill import RecipeError, VerificationError, run
from gristmill.corpus import clusters
from gristmill.corpus.corpus import Corpus
from gristmill.reports.documents.duplicates import duplicates, lines
from gristmill.tables import schema
from tests.support import ROOT
from tests.support.command import command_line
from tests.support.corpora import article, digests, jsonl
from tests.support.duplicates import edited
from tests.support.naive import mix
from tests.support.naive_folding import signed_words as normalise

RECIPE = """
seed = 7
[[source]]
name = "news"
files = ["news.jsonl"]
[[source]]
name = "shop"
files = ["shop-*.jsonl"]
[[step]]
use = "simple"
min_words = 3
max_upper = 1.0
max_special = 1.0
[deduplicate]
url = true
near = {}
"""
MENU = "Home -- Offers -- Basket -- Imprint of the village mill"


def row(text: str, url: str | None = None) -> dict[str, Any]:
    return {"text": text, "url": url}


def shards() -> dict[str, list[dict[str, Any]]]:
    """A large cluster over both sources, exact and near; smaller ones; equal URLs; stubs that never
    reach deduplication.
    """
    pick = random.Random(8)
    page = f"{MENU}\n{article('large', 60)}"
    news = [row(article(number, 20), f"https://news.example/{number}") for number in range(40)]
    news += [row(page, f"https://news.example/large/{number}") for number in range(10)]
    news += [
        row(article(f"again {number}", 20), f"https://news.example/{number}") for number in range(4)
    ]
    news += [row("stub", None)] * 3
    shop = [row(edited(page, 0.002, pick)) for _ in range(30)]
    shop += [row(article(number, 20).replace(" ", "\u00a0 ")) for number in range(25)] + [
        row(article(3, 20))
    ] * 7
    more = [row(article(f"more {number}", 20)) for number in range(20)]
    return {"news": news, "shop-1": shop, "shop-2": more}


def lay_out(folder: Path, given: dict[str, list[dict[str, Any]]], recipe: str = RECIPE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, batch in given.items():
        (folder / f"{name}.jsonl").write_bytes(jsonl(batch))
    path = folder / "recipe.toml"
    path.write_text(recipe, "utf-8")
    return path


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("laid"), shards())


@pytest.fixture(scope="module")
def corpus(laid: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    run(laid, out=folder / "corpus", workers=1)
    return folder / "corpus"


def rows(corpus: Path, folder: str) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted((corpus / folder).rglob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def twin(corpus: Path, top: int) -> dict[str, Any]:
    """All of it held in memory, in Python's own collections."""
    source = {
        shard["number"]: shard["source"]
        for shard in json.loads((corpus / "manifest.json").read_text())["raw_shards"]
    }
    verdicts = [
        row
        for row in rows(corpus, "verdicts")
        if row["reason"] is None or row["reason"].startswith("deduplicate.")
    ]
    texts = {row["document"]: row["text"] for row in rows(corpus, "documents")}
    urls = {row["document"]: row["url"] for row in verdicts}

    def table(chosen: list[dict[str, Any]]) -> dict[str, Any]:
        counted = Counter(row["reason"] for row in chosen)
        names = ("same_url", "exact_duplicate", "near_duplicate")
        return {
            "documents": len(chosen),
            "kept": counted[None],
            "reasons": {name: counted[f"deduplicate.{name}"] for name in names},
        }

    members: dict[int, list[dict[str, Any]]] = {
        row["document"]: [] for row in verdicts if row["reason"] is None
    }
    for row in verdicts:
        if row["reason"] is not None:
            members[row["keeper"]].append(row)
    sizes, bound = [], 1
    while any(len(found) + 1 > bound // 2 for found in members.values()):
        fit = [len(found) + 1 for found in members.values() if bound // 2 < len(found) + 1 <= bound]
        sizes.append(
            {"least": bound // 2 + 1, "most": bound, "clusters": len(fit), "documents": sum(fit)}
        )
        bound *= 2
    told = []
    for keeper, found in sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))[:top]:
        if not found:
            continue
        chosen = sorted(found, key=lambda row: mix(row["document"] ^ clusters.SEED))[:5]
        chosen.sort(key=lambda row: row["document"])
        forms = [
            {normalise(line): line for line in reversed(texts[document].splitlines())}
            for document in (keeper, *(row["document"] for row in chosen))
        ]
        common = sorted(
            (form for form in forms[0] if form and all(form in other for other in forms)), key=len
        )
        told.append(
            {
                "size": len(found) + 1,
                "share": (len(found) + 1) / len(verdicts),
                "keeper": keeper,
                "url": urls[keeper],
                "text": texts[keeper][:80],
                "sample": [
                    {
                        **{name: row[name] for name in ("document", "reason", "similarity", "url")},
                        "text": texts[row["document"]][:80],
                    }
                    for row in chosen
                ],
                "lines": common[::-1][:5],
            }
        )
    names = list(dict.fromkeys(source[number] for number in sorted(source)))
    by_source = {
        name: table([row for row in verdicts if source[row["document"] >> 32] == name])
        for name in names
    }
    return {
        "finished": True,
        **table(verdicts),
        "sources": by_source,
        "sizes": sizes,
        "clusters": told,
    }


def with_forms(told: dict[str, Any]) -> dict[str, Any]:
    """Lines by their lengths and as a set of normalised texts: of equally long ones the twin's
    order is another.
    """
    for cluster in told["clusters"]:
        forms = [normalise(line) for line in cluster["lines"]]
        cluster["lines"] = [len(form) for form in forms]
        assert len(set(forms)) == len(forms)
    return told


@pytest.mark.parametrize("top", [1, 3, 100])
def test_what_is_told_is_what_the_twin_counts(corpus: Path, top: int) -> None:
    told = duplicates(corpus, top=top)
    assert told["reasons"] == {"same_url": 4, "exact_duplicate": 41, "near_duplicate": 30}
    assert with_forms(told) == with_forms(twin(corpus, top))
    assert told["clusters"][0]["size"] == 40
    assert len(told["clusters"]) == min(top, 26)


def test_shared_lines_are_the_keepers_own_and_in_all_of_the_sample(corpus: Path) -> None:
    texts = {row["document"]: row["text"] for row in rows(corpus, "documents")}
    for cluster in duplicates(corpus, top=100)["clusters"]:
        for line in cluster["lines"]:
            assert line in texts[cluster["keeper"]].splitlines()
            for member in cluster["sample"]:
                assert normalise(line) in map(normalise, texts[member["document"]].splitlines())


def test_of_lines_that_are_equal_once_normalised_the_first_is_shown(tmp_path: Path) -> None:
    text = "Home, Offers\nBread from the mill\n\n!!!\nHOME; OFFERS\nhome offers"
    recipe = lay_out(tmp_path / "in", {"news": [row(text), row(text.upper())], "shop-1": []})
    run(recipe, out=tmp_path / "corpus", workers=1)
    assert duplicates(tmp_path / "corpus")["clusters"][0]["lines"] == [
        "Bread from the mill",
        "Home, Offers",
    ]


def test_batches_and_row_groups_leave_no_trace(corpus: Path, tmp_path: Path) -> None:
    """Row groups of seven rows: what is held between them is what one large one gives."""
    whole = duplicates(corpus)
    copy = tmp_path / "corpus"
    shutil.copytree(corpus, copy)
    for folder in ("verdicts", "documents", "duplicates"):
        for path in (copy / folder).glob("*.parquet"):
            pq.write_table(pq.read_table(path), path, row_group_size=7)
    assert duplicates(copy) == whole


def test_the_command_prints_and_tells_machines_the_same(corpus: Path) -> None:
    words = command_line("duplicates", corpus, "--top", 2)
    shown = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(shown) == duplicates(corpus, top=2)
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert re.search(
        r"^all +136 +4 +2\.9 % +41 +30\.1 % +30 +22\.1 % +61 +44\.9 %$", shown, re.MULTILINE
    ), shown
    assert re.search(r"^news +54 +4 ", shown, re.MULTILINE) and re.search(
        r"^shop +82 +0 ", shown, re.MULTILINE
    )
    assert re.search(r"^33 to 64 +1 +40 +29\.4 %$", shown, re.MULTILINE)
    assert (
        "40 documents, 29.4 %" in shown
        and "  kept        0:40        https://news.example/large/0\n              Home" in shown
    )
    assert re.search(r"near 0\.9\d\d\d +1:", shown)


def test_by_source_no_cluster_has_two(laid: Path, tmp_path: Path) -> None:
    run(laid, out=tmp_path, workers=1, settings={"deduplicate.scope": '"source"'})
    told = duplicates(tmp_path, top=100)
    assert with_forms(told) == with_forms(twin(tmp_path, 100))
    assert told["sources"]["news"]["reasons"] == {
        "same_url": 4,
        "exact_duplicate": 9,
        "near_duplicate": 0,
    }
    for cluster in told["clusters"]:
        assert (
            len(
                {
                    0 if document >> 32 == 0 else 1
                    for document in [cluster["keeper"], *(m["document"] for m in cluster["sample"])]
                }
            )
            == 1
        )


def test_all_documents_equal(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path / "in", {"news": [row(article(1))] * 300, "shop-1": []})
    run(recipe, out=tmp_path / "corpus", workers=1)
    told = duplicates(tmp_path / "corpus")
    assert [
        (cluster["size"], cluster["share"], cluster["keeper"]) for cluster in told["clusters"]
    ] == [(300, 1.0, 0)]
    assert len(told["clusters"][0]["sample"]) == 5
    assert told["sizes"][-1] == {"least": 257, "most": 512, "clusters": 1, "documents": 300}
    assert sum(size["documents"] for size in told["sizes"]) == 300


@pytest.mark.parametrize("batch", [[], [row("stub")]])
def test_a_corpus_without_documents(tmp_path: Path, batch: list[dict[str, Any]]) -> None:
    recipe = lay_out(tmp_path / "in", {"news": batch, "shop-1": []})
    run(
        recipe, out=tmp_path / "corpus", workers=1, settings={"deduplicate.largest_cluster": "0.01"}
    )
    told = duplicates(tmp_path / "corpus")
    assert (told["documents"], told["kept"], told["sizes"], told["clusters"]) == (0, 0, [], [])
    assert lines(told)


def test_a_corpus_that_looked_for_no_duplicates_says_so(tmp_path: Path) -> None:
    recipe = lay_out(
        tmp_path / "in",
        {"news": [row(article(1))], "shop-1": []},
        RECIPE.partition("[deduplicate]")[0],
    )
    with pytest.raises(VerificationError, match="not a corpus, or not finished"):
        duplicates(tmp_path / "in")
    run(recipe, out=tmp_path / "corpus", workers=1)
    with pytest.raises(RecipeError, match=r"Add \[deduplicate\]"):
        duplicates(tmp_path / "corpus")


def test_texts_that_are_not_stored(laid: Path, corpus: Path, tmp_path: Path) -> None:
    run(laid, out=tmp_path, workers=1, settings={"keep_documents": "false"})
    told, whole = duplicates(tmp_path), duplicates(corpus)
    assert {cluster["lines"] for cluster in told["clusters"]} == {None}
    assert told["clusters"][0]["text"] is None and told["clusters"][0]["sample"][0]["text"] is None
    assert [cluster["url"] for cluster in told["clusters"]] == [
        cluster["url"] for cluster in whole["clusters"]
    ]
    assert "keep_documents = false" in lines(told)[-1]
    assert "keep_documents" not in "\n".join(lines(whole))


def test_what_drives_a_terminal_is_escaped(tmp_path: Path) -> None:
    text = f"\x1b[2Jcookies \u202e and menus\n{article(1, 8)}"
    batch = [
        row(f"{text}{'!' * number}", f"https://a.example/\x1b]0;{number}\x07")
        for number in range(120)
    ]
    recipe = lay_out(tmp_path / "in", {"news": batch, "shop-1": []})
    corpus = tmp_path / "corpus"
    with pytest.raises(RecipeError) as caught:
        run(recipe, out=corpus, workers=1, settings={"deduplicate.largest_cluster": "0.5"})
    assert str(caught.value).isprintable()
    assert r"https://a.example/\x1b]0;0\x07" in str(caught.value)
    run(recipe, out=corpus, workers=1)
    assert duplicates(corpus)["clusters"][0]["text"].startswith("\x1b[2Jcookies \u202e")
    words = command_line("duplicates", corpus)
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert not any(sign in shown for sign in "\x1b\x07\u202e")
    assert r"\x1b[2Jcookies \u202e and menus" in shown


def test_tables_that_disagree_are_refused(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    path = tmp_path / "corpus" / clusters.TABLE
    table = pq.read_table(path).to_pylist()
    table[0]["copies"] += 1000
    pq.write_table(pa.Table.from_pylist(table, pq.read_schema(path)), path)
    with pytest.raises(VerificationError, match="the verdicts name it"):
        duplicates(tmp_path / "corpus")
    (tmp_path / "corpus/verdicts/00001.parquet").unlink()
    with pytest.raises(VerificationError, match="00001.parquet: missing"):
        duplicates(tmp_path / "corpus")


def test_a_keeper_of_another_corpus_has_no_members_here(tmp_path: Path) -> None:
    found = [
        {
            "document": 5,
            "reason": "deduplicate.near_duplicate",
            "keeper": 2,
            "similarity": 0.9,
            "keeper_corpus": "old",
        },
        {"document": 6, "reason": "deduplicate.near_duplicate", "keeper": 2, "similarity": 0.9},
        {"document": 7, "reason": "deduplicate.near_duplicate", "keeper": 3, "similarity": 0.9},
        {"document": 8, "reason": "gopher.length"},
    ]
    path = tmp_path / "verdicts.parquet"
    pq.write_table(pa.Table.from_pylist(found, schema.VERDICTS), path)
    member = {"document": 6, "reason": "deduplicate.near_duplicate", "similarity": 0.9}
    assert clusters.members([path], [4, 2], 5) == {2: (1, [member]), 4: (0, [])}


# The guard.


@pytest.fixture(scope="module")
def giant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 documents in all: 150 of the shop's 200 are one page, and so are 40 of the news'."""
    news = [row(article(f"news {number}", 8)) for number in range(160)] + [
        row(article("wire", 8))
    ] * 40
    shop = [row(article(f"shop {number}", 8)) for number in range(50)]
    shop += [row(article("template", 8), f"https://shop.example/{number}") for number in range(150)]
    return lay_out(tmp_path_factory.mktemp("giant"), {"news": news, "shop-1": shop})


def limit(share: float, **more: str) -> dict[str, str]:
    return {
        "deduplicate.largest_cluster": str(share),
        **{f"deduplicate.{key}": value for key, value in more.items()},
    }


def test_the_guard_stops_a_run_says_why_and_leaves_it_to_be_looked_at(
    giant: Path, tmp_path: Path
) -> None:
    corpus, fresh = tmp_path / "corpus", tmp_path / "fresh"
    with pytest.raises(RecipeError) as caught:
        run(giant, out=corpus, workers=1, settings=limit(0.37))
    said = str(caught.value)
    assert "deduplicate.largest_cluster = 0.37: 150 of 400 documents (37.5 %)" in said
    assert "1:50 'https://shop.example/0' would be kept" in said
    named = re.search(r"such as 1:(\d+) '(.*?)' and 1:(\d+) '(.*?)'\. ", said)
    assert named and named[2] == f"https://shop.example/{int(named[1]) - 50}"
    assert f"`gristmill duplicates {corpus}`" in said
    assert caught.value.exit_code == 2
    assert not (corpus / "manifest.json").exists()
    told = duplicates(corpus, top=1)
    assert told["finished"] is False and lines(told)[0].startswith("not finished")
    assert told["clusters"][0]["size"] == 150
    # The same command does not get past it; a higher limit does, and does nothing over again.
    with pytest.raises(RecipeError, match="are one cluster"):
        run(giant, out=corpus, workers=1, settings=limit(0.37), until="deduplicate")
    before = {path: path.stat().st_mtime_ns for path in (corpus / "work/state").rglob("*.json")}
    assert {path.parent.name for path in before} == {"process", "deduplicate", "write_verdicts"}
    run(giant, out=corpus, workers=1, settings=limit(0.375))
    assert {path: path.stat().st_mtime_ns for path in before} == before
    run(giant, out=fresh, workers=1, settings=limit(0.375))
    assert digests(corpus) == digests(fresh)
    gristmill.verify(corpus)
    assert duplicates(corpus, top=1) == {**told, "finished": True}


def test_a_limit_that_comes_later_is_asked_of_what_is_finished(giant: Path, tmp_path: Path) -> None:
    run(giant, out=tmp_path, workers=1)
    proven = digests(tmp_path)
    with pytest.raises(RecipeError, match="are one cluster"):
        run(giant, out=tmp_path, workers=1, settings=limit(0.1))
    assert digests(tmp_path) == proven
    assert duplicates(tmp_path)["finished"] is True
    run(giant, out=tmp_path, workers=1, settings=limit(0.9))
    # The recipe says another limit, and nothing else is another.
    changed = {name for name, digest in digests(tmp_path).items() if proven.get(name) != digest}
    assert changed == {"recipe.toml", "manifest.json", "manifest.lock", "SHA256SUMS"}


def test_a_stopped_run_is_told_before_what_is_finished(giant: Path, tmp_path: Path) -> None:
    run(giant, out=tmp_path, workers=1)
    whole = duplicates(tmp_path)
    changed = {"deduplicate.exact": "false", "deduplicate.near.threshold": "0.9"}
    with pytest.raises(RecipeError, match="are one cluster"):
        run(giant, out=tmp_path, workers=1, settings={**limit(0.1), **changed})
    told = duplicates(tmp_path)
    assert (whole["finished"], told["finished"]) == (True, False)
    assert (
        told["reasons"]["near_duplicate"]
        == told["documents"] - told["kept"]
        == whole["reasons"]["exact_duplicate"]
    )
    gristmill.verify(tmp_path)
    # Back to the recipe of what is finished: that is told again, and the other run loses nothing
    # by it.
    run(giant, out=tmp_path, workers=1)
    assert duplicates(tmp_path) == whole
    run(giant, out=tmp_path, workers=1, settings=changed)
    assert duplicates(tmp_path) == {**told, "finished": True}


def test_by_source_the_share_is_the_sources(giant: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"150 of 200 documents \(75\.0 %\)"):
        run(giant, out=tmp_path, workers=1, settings=limit(0.7, scope='"source"'))
    run(giant, out=tmp_path, workers=1, settings=limit(0.7))


def test_small_clusters_stop_nothing(tmp_path: Path) -> None:
    """Up to 100 documents; the 101st does."""
    batch = [row(article(1, 8))] * clusters.LEAST
    recipe = lay_out(tmp_path / "in", {"news": batch, "shop-1": [row(article(2, 8))]})
    run(recipe, out=tmp_path / "corpus", workers=1, settings=limit(0.01))
    lay_out(tmp_path / "in", {"news": [*batch, batch[0]]})
    with pytest.raises(RecipeError, match="101 of 102 documents"):
        run(recipe, out=tmp_path / "again", workers=1, settings=limit(0.01))


@pytest.mark.parametrize("share", ["0", "-0.5", "1.5", "nan", '"much"'])
def test_what_is_no_share_is_refused(giant: Path, tmp_path: Path, share: str) -> None:
    with pytest.raises(RecipeError, match="largest_cluster"):
        run(giant, out=tmp_path, settings={"deduplicate.largest_cluster": share})


def test_the_whole_is_a_share(giant: Path, tmp_path: Path) -> None:
    run(giant, out=tmp_path, workers=1, settings={"deduplicate.largest_cluster": "1"})


def test_rejudge_heeds_no_guard(giant: Path, tmp_path: Path) -> None:
    run(giant, out=tmp_path, workers=1)
    plain, guarded = (
        gristmill.rejudge(giant, out=tmp_path, settings=asked) for asked in (None, limit(0.001))
    )
    assert plain == guarded and plain["kept"]["now"] == 212


def test_a_run_at_work_is_not_asked(giant: Path, tmp_path: Path) -> None:
    run(giant, out=tmp_path, workers=1, until="deduplicate")
    assert duplicates(tmp_path)["finished"] is False
    handle = Corpus(tmp_path).hold()
    with pytest.raises(RecipeError, match="a run is active"):
        duplicates(tmp_path)
    os.close(handle)


def test_copies_are_weights(corpus: Path) -> None:
    """The page's example, run on a corpus."""
    page = (ROOT / "docs/deduplication.md").read_text()
    code = next(
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "copies(" in code
    )
    names: dict[str, Any] = {}
    exec(re.sub(r'copies\(".*"\)', f"copies({str(corpus)!r})", code), names)
    weights = {row["document"]: 1 + row["copies"] for row in names["table"].to_pylist()}
    verdicts = rows(corpus, "verdicts")
    assert sorted(weights) == [row["document"] for row in verdicts if row["reason"] is None]
    assert sum(weights.values()) == duplicates(corpus)["documents"]
    assert weights == Counter(
        row["document"] if row["reason"] is None else row["keeper"]
        for row in verdicts
        if row["reason"] is None or row["reason"].startswith("deduplicate.")
    )
