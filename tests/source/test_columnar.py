"""Parquet: every column comes through, and a file that is none is told as such."""

import datetime
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import SourceError
from gristmill.source.rows import Fields, to_extra
from gristmill.source.tables import columnar, parquet_pages
from tests.support.shards import read


def packed(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def ill_formed(*values: bytes) -> pa.Array:
    """A column of strings that are not UTF-8: nothing stops a writer."""
    data = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(data), data.buffers())


def test_rows_are_documents() -> None:
    count = 3000  # more than one batch
    table = pa.table(
        {
            "url": [f"http://pages.example/{n}" for n in range(count)],
            "text": [f"text {n}" for n in range(count)],
            "n": range(count),
        }
    )
    for data in (
        packed(table),
        packed(table, row_group_size=100, compression="zstd"),
        gzip.compress(packed(table), 1),
    ):
        told = read(data)
        assert told.counts["kind"] == "parquet"
        assert told.counts["compressed_bytes"] == len(data)
        assert told.texts == table["text"].to_pylist()
        assert [row["document"] for row in told.rows] == list(range(count))
        assert [row["url"] for row in told.rows] == table["url"].to_pylist()
        assert [json.loads(row["extra"]) for row in told.rows] == [{"n": n} for n in range(count)]


def test_columns_of_every_kind_rest_in_extra() -> None:
    table = pa.table(
        {
            "text": ["a"],
            "nested": [{"a": [1, None], "b": {"c": "ü"}, "d": None}],
            "list": [["x", "y"]],
            "yes": [True],
            "score": [0.25],
            "day": [datetime.date(2024, 2, 29)],
            "moment": [datetime.datetime(2024, 2, 29, 12, 30)],
            "zoned": pa.array([datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)]),
            "raw": [b"\xff\x00"],
            "nothing": pa.array([None], pa.string()),
            "large": pa.array([2**64 - 1], pa.uint64()),
            "word": pa.array(["w"]).dictionary_encode(),
            "price": pa.array([1], pa.decimal128(9, 2)),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "nan": [float("nan")],
        }
    )
    (row,) = read(packed(table)).rows
    extra = json.loads(row["extra"])
    assert extra == {
        "nested": {"a": [1, None], "b": {"c": "ü"}, "d": None},
        "list": ["x", "y"],
        "yes": True,
        "score": 0.25,
        "day": "2024-02-29",
        "moment": "2024-02-29T12:30:00",
        "zoned": "2024-02-29T00:00:00Z",
        "raw": "/wA=",
        "large": 2**64 - 1,
        "word": "w",
        "price": "1.00",
        "map": [["k", 1]],
        "nan": "NaN",
    }
    assert "nothing" not in extra


def test_a_null_text_and_a_text_over_the_limit_are_told_with_their_row() -> None:
    table = pa.table({"text": ["a", None, "x" * 2000, "b"], "url": ["u0", "u1", "u2", None]})
    told = read(packed(table), fields=Fields(max_document_bytes=1000))
    assert told.texts == ["a", "b"]
    assert told.failed == [(1, "read.no_text", 1), (2, "read.too_large", 2)]
    assert [row["url"] for row in told.rows] == ["u0", "u1", "u2", None]


def test_a_text_that_is_no_string_is_told() -> None:
    assert [reason for _, reason, _ in read(packed(pa.table({"text": [1, 2]}))).failed] == [
        "read.no_text"
    ] * 2


def test_a_missing_column_names_those_that_are_there() -> None:
    with pytest.raises(SourceError, match="no column 'text'; there are content, n") as error:
        read(packed(pa.table({"content": ["a"], "n": [1]})))
    assert "text = ..." in str(error.value)
    assert read(packed(pa.table({"content": ["a"]})), fields=Fields(text="content")).texts == ["a"]


def test_bytes_as_text_are_read_as_utf8() -> None:
    values = [b"clean", b"a\xff\xfeb", b"\xe2\x82", "€".encode()]
    for kind in (pa.binary(), pa.large_binary()):
        assert read(packed(pa.table({"text": pa.array(values, kind)}))).texts == [
            value.decode("utf-8", "replace") for value in values
        ]


@pytest.mark.parametrize("column", ["text", "url", "other"])
def test_strings_that_are_not_utf8_become_replacements(column: str) -> None:
    columns = {
        "text": pa.array(["a", "b"]),
        "url": pa.array(["c", "d"]),
        "other": pa.array(["e", "f"]),
    }
    columns[column] = ill_formed(b"clean", b"\xff\xe2\x82")
    rows = read(packed(pa.table(columns))).rows
    given = [rows[1]["text"], rows[1]["url"], json.loads(rows[1]["extra"])["other"]]
    assert "\ufffd\ufffd" in given


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")),
        pa.array([10**7], pa.date32()),
        pa.array([5], pa.duration("ns")),
    ],
    ids=["nanoseconds", "a far day", "a duration in nanoseconds"],
)
def test_times_that_python_has_no_value_for_do_not_stop_a_file(column: pa.Array) -> None:
    (row,) = read(packed(pa.table({"text": ["a"], "when": column}))).rows
    assert (row["text"], "when" in json.loads(row["extra"])) == ("a", True)


def test_a_url_that_is_no_string_rests_in_extra() -> None:
    (row,) = read(packed(pa.table({"text": ["a"], "url": [7]}))).rows
    assert (row["url"], json.loads(row["extra"])) == (None, {"url": 7})


def test_a_file_without_rows() -> None:
    told = read(packed(pa.table({"text": pa.array([], pa.string())})))
    assert (told.rows, told.counts["kind"]) == ([], "parquet")


def test_a_limit_counts_rows() -> None:
    assert read(packed(pa.table({"text": list("abcdef")})), limit=4).texts == list("abcd")


WHOLE = packed(pa.table({"text": [f"text {n} " * 50 for n in range(500)], "n": list(range(500))}))


def test_a_file_that_is_cut_is_told() -> None:
    for cut in (4, 5, 100, len(WHOLE) // 2, len(WHOLE) - 1):
        with pytest.raises(SourceError, match="not a readable Parquet file"):
            read(WHOLE[:cut])
    with pytest.raises(SourceError, match="truncated gzip at byte 0"):
        read(gzip.compress(WHOLE)[:-300])
    with pytest.raises(SourceError, match="not a readable Parquet file"):
        read(b"PAR1" + b"nothing of the kind " * 100 + b"PAR1")


def test_damage_anywhere_is_told_or_harmless_and_never_a_crash() -> None:
    told = 0
    for seed in range(150):
        pick = random.Random(seed)
        data = bytearray(WHOLE)
        for _ in range(3):
            data[pick.randrange(4, len(data) - 4)] ^= 1 << pick.randrange(8)
        try:
            read(bytes(data))
        except SourceError:
            told += 1
        except UnicodeDecodeError:
            pass  # strings that are not UTF-8; a test above is about them
    assert told


def test_views_and_extension_types_are_texts_too() -> None:
    rows = ["one", None, "two"]
    for kind in (pa.string_view(), pa.binary_view()):
        table = pa.table(
            {"text": pa.array(rows, kind), "url": pa.array(["a", "b", "c"], pa.string_view())}
        )
        told = read(packed(table))
        assert told.texts == ["one", "two"]
        assert [row["url"] for row in told.rows] == ["a", "b", "c"]
        assert [row["extra"] for row in told.rows] == [None] * 3


def test_of_two_columns_of_one_name_the_last_is_taken() -> None:
    table = pa.Table.from_arrays(
        [pa.array(["a"]), pa.array(["x"]), pa.array(["b"]), pa.array(["y"])],
        names=["text", "n", "text", "n"],
    )
    (row,) = read(packed(table)).rows
    assert (row["text"], json.loads(row["extra"])) == ("b", {"n": "y"})


PLAIN_VALUES = st.one_of(
    st.none(), st.text(max_size=6), st.sampled_from(['"', "\\", "\n", "é", "\x7f"])
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            PLAIN_VALUES,
            PLAIN_VALUES,
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    cut=st.integers(0, 3),
    filled=st.sets(st.integers(0, 3)),
)
def test_extras_of_columns_are_those_of_records(
    rows: list[tuple[Any, ...]], cut: int, filled: set[int]
) -> None:
    """Joined by Arrow where it can be: byte for byte what a record at a time gives. `filled`
    columns have no null.
    """
    for place in filled:
        other = ("", "x", 0, False)[place]
        rows = [
            (*row[:place], other if row[place] is None else row[place], *row[place + 1 :])
            for row in rows
        ]
    names = ["plain", 'sign "', "n", "yes"]
    types = [pa.string(), pa.large_string(), pa.int64(), pa.bool_()]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(column, kind)
            for column, kind in zip(zip(*rows, strict=True), types, strict=True)
        ],
        names=names,
    ).slice(cut)
    found = columnar._extras(dict(zip(names, batch.columns, strict=True)), len(batch))
    expected = [
        to_extra({name: value for name, value in record.items() if value is not None})
        for record in batch.to_pylist()
    ]
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    ("long", "codec", "most", "coded"),
    [
        (5_000, "zstd", 1024, []),
        (5_000, "snappy", 1024, []),
        (5_000, "gzip", 1024, []),
        (200_000, "zstd", 335, []),
        (200_000, "lz4", 110, []),  # the whole dictionary counts
        (2_000_000, "none", 1024, ["text"]),
    ],
)
def test_rows_are_decoded_by_the_longest_value_of_a_dictionary(
    tmp_path: Path, long: int, codec: str, most: int, coded: list[str]
) -> None:
    texts = ["x" * long, *(f"{number:05d}" * 100 for number in range(900))]
    texts = texts * 9 + texts[:1] * (120 if long < 1_000_000 else 0)
    path = tmp_path / "table.parquet"
    pq.write_table(
        pa.table({"text": texts}), path, compression=codec, dictionary_pagesize_limit=4 << 20
    )
    with pq.ParquetFile(path) as file:
        (sizes,), found = parquet_pages.read_sizes(str(path), file.metadata)
    assert found == coded
    assert most // 2 < sizes.rows(columnar.READ_ROWS, columnar.READ_BYTES) <= most


def column_of(kind: str, values: list[str | None]) -> pa.Array:
    if kind == "ill-formed":
        return ill_formed(*(value.encode() + b"\xff" for value in values if value))
    names = {"view": pa.string_view(), "large": pa.large_string(), "bytes": pa.binary()}
    return pa.array(values, pa.string()).cast(names.get(kind, pa.string()))


@pytest.mark.parametrize("kind", ["plain", "view", "large", "bytes", "ill-formed"])
@pytest.mark.parametrize("codec", ["zstd", "none"])
@pytest.mark.parametrize("repeated", [False, True])
def test_a_column_that_names_values_alone_is_read_as_a_dictionary(
    tmp_path: Path, kind: str, codec: str, repeated: bool
) -> None:
    """It is decompressed once, unless its pages say that each value is named a few times: then it
    is read as any other. Rows are those of a file whose values are in no dictionary.
    """
    texts = [f"{number:05d}é " * (40 if codec == "none" else 400) for number in range(700)]
    if repeated:
        texts[3:300:3] = [texts[0]] * 99
        if kind != "ill-formed":
            texts[500] = None
    table = pa.table(
        {"text": column_of(kind, texts), "url": texts, "other": column_of(kind, texts)}
    )
    path = tmp_path / "table.parquet"
    pq.write_table(
        table, path, compression=codec, row_group_size=400, dictionary_pagesize_limit=4 << 20
    )
    with pq.ParquetFile(path) as file:
        sizes, coded = parquet_pages.read_sizes(str(path), file.metadata)
    # 99 times in a dictionary of 1 MB
    often = codec == "none" or repeated
    assert coded == (["other", "text", "url"] if often else [])
    assert [one.rows(columnar.READ_ROWS, columnar.READ_BYTES) for one in sizes] == [1024, 1024]
    found = read(path.read_bytes())
    plain = read(packed(table, use_dictionary=False))
    assert found.rows == plain.rows
    assert [row["text"] for row in found.rows[:2]] == [
        text + ("\ufffd" if kind == "ill-formed" else "") for text in texts[:2]
    ]


@pytest.mark.parametrize(("size", "rows", "more"), [(200, 400, 0), (1_200_000, 6, 1100)])
def test_a_dictionary_that_names_a_value_twice(
    tmp_path: Path, size: int, rows: int, more: int
) -> None:
    """The values behind it are not moved (pyarrow 26 moves them where it reads a dictionary)."""
    texts = [f"{number:05d}" * (size // 5) for number in range(rows)]
    last = ["last"] * (rows + more)
    table = pa.table({"text": [*texts, *last]})
    data = packed(table, compression="none", dictionary_pagesize_limit=8 << 20)
    assert data.count(texts[4].encode()) == 1
    twice = data.replace(texts[4].encode(), texts[3].encode())
    path = tmp_path / "table.parquet"
    path.write_bytes(twice)
    with pq.ParquetFile(path) as file:
        assert parquet_pages.read_sizes(str(path), file.metadata)[1] == ["text"]
    texts[4] = texts[3]
    assert read(twice).texts == [*texts, *last]
    assert read(data).texts == table["text"].to_pylist()


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_size": 2000},  # more than one batch: each would copy the dictionary
        {"row_group_size": 900, "dictionary_pagesize_limit": 1 << 17, "write_batch_size": 100},
        {"row_group_size": 900, "use_dictionary": False},
    ],
)
def test_what_is_not_read_as_a_dictionary(tmp_path: Path, options: dict[str, Any]) -> None:
    texts = [f"{number:05d}é " * 40 for number in range(1500)]
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"text": texts, "n": [b"\1" * 16] * 1500}), path, **options)
    with pq.ParquetFile(path) as file:
        assert parquet_pages.read_sizes(str(path), file.metadata)[1] == []
    assert read(path.read_bytes()).texts == texts
