"""The bytes of a page to text. The same bytes and header give the same text; nothing raises.

What decides, in this order, and why there:

1. a byte order mark (WHATWG Encoding, 6): no text begins so by chance.
2. UTF-16 and UTF-32 that the header names, where the bytes are seen to be that: every other byte,
  about, is NUL.
3. UTF-8 that is well formed and more than ASCII: text in another charset is that by chance only
  where it is very short, while headers lie.
4. among the charsets that the HTTP header, `<meta>` and the XML declaration name, in this order,
  and UTF-8: one whose characters take several bytes, in which the page is well formed; then one in
  which nearly all of it is. Several bytes fit each other in one charset and in no other. Of UTF-8
  that is named, or where nothing is, half is enough: what is ill formed in it is damage.
5. a charset of single bytes that is named, the header's first: nearly any bytes are well formed in
  it, so that it proves nothing.
6. what uchardet takes the bytes for, where there are enough of them, and where it is a charset that
  browsers know: on few bytes it names those of DOS. What it takes for Central European while the
  letters are those of a Western language is windows-1252; so is all else, as WHATWG has it.

A label means what WHATWG lets it mean (gb2312 is read as gb18030, iso-8859-1 as windows-1252); a
label that is unknown is none. A character that is cut off at the end is no fault. What a charset
has no character for becomes U+FFFD.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from resiliparse.parse.encoding import EncodingDetector, map_encoding_to_html5

PRESCAN = 4096  # bytes in which <meta> is looked for; WHATWG has 1024, and scripts push it further
SAMPLE = 1 << 17  # bytes that uchardet is given
NEARLY = 20  # one character in this many may be ill formed
# and of UTF-8, where no label speaks against it, one in this many: two or three bytes fit each
# other by chance only seldom
MOSTLY = 2
FEWEST = 8  # bytes beyond ASCII that uchardet is asked about
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
_LETTER = re.compile(
    r"(?=[^\x00-\x7f])[^\W\d_]|(?<=[a-z])[\xa1-\xbf](?=[a-z])"
)  # also a sign between letters, which no language has
# uchardet takes Western pages of few such letters for Central European ones now and then; the
# letters of the languages decide.
_CENTRAL = ("cp1250", "iso8859-2", "iso8859-16")
_WESTERN = (
    "àâæçéèêëîïôœùûüÿ",
    "äöüßé",
    "áéíóúüñºª",
    "áâãàçéêíóôõúüºª",
    "àèéìíîòóùú",
    "åäöé",
    "æøåéóò",
    "éëïóöüè",
    "áðéíóúýþæö",
    "àçéèíïóòúü",
)
_EASTERN = (
    "áčďéěíňóřšťúůýž",
    "ąćęłńóśźż",
    "áéíóöőúüű",
    "ăâîşţșț",
    "áäčďéíĺľňóôŕšťúýž",
    "čćđšž",
    "äöüßé",
)
_UPPER_CONTROL = re.compile("[\x80-\x9f]")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")

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
_DETECTED = {
    "utf-8",
    "gb18030",
    "big5hkscs",
    "cp932",
    "euc_jp",
    "cp949",
    "koi8-r",
    "koi8-u",
    "cp866",
    "cp874",
    "mac-cyrillic",
    *(f"cp125{digit}" for digit in range(9)),
    *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
}


def to_utf8(data: bytes, header: str | None = None) -> bytes:
    """The text of a page in UTF-8; bytes that are UTF-8 already are not copied."""
    if codec_of(header) not in _WIDE and not data.startswith(_FIRST):
        if data.isascii() and not any(shift in data for shift in _SEVEN_BIT.values()):
            return data
        if _strictly(data, "utf-8") is not None and not data.isascii() and data[-1] < 128:
            return data
    return decode(data, header).encode("utf-8", "replace")


def decode(data: bytes, header: str | None = None) -> str:
    """The text of a page; `header` is the label that came with it."""
    mark = next((mark for mark in _MARKS if data.startswith(mark[0])), None)
    if mark is not None:
        return data[len(mark[0]) :].decode(mark[1], "replace")
    named = codec_of(header)
    if named in _WIDE:
        if is_wide(data, named):
            return data.decode(named, "replace")
        named = None
    if data.isascii():
        return _ascii(data, named)
    if (text := _strictly(data, "utf-8")) is not None:
        return text
    labels = [
        label
        for label in (named, *map(codec_of, _inside(data)))
        if label is not None and label not in _WIDE
    ]
    # euc-jp is, on the web, with rows that Python has in euc-jis-2004.
    several = [codec for label in labels if label in _MULTI for codec in _variants(label)]
    for codec in dict.fromkeys(several):
        if (text := _strictly(data, codec)) is not None:
            return text
    for codec in dict.fromkeys(["utf-8", *several]):
        if (text := _nearly(data, codec)) is not None:
            return text
    if (text := _nearly(data, "utf-8", MOSTLY)) is not None and (not labels or "utf-8" in labels):
        return text
    single = [label for label in labels if label not in _MULTI]
    for codec in single:
        if (text := _strictly(data, codec)) is not None:
            return text
    return data.decode(
        single[0] if single else detect(data) or (labels[0] if labels else DEFAULT), "replace"
    )


def codec_of(label: str | None) -> str | None:
    """Python's codec for a label; None if the label is empty or unknown."""
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
    """Whether bytes look like text in a charset of two or four bytes a unit: in ASCII text, half or
    three quarters of them are NUL.
    """
    head = data[:1024]
    width = 4 if "32" in codec else 2
    # The high byte of a unit is NUL in ASCII, at the same place in each.
    high = head[(width - 1 if codec.endswith("le") else 0) :: width]
    return len(high) > 1 and high.count(0) * 4 > len(high)


def _ascii(data: bytes, named: str | None) -> str:
    """Bytes below 128: ASCII, or a charset that shifts by such bytes."""
    for codec in (named, *map(codec_of, _inside(data)), "iso2022_jp"):
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
    """The labels in a page: of <meta>, then of the XML declaration."""
    head = data[:PRESCAN]
    for tag in _META.finditer(_COMMENT.sub(b"", head)):
        attributes = tag[1]
        if b"http-equiv" not in attributes.lower():
            attributes = _CONTENT.sub(b"", attributes)  # a description may speak of charsets
        if found := _LABEL.search(attributes):
            yield found[1].decode("latin-1")
    if found := _XML.match(head.lstrip()):
        yield found[1].decode("latin-1")


def _variants(codec: str) -> tuple[str, ...]:
    return ("euc_jp", "euc_jis_2004") if codec == "euc_jp" else (codec,)


def _strictly(data: bytes, codec: str) -> str | None:
    """The text, if the bytes are well formed in a charset; the last character may be cut."""
    decoder = codecs.getincrementaldecoder(codec)("strict")
    try:
        text = decoder.decode(data)
        rest = decoder.getstate()[0]
    except (UnicodeError, NotImplementedError):
        return None
    if rest and text.isascii():
        return None  # one byte is no character that is cut off, as long as there is no whole one
    return text + "\ufffd" if rest else text


def _fit(text: str, alphabets: tuple[str, ...]) -> float:
    """The share of a text's letters beyond ASCII that belong to one alphabet, of the best one."""
    letters = Counter(_LETTER.findall(text.lower()))
    total = sum(letters.values())
    return (
        max(sum(letters[letter] for letter in alphabet) for alphabet in alphabets) / total
        if total
        else 0.0
    )


def _nearly(data: bytes, codec: str, share: int = NEARLY) -> str | None:
    """The text, if at most one in `share` of its characters beyond ASCII is ill formed."""
    text = data.decode(codec, "replace")
    ill = text.count("\ufffd") - (data.count(b"\xef\xbf\xbd") if codec == "utf-8" else 0)
    beyond = len(text) - len(text.encode("ascii", "ignore"))
    return text if ill * share < beyond + (share == MOSTLY) else None


def detect(data: bytes) -> str | None:
    """The charset that uchardet detects, as Python's codec, from the part that is not ASCII; None
    if it is unknown.
    """
    found = _NOT_ASCII.search(data)
    start = max(found.start() - 256, 0) if found else 0
    sample = data[start : start + SAMPLE]
    if sum(1 for _ in islice(_NOT_ASCII.finditer(sample), FEWEST)) < FEWEST:
        return None
    detector = EncodingDetector()
    detector.update(sample)
    name = detector.encoding(html5_compatible=False)
    codec = None if name is None else _widened(name)
    if codec not in _DETECTED:
        return None
    if codec in _CENTRAL and _fit(sample.decode(DEFAULT, "replace"), _WESTERN) > _fit(
        sample.decode(codec, "replace"), _EASTERN
    ):
        return DEFAULT
    # Controls of the upper half are in no text: windows-1252 has characters there, ISO 8859 has
    # none.
    return None if _UPPER_CONTROL.search(sample.decode(codec, "replace")) else codec
