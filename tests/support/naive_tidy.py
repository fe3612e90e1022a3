"""Tidy text by regular expressions; pieces of text that it must know."""

import regex

NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF)
)
BREAK = regex.compile("\r\n|[\v\f\r\x1c\x1d\x1e\x85\u2028]")
DROPPED = regex.compile(
    f"[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069{NONCHARACTERS}]"
)
SCRIPTS = "".join(
    rf"\p{{Script={name}}}"
    for name in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan")
)
# A URL stops at white space of str.isspace, at delimiters, and at letters and signs of where words
# have no spaces.
STOP = rf"[\s\x1c-\x1f\"<>]|[[\u3000-\u303f\uff01-\uff65]&&[\p{{P}}\p{{S}}]]|[\p{{L}}&&[{SCRIPTS}]]"
URL = regex.compile(
    rf"(?:(?i:https?)://|(?<![0-9A-Za-z])(?i:www)\.)(?:(?!{STOP})(?s:.))+", regex.V1
)
BLANKS = regex.compile("[\t \xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+")


def tidy(text: str, *, control: bool, urls: bool, space: bool) -> tuple[str, int]:
    """The text, and how many URLs went."""
    count = 0
    if control:
        text = BREAK.sub("\n", text).replace("\u2029", "\n\n").replace("\x1f", " ")
        text = DROPPED.sub("", text)
    if urls:
        text, count = URL.subn("", text)
    if space:
        text = BLANKS.sub(" ", text)
        text = regex.sub("\n{3,}", "\n\n", text.replace(" \n", "\n")).strip(" \n")
    return text, count


PIECES = (
    *'htps:/.wW"<>xé中。',
    "http",
    "http://",
    "HTTPS://",
    "https:/",
    "www.",
    "www",
    "://",
    "\u200b",
    "\u200b\u200b",
    "\ufeff",
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n\n",
    " \n",
    "\r\n",
    "\r",
    "\x1f",
    "\x85",
    "\u2028",
    "\u2029",
    "\xa0",
    "\u3000",
    "\u3041",
    "\u302a",
    "\u0338",
    "ﾞ",
    "ｈ",
    "！",
    "５",
    "a/b",
    "www.a.b/c?d=e#f",
    "\ufffe",
    "\U0001ffff",
    "\U0001f600",
    "\ufdd0",
    "\ufdcf",
    "\xad",
    "\u2066",
    "\u2064",
    "\u200d",
    "1",
)
