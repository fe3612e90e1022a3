"""Frequent lines through whole runs: what is listed, what is cut, and that a slow count on Python's
strings says the same.
"""

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill import lines as frequent
from gristmill import run
from gristmill.dedup.lines import line_counts
from gristmill.dedup.settings import FrequentLines
from gristmill.engine.relations import duckdb_with
from gristmill.errors import RecipeError, VerificationError
from gristmill.tables import schema
from tests.support.command import command_line
from tests.support.corpora import article, digests, jsonl
from tests.support.naive_folding import signed_words as normalise
from tests.support.naive_lines import cut_lines, find, sentences

BANNER = "We use cookies -- to improve your experience. ACCEPT all?"
SAID = "we use cookies -- to improve your experience accept all"

RECIPE = """
seed = 7
[[source]]
name = "news"
files = ["news.jsonl"]
[[source]]
name = "shop"
files = ["shop-*.jsonl"]
[deduplicate]
near = {}
[deduplicate.lines]
most = 3
"""


def texts(seed: str, count: int, share: float) -> list[str]:
    """Pages of prose, a share of them with a banner somewhere, its signs and its case another each
    time.
    """
    pick = random.Random(seed)
    out = []
    for number in range(count):
        found = article(f"{seed} {number}", pick.randint(4, 12)).split("\n")
        if number % 3 == 0:
            found.insert(pick.randrange(len(found) + 1), "")
        if number < share * count:
            for _ in range(pick.randint(1, 2)):
                banner = pick.choice(
                    [BANNER, BANNER.upper(), f"  {BANNER}…", BANNER.replace(" ", "\u3000")]
                )
                place = pick.randrange(len(found) + 1)
                found[place:place] = ["", banner, " "] if pick.random() < 0.5 else [banner]
        out.append(
            pick.choice(["\n", "\n", "\r\n", "\u2028"]).join(found) + pick.choice(["", "\n"])
        )
    return out


def lay_out(folder: Path, shards: dict[str, list[str]], recipe: str = RECIPE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, batch in shards.items():
        (folder / f"{name}.jsonl").write_bytes(jsonl([{"text": text} for text in batch]))
    path = folder / "recipe.toml"
    path.write_text(recipe, "utf-8")
    return path


SHARDS = {
    "news": texts("n", 30, 0.2),
    "shop-1": texts("s", 40, 0.5),
    "shop-2": [*texts("t", 20, 0.1), BANNER, ""],
}


def kept(corpus: Path, folder: str) -> dict[int, str]:
    """The texts of the documents that are kept, as `documents` or `text` has them."""
    gone = {row["document"] for row in rows(corpus, "verdicts") if row["reason"] is not None}
    return {
        row["document"]: row["text"] for row in rows(corpus, folder) if row["document"] not in gone
    }


def rows(corpus: Path, folder: str) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted((corpus / folder).rglob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def said(
    documents: dict[int, str], source_of: Any, settings: FrequentLines
) -> tuple[list[tuple[int, str, int, Any]], dict[int, str]]:
    """The twin of it all: (documents, normalised line, earliest, source) of what is listed, and the
    texts without it.
    """
    holders: dict[tuple[Any, str], list[int]] = {}
    for document, text in sorted(documents.items()):
        for line in {
            normalise(line.text) for line in find(text, paragraphs=settings.unit == "paragraphs")
        }:
            if len(line) >= settings.least_characters:
                holders.setdefault((source_of(document), line), []).append(document)
    often = {key: found for key, found in holders.items() if len(found) > settings.most}
    out = {}
    for document, text in documents.items():
        found = find(text, paragraphs=settings.unit == "paragraphs")
        gone, met = [], set()
        for line in found:
            key = (source_of(document), normalise(line.text))
            first = (
                settings.keep == "first"
                and key in often
                and often[key][0] == document
                and key not in met
            )
            met.add(key)
            gone.append(key in often and not first)
        out[document] = cut_lines(found, gone)
    return [(len(found), line, found[0], source) for (source, line), found in often.items()], out


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("lines"), SHARDS)


@pytest.mark.parametrize(
    ("settings", "scope"),
    [
        (FrequentLines(most=3), "corpus"),
        (FrequentLines(most=3, keep="first"), "corpus"),
        (FrequentLines(most=6), "source"),
        (FrequentLines(most=1, keep="first"), "source"),
        (FrequentLines(most=2, unit="paragraphs", keep="first"), "corpus"),
        (FrequentLines(most=1, least_characters=len(SAID)), "corpus"),
        (FrequentLines(most=1, least_characters=len(SAID) + 1), "corpus"),
    ],
)
def test_a_run_lists_and_cuts_what_the_twin_does(
    recipe: Path, tmp_path: Path, settings: FrequentLines, scope: str
) -> None:
    corpus = tmp_path / "corpus"
    asked = {
        f"deduplicate.lines.{name}": json.dumps(getattr(settings, name))
        for name in settings.__struct_fields__
    }
    funnel = run(
        recipe, out=corpus, workers=1, settings={**asked, "deduplicate.scope": json.dumps(scope)}
    ).table
    documents = kept(corpus, "documents")
    listed, wanted = said(
        documents,
        lambda document: None if scope == "corpus" else "news" if document < 1 << 32 else "shop",
        settings,
    )
    assert kept(corpus, "text") == wanted
    part = pq.read_table(corpus / relation_part()).to_pylist()
    found = [
        (row["documents"], normalise(row["text"]), row["earliest"], row["source"]) for row in part
    ]
    assert sorted(found, key=str) == sorted(listed, key=str)
    assert part == sorted(part, key=lambda row: (-row["documents"], row["hash"]))
    told = funnel["lines"]
    assert told["listed"] == len(listed)
    assert told["characters"] == sum(
        len(documents[number]) - len(wanted[number]) for number in documents
    )
    assert told["documents"] == sum(documents[number] != wanted[number] for number in documents)
    assert told["emptied"] == sum(documents[number] != "" == wanted[number] for number in documents)
    assert told["cut"] >= told["documents"]
    assert (SAID in {line for _, line, _, _ in listed}) == (settings.least_characters <= len(SAID))
    gristmill.verify(corpus)


def relation_part() -> str:
    return "duplicates/lines.parquet"


def test_the_text_shown_is_a_line_of_its_earliest_document_as_it_stands_there(
    recipe: Path, tmp_path: Path
) -> None:
    run(recipe, out=tmp_path, workers=1)
    documents = kept(tmp_path, "documents")
    for row in pq.read_table(tmp_path / relation_part()).to_pylist():
        assert row["text"] in documents[row["earliest"]].splitlines()


def test_near_duplicates_go_first_and_do_not_count(tmp_path: Path) -> None:
    """Ten copies of a page hold one line once, not ten times."""
    page = article("copied", 20)
    recipe = lay_out(
        tmp_path / "in",
        {"news": [page] * 10 + [article(number, 20) for number in range(3)], "shop-1": []},
    )
    funnel = run(recipe, out=tmp_path / "corpus", workers=1).table
    assert funnel["lines"] == {"listed": 0, "cut": 0, "characters": 0, "documents": 0, "emptied": 0}
    assert kept(tmp_path / "corpus", "text")[0] == page


TOKENS = """
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 2_000
validation = 0.2
"""


@pytest.fixture(scope="module")
def with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from gristmill.training.train_tokenizer import train_tokenizer

    folder = tmp_path_factory.mktemp("tokens")
    path = lay_out(folder, SHARDS, RECIPE + TOKENS)
    train_tokenizer([folder / "news.jsonl"], folder / "tokenizer.json", vocabulary=400)
    return path


def test_workers_kills_and_steps_back_change_no_byte(with_tokens: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    run(with_tokens, out=whole, workers=1)
    gristmill.verify(whole)
    run(with_tokens, out=tmp_path / "four", workers=4)
    assert digests(tmp_path / "four") == digests(whole)
    # What each phase leaves is enough for the next run, and half of a phase is nothing.
    corpus = tmp_path / "stopped"
    for phase in ("process", "deduplicate", "tokenize"):
        run(with_tokens, out=corpus, workers=2, until=phase)
        (corpus / f"work/stage/{relation_part()}.1.writing").parent.mkdir(
            parents=True, exist_ok=True
        )
        (corpus / f"work/stage/{relation_part()}.1.writing").write_bytes(b"half")
    (corpus / "work/state/frequent_lines/all.json").unlink()
    run(with_tokens, out=corpus, workers=2)
    assert digests(corpus) == digests(whole)


def test_sigkill_while_lines_are_listed(with_tokens: Path, tmp_path: Path) -> None:
    run(with_tokens, out=tmp_path / "whole", workers=1)
    corpus = tmp_path / "killed"
    run(with_tokens, out=corpus, workers=1, until="process")
    code = (
        "import os, signal, sys\n"
        "from gristmill.dedup.lines import line_counts as lines\n"
        "from gristmill.engine.local import LocalSession\n"
        "from gristmill.phases.relations import frequent_lines as phase\n"
        "from gristmill.corpus.corpus import Corpus\n"
        "real = lines.frequent\n"
        "def deadly(*given, **named):\n"
        "    yield from real(*given, **named)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "lines.frequent = deadly\n"
        "import msgspec\n"
        "task = msgspec.json.decode(sys.argv[1].encode(), type=phase.ListTask)\n"
        "phase.list_frequent(task, lambda _: None, LocalSession(1))\n"
    )
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        from gristmill.phases.phase_runner import PhaseRunner

        real = PhaseRunner.each

        def each(self: PhaseRunner, phase: Any, tasks: dict[int, Any], state: Any) -> Any:
            seen.extend(tasks.values() if phase.name == "frequent_lines" else [])
            return real(self, phase, tasks, state)

        patch.setattr(PhaseRunner, "each", each)
        run(with_tokens, out=corpus, workers=1, until="deduplicate")
    import msgspec

    (corpus / "work/state/frequent_lines/all.json").unlink()
    (corpus / "work/stage" / relation_part()).unlink()
    done = subprocess.run(
        [sys.executable, "-c", code, msgspec.json.encode(seen[0]).decode()], check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert not (corpus / "work/stage" / relation_part()).exists()
    run(with_tokens, out=corpus, workers=1)
    assert digests(corpus) == digests(tmp_path / "whole")


def test_another_limit_counts_nothing_again_and_gives_a_fresh_runs_bytes(
    with_tokens: Path, tmp_path: Path
) -> None:
    corpus, fresh = tmp_path / "corpus", tmp_path / "fresh"
    run(with_tokens, out=corpus, workers=1)
    counted = (corpus / "work/state/count_lines/00000.json").stat().st_mtime_ns
    deduplicated = (corpus / "work/state/deduplicate/all.json").stat().st_mtime_ns
    changed = {"deduplicate.lines.most": "20", "deduplicate.lines.keep": '"first"'}
    run(with_tokens, out=corpus, workers=1, settings=changed)
    assert (corpus / "work/state/count_lines/00000.json").stat().st_mtime_ns == counted
    assert (corpus / "work/state/deduplicate/all.json").stat().st_mtime_ns == deduplicated
    run(with_tokens, out=fresh, workers=1, settings=changed)
    assert digests(corpus) == digests(fresh)
    # And without the table the list goes.
    (with_tokens.parent / "plain.toml").write_text(
        (RECIPE + TOKENS).replace("[deduplicate.lines]\nmost = 3\n", "")
    )
    assert "lines" not in run(with_tokens.parent / "plain.toml", out=corpus, workers=1).table
    assert not (corpus / relation_part()).exists()
    gristmill.verify(corpus)


def test_all_documents_one_line_are_empty_and_stay(tmp_path: Path) -> None:
    batch = [f"{BANNER}{'!' * number}" for number in range(9)]
    recipe = lay_out(
        tmp_path / "in", {"news": batch, "shop-1": []}, RECIPE.replace("near = {}", "exact = false")
    )
    funnel = run(recipe, out=tmp_path / "corpus", workers=1).table
    assert funnel["kept"] == 9
    assert funnel["lines"]["emptied"] == 9
    assert set(kept(tmp_path / "corpus", "text").values()) == {""}
    again = run(
        recipe, out=tmp_path / "corpus", workers=1, settings={"deduplicate.lines.keep": '"first"'}
    ).table
    assert again["lines"]["emptied"] == 8
    assert kept(tmp_path / "corpus", "text")[0] == BANNER
    gristmill.verify(tmp_path / "corpus")


def test_empty_documents_are_an_end_of_text_each(with_tokens: Path, tmp_path: Path) -> None:
    batch = [f"{BANNER}{'!' * number}" for number in range(9)]
    recipe = lay_out(
        tmp_path / "in",
        {"news": batch, "shop-1": []},
        (RECIPE + TOKENS).replace("near = {}", "exact = false"),
    )
    (tmp_path / "in/tokenizer.json").write_bytes(
        (with_tokens.parent / "tokenizer.json").read_bytes()
    )
    assert run(recipe, out=tmp_path / "corpus", workers=1).table["tokens"] == 9
    gristmill.verify(tmp_path / "corpus")


def test_documents_at_the_size_limit(tmp_path: Path) -> None:
    """One line of a MB, a letter behind a MB of empty lines or of line ends of two bytes; one byte
    more is no document.
    """
    size = 1 << 20
    batch = [
        "x" * size,
        "\n" * (size - 1) + "x",
        "\r\n" * (size // 2 - 1) + "xy",
        "x" * (size + 1),
        *(f"{BANNER}\n{n}" for n in range(5)),
    ]
    table = RECIPE.replace(
        'files = ["news.jsonl"]', f'files = ["news.jsonl"]\nmax_document_bytes = {size}'
    )
    recipe = lay_out(tmp_path / "in", {"news": batch, "shop-1": []}, table.replace("near = {}", ""))
    funnel = run(recipe, out=tmp_path / "corpus", workers=1).table
    found = kept(tmp_path / "corpus", "text")
    assert [found[number] for number in range(3)] == batch[:3]
    assert [found[number] for number in range(4, 9)] == [str(number) for number in range(5)]
    assert funnel["lines"] == {
        "listed": 1,
        "cut": 5,
        "characters": 5 * (len(BANNER) + 1),
        "documents": 5,
        "emptied": 0,
    }


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("most = 0", "most"),
        ("", "most"),
        ('most = 2\nkeep = "last"', "keep"),
        ('most = 2\nunit = "words"', "unit"),
        ("most = 2\nleast_characters = 0", "least_characters"),
        ("most = 2\nleast = 3", "least"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, table: str, said: str) -> None:
    recipe = lay_out(tmp_path, {"news": ["a"]}, RECIPE.replace("most = 3", table))
    with pytest.raises(RecipeError, match=said):
        run(recipe, out=tmp_path / "corpus", workers=1)


def test_a_count_that_was_changed_is_counted_again(recipe: Path, tmp_path: Path) -> None:
    run(recipe, out=tmp_path, workers=1, until="deduplicate")
    whole = (tmp_path / "work/count_lines/00000.parquet").read_bytes()
    (tmp_path / "work/state/frequent_lines/all.json").unlink()
    path = tmp_path / "work/count_lines/00000.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    run(recipe, out=tmp_path, workers=1)
    assert path.read_bytes() == whole
    gristmill.verify(tmp_path)


def batches(shards: list[list[str]]) -> Iterator[pa.RecordBatch]:
    number = 0
    for batch in shards:
        found = [{"document": number + row, "text": text} for row, text in enumerate(batch)]
        number += len(batch)
        yield pa.RecordBatch.from_pylist(found, schema.DOCUMENTS)


def test_more_lines_than_are_held_are_counted_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = [
        [f"line {pick}\nline {pick % 7}" for pick in range(start, start + 40)]
        for start in range(0, 400, 40)
    ]
    settings = FrequentLines(most=1)
    whole = pa.Table.from_batches(line_counts.count(batches(shards), settings))
    monkeypatch.setattr(line_counts, "RUN", 64)
    runs = list(line_counts.count(batches(shards), settings))
    assert len(runs) > 3
    assert all(run["hash"].to_pylist() == sorted(set(run["hash"].to_pylist())) for run in runs)
    summed = (
        pa.Table.from_batches(runs)
        .group_by("hash")
        .aggregate([("documents", "sum"), ("earliest", "min")])
    )
    assert sorted(map(tuple, (row.values() for row in summed.to_pylist()))) == sorted(
        (row["hash"], row["documents"], row["earliest"]) for row in whole.to_pylist()
    )
    assert max(whole["documents"].to_pylist()) > 50


def test_documents_that_lost_a_counted_line_are_told(tmp_path: Path) -> None:
    shards = [[f"{BANNER}\n{number}" for number in range(9)]]
    counted = tmp_path / "counted.parquet"
    pq.write_table(
        pa.Table.from_batches(line_counts.count(batches(shards), FrequentLines(most=3))), counted
    )
    for name, texts in (("same", shards), ("other", [["", *shards[0][1:]]])):
        documents = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_batches(batches(texts)), documents)
        found = line_counts.frequent(
            [line_counts.CountedShard(counted, documents, 0)],
            FrequentLines(most=3),
            tmp_path / "work",
            opener=duckdb_with(1, 200),
        )
        if name == "same":
            assert [row["text"] for batch in found for row in batch.to_pylist()] == [BANNER]
        else:
            with pytest.raises(VerificationError, match="1 lines that were counted are missing"):
                list(found)


def test_long_lines_are_cut_in_the_list(tmp_path: Path) -> None:
    line = "é, " * 400
    recipe = lay_out(
        tmp_path / "in",
        {"news": [f"{line}\n{article(number, 8)}" for number in range(5)], "shop-1": []},
    )
    run(recipe, out=tmp_path / "corpus", workers=1)
    assert frequent(tmp_path / "corpus", top=1)["lines"][0]["text"] == line[:500]


def test_lines_tells_the_most_repeated(recipe: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    run(recipe, out=corpus, workers=1)
    told = frequent(corpus, top=3)
    first = told["lines"][0]
    assert first["documents"] > 20
    assert normalise(first["text"]) == SAID
    assert told["listed"] == 1
    words = command_line("lines", corpus, "--top", 1)
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert f"{first['documents']:,}" in shown and "cookies" in shown.lower()
    shown = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(shown) == told


def test_lines_escapes_what_drives_a_terminal(tmp_path: Path) -> None:
    batch = [f"\x1b[2Jcookies \u202e\n{article(number, 8)}" for number in range(5)]
    recipe = lay_out(tmp_path / "in", {"news": batch, "shop-1": []})
    run(recipe, out=tmp_path / "corpus", workers=1)
    assert frequent(tmp_path / "corpus", top=1)["lines"][0]["text"] == "\x1b[2Jcookies \u202e"
    words = command_line("lines", tmp_path / "corpus")
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "\x1b" not in shown and "\u202e" not in shown
    assert r"\x1b[2Jcookies" in shown


def test_lines_of_a_corpus_without_a_list(tmp_path: Path) -> None:
    recipe = lay_out(
        tmp_path / "in",
        {"news": ["a"], "shop-1": []},
        RECIPE.replace("[deduplicate.lines]\nmost = 3\n", ""),
    )
    run(recipe, out=tmp_path / "corpus", workers=1)
    with pytest.raises(RecipeError, match="it has no list of lines"):
        frequent(tmp_path / "corpus")


def test_export_of_a_corpus_of_tokens_is_cut_as_well(with_tokens: Path, tmp_path: Path) -> None:
    run(with_tokens, out=tmp_path / "corpus", workers=1)
    gristmill.export(tmp_path / "corpus", tmp_path / "out", to="jsonl")
    out = b"".join(path.read_bytes() for path in sorted((tmp_path / "out").rglob("*.jsonl")))
    found = [json.loads(line)["text"] for line in out.split(b"\n")[:-1]]
    _, wanted = said(kept(tmp_path / "corpus", "documents"), lambda _: None, FrequentLines(most=3))
    assert found == [wanted[number] for number in sorted(wanted)]


def test_rejudge_says_that_lines_are_not_counted_again(recipe: Path, tmp_path: Path) -> None:
    from gristmill.reports.planning.rejudge import lines

    run(recipe, out=tmp_path, workers=1)
    told = gristmill.rejudge(recipe, out=tmp_path, settings={"deduplicate.lines.most": "50"})
    assert told["kept"]["was"] == told["kept"]["now"]
    assert any("frequent lines" in line for line in lines(told))


def test_verify_sees_a_list_that_is_not_what_the_funnel_counts(
    recipe: Path, tmp_path: Path
) -> None:
    from tests.support.manifests import forge

    run(recipe, out=tmp_path, workers=1)
    forge(tmp_path, lambda table: table["funnel"]["lines"].update(listed=99))
    with pytest.raises(VerificationError, match="99"):
        gristmill.verify(tmp_path)


def spans_cut(batch: list[str]) -> list[str]:
    """C4's rule on Python's strings: of three sentences that follow each other at several places
    all but the first are dropped.
    """
    seen: set[tuple[str, ...]] = set()
    out = []
    for text in batch:
        found = sentences(text)
        counted = [place for place, one in enumerate(found) if normalise(one.text)]
        dropped = [False] * len(found)
        for place in range(len(counted) - 2):
            span = tuple(normalise(found[one].text) for one in counted[place : place + 3])
            if span in seen:
                first, last = counted[place], counted[place + 2]
                dropped[first : last + 1] = [True] * (last - first + 1)
            seen.add(span)
        out.append(cut_lines(found, dropped))
    return out


def test_spans_of_three_sentences(tmp_path: Path) -> None:
    pick = random.Random(3)
    known = [f"Was it {one}?" if one % 3 else f"The mill {one} turns…" for one in range(30)]
    batch = []
    for number in range(40):
        parts: list[str] = []
        while len(parts) < 12:
            start = pick.randrange(26)
            stretch = known[start : start + pick.randint(2, 5)]
            parts += stretch if pick.random() < 0.5 else [f"Only {number} {len(parts)}!", "— !"]
        text = parts[0]
        for part in parts[1:]:
            text += pick.choice([" ", " ", "\n", "  "]) + part
        batch.append(text)
    recipe = lay_out(tmp_path, {"news": batch[:20], "shop-1": batch[20:]}, RECIPE)
    lines = {"most": 1, "keep": "first", "unit": "sentences"}
    settings = {f"deduplicate.lines.{name}": json.dumps(value) for name, value in lines.items()}
    settings |= {"deduplicate.exact": "false", "deduplicate.near.threshold": "1.0"}
    corpus = tmp_path / "c"
    cut = run(recipe, out=corpus, workers=1, settings=settings).table["lines"]
    gristmill.verify(corpus)
    rows = [
        row
        for path in (corpus / "text").rglob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    got = [row["text"] for row in sorted(rows, key=lambda row: row["document"])]
    wanted = spans_cut(batch)
    assert got == wanted and got != batch
    listed = pq.read_table(corpus / "duplicates/lines.parquet").to_pylist()
    assert cut["listed"] == len(listed) > 10 and cut["cut"] > 30
    assert all(len(sentences(row["text"])) >= 3 and row["documents"] > 1 for row in listed)
