"""Texts of nothing but white space are no documents, and rows without a text have a bound."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.source import read
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields, without_empty
from gristmill.tables.schema import RAW, first_document
from tests.support import strategies
from tests.support.corpora import jsonl

BLANK = ["", " ", "\n\t\r\n", "\u00a0", "\u3000\u2003", "\x1c\x85"]
NOT_BLANK = ["a", " a", "\u3000\u3042", "\u00e9", "\u200b", "\ufeff", "\u2014", "\x00"]


def batch_of(texts: list[str]) -> pa.RecordBatch:
    first = first_document(3)
    rows = [{"document": first + row, "text": text} for row, text in enumerate(texts)]
    return pa.RecordBatch.from_pylist(rows, schema=RAW)


def verdicts(path: Path, *, keep_empty: bool = False) -> list[tuple[str | None, float | None]]:
    """(reason, value) of each row of a file."""
    shard = ShardReader(path, 3, fields=Fields(keep_empty=keep_empty))
    return [
        (row["reason"], row["value"])
        for batch in shard
        for row in batch.select(["reason", "value"]).to_pylist()
    ]


@strategies.fuzz(100)
@given(st.lists(st.one_of(st.sampled_from(BLANK + NOT_BLANK), st.text(max_size=4))))
def test_what_is_empty_is_what_python_strips_to_nothing(texts: list[str]) -> None:
    batch = batch_of([text.encode("utf-8", "replace").decode() for text in texts])
    given_rows, left = batch.to_pylist(), without_empty(batch).to_pylist()
    for row, (before, after) in enumerate(zip(given_rows, left, strict=True)):
        if before["text"].strip():
            assert after == before
        else:
            assert after == {**before, "text": "", "reason": "read.empty", "value": float(row)}


def test_a_row_with_a_reason_keeps_it() -> None:
    batch = batch_of(["", "a"])
    place = RAW.get_field_index("reason")
    batch = batch.set_column(place, RAW.field(place), pa.array(["read.not_json", None]))
    assert without_empty(batch)["reason"].to_pylist() == ["read.not_json", None]


def test_a_slice_is_looked_at_by_its_own_rows() -> None:
    batch = batch_of(["a", "", "b", " "]).slice(1)
    assert without_empty(batch)["reason"].to_pylist() == ["read.empty", None, "read.empty"]


def test_a_source_may_keep_them(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl([{"text": "a"}, {"text": ""}, {"text": " \n"}]))
    assert verdicts(path) == [(None, None), ("read.empty", 1.0), ("read.empty", 2.0)]
    assert verdicts(path, keep_empty=True) == [(None, None)] * 3


@pytest.mark.parametrize("text", [None, ""])
def test_a_table_of_hollow_rows_is_cut_off(
    tmp_path: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "HOLLOW_ROWS", 1_000)
    path = tmp_path / "a.parquet"
    column = pa.nulls(500_000, pa.string()) if text is None else pa.array([text] * 500_000)
    pq.write_table(pa.table({"text": column}), path, compression="zstd")
    rows = verdicts(path)
    size = path.stat().st_size
    assert 4 * size < len(rows) < 4 * size + 20_000 < 500_000
    assert {reason for reason, _ in rows[:-1]} == {"read.no_text" if text is None else "read.empty"}
    assert rows[-1] == ("read.bomb", float(len(rows) - 1))


def test_sparse_tables_are_read_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [f"text {row}" if row % 3 == 0 else None for row in range(200_000)]
    pq.write_table(pa.table({"text": texts}), path, compression="zstd")
    assert len(verdicts(path)) == 200_000
