"""Codecs: whatever is done to a packed file, reading goes on behind it, and what was lost is told
with its offset.
"""

import gzip
import json
import lzma
import random
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import SourceError
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields
from tests.support.corpora import record
from tests.support.shards import peak_memory, read

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def line(number: int | str, words: int = 30) -> bytes:
    """A JSONL line whose text does not compress away."""
    pick = random.Random(f"line {number}")
    return (
        json.dumps(
            {"text": f"{number} " + " ".join(f"{pick.getrandbits(24):x}" for _ in range(words))}
        ).encode()
        + b"\n"
    )


def text_of(data: bytes) -> str:
    return str(json.loads(data)["text"])


def gz(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)


LINES = [line(number) for number in range(6)]
TEXTS = [text_of(data) for data in LINES]
PACK = {"gzip": gz, "zstd": zstd.compress, "xz": lzma.compress}


def flipped(data: bytes, place: int, bit: int = 0) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


@pytest.mark.parametrize("codec", PACK)
def test_one_member_and_many_give_the_same_documents(codec: str) -> None:
    pack = PACK[codec]
    for data in (
        pack(b"".join(LINES)),
        b"".join(map(pack, LINES)),
        b"".join(map(pack, [*LINES, b""])),
    ):
        told = read(data)
        assert told.texts == TEXTS
        assert not told.failed
        assert told.counts["codec"] == codec
        assert told.counts["compressed_bytes"] == len(data)
        assert told.counts["decompressed_bytes"] == sum(map(len, LINES))


def test_members_that_cross_blocks_and_are_cut_into_pieces_are_whole() -> None:
    lines = [line(number, 9_000) for number in range(12)]  # 60 kB each: several blocks of the file
    for pack in (gz, zstd.compress, lambda data: lzma.compress(data, preset=0)):
        for data in (pack(b"".join(lines)), b"".join(map(pack, lines))):
            assert read(data).texts == [text_of(data) for data in lines]


def test_a_file_without_a_codec_and_an_empty_file() -> None:
    told = read(b"".join(LINES))
    assert (told.texts, told.counts["codec"]) == (TEXTS, "none")
    for data in (b"", gz(b""), zstd.compress(b""), lzma.compress(b"")):
        told = read(data, kind="jsonl")
        assert (told.rows, told.counts["documents"], told.counts["decompressed_bytes"]) == (
            [],
            0,
            0,
        )


def test_the_codec_is_told_by_the_bytes_and_never_by_the_name(tmp_path: Path) -> None:
    for codec, name in (
        ("zstd", "a.jsonl.gz"),
        ("gzip", "a.jsonl.zst"),
        ("xz", "a.gz"),
        ("none", "a.gz"),
    ):
        path = tmp_path / name
        path.write_bytes(PACK.get(codec, bytes)(b"".join(LINES)))
        told = read(path)
        assert (told.counts["codec"], told.counts["kind"], told.texts) == (codec, "jsonl", TEXTS)


def test_zeros_behind_a_gzip_member_are_padding() -> None:
    for count in (1, 7, 1000, 600_000):
        told = read(gz(LINES[0]) + b"\0" * count)
        assert (told.texts, told.failed) == (TEXTS[:1], [])


def test_zeros_behind_an_xz_stream_are_padding() -> None:
    told = read(lzma.compress(LINES[0]) + b"\0" * 8 + lzma.compress(LINES[1]) + b"\0" * 4)
    assert (told.texts, told.failed) == (TEXTS[:2], [])


@pytest.mark.parametrize("codec", PACK)
def test_garbage_behind_the_last_member_is_one_row_with_its_offset(codec: str) -> None:
    whole = b"".join(map(PACK[codec], LINES))
    told = read(whole + b"not part of it " * 20)
    assert told.texts == TEXTS
    assert told.failed == [(6, "read.corrupt", len(whole))]


def test_garbage_between_members_is_one_row_and_the_rest_is_read() -> None:
    for pack in (gz, zstd.compress):
        first, second = b"".join(map(pack, LINES[:3])), b"".join(map(pack, LINES[3:]))
        told = read(first + b"<html>503 Service Unavailable</html>" + second)
        assert told.texts == TEXTS
        assert told.failed == [(3, "read.corrupt", len(first))]


@pytest.mark.parametrize("codec", ["gzip", "zstd", "xz"])
def test_a_file_cut_inside_a_member_tells_where_that_member_began(codec: str) -> None:
    members = list(map(PACK[codec], LINES))
    before = sum(map(len, members[:3]))
    for cut in (1, 5, len(members[3]) // 2):
        told = read(b"".join(members)[: before + cut])
        assert told.texts == TEXTS[:3]
        assert told.failed == [(3, "read.truncated", before)], cut
    # The cut may go through the checksum, behind all of the text.
    told = read(b"".join(members)[: before + len(members[3]) - 1])
    assert told.texts in (TEXTS[:3], TEXTS[:4])
    assert told.failed == [(len(told.texts), "read.truncated", before)]


def test_a_single_member_cut_in_its_middle_gives_the_lines_before_the_cut() -> None:
    lines = [line(number, 100) for number in range(1000)]
    for pack in (gz, zstd.compress, lambda data: lzma.compress(data, preset=0)):
        data = pack(b"".join(lines))
        told = read(data[: len(data) // 2])
        assert told.texts == [text_of(data) for data in lines[: len(told.texts)]]
        assert told.failed == [(len(told.texts), "read.truncated", 0)]
        assert len(told.texts) > 200


def test_a_corrupt_byte_in_one_member_of_many_loses_that_member_alone() -> None:
    members = list(map(gz, LINES))
    before = sum(map(len, members[:2]))
    size = len(members[2])
    for place in (12, size // 2, size - 9, size - 8, size - 1):  # data, checksum, length
        told = read(flipped(b"".join(members), before + place))
        assert told.texts == TEXTS[:2] + TEXTS[3:], place
        assert told.failed == [(2, "read.corrupt", before)]


def test_a_broken_header_of_a_member_loses_that_member_alone() -> None:
    members = list(map(gz, LINES))
    before = sum(map(len, members[:2]))
    for place in (0, 1, 2):
        told = read(flipped(b"".join(members), before + place))
        assert told.texts == TEXTS[:2] + TEXTS[3:], place
        assert told.failed == [(2, "read.corrupt", before)]


def test_a_corrupt_record_of_a_wet_file_is_one_row_at_its_offset() -> None:
    members = [
        gz(record(text.encode(), f"http://pages.example/{number}", number))
        for number, text in enumerate(TEXTS)
    ]
    before = sum(map(len, members[:4]))
    told = read(flipped(b"".join(members), before + len(members[4]) // 2))
    assert told.texts == TEXTS[:4] + TEXTS[5:]
    assert told.failed == [(4, "read.corrupt", before)]


def test_corrupt_members_are_a_row_each_and_those_that_follow_each_other_are_one_stretch() -> None:
    members = list(map(gz, LINES))
    starts = [sum(map(len, members[:number])) for number in range(6)]
    for one, other in ((1, 2), (1, 4), (0, 5)):
        data = flipped(flipped(b"".join(members), starts[one] + 40, 3), starts[other] + 40, 3)
        told = read(data, kind="jsonl")
        assert told.texts == [
            text for number, text in enumerate(TEXTS) if number not in (one, other)
        ]
        stretches = [starts[one]] if other == one + 1 else [starts[one], starts[other]]
        assert [(reason, value) for _, reason, value in told.failed] == [
            ("read.corrupt", start) for start in stretches
        ]


def test_the_next_member_is_found_where_its_magic_lies_across_two_blocks() -> None:
    first = gz(LINES[0])
    for space in range(
        (1 << 18) - 6, (1 << 18) + 2
    ):  # the search reads blocks from the byte behind the damage's first
        told = read(first + b"x" * space + gz(LINES[1]))
        assert (told.texts, told.failed) == (TEXTS[:2], [(1, "read.corrupt", len(first))])


def test_no_text_of_a_member_whose_checksum_is_wrong_comes_out() -> None:
    head = record(b"", "http://pages.example/1", 1, length=16000)[:-4]
    body = (b"clean text " * 2000)[:16000]
    for size in range(16365 - len(head) - 12, 16365 - len(head) + 12):
        block = head.replace(b"16000", str(size).encode()) + (body * 2)[:size] + b"\r\n\r\n"
        packer = zlib.compressobj(0, wbits=31)
        member = (
            packer.compress(block) + packer.flush()
        )  # level 0: a changed byte stays a changed byte
        told = read(flipped(member, 1000), kind="wet")
        assert (told.texts, told.failed) == ([], [(0, "read.corrupt", 0)]), size


def test_zstd_frames_and_skippable_frames() -> None:
    def skippable(number: int, size: int) -> bytes:
        return bytes([0x50 + number]) + b"\x2a\x4d\x18" + size.to_bytes(4, "little") + b"s" * size

    frames = list(map(zstd.compress, LINES))
    for data in (
        skippable(0, 10) + b"".join(frames),
        b"".join(
            frame + skippable(number, 300_000 * (number == 3))
            for number, frame in enumerate(frames)
        ),
        skippable(15, 0) + skippable(1, 5) + b"".join(frames) + skippable(2, 1),
    ):
        told = read(data)
        assert (told.texts, told.failed, told.counts["codec"]) == (TEXTS, [], "zstd")


def test_a_corrupt_zstd_frame_loses_that_frame_alone() -> None:
    frames = [
        zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}) for data in LINES
    ]
    before = sum(map(len, frames[:2]))
    for place in (len(frames[2]) // 2, len(frames[2]) - 1):
        told = read(flipped(b"".join(frames), before + place))
        assert told.texts == TEXTS[:2] + TEXTS[3:]
        assert told.failed == [(2, "read.corrupt", before)]


def zstd_frame(window_log: int, data: bytes) -> bytes:
    """A frame by hand: a window of 2**window_log bytes, one raw block."""
    return (
        b"\x28\xb5\x2f\xfd\x00"
        + bytes([(window_log - 10) << 3])
        + (len(data) << 3 | 1).to_bytes(3, "little")
        + data
    )


def test_a_zstd_window_over_128_mib_is_refused_with_its_offset_and_the_rest_is_read() -> None:
    assert read(zstd_frame(27, LINES[0])).texts == TEXTS[:1]
    first = zstd.compress(LINES[0])
    told = read(first + zstd_frame(28, LINES[1]) + zstd.compress(LINES[2]))
    assert told.texts == [TEXTS[0], TEXTS[2]]
    assert told.failed == [(1, "read.window_too_large", len(first))]
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 28})
    whole = packer.compress(LINES[0]) + packer.flush()
    assert read(whole, kind="jsonl").failed == [(0, "read.window_too_large", 0)]
    with pytest.raises(SourceError, match="nothing in it can be read: window_too_large at byte 0"):
        read(whole)


def bomb(packer: object, megabytes: int, of: bytes = b"x") -> bytes:
    block = of * (1 << 20)
    return b"".join([*(packer.compress(block) for _ in range(megabytes)), packer.flush()])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("start", "of"),
    [
        (LINES[0], b"x"),
        pytest.param(LINES[0], b" ", marks=pytest.mark.soak),
        pytest.param(b"WARC/1.0\r\n", b" ", marks=pytest.mark.soak),
    ],
)
def test_a_bomb_is_cut_off_and_memory_stays_flat(start: bytes, of: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(zstd.compress(start) + bomb(zstd.ZstdCompressor(level=1), 270, of))
    assert path.stat().st_size < 100_000
    told, peak = peak_memory(path)
    before = {LINES[0]: [str(len(TEXTS[0]))], b"WARC/1.0\r\n": ["read.no_record"]}
    assert told == [*before[start], "read.bomb"]
    assert peak < 400


def test_a_gzip_bomb_is_cut_off_and_memory_stays_flat(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(
        gz(LINES[0]) + bomb(zlib.compressobj(9, wbits=31), 10) * 30
    )  # members; together they are one
    assert path.stat().st_size < 1_000_000
    told, peak = peak_memory(path)
    assert told == [str(len(TEXTS[0])), "read.bomb"]
    assert peak < 400


def test_a_shard_that_decodes_beyond_its_limit_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(
        gz(LINES[0]) + gz(b'{"text": "' + b"so it goes. " * 100_000 + b'"}\n') + gz(LINES[1])
    )
    shard = ShardReader(path, 0, fields=Fields(max_shard_bytes=500_000))
    reasons = [reason for batch in shard for reason in batch["reason"].to_pylist()]
    assert reasons == [None, "read.bomb"]


def test_what_merely_packs_well_is_no_bomb() -> None:
    text = "so it goes. " * 1_000_000
    assert read(zstd.compress(text.encode())).texts == [text]


PACKED = {
    "gzip": [gz(data) for data in LINES],
    "gzip of one member": [gz(b"".join(LINES))],
    "zstd": [
        zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}) for data in LINES
    ],
    "xz": [lzma.compress(data) for data in LINES],
    "wet": [
        gz(record(text.encode(), f"http://pages.example/{number}", number))
        for number, text in enumerate(TEXTS)
    ],
}
damage = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 1 << 16), st.integers(0, 7)),
    st.tuples(st.just("cut"), st.integers(0, 1 << 16), st.integers(0, 200)),
    st.tuples(st.just("insert"), st.integers(0, 1 << 16), st.binary(max_size=40)),
)


def damaged(data: bytes, harms: list[tuple[str, int, object]]) -> bytes:
    for what, place, how in harms:
        place %= len(data) or 1
        if what == "flip" and data:
            data = flipped(data, place, how)  # type: ignore[arg-type]
        elif what == "cut":
            data = data[:place] + data[place + how :]  # type: ignore[operator]
        elif what == "insert":
            data = data[:place] + how + data[place:]  # type: ignore[operator]
    return data


def of_whole_members(data: bytes, members: list[bytes]) -> bool:
    """Whether harm took out whole members and nothing else: what is left is sound, and nobody can
    tell.
    """
    while data:
        found = next((member for member in members if data.startswith(member)), None)
        if found is None:
            return False
        data = data[len(found) :]
    return True


@pytest.mark.parametrize("name", PACKED)
@settings(max_examples=150, deadline=None)
@given(harms=st.lists(damage, max_size=4))
def test_no_damage_crashes_and_no_document_comes_out_that_did_not_go_in(
    name: str, harms: list[tuple[str, int, object]]
) -> None:
    data = damaged(b"".join(PACKED[name]), harms)
    told = read(data, kind="wet" if name == "wet" else "jsonl")
    if name in ("gzip", "wet"):
        # One checksum a document. Of the member that the file ends in, the text before the cut is
        # given without one.
        cut = any(reason == "read.truncated" for _, reason, _ in told.failed)
        assert cut or set(told.texts) <= set(TEXTS)
    if data == b"".join(PACKED[name]):
        assert told.texts == TEXTS
    elif len(told.texts) < len(TEXTS) and not of_whole_members(data, PACKED[name]):
        assert told.failed or told.counts["records_skipped"], (
            "something was lost, and nothing says so"
        )
    for limit in (None, 2):
        with suppress(SourceError):  # a Parquet file that is none
            read(data, limit=limit)  # whatever it is taken for


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, 1 << 16), bit=st.integers(0, 7))
def test_one_flipped_bit_costs_no_more_than_its_member(place: int, bit: int) -> None:
    members = PACKED["gzip"]
    place = 4 + place % (sum(map(len, members)) - 4)  # but for the magic, which tells the codec
    told = read(flipped(b"".join(members), place, bit), kind="jsonl")
    struck = next(number for number in range(6) if place < sum(map(len, members[: number + 1])))
    assert [text for text in TEXTS if text not in told.texts] in ([], [TEXTS[struck]])
    assert told.texts == TEXTS or len(told.failed) == 1


@settings(max_examples=100, deadline=None)
@given(
    data=st.binary(max_size=400),
    head=st.sampled_from(
        [
            b"",
            b"\x1f\x8b\x08",
            b"\x28\xb5\x2f\xfd",
            b"\xfd7zXZ\0",
            b"WARC/1.0\r\n",
            b"{",
            b"\x50\x2a\x4d\x18",
        ]
    ),
)
def test_any_bytes_are_read(head: bytes, data: bytes) -> None:
    with suppress(SourceError):  # of no kind, or Parquet
        read(head + data)
    for kind in ("wet", "warc", "jsonl", "text", "csv", "tsv"):
        with suppress(SourceError):  # a table without its column
            read(head + data, kind=kind)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("wet", [False, True])
def test_zstd_frames_with_their_dictionary_in_the_first_frame(packed: bool, wet: bool) -> None:
    lines = [line(number) for number in range(300)]
    records = [
        record(text_of(data).encode(), f"http://pages.example/{number}", number)
        for number, data in enumerate(lines)
    ]
    parts = records if wet else lines
    dictionary = zstd.train_dict(parts, 20_000)
    content = zstd.compress(dictionary.dict_content) if packed else dictionary.dict_content
    head = b"\x5d\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content
    frames = [zstd.compress(part, zstd_dict=dictionary) for part in parts]
    told = read(head + b"".join(frames))
    assert (told.texts, told.failed) == (list(map(text_of, lines)), [])
    before = len(head) + sum(map(len, frames[:7]))
    told = read(head + b"".join(frames[:7]) + b"\x28\xb5\x2f\xfd\xff" + b"".join(frames[8:]))
    assert told.texts == [text_of(data) for data in [*lines[:7], *lines[8:]]]
    assert told.failed == [(7, "read.corrupt", before)]
