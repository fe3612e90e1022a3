"""The row of a WARC record: a document, a verdict, or only a count."""

import json
from typing import NamedTuple

from gristmill.source.archives import html_page, http
from gristmill.source.rows import Fields, RowCollector
from gristmill.tables.columns import well_formed

# Types of records that hold a page, or name a record that holds it.
WARC_TRUNCATED = "warc_truncated"  # in the column `extra`
MOST_VALUE = 100  # characters of it that are kept
PAGES = ("response", "resource", "revisit")


class WarcRecord(NamedTuple):
    """What a record's head says; None: it has no such field, or an empty one."""

    type: str  # in lower case
    url: str | None
    date: str | None
    record_id: str | None
    language: str | None
    content_type: str | None
    truncated: str | None = None  # why the crawler cut the record off: length, time, disconnect ...


def add(record: WarcRecord, block: bytes, begin: int, rows: RowCollector, fields: Fields) -> None:
    """Add a row for a complete record, or count it. `begin` is its place in the decoded shard."""
    if record.truncated and not fields.keep_truncated and is_document(record.type, fields):
        rows.fail("cut_by_crawler", begin, record.url)
    elif record.type == "conversion":
        rows.add(
            block,
            record.url,
            record.date,
            record.record_id,
            record.language,
            _extra(record, None),
            http.media_type(record.content_type),
        )
    elif record.type not in PAGES:
        skip(record.type, rows)
    elif not fields.pages:
        rows.fail("not_text", begin, record.url)
    elif record.type == "revisit":
        rows.fail("revisit", begin, record.url)
    else:
        most, response = fields.max_document_bytes, record.type == "response"
        got = html_page.read(block, record.content_type, most, response=response)
        if isinstance(got, html_page.HtmlPage):
            rows.add(
                got.text,
                record.url,
                record.date,
                record.record_id,
                record.language or got.language,
                _extra(record, got.extra),
                got.content_type,
            )
            if got.against_label:
                rows.note(html_page.AGAINST_LABEL)
        else:
            rows.fail(got.reason, begin if got.value is None else got.value, record.url)


def is_document(kind: str, fields: Fields) -> bool:
    """Return whether records of a type, in lower case, are documents."""
    return kind == "conversion" or (fields.pages and kind in ("response", "resource"))


def _extra(record: WarcRecord, extra: str | None) -> str | None:
    """Return the other fields of a document, and why the crawler cut it off, as JSON."""
    if not record.truncated:
        return extra
    known = {} if extra is None else json.loads(extra)
    return json.dumps({**known, WARC_TRUNCATED: record.truncated[:MOST_VALUE]}, ensure_ascii=False)


def skip(kind: str, rows: RowCollector) -> None:
    """Count a record of a type that is not a document."""
    rows.skip(well_formed(kind)[:40] or "no type")
