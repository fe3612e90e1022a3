"""How often pages name values of a dictionary, against the values that were written."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.source.tables import columnar, parquet_pages
from gristmill.source.tables.parquet_indices import count_indices
from tests.support import strategies
from tests.support.shards import read

# Runs of one value, and stretches of many.
PARTS = st.lists(
    st.one_of(
        st.tuples(st.none() | st.integers(0, 300), st.integers(1, 40)),
        st.lists(st.none() | st.integers(0, 300), max_size=30),
    ),
    min_size=1,
    max_size=8,
)


def written(path: Path, values: list[Any], **options: Any) -> tuple[Any, Any, Any]:
    """A file of one column; its metadata, its column, and its pages."""
    table = pa.table({"text": pa.array(values, pa.string())})
    if options.pop("required", False):
        table = table.cast(pa.schema([pa.field("text", pa.string(), nullable=False)]))
    pq.write_table(table, path, **options)
    metadata = pq.read_metadata(path)
    with open(path, "rb") as file:
        column = metadata.row_group(0).column(0)
        return metadata, column, parquet_pages._column(file, column, 0)


@strategies.fuzz(80)
@given(parts=PARTS, small=st.booleans(), required=st.booleans())
def test_counts(
    parts: list[Any], small: bool, required: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    numbers = [
        number
        for part in parts
        for number in (part if isinstance(part, list) else [part[0]] * part[1])
    ]
    values = [None if number is None else f"value {number}" for number in numbers]
    if required:
        values = [value or "" for value in values]
    path = tmp_path_factory.getbasetemp() / "counted.parquet"
    options = {"data_page_size": 16, "write_batch_size": 7} if small else {}
    _, _, found = written(path, values, required=required, **options)
    if not any(value is not None for value in values):
        return
    true = Counter(value for value in values if value is not None)
    counts = np.zeros(found.dictionaries[0].values, np.int64)
    assert len(counts) == len(true)
    with open(path, "rb") as file:
        for page in found.indices:
            data = parquet_pages._decompressed(file, page)
            assert data is not None
            assert count_indices(data, page.values, not required, counts)
    expected = np.array(list(true.values()))  # values are numbered as they come
    more = counts - expected
    assert (more == 0).all() if None not in values else (more >= 0).all()


def test_what_is_no_page() -> None:
    counts = np.zeros(3, np.int64)
    assert count_indices(bytes([2, 9 << 1, 1]), 9, False, counts)
    assert counts.tolist() == [0, 9, 0]
    assert count_indices(bytes([2, 3, 0b00_01_10_00, 0b01_01_01_01]), 8, False, counts)
    assert counts.tolist() == [2, 9 + 5, 1]
    assert count_indices(bytes([2, 200 << 1 & 0x7F | 0x80, 3, 0]), 5, False, counts)
    assert counts.tolist() == [2 + 5, 9 + 5, 1]
    for data in (
        b"",
        b"\0",  # no bits
        b"\x21\x02\0\0\0\0\0",  # 33 bits
        bytes([2, 9 << 1]),  # a run without its value
        bytes([2, 9 << 1, 3]),  # a value that there is not
        bytes([2, 3, 0]),  # half a group
        bytes([2, 3, 0xFF, 0]),
        bytes([2, *[0x80] * 12]),
    ):
        assert not count_indices(data, 9, False, counts)
    assert not count_indices(b"\xff\xff\xff\x7f\2", 9, True, counts)


@pytest.mark.parametrize(
    ("times", "codec", "most"), [(1, "snappy", 1024), (7, "zstd", 1024), (60, "gzip", 268)]
)
def test_a_long_value_that_is_named_a_few_times(
    tmp_path: Path, times: int, codec: str, most: int
) -> None:
    """Rows are decoded as others: together they cannot have many bytes."""
    texts = ["x" * 250_000, *(f"{number:05d}" * 400 for number in range(500))]
    values = texts * 3 + texts[:1] * (times - 3) if times > 2 else texts
    path = tmp_path / "table.parquet"
    metadata, column, found = written(
        path, values * 2, compression=codec, dictionary_pagesize_limit=4 << 20
    )
    (sizes,), _ = parquet_pages.read_sizes(str(path), metadata)
    assert sizes.rows(columnar.READ_ROWS, columnar.READ_BYTES) in range(most // 2 + 1, most + 1)
    with open(path, "rb") as file:
        longest = parquet_pages._seldom_named(file, metadata.schema.column(0), column, found)
    assert longest == (parquet_pages.SMALL if most == 1024 else None)
    assert read(path.read_bytes()).texts == values * 2


@pytest.mark.parametrize("size", [3 << 20, 5 << 20, 7 << 20])
def test_how_many_rows_of_a_large_dictionary_are_decoded_together(
    tmp_path: Path, size: int
) -> None:
    """Were a page's bytes indices of another codec, any row might name the longest value."""
    texts = [f"{number:05d}" * (size // 5000) for number in range(1000)]
    path = tmp_path / "table.parquet"
    metadata, _, found = written(path, texts, compression="zstd", dictionary_pagesize_limit=8 << 20)
    assert found.dictionary >= len(texts) * len(texts[0])
    (sizes,), coded = parquet_pages.read_sizes(str(path), metadata)
    assert coded == []
    rows = sizes.rows(columnar.READ_ROWS, columnar.READ_BYTES)
    assert rows * found.dictionary <= 4 << 30
    assert rows >= 512
    assert read(path.read_bytes()).texts == texts
