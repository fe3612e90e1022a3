"""JSON lines against their slow twin."""

import json
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.kernels.reading import json_lines
from tests.support import naive_reading, strategies

STRINGS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "a" * 64, "a" * 63 + "\n", '"\\/\b\f\n\r\t\x00', "ä€😀", "x" * 100 + "😀" * 20]
    ),
)
VALUES: Any = st.one_of(
    STRINGS,
    st.integers(),
    st.sampled_from([None, True, 1.5, -1e-7, [], {}, [{"a": ["]", '"}']}, 2]]),
)
RAW = st.sampled_from(
    [
        b'{"text": "\\ud83d\\ude00 \\u00e9 \\/"}',
        b'{"text": "\\ud83d"}',
        b'{"text": "\\ude00"}',
        b'{"text": "\\ud83d\\u0041"}',
        b'{"text": "\\x"}',
        b'{"text": "\\u12g4"}',
        b'{"text": "a\tb"}',
        b'{"text": "\xff"}',
        b'{"text": "\xed\xa0\x80"}',
        b'{"te\\u0078t": "a"}',
        b'{"text": "a", "text": "b"}',
        b'{"text": "a", "url": null}',
        b'{"text": "a", "url": "\\n"}',
        b'{"text": "a", "b": [1}, "c": {2]}',
        b'{"text": "a", "b": }',
        b'{"text": "a", "b": 01, }',
        b'{"text": "a",}',
        b'{"text": "a"} x',
        b'{"text" : "a" , "b":[ 1 , "]" ] } \r',
        b'  {"b":-0.0,"text":"a","b":2}',
        b'{"text": 1}',
        b'{"url": "u"}',
        b"{}",
        b"[]",
        b"",
    ]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line, most often one without flaw."""
    if draw(st.integers(0, 3)) == 0:
        return draw(RAW)
    names = draw(st.permutations(["text", "url", "b", "tex", "textt", "ä"]))
    record = {name: draw(STRINGS if name in ("text", "url") else VALUES) for name in names}
    for name in draw(st.lists(st.sampled_from(["url", "b", "ä"]))):
        record.pop(name, None)
    return json.dumps(record, ensure_ascii=draw(st.booleans())).encode("utf-8", "replace")


@strategies.fuzz(200)
@given(
    st.lists(lines(), max_size=5),
    st.lists(
        st.tuples(st.integers(0, 1 << 11), st.integers(0, 2), st.binary(max_size=2)), max_size=1
    ),
    st.sampled_from([(9, 1 << 20), (2, 1 << 20), (9, 60)]),
)
@example([b'{"text": "a", "b": [1}, "c": {2]}'], [], (9, 1 << 20))
def test_fuzz_read(
    made: list[bytes], harm: list[tuple[int, int, bytes]], limits: tuple[int, int]
) -> None:
    data = b"".join(line + b"\n" for line in made)
    for place, cut, put in harm:
        place %= len(data) or 1
        data = data[:place] + put + data[place + cut :]
    count, most = limits
    found = kernel_rows(data, count, most)
    assert found == naive_reading.read_lines(data, "text", "url", most, count)


def kernel_rows(data: bytes, count: int, most: int) -> list[tuple[str, str | None, list[Any], int]]:
    """What the kernel reads, up to a line whose other members are not JSON."""
    arrays = [np.full(len(data) + 300, 7, np.uint8) for _ in range(3)]
    ends, starts = np.empty((count + 1, 3), np.int64), np.empty(count + 1, np.int64)
    has_url = np.zeros(count, np.uint8)
    columns = json_lines.JsonColumns(*arrays, ends, has_url, starts)
    names = np.frombuffer(b"text", np.uint8), np.frombuffer(b"url", np.uint8)
    # It looks ahead: what follows is no line.
    padded = np.frombuffer(data + b" " * 200, np.uint8)
    found: list[tuple[str, str | None, list[Any], int]] = []
    for line in range(json_lines.read(padded, 0, names, columns, most)):
        text, url, others = (
            arrays[place][ends[line, place] : ends[line + 1, place]].tobytes().decode()
            for place in range(3)
        )
        try:
            members = json.loads(others or "{}", object_pairs_hook=lambda pairs: pairs)
        except ValueError:
            break
        found.append((text, url if has_url[line] else None, members, int(starts[line + 1])))
    return found
