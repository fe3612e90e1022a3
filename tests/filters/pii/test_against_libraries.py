"""Checksums and syntax as the step decides them, beside python-stdnum and ipaddress: every
candidate of the real texts, and 10,000 generated ones of each kind, 200,000 under `make soak`
(docs/adr/0016).
"""

import ipaddress
import json
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gristmill.filters.pii import spans
from gristmill.filters.pii.alone import PiiSpan
from gristmill.filters.pii.ibans import IBANS
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields

iban = pytest.importorskip("stdnum.iban")
luhn = pytest.importorskip("stdnum.luhn")

GENERATED = 10_000  # times the size of a soak
SHAPES = {
    "ipv4": re.compile(r"(?<![\w.])\d{1,4}(?:\.\d{1,4}){3}(?!\w)"),
    # No public address starts with another digit, and the step looks at no other.
    "ipv6": re.compile(r"(?<![\w:.])[23][0-9A-Fa-f]{3}:[0-9A-Fa-f:.]*:[0-9A-Fa-f.:]*"),
    "card": re.compile(r"(?<!\w)(?:\d{12,19}|\d{4}[ -]\d{4,6}[ -]\d{4,5}(?:[ -]\d{1,4})?)(?!\w)"),
    "iban": re.compile(
        r"(?<!\w)(?:[A-Z]{2}|[a-z]{2})\d\d"
        r"(?:[A-Za-z0-9]{11,30}|(?:[ -][A-Za-z0-9]{4}){2,7}(?:[ -][A-Za-z0-9]{1,4})?)(?!\w)"
    ),
}


def accepted(candidates: list[str], kind: str, *, every: bool = False) -> list[bool]:
    """Whether the whole of each text is found as one of a kind."""
    find = spans.finder(frozenset({kind}), frozenset(), every=every)
    return [find(text) == [PiiSpan(kind, 0, len(text))] for text in candidates]


def valid(check: Callable[[str], object], text: str) -> bool:
    try:
        return check(text) not in (False, None)
    except ValueError:
        return False


def is_iban(text: str) -> bool:
    """Format and checksum; the checks inside some countries' account numbers are not IBAN's."""
    return bool(iban.is_valid(text, check_country=False))


def is_luhn(text: str) -> bool:
    return bool(luhn.is_valid(re.sub("[ -]", "", text)))


def same(candidates: Iterable[str], kind: str, check: Callable[[str], object]) -> int:
    """Assert that step and library agree on each candidate; how many are one."""
    unique = list(dict.fromkeys(candidates))
    ours = accepted(unique, kind, every=True)
    theirs = [valid(check, text) for text in unique]
    wrong = [text for text, a, b in zip(unique, ours, theirs, strict=True) if a != b]
    assert not wrong, (len(wrong), wrong[:10])
    return sum(ours)


@pytest.fixture(scope="module")
def candidates(data: Path) -> dict[str, list[str]]:
    """What has the shape of each kind in changelogs, labelled sentences and documentation."""
    lines = (data / "F_pii/debian_changelogs.jsonl").read_text("utf-8").splitlines()
    texts = ["\n".join(map(str, json.loads(line).values())) for line in lines]
    for name in ("presidio_generated_small", "presidio_synth_dataset_v2"):
        rows = json.loads((data / f"F_pii/{name}.json").read_text("utf-8"))
        texts += [row["full_text"] for row in rows]
    pages = ShardReader(data / "J_debian_docs/open_docs.warc.gz", 0, fields=Fields(pages=True))
    for batch in pages:
        texts += batch["text"].drop_null().to_pylist()
    return {
        kind: [found[0] for text in texts for found in shape.finditer(text)]
        for kind, shape in SHAPES.items()
    }


def test_every_candidate_of_real_texts(candidates: dict[str, list[str]]) -> None:
    assert same(candidates["ipv4"], "ip", ipaddress.IPv4Address) > 500
    assert same(candidates["ipv6"], "ip", ipaddress.IPv6Address) > 3
    assert same(candidates["iban"], "iban", is_iban) > 15
    # A card has an issuer too, which no checksum knows: the step accepts fewer.
    cards = list(dict.fromkeys(candidates["card"]))
    ours = accepted(cards, "card")
    assert sum(ours) > 100
    assert all(is_luhn(text) for text, card in zip(cards, ours, strict=True) if card)


def test_public_addresses_are_global(candidates: dict[str, list[str]]) -> None:
    for kind in ("ipv4", "ipv6"):
        find = spans.finder(frozenset({"ip"}), frozenset())
        public = [text for text in dict.fromkeys(candidates[kind]) if find(f"[{text}]")]
        assert public
        assert all(ipaddress.ip_address(text).is_global for text in public)


def test_generated_addresses(soak: int) -> None:
    many = GENERATED * soak
    pick = random.Random(5)

    def octet() -> str:
        if pick.random() < 0.03:
            return f"0{pick.randrange(99)}"
        return str(pick.randrange(pick.choice((10, 256, 256, 300))))

    def group_address() -> str:
        value = 0x2001 << 112 | pick.getrandbits(pick.choice((16, 32, 64, 96, 112)))
        address = ipaddress.IPv6Address(value + (pick.randrange(0x1FFF) << 112))
        text = pick.choice((address.compressed, address.exploded, address.compressed.upper()))
        if pick.random() < 0.3:
            place = pick.randrange(4, len(text))
            text = text[:place] + pick.choice("0:g1f.:") + text[place + pick.randrange(2) :]
        return text

    sizes = (4,) * 20 + (3, 5)
    fours = (".".join(octet() for _ in range(pick.choice(sizes))) for _ in range(many))
    assert 0.3 < same(fours, "ip", ipaddress.IPv4Address) / many < 0.9
    groups = (group_address() for _ in range(many))
    assert 0.3 < same(groups, "ip", ipaddress.IPv6Address) / many < 0.9


def test_generated_cards(soak: int) -> None:
    many = GENERATED * soak
    pick = random.Random(6)

    def card() -> str:
        start, size = pick.choice((("4", 16), ("51", 16), ("55", 16), ("34", 15), ("37", 15)))
        text = start + "".join(pick.choices("0123456789", k=size - len(start) - 1))
        text += luhn.calc_check_digit(text) if pick.random() < 0.5 else pick.choice("0123456789")
        if size == 16 and pick.random() < 0.5:
            text = pick.choice(" -").join(text[at : at + 4] for at in range(0, 16, 4))
        return text

    assert 0.3 < same((card() for _ in range(many)), "card", is_luhn) / many < 0.9


def test_generated_ibans(soak: int) -> None:
    many = GENERATED * soak
    pick = random.Random(7)
    words = IBANS.split()
    layouts = dict(zip(words[::2], words[1::2], strict=True))
    kinds = {"n": "0123456789", "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
    kinds["c"] = kinds["n"] + kinds["a"]

    def account() -> str:
        country = pick.choice(sorted(layouts))
        parts = re.findall(r"([nac])(\d+)", layouts[country])
        body = "".join("".join(pick.choices(kinds[kind], k=int(size))) for kind, size in parts)
        text = country + iban.calc_check_digits(f"{country}00{body}") + body
        if pick.random() < 0.4:
            place = pick.randrange(4, len(text))
            text = text[:place] + pick.choice("0123456789ABZ") + text[place + 1 :]
        elif pick.random() < 0.1:
            text = text[:-1]
        if pick.random() < 0.3:
            text = " ".join(text[at : at + 4] for at in range(0, len(text), 4))
        return text

    assert 0.3 < same((account() for _ in range(many)), "iban", is_iban) / many < 0.9
