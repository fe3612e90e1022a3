"""The web page in a record's block: its HTML as text, or the reason why there is none.

block -> HTTP response -> status, media type -> content codings removed -> is it text?
      -> charset -> text
"""

import json
import re
from typing import NamedTuple

from gristmill.source.archives import charset, http
from gristmill.source.archives.codings import Undecodable, decode
from gristmill.tables.schema import X_ROBOTS_TAG

HTML = ("text/html", "application/xhtml+xml")
BINARY_PREFIX = 1445  # bytes; WHATWG MIME Sniffing, 5.2, reads as many
CONTROL_SHARE = 20  # one control character in this many of the first bytes: not text
MOST_LANGUAGE = 100  # characters of a Content-Language that are kept

MOST_ROBOTS = 2000  # bytes of X-Robots-Tag that are kept

# Elements that a page may begin with: those of WHATWG MIME Sniffing, 7.1, and some more.
_MARKUP = re.compile(
    rb"<(?:!doctype\s+html|(?:html|head|body|title|meta|link|script|style|base|iframe|frameset"
    rb"|noscript|h[1-6]|div|font|table|tr|td|a|b|i|br|p|center|form|img|span|ul|ol|hr|pre|main"
    rb"|article|section|header|nav)(?=[\s/>])|!--)",
    re.IGNORECASE,
)
_XHTML = re.compile(rb"<\?xml[^>]*>.{0,1024}?<html[\s>]", re.IGNORECASE | re.DOTALL)
_CONTROL = bytes({*range(0x20)} - set(b"\t\n\f\r\x1b"))


class HtmlPage(NamedTuple):
    """A page."""

    text: bytes  # its HTML, in UTF-8
    content_type: str  # text/html or application/xhtml+xml
    language: str | None  # from the HTTP header
    extra: str | None = None  # JSON of the other HTTP headers that are kept; None: there are none
    against_label: bool = False  # its bytes were decoded against their label (charset.py)


AGAINST_LABEL = "against_label"  # the count of such pages


class Refusal(NamedTuple):
    """Why a block has no page."""

    reason: str  # of the verdict, after `read.`
    value: int | None = None  # of the verdict; None: the offset


def read(
    block: bytes, content_type: str | None, most: int, *, response: bool = True
) -> HtmlPage | Refusal:
    """Read the block of a response, or of another record with this Content-Type.

    `most` is the largest size of a page, in bytes, after content codings are removed.
    """
    media = http.media_type(content_type)
    if response or media == "application/http":
        message = http.parse(block)
        if message is not None:
            return _of_message(message, most)
    if media in HTML:
        return _of_bytes(block, media, http.read_charset(content_type), None, most)
    if media is not None and media != "application/http":
        return Refusal("not_html")
    # There is no header: a block that begins with markup was stored without it.
    if not block.strip():
        return Refusal("no_text")
    if looks_like_html(block):
        return _of_bytes(block, HTML[0], None, None, most)
    return Refusal("not_html" if block.lstrip()[:1] == b"<" else "no_http")


def _of_message(message: http.HttpResponse, most: int) -> HtmlPage | Refusal:
    if message.status != 200:
        return Refusal("http_status", message.status)
    declared = message.get(b"content-type")
    media = http.media_type(declared)
    if media is not None and media not in HTML:
        return Refusal("not_html")
    try:
        body = decode(message.body, message.codings(), most)
    except Undecodable as error:
        return Refusal(error.args[0])
    if len(body) > most:
        return Refusal("too_large")
    if media is None:
        if not body.strip():
            return Refusal("no_text")
        if not looks_like_html(body):
            return Refusal("not_html")
        media = HTML[0]
    language = (message.get(b"content-language") or "")[:MOST_LANGUAGE].strip() or None
    page = _of_bytes(body, media, http.read_charset(declared), language, most)
    return page._replace(extra=_kept(message)) if isinstance(page, HtmlPage) else page


def _kept(message: http.HttpResponse) -> str | None:
    """Return the fields of X-Robots-Tag, as a list in JSON."""
    value = message.headers.get(http.ROBOTS, b"")[:MOST_ROBOTS].decode("utf-8", "replace")
    shown = "".join(
        character if character.isprintable() or character == "\n" else " " for character in value
    )
    fields = [field for line in shown.split("\n") if (field := line.strip())]
    return json.dumps({X_ROBOTS_TAG: fields}, ensure_ascii=False) if fields else None


def _of_bytes(
    body: bytes, media: str, label: str | None, language: str | None, most: int
) -> HtmlPage | Refusal:
    if not body.strip():
        return Refusal("no_text")
    if is_binary(body, label):
        return Refusal("binary")
    text, against = charset.decode_page(body, label)
    if len(text) > most:
        return Refusal("too_large")  # UTF-8 may need three bytes for two of another charset
    if not text:
        return Refusal("no_text")  # only a byte order mark
    return HtmlPage(text, media, language, against_label=against)


def looks_like_html(body: bytes) -> bool:
    """Return whether bytes without a media type begin like a page."""
    head = body[:4096]
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head[2:].replace(b"\0", b"")
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return _MARKUP.match(head) is not None or _XHTML.match(head) is not None


def is_binary(body: bytes, label: str | None) -> bool:
    """Return whether bytes are not text: a NUL among the first bytes, many NULs in all, or many
    control characters. Charsets of two or four bytes a unit are text.
    """
    if body.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return False
    head = body[:BINARY_PREFIX]
    controls = len(head) - len(head.translate(None, _CONTROL))
    nul = body.count(0) if 0 in body else 0
    if 0 not in head and nul * 1000 <= len(body) and controls * CONTROL_SHARE <= len(head):
        return False
    codec = charset.find_codec(label)
    return (
        codec is None or codec[:6] not in ("utf-16", "utf-32") or not charset.is_wide(body, codec)
    )
