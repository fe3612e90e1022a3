"""`gristmill report`: its figures against counts made from the tables one by one, and a page that
no document can change.
"""

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill import run
from gristmill.filters.api.registry import all_built_in
from gristmill.reports.page import figures, markup, pairs, samples
from gristmill.reports.page.distributions import Distribution, measured
from gristmill.reports.page.tables import CorpusTables
from gristmill.reports.page.thresholds import limits
from gristmill.store.manifest import make_lock
from gristmill.tables import schema
from tests.support.command import command_line
from tests.support.corpora import article, jsonl, lay_out, pages
from tests.support.table_corpora import table_corpus

RECIPE = """
seed = 7
[[source]]
name = "web"
files = ["raw/*"]
licence = "CC-BY-4.0"
[[source]]
name = "odd"
files = ["odd/*"]
[[step]]
use = "language"
rules = "script"
keep = ["Latn"]
min_score = 0.5
[[step]]
use = "gopher"
rules = "lab"
[[step]]
use = "simple"
min_words = 60
max_upper = 0.3
max_special = 0.5
[deduplicate]
near = {}
[deduplicate.lines]
most = 3
[tokens]
tokenizer = "tokenizer.json"
tokens_per_shard = 5_000
validation = 0.1
"""
HOSTILE = (
    "<script>alert(1)</script>",
    "</script></style></title><img src=x onerror=alert(2)>",
    "\u202egnp.exe\u202c \u2028\u2029 \x00 \x1b[31m \ufeff",
    "'\"><svg onload=alert(3)>&lt;&amp;",
)


def odd_rows() -> list[dict[str, object]]:
    """Texts that want to be markup, that are long, empty, or name people."""
    rows: list[dict[str, object]] = [
        {"text": f"{word} {article(word, 12)} {word}", "url": f"https://e.example/{word}"}
        for word in HOSTILE
    ]
    rows += [{"text": word, "url": None} for word in HOSTILE]
    rows.append({"text": "word " * 2_000_000, "url": "https://long.example/"})
    rows += [
        {
            "text": HOSTILE[number % 4]
            + f" Ask jane.doe{number}@mill-museum.org. {article(number, 10)}",
            "url": f"https://mail.example/jane.doe{number}@mill-museum.org",
        }
        for number in range(8)
    ]
    rows += [{"text": f"{HOSTILE[n % 4]} common\n{article(n, 12)}"} for n in range(90, 98)]
    return rows


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    recipe = lay_out(folder, count=120, recipe=RECIPE)
    (folder / "odd").mkdir()
    (folder / "odd/a.jsonl").write_bytes(jsonl(odd_rows() + pages(40, "odd")))
    run(recipe, out=folder / "corpus", workers=1)
    return folder / "corpus"


@pytest.fixture(scope="module")
def page(corpus: Path) -> str:
    written = gristmill.report(corpus)
    assert written["file"] == str(corpus.parent / "corpus-report.html")
    return Path(written["file"]).read_text("utf-8")


def table_of(corpus: Path, folder: str) -> pa.Table:
    paths = sorted((corpus / folder).glob("*.parquet"))
    return pa.concat_tables([pq.read_table(path) for path in paths], promote_options="default")


def broken(value: float, rule: str, limit: float) -> bool:
    return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}[
        rule
    ]


def of_corpus(corpus: Path) -> list[Distribution]:
    with CorpusTables(corpus) as tables:
        columns = tables.columns("measures")
        return measured(tables, columns, limits(tables, columns)).distributions


def test_every_count_of_a_distribution_is_that_of_its_values(corpus: Path) -> None:
    found = of_corpus(corpus)
    measures = table_of(corpus, "measures")
    assert {one.name for one in found} >= {"gopher.words", "simple.words"}
    for one in found:
        values = [float(v) for v in measures[one.name].to_pylist() if v is not None]
        assert one.documents == len(values) == one.below + sum(one.counts) + one.above
        assert (one.least, one.most) == (min(values), max(values))
        assert one.edges == sorted(set(one.edges))
        for rule in one.rules:
            assert rule.dropped == sum(broken(v, rule.broken, rule.limit) for v in values)
            for edge, count in zip(one.edges, rule.at_edges, strict=True):
                assert count == sum(broken(v, rule.broken, edge) for v in values), (one.name, edge)


def test_limits_are_those_that_the_verdicts_name(corpus: Path) -> None:
    verdicts = table_of(corpus, "verdicts").to_pylist()
    rules = {
        (one.name.partition(".")[0], rule.reason, rule.limit): rule.dropped
        for one in of_corpus(corpus)
        for rule in one.rules
    }
    seen = Counter(
        (*row["reason"].split("."), row["threshold"])
        for row in verdicts
        if row["reason"] and row["threshold"] is not None and row["keeper"] is None
    )
    assert len(seen) >= 3
    for key, count in seen.items():
        assert rules[key] >= count  # by itself a limit drops what earlier steps have dropped too


def test_every_step_that_compares_says_its_limits() -> None:
    """The comparisons of a step are those that `decide` makes: here of Gopher's rules."""
    from gristmill.filters import Gopher

    step = Gopher(rules="lab", min_words=77)
    names = ("words", "word_length", "symbol_ratio", "bullet_lines", "ellipsis_lines")
    types = dict.fromkeys((*names, "top_2gram", "top_3gram"))
    checks = step.comparisons
    assert ("length", "words", "<", 77) in checks
    assert {check.measure for check in checks} == set(types)
    assert any(kind.name == "gopher" for kind in all_built_in())


def test_sources_reasons_hosts_and_lengths_beside_plain_counts(corpus: Path) -> None:
    verdicts = table_of(corpus, "verdicts").to_pylist()
    manifest = json.loads((corpus / "manifest.json").read_bytes())
    names = [shard["source"] for shard in manifest["raw_shards"]]
    reasons = Counter(
        (names[schema.shard_number(row["document"])], row["reason"])
        for row in verdicts
        if row["reason"]
    )
    kept = [row for row in verdicts if row["reason"] is None]
    hosts = Counter(row["url"].split("/")[2] for row in kept if row["url"])
    with CorpusTables(corpus) as tables:
        counted = figures.reasons(tables)
        assert {key: one["documents"] for key, one in counted.items()} == reasons
        sources = {one.name: one for one in figures.sources(tables, counted)}
        count, largest = figures.hosts(tables)
        lengths = figures.lengths(tables)
        sizes, clusters = figures.clusters(tables)
        pairs_of = figures.similarities(tables)
    for name, one in sources.items():
        assert one.kept == sum(names[schema.shard_number(row["document"])] == name for row in kept)
        lost = {
            step: sum(
                n
                for (s, reason), n in reasons.items()
                if s == name and reason.split(".")[0] == step
            )
            for step in one.dropped
        }
        assert one.dropped == lost
    assert sum(one.tokens for one in sources.values()) == manifest["funnel"]["tokens"]
    assert (count, dict(largest)) == (len(hosts), dict(hosts))
    assert lengths is not None
    assert lengths.documents == len(kept) == sum(lengths.counts)
    copies = pq.read_table(corpus / "duplicates/copies.parquet")["copies"].to_pylist()
    assert sum(n for _, n, _ in sizes) == len(copies)
    assert sum(n for _, _, n in sizes) == sum(copies) + len(copies)
    assert clusters[0].documents == max(copies) + 1
    similar = pq.read_table(corpus / "duplicates/pairs.parquet")["similarity"].to_pylist()
    assert pairs_of is not None
    assert pairs_of.documents == len(similar) == sum(pairs_of.counts)
    assert pairs_of.rules[0].dropped == sum(value >= 0.8 for value in similar)


def test_a_page_has_no_markup_of_documents_and_asks_for_nothing(page: str) -> None:
    for word in ("<script>alert", "onerror=alert(2)>", "<img", "<svg onload", "\u202e", "\u2028"):
        assert word not in page
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\ufeff\ud800-\udfff]", page)
    assert page.count("<script>") == page.count("</script>") == 1
    assert any(str(markup.text(word)) in page for word in HOSTILE)
    assert not re.search(r"<[^>]*\s(src|srcset|action|style|on[a-z]+)=", page)
    assert {match[:1] for match in re.findall(r'href="([^"]*)"', page)} == {"#"}
    assert "default-src 'none'" in page
    assert "unsafe" not in page.partition("</head>")[0].partition("<style>")[0]
    assert len(page) < 1_000_000


def test_a_page_shows_no_personal_data(page: str, corpus: Path) -> None:
    texts = " ".join(table_of(corpus, "documents")["text"].to_pylist())
    assert "@mill-museum.org" in texts
    assert "mill-museum" not in page
    assert "&lt;EMAIL&gt;" in page


def test_every_reason_has_documents_and_links_lead_somewhere(page: str, corpus: Path) -> None:
    found = set(table_of(corpus, "verdicts")["reason"].to_pylist()) - {None}
    names = set(re.findall(r'id="([^"]*)"', page))
    assert {f"reason-{reason}" for reason in found} <= names
    assert {link[1:] for link in re.findall(r'href="(#[^"]*)"', page)} <= names
    assert "its text is not stored" not in page
    assert "<mark>" in page


def test_the_same_corpus_gives_the_same_page(corpus: Path, page: str, tmp_path: Path) -> None:
    again = gristmill.report(str(corpus), out=tmp_path / "again.html")
    assert Path(again["file"]).read_text("utf-8") == page
    gristmill.verify(corpus)  # the page is beside the corpus, not in it


def test_two_corpora_side_by_side(corpus: Path, tmp_path: Path) -> None:
    other = table_corpus(tmp_path / "strict", 60, shards_made=3)
    written = gristmill.report(corpus, other, out=tmp_path / "both.html")
    page = Path(written["file"]).read_text("utf-8")
    assert "Both funnels" in page
    assert 'class="other"' in page
    kept = json.loads((tmp_path / "strict/manifest.json").read_bytes())["funnel"]["kept"]
    assert f"B: {kept:,}" in page


def test_the_command_says_what_it_wrote(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = subprocess.run(
        command_line("report", str(corpus), "-o", str(out)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(out) in done.stdout
    assert out.stat().st_size > 50_000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the mill stone turns", "the old stone turns slowly"),
        ("", "all of it"),
        ("same words", "same words"),
        ("a b c " * 400 + "end", "a b c " * 400 + "END"),
    ],
)
def test_marked_words_are_those_that_differ(one: str, other: str) -> None:
    left, right = pairs.difference(one, other)
    for pieces, text in ((left, one), (right, other)):
        shown = "".join(piece for _, piece in pieces)
        assert shown.removeprefix("... ") in text
    common = [["".join(p for marked, p in side if not marked)] for side in (left, right)]
    assert common[0] == common[1]


@pytest.mark.parametrize("value", [*HOSTILE, "a\nb", "emoji 👩‍🔧 é", "\xa0"])
def test_text_is_escaped_once(value: str) -> None:
    shown = markup.text(value)
    assert not set(str(shown)) & set("<>\"'\u202e\x00")
    assert markup.text(shown) is shown
    assert isinstance(markup.tag("p", value), markup.Html)


def test_redaction_keeps_places() -> None:
    given: list[str | None] = [None, "x", "mail a.b@mill-museum.org now", None]
    clean = samples.redacted(given)
    assert [one is None for one in clean] == [True, False, False, True]
    assert clean[1] == "x"
    assert "mill-museum" not in str(clean[2])


def test_a_card_describes_a_corpus(corpus: Path, tmp_path: Path) -> None:
    written = gristmill.card(corpus, out=tmp_path / "card.md")
    text = Path(written["file"]).read_text("utf-8")
    assert gristmill.card(corpus, out=tmp_path / "again.md")["bytes"] == written["bytes"]
    assert "| web | CC-BY-4.0 |" in text
    assert "| simple | all | max_special 0.5, max_upper 0.3, min_words 60 |" in text
    assert "The recipe notes no licence for: odd." in text
    assert "Personal data was not redacted" in text
    assert "similarity of 0.8" in text
    assert json.loads((corpus / "manifest.json").read_bytes())["content"] in text
    assert "mill-museum" not in text
    assert not set(text) & set("\u202e\u2028\x00\x1b")


def damaged(corpus: Path, folder: Path, part: str) -> Path:
    """A copy of a corpus with one byte of a part changed."""
    import shutil

    shutil.copytree(corpus, folder / "copy")
    path = folder / "copy" / part
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    return folder / "copy"


def refused(corpus: Path, **options: Any) -> str:
    with pytest.raises(gristmill.GristmillError) as error:
        gristmill.report(corpus, **options)
    return str(error.value)


def test_what_is_no_corpus_is_refused(corpus: Path, tmp_path: Path) -> None:
    assert "no such folder" in refused(tmp_path / "none")
    assert "not a corpus, or not finished" in refused(tmp_path)
    said = refused(damaged(corpus, tmp_path, "verdicts/00000.parquet"))
    assert "verdicts/00000.parquet" in said
    assert "gristmill verify" in said
    text = (tmp_path / "copy/manifest.json").read_text()
    changed = text.replace('"format": 2', '"format": 9')
    (tmp_path / "copy/manifest.json").write_text(changed)
    assert "disagree" in refused(tmp_path / "copy")
    (tmp_path / "copy/manifest.lock").write_bytes(make_lock(changed.encode()))
    assert "has format 9; this gristmill reads formats 1 to 2" in refused(tmp_path / "copy")
    (tmp_path / "copy/manifest.json").unlink()
    (tmp_path / "copy/manifest.lock").unlink()  # as a run that was stopped leaves it
    assert "not finished" in refused(tmp_path / "copy")


def test_where_no_page_can_be_written(corpus: Path, tmp_path: Path) -> None:
    assert "name a file" in refused(corpus, out=tmp_path)
    assert "cannot be written" in refused(corpus, out=tmp_path / "no/such/page.html")
    assert "a part of the corpus" in refused(corpus, out=corpus / "manifest.json")
    assert "a part of the corpus" in refused(corpus, out=corpus / "tokens/page.html")
    assert "cannot be written" in refused(corpus, out=Path("/proc/page.html"))
