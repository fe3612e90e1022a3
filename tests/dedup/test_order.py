"""`[deduplicate] order`: who stays is the longest, or the best by a measure; a finished corpus then
takes no more shards.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import RecipeError, rejudge, run, verify
from gristmill.recipe import parse
from gristmill.store.manifest import decode
from tests.support.corpora import article, digests, jsonl, record

RECIPE = """
[[source]]
name = "web"
files = ["raw/*"]
[[step]]
use = "simple"
max_special = 0.5
[deduplicate]
exact = true
near = { threshold = 0.75 }
"""


def lay_out(folder: Path) -> Path:
    """Ten articles; of each a version that shouts more, one that is longer, and one that differs in
    punctuation alone.
    """
    short, long = [], []
    for number in range(10):
        text = article(f"ordered {number}", 20)
        words = text.split(" ")
        short += [
            text,
            " ".join([*words[:3], *(word.upper() for word in words[3:20]), *words[20:]]),
        ]
        long += [text + "\n" + article(f"more {number}", 2), text + " !!!"]
    raw = folder / "raw"
    raw.mkdir(parents=True)
    for name, texts in (("a", short), ("b", long)):
        rows: list[dict[str, object]] = [
            {"url": f"https://{name}.example/{place}", "text": text}
            for place, text in enumerate(texts)
        ]
        (raw / f"{name}.jsonl").write_bytes(jsonl(rows))
    path = folder / "recipe.toml"
    path.write_text(RECIPE, "utf-8")
    return path


def verdicts(corpus: Path) -> pa.Table:
    """Every verdict beside the text's length and the share of words in capitals."""
    table = pa.concat_tables(
        pq.read_table(path) for path in sorted((corpus / "verdicts").iterdir())
    )
    measured = pa.concat_tables(
        pq.read_table(path) for path in sorted((corpus / "measures").iterdir())
    )
    return table.append_column("upper", measured["simple.upper"])


def test_the_longest_stays(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    run(recipe, out=tmp_path / "c", workers=1, settings={"deduplicate.order": '"longest"'})
    verify(tmp_path / "c")
    kept = verdicts(tmp_path / "c").filter(pa.compute.field("reason").is_null())
    assert kept["url"].to_pylist() == [f"https://b.example/{2 * number}" for number in range(10)]
    gone = verdicts(tmp_path / "c").filter(pa.compute.field("reason").is_valid())
    assert set(gone["keeper"].to_pylist()) == set(kept["document"].to_pylist())


def test_the_best_by_a_measure_stays_and_is_judged_again(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    lowest = {"deduplicate.order": '"lowest simple.upper"'}
    for workers in (1, 2):
        run(recipe, out=tmp_path / f"c{workers}", workers=workers, settings=lowest)
    assert digests(tmp_path / "c1") == digests(tmp_path / "c2")
    table = verdicts(tmp_path / "c1").to_pylist()
    of = {row["document"]: row for row in table}
    dropped = [row for row in table if row["keeper"] is not None]
    assert len(dropped) == 30
    for row in dropped:
        keeper = of[row["keeper"]]
        assert (keeper["upper"], keeper["document"]) < (row["upper"], row["document"])
    changed = lowest | {"deduplicate.near.threshold": "0.95"}
    told = rejudge(recipe, out=tmp_path / "c1", settings=changed)
    run(recipe, out=tmp_path / "fresh", workers=1, settings=changed)
    funnel = decode((tmp_path / "fresh" / "manifest.json").read_bytes()).funnel
    assert told["kept"] == {"was": 10, "now": funnel["kept"]} and funnel["kept"] > 10


def test_a_finished_corpus_takes_no_more(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    longest = {"deduplicate.order": '"longest"'}
    run(recipe, out=tmp_path / "c", workers=1, settings=longest)
    shutil.copy(tmp_path / "raw/a.jsonl", tmp_path / "raw/c.jsonl")
    with pytest.raises(RecipeError, match="finished with 2 raw shards and the recipe names 3"):
        run(recipe, out=tmp_path / "c", workers=1, settings=longest)
    run(recipe, out=tmp_path / "c", workers=1)  # in the plan's order it may grow
    run(recipe, out=tmp_path / "fresh", workers=1)
    assert digests(tmp_path / "c") == digests(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ('order = "shortest"', "order"),
        ('order = "longest"\nindex = true', 'index need order = "plan"'),
        ('order = "highest language.score"\nagainst = ["old"]', 'index need order = "plan"'),
    ],
)
def test_orders_that_cannot_be(lines: str, why: str) -> None:
    with pytest.raises(RecipeError, match=why):
        parse(RECIPE.replace("exact = true", lines), "recipe.toml")


def test_a_measure_that_no_step_makes(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    with pytest.raises(RecipeError, match=r"no step of the recipe measures 'language\.score'"):
        run(
            recipe,
            out=tmp_path / "c",
            workers=1,
            settings={"deduplicate.order": '"highest language.score"'},
        )


@pytest.mark.parametrize(
    ("order", "stays"),
    [
        ("highest field:stars", [2]),
        ("lowest field:stars", [1]),
        ("highest field:meta.score", [0]),
        ("highest field:date", [2]),
        ("lowest field:date", [1]),
        ("highest field:a b", [3]),
    ],
)
def test_fields_of_documents_put_them_in_order(
    tmp_path: Path, order: str, stays: list[int]
) -> None:
    """Numbers, strings of numbers and dates; what has none comes last, whichever way."""
    rows: list[dict[str, object]] = [
        {"stars": "3.5", "meta": {"score": 9}, "date": "2024-05-01"},
        {"stars": -1, "meta": {"score": True}, "date": "2023-12-31T23:59:59Z"},
        {"stars": 10**400, "meta": [], "date": "2024-05-01T01:00:00+00:30"},
        {"stars": None, "meta": {"other": 1}, "date": "yesterday", "a b": 0},
        {"stars": float("inf"), "a b": -3},
    ]
    text = article("fields")
    (tmp_path / "pages.jsonl").write_bytes(jsonl([{"text": text, **row} for row in rows]))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'[[source]]\nname = "web"\nfiles = ["pages.jsonl"]\n[deduplicate]\norder = "{order}"\n'
    )
    run(recipe, out=tmp_path / "c", workers=1)
    assert pq.read_table(tmp_path / "c/text/web/00000.parquet")["document"].to_pylist() == stays
    verify(tmp_path / "c")


def test_a_field_that_no_document_has(tmp_path: Path) -> None:
    recipe = lay_out(tmp_path)
    with pytest.raises(RecipeError, match=r"no document has a number or a date in this field"):
        run(
            recipe,
            out=tmp_path / "c",
            workers=1,
            settings={"deduplicate.order": '"highest field:stars"'},
        )
    with pytest.raises(RecipeError, match=r"no document has"):
        run(
            recipe,
            out=tmp_path / "c",
            workers=1,
            settings={"deduplicate.order": '"lowest field:text"'},
        )


def test_the_date_of_a_record_puts_documents_in_order(tmp_path: Path) -> None:
    text = article("dated").encode()
    records = [
        record(text, f"https://x.example/{year}", year).replace(b"2026-01", b"%d-01" % year)
        for year in (2024, 2026, 2025)
    ]
    (tmp_path / "pages.wet").write_bytes(b"".join(records))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[[source]]\nname = "web"\nfiles = ["pages.wet"]\n[deduplicate]\norder = "highest '
        'field:date"\n'
    )
    run(recipe, out=tmp_path / "c", workers=1)
    assert pq.read_table(tmp_path / "c/text/web/00000.parquet")["url"].to_pylist() == [
        "https://x.example/2026"
    ]
