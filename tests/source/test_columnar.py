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
    ("long", "options", "most"),
    [
        (5_000, {}, 1024),
        (5_000, {"use_dictionary": False}, 1024),
        (2_000_000, {}, 437),  # of 2.45 MB in the dictionary
        (
            2_000_000,
            {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
            250,
        ),
        (2_000_000, {"use_dictionary": False}, 1024),
    ],
)
def test_how_many_rows_are_decoded_together(
    tmp_path: Path, long: int, options: dict[str, Any], most: int
) -> None:
    """As many as have 1 GB at most, were each as long as the dictionary, or the page."""
    texts = ["x" * long, *(f"{number:05d}" * 100 for number in range(900))] * 3
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"text": texts}), path, dictionary_pagesize_limit=4 << 20, **options)
    (rows,) = parquet_pages.count_rows(
        str(path), pq.read_metadata(path), columnar.READ_ROWS, columnar.READ_BYTES
    )
    assert most * 0.9 < rows <= most
    assert read(path).texts == texts


@pytest.mark.parametrize("kind", ["plain", "view", "large", "bytes", "ill-formed"])
@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_a_dictionary_changes_no_row(kind: str, codec: str) -> None:
    texts: list[str | None] = [f"{number:05d}é " * 400 for number in range(700)]
    texts[3:300:3] = [texts[0]] * 99
    if kind == "ill-formed":
        column = ill_formed(*(str(text).encode() + b"\xff" for text in texts))
    else:
        texts[500] = None
        names = {"view": pa.string_view(), "large": pa.large_string(), "bytes": pa.binary()}
        column = pa.array(texts, pa.string()).cast(names.get(kind, pa.string()))
    table = pa.table({"text": column, "url": texts, "other": column})
    options = {"compression": codec, "row_group_size": 400}
    rows = read(packed(table, dictionary_pagesize_limit=4 << 20, **options)).rows
    assert rows == read(packed(table, use_dictionary=False)).rows
    assert rows[0]["text"] == str(texts[0]) + ("\ufffd" if kind == "ill-formed" else "")


def test_a_dictionary_that_names_a_value_twice() -> None:
    """The values behind it are not moved (pyarrow 26 moves them where it reads a dictionary)."""
    texts = [f"{number:05d}" * 40 for number in range(400)]
    table = pa.table({"text": [*texts, *["last"] * 400]})
    data = packed(table, compression="none")
    assert data.count(texts[4].encode()) == 1
    twice = data.replace(texts[4].encode(), texts[3].encode())
    texts[4] = texts[3]
    assert read(twice).texts == [*texts, *["last"] * 400]


def test_rows_of_lists_are_decoded_by_the_values_of_each(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    table = pa.table({"text": ["a"] * 200, "tags": [["x" * 20_000] * 50] * 200})
    pq.write_table(table, path)
    (rows,) = parquet_pages.count_rows(str(path), pq.read_metadata(path), 1 << 10, 1 << 20)
    assert 60 < rows <= 67  # 64 MB
