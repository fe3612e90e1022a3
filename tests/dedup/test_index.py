"""The index for a stream: against the rule said plainly, against a corpus' run, and against kills,
other hands and full disks.
"""

import itertools
import math
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill
from gristmill.dedup import DuplicateIndex, Verdict
from gristmill.dedup.settings import Deduplicate, Near
from gristmill.errors import MachineError, RecipeError, VerificationError
from tests.support import ROOT, naive, naive_folding
from tests.support.corpora import article, jsonl, lay_out
from tests.support.duplicates import SMALL, chained, edited, find


class Seen(NamedTuple):
    """A document of the slow twin's."""

    verdict: Verdict
    shingles: frozenset[int]
    signature: list[int]


def slow(
    texts: list[str], near: Near | None, *, exact: bool = True, scopes: list[int] | None = None
) -> list[Verdict]:
    """The rule, one document at a time, over lists: no SQL, no arrays, none of the kernels."""
    multipliers, addends = naive.permutations(near.numbers, 1) if near else ([], [])
    firsts: dict[tuple[int, str, str], int] = {}
    buckets: dict[int, list[int]] = {}
    seen: list[Seen] = []
    for document, (text, scope) in enumerate(zip(texts, scopes or [0] * len(texts), strict=True)):
        plain = naive_folding.signed_words(text)
        same = naive_folding.folded(text)
        name = (scope, same, "" if same else text)
        of = seen[firsts.setdefault(name, document)].verdict if exact and name in firsts else None
        firsts.setdefault(name, document)
        verdict, found, signature = Verdict(document, None, None, None), frozenset(), []
        if of is not None:
            copied = (
                ("deduplicate.exact_duplicate", of.document, 1.0) if of.reason is None else of[1:]
            )
            verdict = Verdict(document, *copied)
        elif near is not None and plain:
            found = frozenset(naive.hash_shingles(plain, near.shingle))
            signature, _ = naive.sign(
                plain, width=near.shingle, multipliers=multipliers, addends=addends
            )
            candidates: set[int] = set()
            keepers: set[int] = set()
            for key in naive.band_keys(signature, scope, bands=near.bands, rows=near.rows):
                held = buckets.setdefault(key, [])
                candidates.update(held[: near.candidates])
                keepers.update(
                    [other for other in held if seen[other].verdict.reason is None][: near.keepers]
                )
                held.append(document)
            for part in (candidates, keepers):
                if verdict.reason is None:
                    verdict = judged(
                        verdict, found, signature, [seen[number] for number in sorted(part)], near
                    )
        seen.append(Seen(verdict, found, signature))
    return [entry.verdict for entry in seen]


def judged(
    verdict: Verdict, found: frozenset[int], signature: list[int], others: list[Seen], near: Near
) -> Verdict:
    """Of the candidates that stay the most like one, of equals the earliest."""
    error = math.sqrt(near.least * (1 - near.least) / near.numbers)
    best = (-1.0, 0)
    for other in others:
        if other.verdict.reason is not None:
            continue
        agreement = naive.agreement(signature, other.signature)
        similarity = agreement / near.numbers
        if near.verify == "text":
            if similarity < near.least - 4 * error:
                continue
            similarity = naive.jaccard(found, other.shingles)
        if similarity >= near.threshold or near.verify == "none":
            best = max(best, (similarity, -other.verdict.document))
    if best[0] < 0:
        return verdict
    return Verdict(verdict.document, "deduplicate.near_duplicate", -best[1], best[0])


# Few words and short texts, templates with one or two holes, copies in another dress, nothing at
# all.
WORDS = st.sampled_from("mill stone river wheel water grain".split())
FREE = st.lists(WORDS, max_size=7).map(" ".join)
TEMPLATE = st.tuples(WORDS, WORDS, st.integers(0, 2)).map(
    lambda hole: (
        f"the {hole[0]} of a page that is like all other pages "
        f"{'of this place ' * hole[2]}but for {hole[1]}"
    )
)
DRESSED = st.sampled_from(
    ["Mill, stone!", "mill stone", "MILL   stone", "!!!", "???", "", " ", "\u3042\u3044", "\ud800"]
)
TEXTS = st.lists(st.one_of(FREE, TEMPLATE, DRESSED), max_size=25)


@settings(max_examples=150, deadline=None)
@given(
    texts=TEXTS,
    exact=st.booleans(),
    verify=st.sampled_from(["text", "signatures", "none"]),
    candidates=st.integers(1, 4),
    keepers=st.sampled_from([0, 1, 3, 64]),
    cuts=st.lists(st.integers(0, 25), max_size=4),
    scopes=st.sampled_from([1, 2]),
)
def test_the_slow_twin_says_the_same_however_the_texts_are_split(
    texts: list[str],
    exact: bool,
    verify: str,
    candidates: int,
    keepers: int,
    cuts: list[int],
    scopes: int,
) -> None:
    near = Near(
        bands=8,
        rows=2,
        shingle=2,
        threshold=0.5,
        candidates=candidates,
        keepers=keepers,
        verify=verify,
    )  # type: ignore[arg-type]
    plain = [text.replace("\ud800", "\ufffd") for text in texts]
    wanted = slow(plain, near, exact=exact)
    with DuplicateIndex(None, exact=exact, near=near) as index:
        looked = []
        for text in texts:
            looked.append(index.look_up(text))
            assert index.add(text) == looked[-1]
        assert looked == wanted
        assert len(index) == len(texts)
        assert [index.verdict(number) for number in range(len(texts))] == wanted
    with DuplicateIndex(None, exact=exact, near=near) as index:
        bounds = sorted({0, len(texts), *(min(cut, len(texts)) for cut in cuts)})
        split = [index.add_batch(texts[one:other]) for one, other in itertools.pairwise(bounds)]
        assert [answer for batch in split for answer in batch] == wanted
    if scopes == 2:
        apart = [number % 2 for number in range(len(texts))]
        with DuplicateIndex(None, exact=exact, near=near) as index:
            by_scope = [
                index.add(text, scope=scope) for text, scope in zip(texts, apart, strict=True)
            ]
            assert by_scope == slow(plain, near, exact=exact, scopes=apart)


def test_only_exact_duplicates() -> None:
    texts = ["One text.", "another", "One\u00a0 te\u00adxt.", "one text", "!!!", "???", "!!!"]
    with DuplicateIndex(None, near=None) as index:
        verdicts = index.add_batch(texts)
    assert verdicts == slow(texts, None)
    assert [verdict.keeper for verdict in verdicts] == [None, None, 0, None, None, None, 4]


def test_a_corpus_of_the_same_documents_has_the_same_verdicts(tmp_path: Path) -> None:
    near = Near()
    texts = chained(400, 1)
    recipe = lay_out(tmp_path / "in", count=10, recipe=RECIPE)
    for path in (tmp_path / "in/raw").iterdir():
        path.unlink()
    rows = [
        {"text": text, "url": f"https://pages.example/{number}"}
        for number, text in enumerate(texts)
    ]
    (tmp_path / "in/raw/a.jsonl").write_bytes(jsonl(rows))
    gristmill.run(recipe, out=tmp_path / "out", workers=1, cache_dir=tmp_path / "cache")
    told = [
        row
        for path in sorted((tmp_path / "out/verdicts").glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    assert [row["document"] for row in told] == list(range(len(texts)))
    with DuplicateIndex(tmp_path / "index", near=near) as index:
        verdicts = index.add_batch(texts)
    assert [tuple(row[name] for name in Verdict._fields) for row in told] == verdicts
    reasons = [verdict.reason for verdict in verdicts]
    assert reasons.count("deduplicate.near_duplicate") > 50
    assert reasons.count("deduplicate.exact_duplicate") > 5
    assert reasons.count(None) > 100


RECIPE = """
[[source]]
name = "web"
files = ["raw/*"]
[deduplicate]
exact = true
near = {}
[tokens]
tokenizer = "tokenizer.json"
"""


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "near",
    [Near(), Near(unit="characters", shingle=9), Near(verify="signatures"), Near(verify="none")],
)
def test_deduplicated_tables_have_the_same_drops(tmp_path: Path, exact: bool, near: Near) -> None:
    texts = ["", "!!!", "a", "a b", "A, b.", "!!!", *chained(300, 2), *([article("hot", 12)] * 30)]
    drops = find(tmp_path / "batch", [texts], Deduplicate(exact=exact, near=near))
    with DuplicateIndex(None, exact=exact, near=near) as index:
        said = {
            verdict.document: verdict._asdict()
            for verdict in index.add_batch(texts)
            if verdict.reason
        }
    assert said == drops
    assert len(drops) > 100


def test_reopened_it_goes_on(tmp_path: Path) -> None:
    texts = chained(120, 3)
    whole = slow(texts, SMALL)
    for number in range(0, 120, 40):
        with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
            assert len(index) == number
            assert index.add_batch(iter(texts[number : number + 40])) == whole[number : number + 40]
    assert [path.name for path in tmp_path.iterdir()] == ["index"], "closed, it is one file"


KILLED = """
import sys
from pathlib import Path
from gristmill.dedup import DuplicateIndex
from tests.support.duplicates import SMALL, chained
texts, size = chained(300, 4), int(sys.argv[2])
with DuplicateIndex(sys.argv[1], near=SMALL) as index:
    for start in range(len(index), 300, size):
        index.add_batch(texts[start : start + size])
        print(len(index), flush=True)
"""


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.soak), 7])
def test_killed_it_holds_whole_additions(tmp_path: Path, size: int, soak: int) -> None:
    texts, pick = chained(300, 4), random.Random(size)
    whole = slow(texts, SMALL)
    kills = told = 0
    while told < 300:
        command = [sys.executable, "-c", KILLED, str(tmp_path / "index"), str(size)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            for _ in range(pick.randrange(1, (300 if soak == 1 else 150) // size)):
                told = int(process.stdout.readline() or told)
            time.sleep(pick.random() * 0.004)
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split()
            told = int(rest[-1]) if rest else told
        with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
            count = len(index)
            assert told <= count <= told + size
            assert count % size == 0 or count == 300
            assert [index.verdict(number) for number in range(count)] == whole[:count]
        with sqlite3.connect(tmp_path / "index") as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
            (last,) = connection.execute("select max(document) from buckets").fetchone()
        connection.close()
        assert (last or 0) < count
        kills += 1
    assert kills > 1


def test_an_addition_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gristmill.dedup.stream.duplicate_index.TEXTS", 7
    )  # so that parts of it were written, and their shingles held
    texts = chained(100, 5)[15:]

    def broken() -> Iterator[str]:
        yield from texts[5:80]
        raise OSError("the crawl broke off")

    others = texts[:5] + texts[:4:-1]  # other texts under the same numbers
    with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
        index.add_batch(texts[:5])
        with pytest.raises(OSError, match="broke off"):
            index.add_batch(broken())
        with pytest.raises(TypeError):
            index.add_batch([*texts[5:60], None])  # type: ignore[list-item]
        with pytest.raises(TypeError):
            index.add_batch("a text for a list of texts")
        assert len(index) == 5
        assert index.add_batch(others[5:]) == slow(others, SMALL)[5:]


def test_a_full_disk_is_told_and_harms_nothing(tmp_path: Path) -> None:
    texts = chained(300, 6)
    whole = slow(texts, SMALL)
    with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
        index.add_batch(texts[:100])
        run = index._store._connection.execute
        (pages,) = run("pragma page_count").fetchone()
        run(f"pragma max_page_count = {pages + 3}")
        with pytest.raises(MachineError, match="the disk is full"):
            index.add_batch(texts[100:])
        assert len(index) == 100
        assert index.look_up(texts[100])[1:] == whole[100][1:]
        run("pragma max_page_count = 1000000")
        assert index.add_batch(texts[100:]) == whole[100:]


def test_a_second_process_is_told(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom gristmill.dedup import DuplicateIndex\n"
        "from tests.support.duplicates import SMALL\n"
        "try: DuplicateIndex(sys.argv[1], near=SMALL).add('two')\n"
        "except Exception as error: print(type(error).__name__, error)\nelse: print('added')"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "index")]

    def second() -> str:
        root = ROOT
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout

    with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
        index.add("one")
        said = second()
        assert said.startswith("MachineError")
        assert "another process has opened the index" in said
        with pytest.raises(MachineError, match="another process has opened"):
            DuplicateIndex(tmp_path / "index", near=SMALL)
        assert index.add("one").keeper == 0
    assert second() == "added\n"
    with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
        assert index.look_up("two").keeper == 2


OTHERS = [
    ({"exact": False}, 'exact is "folded" in it, false here'),
    ({"near": None}, "near is true in it, false here"),
    ({"near": Near()}, "near.bands is 8 in it, 32 here"),
    (
        {"near": Near(bands=8, rows=2, shingle=2, threshold=0.6, floor=0.5, candidates=2)},
        "near.threshold is 0.5 in it, 0.6",
    ),
]


@pytest.mark.parametrize(("other", "message"), OTHERS)
def test_other_parameters_are_refused(tmp_path: Path, other: dict, message: str) -> None:
    with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
        index.add("one text")
    before = (tmp_path / "index").read_bytes()
    with pytest.raises(RecipeError, match="an index built with other parameters") as error:
        DuplicateIndex(tmp_path / "index", **{"near": SMALL, **other})
    assert message in str(error.value)
    assert (tmp_path / "index").read_bytes() == before
    with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
        assert index.look_up("one text").keeper == 0


def test_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DuplicateIndex(tmp_path / "index", near=SMALL).close()
    monkeypatch.setattr("gristmill.dedup.stream.duplicate_index.FORMAT", 999)
    with pytest.raises(RecipeError, match="format is 3 in it, 999 here"):
        DuplicateIndex(tmp_path / "index", near=SMALL)


@pytest.mark.parametrize(
    "content", [b"x", b"no index\n" * 3, os.urandom(20_000), b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_that_is_no_index_is_refused_and_left(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(RecipeError, match="not an index"):
        DuplicateIndex(tmp_path / "file", near=SMALL)
    assert (tmp_path / "file").read_bytes() == content


def test_a_database_of_something_else_is_refused_and_left(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "file")
    connection.execute("create table parameters (name text, value text)")
    connection.close()
    before = (tmp_path / "file").read_bytes()
    with pytest.raises(RecipeError, match="a SQLite database of another program"):
        DuplicateIndex(tmp_path / "file", near=SMALL)
    assert (tmp_path / "file").read_bytes() == before


@pytest.mark.parametrize("wal", [False, True])
def test_a_creation_that_was_cut_off_is_done_again(tmp_path: Path, wal: bool) -> None:
    connection = sqlite3.connect(tmp_path / "index")
    if wal:
        connection.execute("pragma journal_mode = wal")
    else:
        (tmp_path / "index").touch()
    connection.close()
    with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
        assert [index.add("one").keeper, index.add("one").keeper] == [None, 0]


def test_a_damaged_index_is_told(tmp_path: Path) -> None:
    with DuplicateIndex(tmp_path / "index", near=SMALL) as index:
        index.add_batch(chained(300, 7))
    content = bytearray((tmp_path / "index").read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    (tmp_path / "index").write_bytes(content)
    with pytest.raises(VerificationError, match="damaged"):
        DuplicateIndex(tmp_path / "index", near=SMALL).add("one")


def test_a_damaged_text_is_told(tmp_path: Path) -> None:
    with DuplicateIndex(tmp_path / "index") as index:
        index.add(article(1))
        run = index._store._connection.execute
        (packed,) = run("select text from texts").fetchone()
        run("update texts set text = ?", (packed[:-9] + bytes([packed[-9] ^ 1]) + packed[-8:],))
        with pytest.raises(VerificationError, match="the text of document 0 is damaged"):
            index.look_up(article(1) + " and more")


def test_a_path_that_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineError):
        DuplicateIndex(tmp_path / "missing" / "index")
    with pytest.raises(MachineError):
        DuplicateIndex(tmp_path)


def test_what_a_stream_cannot_do_is_refused() -> None:
    with pytest.raises(RecipeError, match="components"):
        DuplicateIndex(None, near=Near(group="components"))
    with pytest.raises(RecipeError, match="neither"):
        DuplicateIndex(None, exact=False, near=None)
    with pytest.raises(RecipeError, match="synchronous"):
        DuplicateIndex(None, synchronous="maybe")  # type: ignore[arg-type]
    with DuplicateIndex(None) as index, pytest.raises(RecipeError, match="scope"):
        index.add("a", scope=-1)


def test_candidates_are_ruled_out_four_standard_errors_below_the_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gristmill.dedup.near.candidates import least_agreement

    # 0.7 - 4 * sqrt(0.7 * 0.3 / 128) is 0.5380, of 128 numbers 68.9; at 0.8 it is 0.6586, 84.3.
    assert least_agreement(Near()) == 69
    assert least_agreement(Near(floor=0.8)) == 85
    assert least_agreement(Near(threshold=0.1)) == 0
    texts = [article(1), edited(article(1), 0.01, random.Random(2))]
    with DuplicateIndex(None, near=Near(verify="none")) as index:
        agreement = index.add_batch(texts)[1].similarity * 128
    assert 69 < agreement < 128
    for least, dropped in ((agreement, True), (agreement + 1, False)):
        monkeypatch.setattr(
            "gristmill.dedup.stream.bucket_matches.least_agreement", lambda near, least=least: least
        )
        with DuplicateIndex(None) as index:
            index.add(texts[0])
            if not dropped:
                monkeypatch.setattr(
                    index._store, "text", lambda document: pytest.fail("it was read")
                )
            assert (index.add(texts[1]).keeper == 0) is dropped


def test_a_hot_bucket_holds_no_more_than_its_candidates_and_keepers() -> None:
    near = Near(bands=8, rows=2, shingle=2, threshold=0.9, candidates=3, keepers=5)
    texts = [
        f"the same words of a template that all pages have but for {number}" for number in range(50)
    ]
    with DuplicateIndex(None, near=near) as index:
        assert index.add_batch(texts[:10]) + [index.add(text) for text in texts[10:]] == slow(
            texts, near
        )
        counts = index._store._connection.execute(
            "select count(*) from buckets group by key"
        ).fetchall()
    assert max(counts) == (5,)  # the first three are kept


def test_the_text_of_a_document_is_stored_only_where_it_is_compared() -> None:
    for verify, stored in (("text", 1), ("signatures", 0), ("none", 0)):
        with DuplicateIndex(None, near=Near(verify=verify)) as index:  # type: ignore[arg-type]
            index.add_batch(
                [article(1), article(1).lower(), edited(article(1), 0.001, random.Random(1))]
            )
            rows = index._store._connection.execute(
                "select document, text is not null from texts"
            ).fetchall()
            assert rows == [(0, stored)], "of the kept document only"


def test_threads_may_share_an_index() -> None:
    from concurrent.futures import ThreadPoolExecutor

    texts = [f"text number {number} of many" for number in range(200)]
    with DuplicateIndex(None, near=None) as index, ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(index.add, texts))
        assert sorted(verdict.document for verdict in verdicts) == list(range(200))
        assert all(
            index.look_up(text).keeper == said.document
            for text, said in zip(texts, verdicts, strict=True)
        )


def test_the_package_is_cheap_to_import() -> None:
    code = (
        "import sys, gristmill.dedup; print([n for n in ('numpy', 'pyarrow', 'numba', 'duckdb', "
        "'sqlite3') if n in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_the_page_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/deduplication.md").read_text("utf-8")
    code, printed = re.search(
        r"```python\n((?:(?!```).)*)```\n\n```\n(.*?)```", page, re.DOTALL
    ).groups()  # type: ignore[union-attr]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out == printed
