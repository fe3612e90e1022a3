"""Of a part of a packed file whose checksum fails no row is kept, however long it is."""

import bz2
import gzip
import json
import lzma
import random
import sys
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill
from gristmill.errors import SourceError
from gristmill.source.read import ShardReader
from gristmill.store.codecs import UnprovedMember
from tests.support.shards import peak_memory, read

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

WORDS = [f"w{number:05x}" for number in range(5000)]


def texts_of(seed: int, count: int) -> list[str]:
    pick = random.Random(seed)
    return [f"{seed} {number} {' '.join(pick.choices(WORDS, k=60))}" for number in range(count)]


def lines(texts: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


FIRST, SECOND = texts_of(1, 1500), texts_of(2, 1500)
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1, mtime=0),
    "zstd": lambda data: zstd.compress(
        data, options={zstd.CompressionParameter.checksum_flag: True}
    ),
    "bzip2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
}


def flipped(data: bytes, place: int) -> bytes:
    place %= len(data)
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


@pytest.mark.parametrize("codec", PACK)
def test_a_flipped_bit_in_a_long_member_keeps_none_of_its_rows_and_all_others(codec: str) -> None:
    first, second = PACK[codec](lines(FIRST)), PACK[codec](lines(SECOND))
    pick = random.Random(3)
    for _ in range(6):
        place = pick.randrange(40, len(first) - 20)
        told = read(flipped(first, place) + second)
        assert told.texts == SECOND
        assert told.failed == [(0, "read.corrupt", 0)]
        told = read(second + flipped(first, place))
        assert told.texts == SECOND
        assert told.failed == [(1500, "read.corrupt", len(second))]
        with pytest.raises(SourceError, match="corrupt at byte 0"):
            read(flipped(first, place))


@pytest.mark.parametrize("codec", PACK)
def test_whoever_takes_rows_before_the_proof_is_told_to_forget_them(
    codec: str, tmp_path: Path
) -> None:
    path = tmp_path / "long"
    path.write_bytes(PACK[codec](lines(SECOND)) + flipped(PACK[codec](lines(FIRST)), -3))
    with pytest.raises(UnprovedMember, match="cannot be trusted"):
        for _ in ShardReader(path, 0, proof="behind"):
            pass


def test_a_member_that_seems_to_run_on_into_the_next_is_broken() -> None:
    whole = PACK["gzip"](lines(FIRST))
    told = read(whole[:-3000] + PACK["gzip"](lines(SECOND)))
    assert not set(told.texts) - set(SECOND)
    assert "read.corrupt" in [reason for _, reason, _ in told.failed]


def test_a_file_that_was_cut_gives_what_came_before_the_cut() -> None:
    for codec, pack in PACK.items():
        told = read(pack(lines(FIRST)) + pack(lines(SECOND))[:-30_000])
        assert told.texts == [*FIRST, *SECOND][: len(told.texts)]
        assert len(told.texts) > (1499 if codec == "bzip2" else 1500)  # which has long blocks
        assert [reason for _, reason, _ in told.failed] == ["read.truncated"]


def test_a_long_member_is_proved_in_flat_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(100):
            file.write(lines(FIRST))
    data = path.read_bytes()
    path.write_bytes(flipped(data, len(data) - 6) + PACK["gzip"](lines(SECOND)))
    told, peak = peak_memory(path)
    assert told == ["read.corrupt", *(str(len(text)) for text in SECOND)]
    assert peak < 300


def test_a_run_keeps_no_row_of_a_broken_member(tmp_path: Path) -> None:
    raw = tmp_path / "a.jsonl.gz"
    raw.write_bytes(PACK["gzip"](lines(SECOND)) + flipped(PACK["gzip"](lines(FIRST)), 60_000))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'output = "corpus"\n[[source]]\nname = "web"\nfiles = ["a.jsonl.gz"]\n'
        '[[step]]\nuse = "simple"\nmin_words = 1\n'
    )
    gristmill.run(recipe)
    corpus = tmp_path / "corpus"
    kept = [
        text for part in corpus.glob("text/**/*.parquet") for text in pq.read_table(part)["text"]
    ]
    assert sorted(map(str, kept)) == sorted(SECOND)
    reasons = pq.read_table(next(corpus.glob("verdicts/*.parquet")))["reason"].to_pylist()
    assert reasons == [None] * 1500 + ["read.corrupt"]


def test_a_flipped_bit_in_a_page_of_parquet_with_checksums_keeps_no_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": FIRST})
    options = {"compression": "none", "use_dictionary": False, "row_group_size": 100}
    pq.write_table(table, path, write_page_checksum=True, **options)
    data = path.read_bytes()
    assert read(data).texts == FIRST
    with pytest.raises(SourceError, match="not a readable Parquet file: .*CRC"):
        read(flipped(data, data.index(FIRST[750][-20:].encode())))
