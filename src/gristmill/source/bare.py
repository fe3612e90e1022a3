"""A bare HTML file: one page, without the HTTP response that it came in. Its charset is what it says of itself."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from gristmill.source import page
from gristmill.source.rows import Fields, Rows
from gristmill.store.codecs import Damage


def read(pieces: Iterable[bytes | Damage], rows: Rows, fields: Fields) -> Iterator[pa.RecordBatch]:
    """Read a shard that is one page."""
    parts: list[bytes] = []
    size = 0
    damage: Damage | None = None
    for piece in pieces:
        if isinstance(piece, Damage):
            damage = damage or piece
            continue
        size += len(piece)
        if size <= fields.max_document_bytes:
            parts.append(piece)
    if damage is not None:
        rows.fail(damage.reason, damage.offset)
    elif size > fields.max_document_bytes:
        rows.fail("too_large", 0)
    elif size:
        got = page.read(b"".join(parts), page.HTML[0], fields.max_document_bytes, response=False)
        if isinstance(got, page.Page):
            rows.add(got.text, content_type=got.content_type)
        else:
            rows.fail(got.reason, 0 if got.value is None else got.value)
    if (batch := rows.take()) is not None:
        yield batch
