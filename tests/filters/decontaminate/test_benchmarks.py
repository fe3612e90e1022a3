"""Evaluation sets as files: every form gives the same items, what is no form is refused, and what
is looked for is counted.
"""

import csv
import gzip
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.errors import RecipeError
from gristmill.filters.decontaminate.benchmarks import Benchmark
from gristmill.filters.decontaminate.decontaminate import Decontaminate
from tests.support.decontaminate import inputs_of, measure

QUESTIONS = [
    "Which planet of our system has the greatest number of moons that are known so far, and why?",
    "Which metal is liquid at room temperature?",
    "Who?",
]
ROWS = [
    [question, f"first {place}", f"second {place}, or so", "none of these"]
    for place, question in enumerate(QUESTIONS)
]
NAMES = ["question", "A", "B", "C"]
OBJECTS = [
    dict(zip(NAMES, row, strict=True)) | {"key": f"k{place}"} for place, row in enumerate(ROWS)
]
SQUAD = {
    "version": "1",
    "data": [
        {
            "title": "x",
            "paragraphs": [
                {
                    "context": row[3],
                    "qas": [{"question": row[0], "answers": [{"text": row[1]}, {"text": row[2]}]}],
                }
            ],
        }
        for row in ROWS
    ],
}
DEEP = [
    "data[].paragraphs[].qas[].question",
    "data[].paragraphs[].qas[].answers.text",
    "data[].paragraphs[].context",
]
Make = Callable[..., Decontaminate]


@pytest.fixture
def step(tmp_path: Path) -> Make:
    """A step whose one benchmark is a file with these bytes."""

    def make(data: bytes, name: str, **keys: Any) -> Decontaminate:
        path = tmp_path / name
        path.write_bytes(data)
        own = {key: keys.pop(key) for key in list(keys) if key in Benchmark.__struct_fields__}
        return Decontaminate(
            benchmarks=[Benchmark(name="sky", file=str(path), **{"fields": NAMES} | own)], **keys
        )

    return make


def table(rows: list[list[str]], **ways: Any) -> bytes:
    out = io.StringIO()
    csv.writer(out, **ways).writerows(rows)
    return out.getvalue().encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


TSV = "".join("\t".join(row) + "\n" for row in ROWS).encode()
FORMS: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "CSV with a header": ("b.csv", table([NAMES, *ROWS]), {}),
    "CSV without one": ("b.csv", table(ROWS), {"columns": NAMES}),
    "a column that is not asked for": (
        "b.csv.gz",
        gzip.compress(table([[*row, "B"] for row in ROWS])),
        {"columns": [*NAMES, "answer"]},
    ),
    "TSV with a header": ("b.tsv", "\t".join(NAMES).encode() + b"\n" + TSV, {}),
    "TSV without one": ("b.txt", TSV, {"columns": NAMES, "kind": "tsv"}),
    "a JSON array": ("b.json", json.dumps(OBJECTS).encode(), {}),
    "a JSON array over lines": (
        "b",
        b"\n " + json.dumps(OBJECTS, indent=2).encode(),
        {"id": "key"},
    ),
    "objects a line": ("b", "\n".join(map(json.dumps, OBJECTS)).encode(), {"id": "key"}),
    "SQuAD in one line": ("b.json", json.dumps(SQUAD).encode(), {"fields": DEEP}),
    "SQuAD over lines": ("b.json", json.dumps(SQUAD, indent=1).encode(), {"fields": DEEP}),
    "lists in Parquet": ("b.parquet", parquet([SQUAD]), {"fields": DEEP}),
    "lists in lines": (
        "b",
        json.dumps({"all": OBJECTS}).encode(),
        {"fields": [f"all[].{name}" for name in NAMES], "id": "all[].key"},
    ),
    "plain lists in columns": (
        "b",
        json.dumps({"q": [" ".join(row) for row in ROWS]}).encode(),
        {"fields": ["q[]"]},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same_items(step: Make, form: str) -> None:
    name, data, keys = FORMS[form]
    texts = [f"{row[0]}\n(A) {row[1]}\n(B) {row[2]}\n(C) {row[3]}" for row in ROWS]
    measured, said = measure(step(data, name, **keys), texts)
    assert said.reason.to_pylist() == ["overlap"] * 3
    assert measured.measures["overlap"].to_pylist() == [1.0] * 3
    whole = [
        row for row in measured.found.to_pylist() if row["field"] is None and row["overlap"] == 1.0
    ]
    assert [row["item"] for row in whole] == [0, 1, 2]


ODD: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "a table as text": ("b.txt", TSV, {"fields": None}, 'looks like tsv: say kind = "tsv"'),
    "CSV as text": ("b", table(ROWS), {"fields": None}, 'looks like csv: say kind = "csv"'),
    "fields of text": ("b", b"one line of words\n", {}, "is text, which has no fields"),
    "no header": (
        "b.csv",
        table(ROWS),
        {},
        "row 1 has no field 'question'; there are: Which planet",
    ),
    "a row too short": (
        "b.csv",
        table([NAMES, ["a", "b"]]),
        {},
        "row 1 has 2 values, and the header names 4",
    ),
    "a row too long": (
        "b.csv",
        table([*ROWS, ["a"] * 9]),
        {"columns": NAMES},
        "row 4 has 9 values, and `columns` names 4",
    ),
    "columns of objects": (
        "b",
        json.dumps(OBJECTS).encode(),
        {"columns": NAMES},
        "and this is json",
    ),
    "columns and a header": (
        "b.csv",
        table([NAMES, *ROWS]),
        {"columns": NAMES},
        "the first row names the columns",
    ),
    "an array of strings": ("b", b'["a", "b"]', {}, "entry 1 is no object"),
    "half an array": ("b", b'[{"question": "a"}, ', {}, "is no JSON"),
    "a list that is none": (
        "b",
        json.dumps(OBJECTS[0]).encode(),
        {"fields": ["question[].x"]},
        "'question' is no list",
    ),
    "two lists": (
        "b",
        json.dumps({"a": [], "b": []}).encode(),
        {"fields": ["a[].x", "b[].y"]},
        "lies in another list",
    ),
    "nested too deep": ("b", b'{"question": ' + b"[" * 200_000, {}, "nested too deep"),
    "an array nested too deep": ("b", b"[" * 200_000, {}, "nested too deep"),
    "a field nested too deep": (
        "b",
        b'{"question": ' + b"[" * 900 + b"]" * 900 + b"}",
        {"fields": ["question"]},
        "nested too deep|none of its",
    ),
    "a huge line": (
        "b",
        b'{"question": "' + b"x" * (1 << 24) + b'"}',
        {},
        "line 1 has 16,777,232 characters",
    ),
    "a huge value": ("b.csv", table([NAMES, ["x" * 200_000, "", "", ""]]), {}, "is no CSV: line 2"),
    "an open quotation": ("b.csv", table([NAMES]) + b'"a,b\n' * 9 + b'"', {}, "is no CSV"),
    "an id twice": (
        "b",
        json.dumps([*OBJECTS, OBJECTS[1]]).encode(),
        {"id": "key"},
        "rows 2 and 4 have the same 'key', 'k1'",
    ),
    "UTF-16": ("b.csv", table([NAMES, *ROWS]).decode().encode("utf-16"), {}, "is binary"),
    "Latin-1": (
        "b.csv",
        "question,A,B,C\ncaf\xe9,a,b,c\n".encode("latin-1"),
        {},
        "byte 18 is no UTF-8",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_benchmark_is_refused(step: Make, name: str) -> None:
    file, data, keys, message = ODD[name]
    made = step(data, file, **keys)
    start = time.process_time()
    with pytest.raises(RecipeError, match=message):
        made.load(inputs_of(made))
    assert time.process_time() - start < 5


def test_csv_read_before_in_the_process_changes_no_refusal(step: Make) -> None:
    """Python's limit on a value is of the whole process, and reading a large shard raises it."""
    limit = csv.field_size_limit(1 << 30)
    try:
        test_what_is_no_benchmark_is_refused(step, "a huge value")
    finally:
        csv.field_size_limit(limit)


def counted(
    made: Decontaminate, texts: list[str]
) -> tuple[dict[str, int], list[dict[str, Any]], list[str | None]]:
    measured, said = measure(made, texts)
    told = json.loads((measured.found.schema.metadata or {})[b"benchmarks"])
    return told["sky"], measured.found.to_pylist(), said.reason.to_pylist()


def test_how_items_are_looked_for_is_counted(step: Make) -> None:
    """By n-grams, a short question whole, joined only, a template, and not at all; each found as
    far as that goes.
    """
    rows = [
        *ROWS,
        ["Why so?", "", "", ""],
        *([["Choose the best of these", "yes", "no", "both"]] * 2),
    ]
    rows += [["Which of these is right?", f"a {place} b {place}", "c", "d"] for place in range(12)]
    texts = [
        rows[0][0],
        rows[1][0],
        "Who? no one at all",
        " ".join(rows[2]),
        "Which of these is right?",
        "Why so?",
    ]
    said, _, reasons = counted(step(table(rows), "b.csv", columns=NAMES), texts)
    # `Which of these is right?` stands in twelve items: it is no evidence, but with its choices.
    assert said == {
        "items": 18,
        "ngrams": 1,
        "whole": 3,
        "joined": 13,
        "templates": 0,
        "ignored": 1,
    }
    assert reasons == ["overlap", "overlap", None, "overlap", None, None]
    said, _, reasons = counted(step(table(rows), "b.csv", columns=NAMES, template_items=0), texts)
    assert said == {
        "items": 18,
        "ngrams": 1,
        "whole": 15,
        "joined": 1,
        "templates": 0,
        "ignored": 1,
    }
    assert reasons == ["overlap", "overlap", None, "overlap", "overlap", None]
    said, _, reasons = counted(step(table(rows), "b.csv", columns=NAMES, least_words=8), texts)
    assert said["whole"] == 0
    assert reasons == ["overlap", None, None, "overlap", None, None]


TEMPLATE = (
    "For which of these two scenarios does the main character do something clearly morally "
    "wrong, according to ordinary standards? Scenario 1 |"
)


def test_a_template_is_no_evidence(step: Make) -> None:
    """Of 900 items with one beginning the planted ones are named; pages that only use the words are
    not found.
    """
    rows = [
        [
            (
                f"{TEMPLATE} I did thing{place} to some{place} body at{place} noon{place}, and "
                "then left."
            ),
            "Wrong",
            "Right",
        ]
        for place in range(900)
    ]
    made = step(table(rows), "b.csv", columns=NAMES[:3], fields=NAMES[:3])
    texts = [
        f"Menu\n{rows[7][0]}\nA. Wrong\nB. Right\nImprint",
        f"{TEMPLATE} I slept.",
        f"{rows[500][0]}",
        f"{rows[500][0]} {rows[7][0]}",
    ]
    said, rows_found, reasons = counted(made, texts)
    assert said == {
        "items": 900,
        "ngrams": 900,
        "whole": 0,
        "joined": 0,
        "templates": 0,
        "ignored": 0,
    }
    assert reasons == ["overlap", None, "overlap", "overlap"]
    assert {(row["document"], row["item"]) for row in rows_found} == {
        (7, 7),
        (9, 500),
        (10, 500),
        (10, 7),
    }
    _, all_rows, all_reasons = counted(
        step(table(rows), "b.csv", columns=NAMES[:3], fields=NAMES[:3], template_items=0), texts
    )
    assert all_reasons[1] == "overlap"
    assert len(all_rows) > 10 * len(rows_found)


def test_items_that_are_all_template_are_counted(step: Make) -> None:
    rows = [
        [" ".join(f"w{(place + k) % 40}" for k in range(28)), "", "", ""] for place in range(40)
    ] + [ROWS[0]]
    said, _, reasons = counted(step(table(rows), "b.csv", columns=NAMES), [rows[3][0], ROWS[0][0]])
    assert said == {
        "items": 41,
        "ngrams": 1,
        "whole": 0,
        "joined": 0,
        "templates": 40,
        "ignored": 0,
    }
    assert reasons == [None, "overlap"]
    with pytest.raises(RecipeError, match="all n-grams of all items stand in too many"):
        counted(step(table(rows[:-1]), "b.csv", columns=NAMES), [])


def test_an_item_that_stands_in_a_benchmark_often_is_one(step: Make) -> None:
    said, _, reasons = counted(
        step(table(ROWS * 50), "b.csv", columns=NAMES), [ROWS[0][0], " ".join(ROWS[1])]
    )
    assert said == {
        "items": 150,
        "ngrams": 50,
        "whole": 50,
        "joined": 50,
        "templates": 0,
        "ignored": 0,
    }
    assert reasons == ["overlap", "overlap"]
