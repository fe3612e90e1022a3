"""Exports of texts: columns with inferred types, and nanochat's shards."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill
from gristmill.errors import RecipeError
from gristmill.trainer_formats.column_types import (
    NULL,
    Kind,
    arrow_type,
    as_kind,
    is_json,
    merged,
    value_kind,
)
from gristmill.trainer_formats.export import export
from gristmill.trainer_formats.kept_texts import KeptTexts
from tests.support.corpora import article, jsonl

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


def all_of(values: list[Any]) -> Kind:
    kind = NULL
    for value in values:
        kind = merged(kind, value_kind(value))
    return kind


def agrees(value: Any, stored: Any, kind: Kind) -> bool:
    """Whether a column gives back a value of JSON."""
    if value is None:
        return stored is None
    if is_json(kind):
        return json.loads(stored) == value
    if kind.name == "list":
        assert kind.item is not None
        return len(stored) == len(value) and all(
            agrees(a, b, kind.item) for a, b in zip(value, stored, strict=True)
        )
    if kind.name == "struct":
        return all(agrees(value.get(name), stored[name], inner) for name, inner in kind.fields)
    return bool(stored == value) and isinstance(stored, float) == (kind.name == "float")


@settings(max_examples=300, deadline=None)
@given(values=st.lists(JSON, min_size=1, max_size=6), seed=st.integers(0, 99))
def test_a_column_holds_every_value_whatever_their_order(values: list[Any], seed: int) -> None:
    kind = all_of(values)
    again = list(values)
    random.Random(seed).shuffle(again)
    assert all_of(again) == kind
    column = pa.array([as_kind(value, kind) for value in values], arrow_type(kind))
    for value, stored in zip(values, column.to_pylist(), strict=True):
        assert agrees(value, stored, kind), (value, stored, kind)


class Killed(BaseException):
    """Stands for a kill: nothing that handles errors catches it."""


def test_a_killed_export_of_texts_keeps_its_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        rows = [{"text": article(5 * number + n, 40), "n": n} for n in range(5)]
        (tmp_path / f"{number}.jsonl").write_bytes(jsonl(rows))
    files = [str(tmp_path / f"{number}.jsonl") for number in range(4)]
    gristmill.run(files, out=tmp_path / "corpus", workers=1)
    write = KeptTexts.batches

    def killed_and_run(to: str, survives: int) -> list[int]:
        """The shards that are read by an export after one that was killed at a shard."""
        asked: list[int] = []

        def dying(self: KeptTexts, source: str, number: int) -> Iterator[pa.RecordBatch]:
            if len(asked) == survives:
                raise Killed
            asked.append(number)
            yield from write(self, source, number)

        with monkeypatch.context() as patched:
            patched.setattr(KeptTexts, "batches", dying)
            with pytest.raises(Killed):
                export(tmp_path / "corpus", tmp_path / to, to=to)
            asked, survives = [], -1
            result = export(tmp_path / "corpus", tmp_path / to, to=to)
        whole = export(tmp_path / "corpus", tmp_path / f"{to}-whole", to=to)
        assert (result["kept"], result["documents"]) == (2, whole["documents"])
        sums = [(tmp_path / name / "SHA256SUMS").read_bytes() for name in (to, f"{to}-whole")]
        assert sums[0] == sums[1]
        return asked

    assert killed_and_run("jsonl.zst", 2) == [2, 3]
    # Parquet reads all texts before, for the types of its columns.
    assert killed_and_run("parquet", 6) == [0, 1, 2, 3, 2, 3]


def test_kinds() -> None:
    for values, expected in (
        ([1, 2], "int64"),
        ([1, 2.5], "double"),
        ([2**60, 2.5], "string"),
        ([True, False, None], "bool"),
        ([True, 1], "string"),
        ([2**64], "string"),
        (["a", None], "string"),
        ([None], "string"),
        ([[1], [2.5], []], "list<item: double>"),
        ([{"b": 1}, {"a": "x"}], "struct<a: string, b: int64>"),
        ([{}], "string"),
    ):
        assert str(arrow_type(all_of(values))) == expected, values
    deep: Any = 1
    for _ in range(20):
        deep = [deep]
    assert "string" in str(arrow_type(value_kind(deep)))


def corpus_of(tmp_path: Path, rows: list[list[dict[str, object]]], more: str = "") -> Path:
    names = []
    for number, some in enumerate(rows):
        (tmp_path / f"{number}.jsonl").write_bytes(jsonl(some))
        names.append(f'[[source]]\nname = "s{number}"\nfiles = ["{number}.jsonl"]\n')
    (tmp_path / "recipe.toml").write_text('output = "corpus"\n' + "".join(names) + more)
    gristmill.run(tmp_path / "recipe.toml", workers=1)
    return tmp_path / "corpus"


def test_fields_are_columns_with_one_schema_for_all_files(tmp_path: Path) -> None:
    rows: list[list[dict[str, object]]] = [
        [
            {"text": "one", "url": "https://a.org/1", "n": 1, "meta": {"lang": "en"}},
            {"text": "two", "n": 2.5, "tags": ["x"], "odd": 1, "copies": 9},
        ],
        [{"text": "three", "odd": "text", "document": "D", "date": 5, "meta": {"score": 0.5}}],
    ]
    root = corpus_of(tmp_path, rows)
    export(root, tmp_path / "out", to="parquet")
    tables = [pq.read_table(tmp_path / f"out/s{n}/0000{n}.parquet") for n in (0, 1)]
    assert tables[0].schema == tables[1].schema
    assert tables[0].schema.names == [
        *("document", "text", "url"),
        *("date", "record_id", "declared_language", "content_type", "title"),
        *("n", "meta", "tags", "odd", "original_copies", "original_document", "copies"),
    ]
    found = [row for table in tables for row in table.to_pylist()]
    assert [row["n"] for row in found] == [1.0, 2.5, None]
    assert [row["meta"] for row in found] == [
        {"lang": "en", "score": None},
        None,
        {"lang": None, "score": 0.5},
    ]
    assert [row["tags"] for row in found] == [None, ["x"], None]
    assert [row["odd"] for row in found] == [None, "1", '"text"']
    assert [row["original_copies"] for row in found] == [None, 9, None]
    assert [row["original_document"] for row in found] == [None, None, "D"]
    assert [row["date"] for row in found] == [None, None, "5"]
    assert [row["document"] for row in found] == [0, 1, 1 << 32]
    said = json.loads((tmp_path / "out/gristmill.json").read_text())
    assert said["details"]["json_columns"] == ["date", "odd"]
    export(root, tmp_path / "one", to="parquet", sources=["s1"])
    assert [path.name for path in (tmp_path / "one").glob("s*")] == ["s1"]
    with pytest.raises(RecipeError, match="no such source; there are s0, s1"):
        export(root, tmp_path / "none", to="parquet", sources=["s2"])


def test_nanochat(tmp_path: Path) -> None:
    texts = [article(number, 6) for number in range(2500)]
    root = corpus_of(tmp_path, [[{"text": text} for text in texts]])
    for name in ("a", "b"):
        result = export(root, tmp_path / name, to="nanochat")
    assert (tmp_path / "a/SHA256SUMS").read_bytes() == (tmp_path / "b/SHA256SUMS").read_bytes()
    assert result["documents"] == len(texts)
    shards = sorted((tmp_path / "a").glob("*.parquet"))
    assert [path.name for path in shards] == ["shard_00000.parquet", "shard_00001.parquet"]
    train, val = (pq.ParquetFile(path) for path in shards)
    assert train.schema_arrow.names == ["text"]
    # Every one of 8 processes finds a row group in both.
    assert min(train.num_row_groups, val.num_row_groups) >= 8
    found = [table.read()["text"].to_pylist() for table in (train, val)]
    assert sorted(found[0] + found[1]) == sorted(texts)
    assert 50 < len(found[1]) < 150
    assert found[0] == [text for text in texts if text not in set(found[1])]
    few = tmp_path / "few"
    few.mkdir()
    root = corpus_of(few, [[{"text": "one"}]])
    with pytest.raises(RecipeError, match="nanochat needs both"):
        export(root, few / "out", to="nanochat")
