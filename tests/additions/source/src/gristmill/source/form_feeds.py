"""Text whose documents are divided by form feeds, as old manuals and RFCs are. In memory it is
whole, as a plain text is.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from gristmill.source.rows import Fields, RowCollector
from gristmill.source.source_format import Head, SourceFormat
from gristmill.source.tables.jsonl import read_whole
from gristmill.store.codecs import Damage

FORM_FEED = b"\f"


def read(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read a document behind each form feed; a damaged or large shard is one failed row."""
    for document in read_whole(pieces, rows, fields).split(FORM_FEED)[1:]:
        if rows.full:
            break
        rows.add(document)
        if rows.ready and (batch := rows.take()) is not None:
            yield batch
    if (batch := rows.take()) is not None:
        yield batch


def detect(head: Head, fields: Fields) -> bool:
    """Return whether a shard begins with a form feed."""
    return head.start.startswith(FORM_FEED)


FORM_FEEDS = SourceFormat(
    name="form_feeds",
    recognised="a form feed at the start",
    row="the text behind a form feed",
    read=read,
    detect=detect,
    lines=True,
)
