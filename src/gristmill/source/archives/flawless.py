"""WARC records without flaw, many at a time: a kernel finds where their fields and blocks are, and
columns are made of these places, without an object for each record.

What it adds is what warc.py would add for each record.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.kernels.reading import warc_records as framing
from gristmill.kernels.reading.spans import gather
from gristmill.source.archives import http, warc_rows
from gristmill.source.archives.record_window import Window
from gristmill.source.rows import Fields, RowCollector
from gristmill.tables.columns import view_strings

MOST_RECORDS = 4096  # found at a time
LARGE = 1 << 20  # bytes that a record which the data cuts off hardly has
MOST_WAIT = 64  # records that are read one by one after one that was not found

_COLUMNS = {
    "url": framing.URL,
    "date": framing.DATE,
    "record_id": framing.RECORD_ID,
    "declared_language": framing.LANGUAGE,
}


class FlawlessRecords:
    """Adds the rows of records without flaw."""

    def __init__(
        self,
        rows: RowCollector,
        fields: Fields,
        heads_within: Callable[[bytes, int, int], Iterator[int]],
    ) -> None:
        """Add to `rows`; `heads_within` gives the places of heads within a block (warc.py)."""
        self._heads_within = heads_within
        self._rows = rows
        self._fields = fields
        self._records = np.empty((MOST_RECORDS, framing.COLUMNS), np.int64)
        self._wait = self._failures = 0

    def read(self, window: Window) -> bool:
        """Add the rows of the records without flaw that come next; whether there were any."""
        if self._wait:
            self._wait -= 1
            return False
        count, stop = self._find(window)
        if not count and len(window.data) - window.at < LARGE and window.more():
            count, stop = self._find(window)
        self._failures = 0 if count else self._failures + 1
        if not count:
            self._wait = min((1 << self._failures) - 2, MOST_WAIT)
            return False
        records = self._records[:count]
        # Ill-formed texts and heads within blocks are for the reader of records one by one.
        ill = ~records[:, framing.WELL_FORMED].astype(bool)
        ill &= records[:, framing.KIND] == framing.CONVERSION
        if ill.any():
            count = int(ill.argmax())
            stop = int(records[count, framing.BEGIN])
        if count and window.heads_before(stop) > count:
            count, stop = self._without_heads(window.data, records[:count], stop)
        if not count:
            return False
        records = records[:count]
        if self._fields.pages:
            for record in records.tolist():
                self._add_record(window, record)
        else:
            self._add_columns(np.frombuffer(window.data, np.uint8), records)
        window.at = stop
        return True

    def _without_heads(self, data: bytes, records: np.ndarray, stop: int) -> tuple[int, int]:
        """Return the number of records before the first with a head in its block; where that
        begins.
        """
        for number, record in enumerate(records.tolist()):
            block = record[framing.BLOCK], record[framing.BLOCK + 1]
            if next(self._heads_within(data, *block), None) is not None:
                return number, record[framing.BEGIN]
        return len(records), stop

    def _find(self, window: Window) -> tuple[int, int]:
        """Find records; how many there are, and where the next one begins."""
        left = self._rows.left
        return framing.frame(
            np.frombuffer(window.data, np.uint8),
            window.at,
            self._records,
            most_bytes=self._fields.max_document_bytes,
            most_documents=MOST_RECORDS if left is None else left,
            pages=self._fields.pages,
            followed=window.is_followed_by(b"WARC/"),
        )

    def _add_columns(self, data: np.ndarray, records: np.ndarray) -> None:
        """Add conversions; the other records are counted."""
        kinds = records[:, framing.KIND]
        places = np.flatnonzero(kinds == framing.CONVERSION)
        documents = records[places]
        columns = {name: _column(data, documents, place) for name, place in _COLUMNS.items()}
        texts = gather(data, documents[:, framing.BLOCK], documents[:, framing.BLOCK + 1])
        columns["text"] = view_strings(*texts)
        if len(places):
            media = bytes(data[slice(*documents[0, framing.MEDIA_TYPE :].tolist())])
            columns["content_type"] = pa.array(
                [http.media_type(media.decode() or None)] * len(places), pa.string()
            )
        skipped = [framing.TYPES[kind] for kind in kinds[kinds != framing.CONVERSION].tolist()]
        self._rows.extend_records(places, len(records), columns, skipped)

    def _add_record(self, window: Window, record: list[int]) -> None:
        """Add the row of one record."""

        def value(place: int) -> str | None:
            return window.data[record[place] : record[place + 1]].decode() or None

        head = warc_rows.WarcRecord(
            framing.TYPES[record[framing.KIND]],
            url=value(framing.URL),
            date=value(framing.DATE),
            record_id=value(framing.RECORD_ID),
            language=value(framing.LANGUAGE),
            content_type=value(framing.MEDIA_TYPE),
        )
        block = window.data[record[framing.BLOCK] : record[framing.BLOCK + 1]]
        begin = window.offset + record[framing.BEGIN]
        warc_rows.add(head, block, begin, self._rows, self._fields)


def _column(data: np.ndarray, records: np.ndarray, place: int) -> pa.Array:
    """Return a field of records as a string column; null where there is none."""
    starts, stops = records[:, place], records[:, place + 1]
    column = view_strings(*gather(data, starts, stops))
    missing = starts == stops
    if not missing.any():
        return column
    return pc.if_else(pa.array(missing), None, column)
