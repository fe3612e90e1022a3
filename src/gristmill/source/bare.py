"""A bare HTML file: one page, without the HTTP response that it came in.

Its charset is what it says of itself.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from gristmill.source import page
from gristmill.source.lines import whole
from gristmill.source.rows import Fields, Rows
from gristmill.store.codecs import Damage


def read(pieces: Iterable[bytes | Damage], rows: Rows, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Read a shard that is one page."""
    if body := whole(pieces, rows, fields):
        got = page.read(body, page.HTML[0], fields.max_document_bytes, response=False)
        if isinstance(got, page.Page):
            rows.add(got.text, content_type=got.content_type)
        else:
            rows.fail(got.reason, 0 if got.value is None else got.value)
    if (batch := rows.take()) is not None:
        yield batch
