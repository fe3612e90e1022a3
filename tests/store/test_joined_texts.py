"""Texts laid end to end as they come: the same column, the same file, half the memory."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from gristmill.store.joined_texts import JoinedTexts
from gristmill.store.parts import HashingFile, TableWriter
from tests.support import strategies

SCHEMA = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("url", pa.string()),
    ]
)
COLUMNS = st.lists(st.lists(st.none() | st.text(max_size=9), max_size=6), max_size=5)


def batch_of(texts: list[str | None], first: int = 0) -> pa.RecordBatch:
    documents = pa.array(range(first, first + len(texts)), pa.int64())
    columns = [documents, pa.array(texts, pa.string()), pa.nulls(len(texts), pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@strategies.fuzz(200)
@given(COLUMNS, COLUMNS, st.integers(0, 3))
def test_columns_are_joined(
    columns: list[list[str | None]], others: list[list[str | None]], left_out: int
) -> None:
    joined = JoinedTexts(8)
    for pieces in (columns, others):
        for piece in pieces:
            joined.add(pa.array(piece, pa.string()).slice(left_out))
        taken = joined.take()
        taken.validate(full=True)
        assert taken.to_pylist() == [text for piece in pieces for text in piece[left_out:]]


@strategies.fuzz(200)
@given(st.lists(st.none() | st.text(max_size=30), max_size=40), st.data())
def test_the_bytes_of_a_file_do_not_depend_on_how_rows_are_cut(
    texts: list[str | None], data: st.DataObject
) -> None:
    files = []
    for _ in range(2):
        raw = io.BytesIO()
        table = TableWriter(HashingFile(raw), SCHEMA, group_bytes=400)
        at = 0
        while at < len(texts):
            count = data.draw(st.integers(1, len(texts) - at))
            table.write(batch_of(texts[at : at + count], at))
            at += count
        table.close()
        files.append(raw.getvalue())
    assert files[0] == files[1]
    read = pq.read_table(io.BytesIO(files[0]))
    assert read["text"].to_pylist() == texts
    assert read["document"].to_pylist() == list(range(len(texts)))


@contextmanager
def counted_memory() -> Iterator[pa.MemoryPool]:
    """Arrow's memory from here on, counted."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


def test_a_row_group_is_not_in_memory_twice() -> None:
    group = 16 << 20
    texts = [f"{number} " * (1 << 14) for number in range(16)]
    told: list[int] = []
    with counted_memory() as pool:
        file = HashingFile(io.BytesIO())
        table = TableWriter(file, SCHEMA, give_back=lambda: told.append(pool.bytes_allocated()))
        for _ in range(40):
            table.write(batch_of(texts))
        table.close()
        assert len(told) >= 4  # before and after each
        assert 0 < max(told) < group // 4
        assert (pool.max_memory() or 0) < group // 2
