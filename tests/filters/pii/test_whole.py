"""Personal data of many forms: each goes whole, or stays whole."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.redaction import KINDS, labelled, redact

HIDDEN = ("\u00ad", "\u200b", "\u200c", "\u2060", "\ufeff")
BLANKS = ("\u00a0", "\u2009", "\u202f")
DASHES = ("\u2010", "\u2011", "\u2013")
REGIONS = ["US", "GB", "DE"]


def wide(text: str) -> str:
    """In full width."""
    return "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text)


def inside(text: str, sign: str, draw: random.Random) -> str:
    """With a sign between two letters or digits somewhere."""
    places = [match.start() + 1 for match in re.finditer(r"(?=[A-Za-z0-9]{2})", text)]
    if not places:
        return text
    place = draw.choice(places)
    return text[:place] + sign + text[place:]


def emails(text: str, draw: random.Random) -> Iterator[str]:
    local, _, domain = text.partition("@")
    for sign in "=/":
        form = inside(local, sign, draw)
        if not re.match(r"(?:e|to|cn|name|url)=|[0-9]+/", form, re.IGNORECASE):
            yield f"{form}@{domain}"
    for sign in (*"!#$%&'*+-^_`~", "..", "’", *wide("%&'+-._"), *HIDDEN):
        yield f"{inside(local, sign, draw)}@{domain}"
    for sign in HIDDEN:
        yield f"{local}@{inside(domain, sign, draw)}"
    yield f"{local}@{domain.replace('.', wide('.'))}"
    yield f"{local}@{wide(domain)}"
    yield f"{wide(local)}@{domain}"
    yield f"{local}{wide('@')}{domain}"
    yield f'"{local} b"@{domain}'
    yield f'"{local}"@{domain}'
    yield f"{local}.@{domain}"
    yield f"{local}@{domain}@relay.org"
    yield f"bounces+12-{local}={domain}@relay.org"
    yield f"SRS0=Zk=6T={domain}={local}@relay.org"
    yield f"{local}@[130.89.148.77]"
    yield f"{local}@[IPv6:2a00:1450::1]"


def phones(text: str, draw: random.Random) -> Iterator[str]:
    for tail in (
        *(" ext. 12", " ext 12", " x12", " x 113", ", ext. 12", ", Ext. 123", " extension 12"),
        *(
            ";ext=12",
            " #12",
            " ext 6304/6442",
            " / 0959",
            "/0959",
            "/59/60",
            " / 59",
            " Durchwahl 9",
        ),
        *("-9", "x12", "_1", ".1", "abc", "５", "\u200b5", "\u20115"),
    ):
        yield text + tail
    for sign in (*BLANKS, *DASHES, *HIDDEN, ".", "-", "/", "  "):
        yield re.sub("[ .-]", sign, text)
    for sign in HIDDEN:
        yield inside(text, sign, draw)
    yield wide(text)
    yield text[:-1] + wide(text[-1])


def cards(text: str, draw: random.Random) -> Iterator[str]:
    digits = re.sub("[^0-9]", "", text)
    groups = [digits[place : place + 4] for place in range(0, len(digits), 4)]
    if digits[:2] in ("34", "37"):
        groups = [digits[:4], digits[4:10], digits[10:]]
    code = "1234" if digits[:2] in ("34", "37") else "123"
    for sign in ("", " ", "-", ".", "_", "/", *BLANKS, *DASHES, *HIDDEN, "  "):
        whole = sign.join(groups)
        yield whole
        for tail in (f" {code}", f"\u00a0{code}", "-1", ".1", "x", "５", "\u200b5"):
            yield whole + tail
        yield f"５{whole}"
    yield wide(digits)


def addresses(text: str, draw: random.Random) -> Iterator[str]:
    if ":" in text:
        for tail in ("%eth0", "%en1", ":1:2:3:4:5:6:7:8", "g", "\u200b5", "５"):
            yield text + tail
        yield text.upper()
    else:
        for head in (
            *("::ffff:", "::FFFF:", "::", "64:ff9b::", "0:0:0:0:0:ffff:", "::ffff:0:", "fe80::"),
            *("2001:db8::", "2a00:1450::", "５", "1.", "0"),
        ):
            yield head + text
        for tail in (".1", "５", "\u200b5", "-rc1", "-90"):
            yield text + tail
    yield wide(text)


def ibans(text: str, draw: random.Random) -> Iterator[str]:
    for sign in (" ", "-", ".", *BLANKS, *DASHES, *HIDDEN, "  ", ", "):
        for _ in range(3):
            at, groups = draw.choice((4, 4, 5, 6)), []
            groups.append(text[:at])
            while at < len(text):
                size = draw.randint(2, 8)
                groups.append(text[at : at + size])
                at += size
            yield sign.join(groups)
        yield sign.join(re.findall(".{1,4}", text))
    yield wide(text)
    yield text + "５"
    yield text.capitalize()


def numbers(text: str, draw: random.Random) -> Iterator[str]:
    for sign in ("", " ", ".", "/", *BLANKS, *DASHES, *HIDDEN):
        yield text.replace("-", sign)
    for tail in ("-1", ".1", "5", "５", "\u200b5"):
        yield text + tail
    yield wide(text)


FORMS = {
    "email": emails,
    "phone": phones,
    "card": cards,
    "ip": addresses,
    "iban": ibans,
    "ssn": numbers,
}


def partial(kind: str, values: list[str], **table: object) -> list[tuple[str, str]]:
    """Forms of values of which a part goes."""
    draw = random.Random(1)
    forms = [form for value in values for form in (value, *FORMS[kind](value, draw))]
    found, _ = redact([f"see {form} now" for form in forms], **table)
    whole = re.compile(r"see <[A-Z]+> now")
    return [
        (form, text)
        for form, text in zip(forms, found, strict=True)
        if not whole.fullmatch(text) and text != f"see {form} now"
    ]


@pytest.mark.parametrize("regions", [[], REGIONS])
@pytest.mark.parametrize("kind", FORMS)
def test_all_or_nothing(data: Path, kind: str, regions: list[str]) -> None:
    """Real data, in other forms: what is left is nothing, or all."""
    texts, spans = labelled(data, "presidio_synth_dataset_v2.json")
    values = {
        text[a:b]
        for text, row in zip(texts, spans, strict=True)
        for label, a, b in row
        if KINDS.get(label) == kind
    }
    if kind == "email":
        rows = (data / "F_pii/debian_changelogs.jsonl").read_text("utf-8").splitlines()
        values |= {mail[1] for row in rows for mail in json.loads(row)["trailer_emails"]}
    if kind == "phone":
        values = {value for value in values if value.startswith("+") or regions}
    alone = [
        value
        for value in sorted(values)
        if redact([f"see {value} now"], regions=regions)[0] == [f"see <{kind.upper()}> now"]
    ]
    assert len(alone) > 10
    assert partial(kind, alone, regions=regions) == []
