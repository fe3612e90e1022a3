"""The bytes of a page to text. The same bytes and header give the same text; nothing raises.

What decides, in this order, and why there:

1. a byte order mark (WHATWG Encoding, 6): no text begins so by chance.
2. UTF-16 and UTF-32 that the header names, where the bytes are seen to be that: every other byte,
  about, is NUL.
3. UTF-8 that is well formed and more than ASCII: text in another charset is that by chance only
  where it is very short, while headers lie. Then UTF-8 of which little is ill formed: half, where
  it is named or nothing is; what is ill formed in it is damage.
4. the charset that the HTTP header names, else `<meta>`, else the XML declaration; a later one
  where the bytes read better in it. Without a label it is windows-1252, as WHATWG has it.
5. another charset, where the bytes read much better in it: headers are often a server's default,
  and nearly any bytes are well formed in a charset of single bytes. How well bytes read is how
  likely their letters are in a language of that charset (source/plausibility.py,
  docs/adr/0045-charsets-by-letters.md).

A label means what WHATWG lets it mean (gb2312 is read as gb18030, iso-8859-1 as windows-1252); a
label that is unknown is none. A character that is cut off at the end is no fault. What a charset
has no character for becomes U+FFFD.
"""

import codecs
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from resiliparse.parse.encoding import map_encoding_to_html5

from gristmill.source import plausibility

PRESCAN = 4096  # bytes in which <meta> is looked for; WHATWG has 1024, and scripts push it further
NEARLY = 20  # one character in this many may be ill formed
# In UTF-8, where no other label speaks against it, as many may be ill formed as are well formed,
# and this number more: two or three bytes fit each other by chance only seldom.
SPARE = 1
# By how much a charset must fit the bytes better, in nats, and for each byte beyond ASCII: a second
# label than the first; a charset that no label names than a label, and than the default; and what
# the rarer charsets lack.
SECOND, SECOND_SHARE = 4.0, 0.1
MARGIN, MARGIN_SHARE = 12.0, 0.3
UNNAMED, UNNAMED_SHARE = 5.0, 0.1
RARE = 6.0
FEWEST_LETTERS = 2  # different ones; fewer tell nothing of a charset
DEFAULT = "cp1252"

_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_FIRST = tuple(mark for mark, _ in _MARKS)
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_COMMENT = re.compile(rb"<!--(?:.*?-->|.*)", re.DOTALL)
_META = re.compile(rb"<meta[\s/]([^>]*)", re.IGNORECASE)
_CONTENT = re.compile(rb"\bcontent\s*=\s*(?:\"[^\"]*\"|'[^']*')", re.IGNORECASE)
_LABEL = re.compile(rb"charset\s*=\s*(?:[\"']\s*)?([^\s\"'/>;]+)", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s[^>]*?encoding\s*=\s*[\"']([^\"'>]*)", re.IGNORECASE)
# Labels that are about on pages and that WHATWG does not know, or not to this end.
_LABELS = {
    "x-user-defined": "cp1252",  # WHATWG HTML, 13.2.3.2
    "utf_8": "utf-8",
    "utf-32": "utf-32-le",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
    "hz-gb-2312": "hz",
    "hz": "hz",
    "iso-2022-kr": "iso2022_kr",
    "cp936": "gb18030",
    "ms936": "gb18030",
    "cp949": "cp949",
    "ms949": "cp949",
    "uhc": "cp949",
    "johab": "johab",
    "cp932": "cp932",
    "ms932": "cp932",
    "cp950": "big5hkscs",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-mac-ukrainian": "mac_cyrillic",
}
# Python's codecs that are narrower than what browsers read under the name.
_WIDER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
}
_USUAL = {
    *(f"cp125{digit}" for digit in (0, 1, 2, 3, 4, 5, 6, 7, 8)),
    "cp874",
    "koi8-r",
    *plausibility.MULTI,
}
_SEVEN_BIT = {
    "iso2022_jp": b"\x1b",
    "iso2022_kr": b"\x1b",
    "hz": b"~{",
}  # and what shows that it is used
_MULTI = {
    "utf-8",
    "gb18030",
    "big5hkscs",
    "cp932",
    "euc_jp",
    "euc_jis_2004",
    "cp949",
    "johab",
    *_SEVEN_BIT,
}


class DecodedPage(NamedTuple):
    """The text of a page."""

    text: str
    against: bool  # it was decoded against its label: the header's, or else the page's own


def to_utf8(data: bytes, header: str | None = None) -> bytes:
    """Return the text of a page in UTF-8; bytes that are UTF-8 already are not copied."""
    return decode_page(data, header)[0]


def decode_page(data: bytes, header: str | None = None) -> tuple[bytes, bool]:
    """Return the text of a page in UTF-8, and whether it was decoded against its label."""
    named = find_codec(header)
    if named not in _WIDE and not data.startswith(_FIRST):
        if data.isascii() and not any(shift in data for shift in _SEVEN_BIT.values()):
            return data, False
        if _strictly(data, "utf-8") is not None and not data.isascii() and data[-1] < 128:
            return data, _labels(data, named)[:1] not in ([], ["utf-8"])
    text, against = read(data, header)
    return text.encode("utf-8", "replace"), against


def read(data: bytes, header: str | None = None) -> DecodedPage:
    """Decode a page; `header` is the label that came with it."""
    mark = next((mark for mark in _MARKS if data.startswith(mark[0])), None)
    if mark is not None:
        return DecodedPage(data[len(mark[0]) :].decode(mark[1], "replace"), against=False)
    named = find_codec(header)
    if named in _WIDE:
        if is_wide(data, named):
            return DecodedPage(data.decode(named, "replace"), against=False)
        named = None
    if data.isascii():
        return DecodedPage(_ascii(data, named), against=False)
    labels = _labels(data, named)
    codec, text = _choose(data, labels)
    return DecodedPage(text, against=bool(labels) and codec != labels[0])


def _labels(data: bytes, named: str | None) -> list[str]:
    """Return the charsets that a page is labelled with, the header's (`named`) first."""
    return [
        label
        for label in (named, *map(find_codec, _inside(data)))
        if label is not None and label not in _WIDE
    ]


def _choose(data: bytes, labels: list[str]) -> tuple[str, str]:
    """Return the charset of bytes beyond ASCII, and their text; `labels` in the order of their
    weight.
    """
    if (text := _strictly(data, "utf-8")) is not None:
        return "utf-8", text
    # Of what cannot be weighed.
    for codec in labels:
        if (
            codec in _MULTI
            and codec not in plausibility.MULTI
            and (text := _strictly(data, codec)) is not None
        ):
            return codec, text
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    good = len(text) - len(text.encode("ascii", "ignore")) - bad
    spare = good + SPARE if not labels or "utf-8" in labels else good // NEARLY
    if good and bad <= spare:
        return "utf-8", text
    codec = _weigh(data, [label for label in dict.fromkeys(labels) if label != "utf-8"])
    # euc-jp is, on the web, with rows that Python has in euc-jis-2004.
    if codec == "euc_jp" and (text := _strictly(data, "euc_jis_2004")) is not None:
        return codec, text
    text = _strictly(data, codec)
    return codec, data.decode(codec, "replace") if text is None else text


def _weigh(data: bytes, labels: list[str]) -> str:
    """Return the charset of bytes that are not UTF-8: the label that they fit best, unless they fit
    another charset much better.
    """
    sample = plausibility.take_sample(data)
    pairs = plausibility.count_pairs(sample)

    def value(codec: str) -> float:
        if codec in plausibility.MULTI:
            return plausibility.double(sample, codec)
        if codec in _MULTI:
            return -math.inf
        return plausibility.single(pairs, codec)

    base, least = labels[0] if labels else DEFAULT, value(labels[0] if labels else DEFAULT)
    for label in labels[1:]:
        if (other := value(label)) > least + SECOND + SECOND_SHARE * pairs.total:
            base, least = label, other
    if len(plausibility.letters(pairs, base)) < FEWEST_LETTERS:
        return base
    bound, share = (MARGIN, MARGIN_SHARE) if labels else (UNNAMED, UNNAMED_SHARE)
    best, least = base, least + bound + share * pairs.total
    for codec in (*plausibility.SINGLE, *plausibility.MULTI):
        rare = 0.0 if codec in _USUAL else RARE
        if codec in labels or plausibility.most(pairs, codec) - rare <= least:
            continue
        if (other := value(codec) - rare) > least:
            best, least = codec, other
    return best


def find_codec(label: str | None) -> str | None:
    """Return Python's codec for a label; None if the label is empty or unknown."""
    if not label:
        return None
    label = label.strip().lower()
    if label in _LABELS:
        return _LABELS[label]
    if len(label) > 40 or not label.isascii():
        return None
    known = map_encoding_to_html5(label, fallback_utf8=False)
    return None if known is None else _widened(known)


def _widened(codec: str) -> str:
    try:
        name = codecs.lookup(codec).name
    except LookupError:
        return DEFAULT
    return _WIDER.get(name, name)


def is_wide(data: bytes, codec: str) -> bool:
    """Return whether bytes look like text in a charset of two or four bytes a unit: in ASCII text,
    half or three quarters of them are NUL.
    """
    head = data[:1024]
    width = 4 if "32" in codec else 2
    # The high byte of a unit is NUL in ASCII, at the same place in each.
    high = head[(width - 1 if codec.endswith("le") else 0) :: width]
    return len(high) > 1 and high.count(0) * 4 > len(high)


def _ascii(data: bytes, named: str | None) -> str:
    """Return bytes below 128: ASCII, or a charset that shifts by such bytes."""
    for codec in (named, *map(find_codec, _inside(data)), "iso2022_jp"):
        shift = _SEVEN_BIT.get(codec or "")
        if (
            codec is not None
            and shift is not None
            and shift in data
            and (text := _strictly(data, codec) or _nearly(data, codec))
        ):
            return text
    return data.decode("ascii")


def _inside(data: bytes) -> Iterator[str]:
    """Yield the labels in a page: of <meta>, then of the XML declaration."""
    head = data[:PRESCAN]
    for tag in _META.finditer(_COMMENT.sub(b"", head)):
        attributes = tag[1]
        if b"http-equiv" not in attributes.lower():
            attributes = _CONTENT.sub(b"", attributes)  # a description may speak of charsets
        if match := _LABEL.search(attributes):
            yield match[1].decode("latin-1")
    if match := _XML.match(head.lstrip()):
        yield match[1].decode("latin-1")


def _strictly(data: bytes, codec: str) -> str | None:
    """Return the text, if the bytes are well formed in a charset; the last character may be cut."""
    decoder = codecs.getincrementaldecoder(codec)("strict")
    try:
        text = decoder.decode(data)
        rest = decoder.getstate()[0]
    except (UnicodeError, NotImplementedError):
        return None
    if rest and text.isascii():
        return None  # one byte is no character that is cut off, as long as there is no whole one
    return text + "\ufffd" if rest else text


def _nearly(data: bytes, codec: str) -> str | None:
    """Return the text, if at most one in NEARLY of its characters beyond ASCII is ill formed."""
    text = data.decode(codec, "replace")
    beyond = len(text) - len(text.encode("ascii", "ignore"))
    return text if text.count("\ufffd") * NEARLY < beyond else None
