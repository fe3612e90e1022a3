"""JSON lines without flaw, many at a time: a kernel reads their texts and URLs into columns; only
their other fields become objects.

What it adds is what jsonl.py would add for each line.
"""

import itertools
import json
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.kernels.reading.json_lines import OTHERS, SLACK, TEXT, URL, JsonColumns, read
from gristmill.source.rows import Fields, RowCollector, to_extra
from gristmill.tables.columns import view_strings

MOST_LINES = 1 << 12  # read at a time
MOST_WAIT = 64  # lines that are read one by one after one that was not read

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_FAILURES = (ValueError, TypeError, RecursionError)  # msgspec's errors and Unicode's among them


class FlawlessLines:
    """Adds the rows of lines without flaw."""

    def __init__(self, rows: RowCollector, fields: Fields) -> None:
        self._rows = rows
        self._most = fields.max_document_bytes
        names = [json.dumps(name, ensure_ascii=False)[1:-1] for name in (fields.text, fields.url)]
        # A name with an escape may be written in several ways.
        self._plain = not any("\\" in name for name in names) and names[0] != names[1]
        self._names = tuple(np.frombuffer(name.encode() or b"\\", np.uint8) for name in names)
        self._ends = np.empty((MOST_LINES + 1, 3), np.int64)
        self._starts = np.empty(MOST_LINES + 1, np.int64)
        self._urls = self._others = np.empty(0, np.uint8)
        self._wait = self._failures = 0

    def read(self, piece: bytes, at: int) -> int:
        """Add the rows of the lines without flaw that begin at a place; where the next begins."""
        if self._wait or not self._plain or at == len(piece):
            self._wait = max(self._wait - 1, 0)
            return at
        left = self._rows.left
        size = len(piece) - at + 2 * SLACK
        if len(self._urls) < size:
            self._urls, self._others = np.empty(size, np.uint8), np.empty(size, np.uint8)
        columns = JsonColumns(
            texts=np.empty(size, np.uint8),
            urls=self._urls,
            others=self._others,
            ends=self._ends,
            has_url=np.empty(MOST_LINES if left is None else min(left, MOST_LINES), np.uint8),
            starts=self._starts,
        )
        data = np.frombuffer(piece, np.uint8)
        count = read(data, at, self._names, columns, self._most)  # type: ignore[arg-type]
        extras = _extras(columns, count)
        count = len(extras)
        self._failures = 0 if count else self._failures + 1
        self._wait = 0 if count else min((1 << self._failures) - 2, MOST_WAIT)
        if count:
            self._rows.extend_records(
                np.arange(count),
                count,
                {
                    "text": _column(columns, TEXT, columns.texts, count),
                    "url": _column(columns, URL, columns.urls, count, columns.has_url[:count]),
                    "extra": pa.array(extras, pa.string()),
                },
                [],
            )
        return int(self._starts[count])


def _extras(columns: JsonColumns, count: int) -> list[str | None]:
    """Return the other fields of each line, as jsonl.py writes them; up to the first that are not
    JSON.
    """
    ends = columns.ends[: count + 1, OTHERS].tolist()
    others = columns.others[: ends[-1]].tobytes()
    extras: list[str | None] = []
    try:
        for start, stop in itertools.pairwise(ends):
            extras.append(to_extra(_decode(others[start:stop])) if stop > start else None)
    except _FAILURES:
        pass
    return extras


def _column(
    columns: JsonColumns,
    place: int,
    data: np.ndarray,
    count: int,
    has_value: np.ndarray | None = None,
) -> pa.Array:
    """Return a string column of the first lines; null where there is no value."""
    offsets = columns.ends[: count + 1, place].astype(np.int32)
    # The buffer of URLs is used again.
    column = view_strings(
        offsets, data[: offsets[-1]] if place == TEXT else data[: offsets[-1]].copy()
    )
    if has_value is None or has_value.all():
        return column
    return pa.Array.from_buffers(
        pa.string(), count, [pa.array(has_value != 0).buffers()[1], *column.buffers()[1:]]
    )
