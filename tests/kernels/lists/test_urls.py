"""Lists and URLs, looked up as Python's own strings, sets and regular expressions do it."""

import re

import numpy as np
import pyarrow as pa
import pytest
import tldextract.remote
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.lists import aho_corasick, urls
from gristmill.kernels.lists import entries as listed
from gristmill.tables.columns import utf8_buffers
from tests.support import strategies

HOST_PARTS = (
    "http://",
    "https://",
    "//",
    "/",
    "ftp+x.1-://",
    "a b://",
    ":",
    "@",
    "user:pw@",
    ".",
    "..",
    "com",
    "co.uk",
    "Example",
    "www.",
    "xn--bcher-kva",
    "[::1]",
    "[",
    "]",
    "127.0.0.1",
    ":8080",
    "?",
    "#",
    " ",
    "\t",
    "\x1c",
    "é",
    "。",
    "．",
    "中文",
    "\u3000",
    "a",
)


def gather(data: bytes, form: int) -> list[bytes]:
    """The twin: the lines of a list, as Python reads a text file, comments and blanks left out."""
    found = []
    for line in re.split(b"\r\n|\r|\n", data):
        if line.startswith(b"#"):
            continue
        try:
            entry = line.decode().strip().encode()
        except UnicodeDecodeError:
            entry = line.strip(bytes([*range(9, 14), *range(28, 33)]))
        if form != listed.AS_WRITTEN:
            entry = entry.lower()  # bytes: A to Z alone
        if form == listed.WORD:
            entry = re.sub(b"[^a-zA-Z0-9]+", b"", entry)
        found += [entry] if entry else []
    return found


def find_domains(url: str, entries: list[str], *, cut: bool, fold: bool, least_dots: int) -> int:
    """The twin: the shortest domain above the host, or the host, that is an entry."""
    host = url
    if cut:
        host = tldextract.remote.lenient_netloc(url)
        authority = re.match("[^/?#]*", tldextract.remote._schemeless_url(url))
        if not authority[0].isascii():
            return -1
    if fold:
        host = "".join(chr(ord(sign) + 32) if "A" <= sign <= "Z" else sign for sign in host)
    labels = host.split(".")
    for start in range(len(labels) - 1, -1, -1):
        domain = ".".join(labels[start:])
        if domain and domain.count(".") >= least_dots and domain in entries:
            return 1 + entries.index(domain)
    return 0


def find_words(url: str, entries: list[str]) -> list[int]:
    """The twin: a URL's words that are entries, each once."""
    words = dict.fromkeys(re.findall("[a-zA-Z0-9]+", url))
    return [entries.index(word) for word in words if word in entries]


def find_subwords(url: str, entries: list[str]) -> int:
    """The twin: the entry that ends first in what is left of a URL, of those the longest."""
    left = re.sub("[^a-zA-Z0-9]+", "", url).lower()
    ends = [
        (left.find(entry) + len(entry), -len(entry), number)
        for number, entry in enumerate(entries)
        if entry in left
    ]
    return 1 + min(ends)[2] if ends else 0


def table_of(entries: list[str]) -> listed.Table:
    offsets, data = strategies.buffers(entries)
    return listed.index(offsets, data)


LINES = st.one_of(
    st.sampled_from(
        (
            b"a.com",
            b"#x",
            b" #y",
            b"\t B.org \x1c",
            b"",
            b"  ",
            b"\xc2\xa0x\xe3\x80\x80",
            b"\xff",
            b" \xe2\x80 ",
            b"\xed\xa0\x80",
            b"f-4 K",
            b"---",
            b"\xf4\x90\x80\x80",
            b"\0",
            b"\xc3\xa9\x85",
        )
    ),
    st.binary(max_size=6),
    strategies.nasty_texts().map(str.encode),
)


@strategies.fuzz(150)
@given(
    st.lists(st.tuples(LINES, st.sampled_from((b"\n", b"\r\n", b"\r", b"\n\n", b""))), max_size=12),
    st.integers(0, 2),
)
@example([(b"\xc2", b"\n"), (b"\x85", b"")], 0)
@example([(b"\xe3\x80\x80", b"\n"), (b"x\xe3\x80\x80", b"")], 0)
def test_fuzz_gather(lines: list[tuple[bytes, bytes]], form: int) -> None:
    data = b"".join(line + end for line, end in lines)
    found = listed.gather(np.frombuffer(bytearray(data), np.uint8), form)
    assert list(strategies.cut(found.offsets, found.data)) == gather(data, form)
    assert len(found.data) == found.offsets[-1]
    assert found.nuls == data.count(0)
    kept = [line for line in re.split(b"\r\n|\r|\n", data) if gather(line, listed.AS_WRITTEN)]
    assert found.lines == len(kept)
    assert found.ill_formed == sum(
        line.decode("utf-8", "replace").encode() != line for line in kept
    )


@strategies.fuzz(100)
@given(
    strategies.slices(st.text("ab", max_size=5)),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=20),
)
def test_fuzz_find_whole(drawn: tuple[list[str], pa.Array], entries: list[str]) -> None:
    batch, column = drawn
    found = listed.find_whole(*utf8_buffers(column), table_of(entries))
    assert found.tolist() == [1 + entries.index(text) if text in entries else 0 for text in batch]


@st.composite
def hosts(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """URLs, and entries that are often domains above their hosts."""
    batch = draw(
        st.lists(st.lists(st.sampled_from(HOST_PARTS), max_size=12).map("".join), max_size=6)
    )
    entries = draw(
        st.lists(
            st.sampled_from(
                ("com", "co.uk", "Example.com", "example.com", ".com", "1", "0.0.1", "a.a")
            ),
            max_size=4,
        )
    )
    for url in batch:
        labels = tldextract.remote.lenient_netloc(url).split(".")
        entries.append(".".join(labels[draw(st.integers(0, len(labels) - 1)) :]))
    return batch, [entry for entry in dict.fromkeys(entries) if entry]


@strategies.fuzz(100)
@given(hosts(), st.booleans(), st.booleans(), st.integers(0, 2))
def test_fuzz_find_domains(
    drawn: tuple[list[str], list[str]], cut: bool, fold: bool, least_dots: int
) -> None:
    batch, entries = drawn
    options = {"cut": cut, "fold": fold, "least_dots": least_dots}
    found = urls.find_domains(*strategies.buffers(batch), table_of(entries), **options)
    assert found.tolist() == [find_domains(url, entries, **options) for url in batch]


@strategies.fuzz(100)
@given(
    strategies.slices(st.lists(st.sampled_from((*"aB1-/é", "ab", "Ab")), max_size=20).map("".join)),
    st.lists(st.text("abB1", min_size=1, max_size=3), max_size=8, unique=True),
)
def test_fuzz_find_words(drawn: tuple[list[str], pa.Array], entries: list[str]) -> None:
    batch, column = drawn
    found = urls.find_words(*utf8_buffers(column), table_of(entries))
    spans = zip(found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True)
    assert [found.entries[start:stop].tolist() for start, stop in spans] == [
        find_words(url, entries) for url in batch
    ]
    small = list(dict.fromkeys(entry.lower() for entry in entries))
    automaton = aho_corasick.build([entry.encode() for entry in small], fold_ascii=True)
    assert urls.find_subwords(*utf8_buffers(column), automaton).tolist() == [
        find_subwords(url, small) for url in batch
    ]


def test_a_list_of_many_with_copies() -> None:
    """Each entry is found as the first of its kind, what is nearly one is not."""
    entries = [f"domain{number % 70_000}.example" for number in range(100_000)]
    table = table_of(entries)
    assert np.count_nonzero(table.slots) == 70_000
    found = listed.find_whole(*strategies.buffers(entries), table)
    assert found.tolist() == [1 + number % 70_000 for number in range(100_000)]
    assert not listed.find_whole(
        *strategies.buffers([entry + "s" for entry in entries]), table
    ).any()


def test_equal_hashes_are_told_apart() -> None:
    """A slot with the hash of an entry, and another entry's number: the string decides."""
    table = table_of(["alpha", "omega"])
    slots = table.slots.copy()
    slots[slots != 0] ^= np.uint64(3)  # 1 and 2 changed for one another
    found = listed.find_whole(*strategies.buffers(["alpha", "omega"]), table._replace(slots=slots))
    assert found.tolist() == [0, 0]


@pytest.mark.parametrize("sign", [".", "a.", "@", "/", ":", "//", "[", "[a]@"])
def test_long_urls_take_linear_time(sign: str) -> None:
    """A megabyte of what hosts are cut at; quadratic time would take minutes."""
    batch = ["http://" + sign * (1_000_000 // len(sign)) + tail for tail in ("", "com", "/x")]
    assert urls.find_domains(
        *strategies.buffers(batch), table_of(["a" * 200_000, "x.y", "a." * 99_999 + "b"])
    ).tolist() == [0, 0, 0]
