"""An HTML file: one page, without an HTTP response.

Its charset is the one that the page itself declares.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from gristmill.source.archives import html_page
from gristmill.source.rows import Fields, RowCollector
from gristmill.source.source_format import SourceFormat
from gristmill.source.tables.jsonl import read_whole
from gristmill.store.codecs import Damage


def read(
    pieces: Iterable[bytes | Damage], rows: RowCollector, fields: Fields
) -> Iterator[pa.RecordBatch]:
    """Read a shard that is one page."""
    if body := read_whole(pieces, rows, fields):
        got = html_page.read(body, html_page.HTML[0], fields.max_document_bytes, response=False)
        if isinstance(got, html_page.HtmlPage):
            rows.add(got.text, content_type=got.content_type)
            if got.against_label:
                rows.note(html_page.AGAINST_LABEL)
        else:
            rows.fail(got.reason, 0 if got.value is None else got.value)
    if (batch := rows.take()) is not None:
        yield batch


HTML = SourceFormat(
    name="html",
    recognised="the first tags of a page; only in a recipe with the step `extract`, otherwise the "
    "shard is refused",
    row="the file",
    read=read,
    order=90,
    alone=("html", "htm", "xhtml"),
    pages=True,
)
