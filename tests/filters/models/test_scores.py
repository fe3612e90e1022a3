"""Scores from files: joined as a dictionary would join them, and what does not match is said."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill.errors import GristmillError, MachineError, RecipeError
from gristmill.filters.models import score_index
from gristmill.filters.models.scores import GivenScores
from gristmill.system.ownership import MARKER
from gristmill.tables import schema
from tests.support.steps import given as given_input


def step_of(**table: Any) -> GivenScores:
    return msgspec.convert(table, GivenScores)


def documents(texts: list[str], first: int = (3 << 32)) -> pa.RecordBatch:
    rows = [
        {"document": first + row, "text": text, "url": f"https://example.org/{row}"}
        for row, text in enumerate(texts)
    ]
    return pa.RecordBatch.from_pylist(rows, schema.DOCUMENTS)


def measured(step: GivenScores, batch: pa.RecordBatch) -> dict[str, list[Any]]:
    inputs = {location: given_input(Path(location)) for location in step.files}
    found = step.load(inputs)(batch)
    return {name: column.to_pylist() for name, column in found.measures.items()}


def reasons(step: GivenScores, batch: pa.RecordBatch) -> list[str | None]:
    inputs = {location: given_input(Path(location)) for location in step.files}
    return list(step.decide(step.load(inputs)(batch).measures).reason.to_pylist())


def parquet(path: Path, **columns: list[Any]) -> str:
    pq.write_table(pa.table(columns), path)
    return str(path)


def lines(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


TEXTS = ["one", "two", "", "four", "five"]


@pytest.mark.parametrize("by", ["document", "url", "text"])
@pytest.mark.parametrize("form", ["parquet", "jsonl", "jsonl.gz"])
def test_joins_by_document_url_or_text(tmp_path: Path, by: str, form: str) -> None:
    keys = {
        "document": ["3:0", "3:2", "3:3"],
        "url": [f"https://example.org/{row}" for row in (0, 2, 3)],
        "text": [
            hashlib.blake2b(t.encode(), digest_size=16).hexdigest() for t in ("one", "", "four")
        ],
    }[by]
    field = {"document": "document", "url": "url", "text": "text_hash"}[by]
    columns: dict[str, list[Any]] = {field: keys, "edu": [1.5, 3, None], "topic": ["a", None, "b"]}
    path = tmp_path / f"scores.{form}"
    if form == "parquet":
        parquet(path, **columns)
    else:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(data) if form.endswith("gz") else data)
    step = step_of(files=[str(path)], by=by, numbers=["edu"], labels=["topic"])
    assert measured(step, documents(TEXTS)) == {
        "edu": [1.5, None, 3.0, None, None],
        "topic": ["a", None, None, "b", None],
        "missing": [0, 2, 1, 1, 2],
        "repeats": [0, 0, 0, 0, 0],
    }


def test_judges_by_numbers_and_labels(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "s.parquet",
        document=[(3 << 32) + row for row in range(4)],
        int_score=[2, 3, 9, 4],
        topic=["news", "sport", "news", "spam"],
    )
    table: dict[str, Any] = {
        "files": [path],
        "numbers": {"edu": "int_score"},
        "labels": ["topic"],
        "min": {"edu": 3},
        "max": {"edu": 8},
        "keep": {"topic": ["news", "sport"]},
    }
    batch = documents(TEXTS)
    assert reasons(step_of(**table), batch) == ["edu_low", None, "edu_high", "topic_label", None]
    dropping = reasons(step_of(**table, missing="drop"), batch)
    assert dropping == ["edu_low", None, "edu_high", "topic_label", "missing"]
    inputs = {path: given_input(Path(path))}
    step = step_of(**table)
    said = step.decide(step.load(inputs)(batch).measures)
    assert said.value.to_pylist() == [2.0, None, 9.0, None, None]
    assert said.threshold.to_pylist() == [3.0, None, 8.0, None, None]
    with pytest.raises(RecipeError, match=r"document 3:4 .*has no edu, topic"):
        measured(step_of(**table, missing="refuse"), batch)


def test_several_files_and_judges(tmp_path: Path) -> None:
    number = 3 << 32
    files = [
        parquet(tmp_path / "a.parquet", document=[number], edu=[1.0]),
        parquet(tmp_path / "b.parquet", document=[number + 1], edu=[2.0]),
        lines(tmp_path / "c.jsonl", {"document": number, "dclm": 0.5}),
    ]
    found = measured(step_of(files=files, numbers=["edu", "dclm"]), documents(["x", "y"]))
    assert found["edu"] == [1.0, 2.0]
    assert found["dclm"] == [0.5, None]
    assert found["missing"] == [0, 1]
    both = parquet(tmp_path / "d.parquet", document=[number + 5], edu=[1.0], dclm=[1.0])
    with pytest.raises(RecipeError, match="both have the column 'edu', and not the same others"):
        measured(step_of(files=[*files, both], numbers=["edu", "dclm"]), documents(["x"]))


@pytest.mark.parametrize("on_disk", [False, True])
def test_repeats_are_refused_or_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool
) -> None:
    if on_disk:
        monkeypatch.setattr(score_index, "HELD", 1)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    urls = ["https://example.org/1", "https://example.org/0", "https://example.org/1"]
    path = parquet(tmp_path / "s.parquet", url=urls, edu=[1.0, 2.0, 3.0])
    table: dict[str, Any] = {"files": [path], "by": "url", "numbers": ["edu"]}
    with pytest.raises(RecipeError, match=r"s.parquet, row 1, and .*row 3: both are of") as error:
        measured(step_of(**table), documents(TEXTS))
    assert 'repeats = "first" or "last"' in str(error.value)
    first = measured(step_of(**table, repeats="first"), documents(TEXTS))
    assert (first["edu"][:2], first["repeats"][:3]) == ([2.0, 1.0], [0, 1, 0])
    last = measured(step_of(**table, repeats="last"), documents(TEXTS))
    assert last["edu"][:2] == [2.0, 3.0]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 40), st.floats(-5, 5), st.sampled_from("abc")), max_size=60
    ),
    held=st.sampled_from([3, 16, 1000]),
    repeats=st.sampled_from(["first", "last"]),
    by=st.sampled_from(["document", "url"]),
)
def test_as_a_dictionary_joins(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[int, float, str]],
    held: int,
    repeats: str,
    by: str,
) -> None:
    """In memory and on disk, in one run or many."""
    folder = tmp_path_factory.mktemp("join")
    monkeypatch.setattr(score_index, "HELD", held)
    monkeypatch.setattr(score_index, "SLICE", 8)
    monkeypatch.setattr("gristmill.filters.models.score_files.ROWS", 4)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    batch = documents([f"text {row}" for row in range(40)])
    key = {"document": "document", "url": "url"}[by]
    of = [(3 << 32) + row if by == "document" else f"https://example.org/{row}" for row, *_ in rows]
    path = lines(
        folder / "s.jsonl",
        *({key: k, "edu": v, "topic": t} for k, (_, v, t) in zip(of, rows, strict=True)),
    )
    if not rows:
        return
    expected: dict[Any, tuple[float, str]] = {}
    for k, (_, value, label) in zip(of, rows, strict=True):
        if repeats == "last" or k not in expected:
            expected[k] = (value, label)
    step = step_of(files=[path], by=by, numbers=["edu"], labels=["topic"], repeats=repeats)
    found = measured(step, batch)
    own = batch[key].to_pylist()
    assert found["edu"] == [expected.get(k, (None, None))[0] for k in own]
    assert found["topic"] == [expected.get(k, (None, None))[1] for k in own]
    assert found["repeats"] == [max(of.count(k) - 1, 0) for k in own]
    if len(rows) > held:
        assert list((folder / "cache/gristmill/scores").glob("*/labels.json"))


def test_a_strangers_folder_for_scores_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_index, "HELD", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = parquet(tmp_path / "s.parquet", document=[1, 2, 3], edu=[1.0, 2.0, 3.0])
    step = step_of(files=[path], numbers=["edu"])
    folder = tmp_path / "cache/gristmill/scores"
    (folder / "a thesis").mkdir(parents=True)
    with pytest.raises(MachineError, match=r"holds 'a thesis', and no .gristmill.json"):
        measured(step, documents(["x"]))
    assert [one.name for one in folder.iterdir()] == ["a thesis"]
    (folder / "a thesis").rename(folder / "journal")  # as an earlier version left it
    measured(step, documents(["x"]))
    assert json.loads((folder / MARKER).read_bytes())["kind"] == "scores"


def test_a_file_of_another_plan_is_noticed(tmp_path: Path) -> None:
    number = 3 << 32
    urls = ["https://example.org/0", "https://example.org/7"]
    path = parquet(tmp_path / "s.parquet", document=[number, number + 1], edu=[1.0, 2.0], url=urls)
    with pytest.raises(RecipeError, match=r"document 3:1 has another URL in the file"):
        measured(step_of(files=[path], numbers=["edu"]), documents(["a", "b"]))
    assert measured(step_of(files=[path], numbers=["edu"]), documents(["a"]))["edu"] == [1.0]


def test_scores_that_are_no_numbers(tmp_path: Path) -> None:
    number = 3 << 32
    for value, name in ((float("nan"), "NaN"), (float("inf"), "infinite")):
        for path in (
            parquet(tmp_path / "s.parquet", document=[number, number + 1], edu=[1.0, value]),
            lines(
                tmp_path / "s.jsonl",
                {"document": number, "edu": 1.0},
                {"document": number + 1, "edu": value},
            ),
        ):
            table: dict[str, Any] = {"files": [path], "numbers": ["edu"]}
            with pytest.raises(RecipeError, match=f"row 2 is {name}, which no threshold"):
                measured(step_of(**table), documents(["a", "b"]))
            found = measured(step_of(**table, nan="missing"), documents(["a", "b"]))
            assert (found["edu"], found["missing"]) == ([1.0, None], [0, 1])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1], "edu": [1.0]}, "it has no column 'document'"),
        ({"document": [1], "other": [1.0]}, "none of the columns 'edu'"),
        ({"document": [None, 1], "edu": [1.0, 2.0]}, "row 1 has none: every row needs the key"),
        ({"document": [-4], "edu": [1.0]}, "row 1 is -4: no document's number"),
        ({"document": ["x:1"], "edu": [1.0]}, "row 1 is 'x:1': expected shard:row"),
        ({"document": [1.5], "edu": [1.0]}, "expected documents' numbers or shard:row, got double"),
        ({"document": [1], "edu": ["good"]}, "expected numbers, got string"),
    ],
)
def test_files_that_are_none(tmp_path: Path, columns: dict[str, list[Any]], message: str) -> None:
    path = parquet(tmp_path / "s.parquet", **columns)
    with pytest.raises(RecipeError, match=message):
        measured(step_of(files=[path], numbers=["edu"]), documents(["a"]))


def test_bytes_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for data, message in (
        (b"", "it has no row"),
        (b"PAR1junk", "damaged Parquet"),
        (b"not json\n", "row 1 is no JSON object"),
        (b"[1, 2]\n", "row 1 is no JSON object"),
        (gzip.compress(b'{"document": 1, "edu": 2}\n' * 9)[:-12], "truncated|corrupt"),
        (b'{"document": 1, "edu": 1}\n{"document": 2, "edu": [1]}\n', "several kinds"),
        (b'{"document": 1, "edu": true}\n', "expected numbers, got bool"),
        (b'{"document": 99999999999999999999, "edu": 1}\n', "document"),
    ):
        path.write_bytes(data)
        with pytest.raises(GristmillError, match=message):
            measured(step_of(files=[str(path)], numbers=["edu"]), documents(["a"]))
    text = lines(path, {"text_hash": "AB" * 16, "edu": 1})
    with pytest.raises(RecipeError, match="32 hexadecimal digits"):
        measured(step_of(files=[text], by="text", numbers=["edu"]), documents(["a"]))


def test_parameters_that_are_none() -> None:
    for table, message in (
        ({}, "give some"),
        ({"numbers": ["a"], "labels": ["a"]}, "a number or a label"),
        ({"numbers": ["missing"]}, "cannot be a measure's name"),
        ({"numbers": ["Int Score"]}, "cannot be a measure's name"),
        ({"numbers": ["a"], "min": {"b": 1}}, "min.b: `numbers` names no 'b'"),
        ({"numbers": ["a"], "keep": {"a": ["x"]}}, "keep.a: `labels` names no 'a'"),
        ({"numbers": ["a"], "min": {"a": float("nan")}}, "no number"),
        ({"numbers": ["a"], "files": ["f", "f"]}, "named twice"),
    ):
        with pytest.raises(msgspec.ValidationError, match=message):
            step_of(**{"files": ["f"], **table})


def test_no_row_is_measured_too(tmp_path: Path) -> None:
    path = parquet(tmp_path / "s.parquet", document=[1], edu=[1.0], topic=["a"])
    nothing = pa.RecordBatch.from_pylist([], schema.DOCUMENTS)
    step = step_of(files=[path], numbers=["edu"], labels=["topic"])
    found = step.load({path: given_input(Path(path))})(nothing).measures
    types = {name: str(column.type) for name, column in found.items()}
    assert types == {"edu": "double", "topic": "string", "missing": "int64", "repeats": "int64"}
    assert np.sum([len(column) for column in found.values()]) == 0
