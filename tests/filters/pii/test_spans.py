"""What is found in texts: each kind and what stands beside it, registries, time."""

import ipaddress
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill import RecipeError
from gristmill.filters.pii import as_datatrove, private, spans
from gristmill.filters.pii.alone import PiiSpan
from gristmill.filters.pii.ibans import IBANS
from tests.support import strategies
from tests.support.pii import PIECES, is_global
from tests.support.redaction import redact

DOMAINS = ("com", "org", "net", "de", "uk", "museum", "xn--p1ai", "info", "рф", "中")
TOPS = frozenset(name.encode() for name in DOMAINS)
NUMBERS = frozenset(("email", "ip", "ssn", "card", "iban"))


def find(text: str, *kinds: str) -> list[PiiSpan]:
    return spans.finder(frozenset(kinds or NUMBERS), TOPS)(text)


def without(text: str, found: list[PiiSpan], word: str = "<{}>") -> str:
    for kind, start, stop in reversed(found):
        text = text[:start] + word.format(kind.upper()) + text[stop:]
    return text


@strategies.fuzz(300)
@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
@example("172.32.1.1~172.32.1.1")
@example("git@foo.com--2a00::1.2.3.4")
@example("2a00::1.2.3.40:")
@example("2a00::1.2.3.40:412-34-5678")
@example("a@foo.de--2a00::1 a@foo.xn--p1ai--2a00::1 a@b.xn2a00::1 a@b.com--x.org a@b.com--x.y")
@example("172.32.1.1~412-34-5678 172.32.1.1+de89370400440532013000")
def test_fuzz_redacted_again_is_redacted(text: str) -> None:
    """What stands beside what was found is judged alike before and after; of two finds that touch
    the first pass may take one (`2a00::1.2.3.4:412-34-5678`), as `private` allows for.
    """
    for _ in range(1 + private.ROUNDS):
        text = without(text, find(text))
    assert find(text) == []


CASES = {
    "mail foo.bar@baz.com, or <a-b@c.org>.": ["email", "email"],
    "x@example.com x@mail.example.org image@2x.png lodash@4.17.21.tgz a@b a@b.c": [],
    "a..b@foo.com .a@foo.com a.@foo.com": ["email", "email"],
    "pat.o'neil@foo.com jürgen.müller@foo.com": ["email", "email"],
    "foo@bar.com.Then it": ["email"],
    "88.8.8.80 8.8.8.80:80 [8.8.8.80] 8.8.8.80/24 88.8.8.80.": ["ip"] * 5,
    (
        "v8.8.8.80 8.8.8.8.80 8.8.80 08.8.8.80 8.8.8.256 lib-8.8.8.80 8.8.8.80-rc section "
        "8.5.1.4, 31.1.1.31, 143.6.15.1"
    ): [],
    (
        "127.0.0.1 10.1.1.1 192.168.1.1 172.16.0.1 169.254.0.1 0.0.0.0 255.255.255.255 192.0.2.1 "
        "224.0.0.251"
    ): [],
    "2001:4860:4860::8888 [2a00:1450::1]:80 IPv6:2a00::1 2a00::1: 2a00::1/64": ["ip"] * 5,
    "V8 65.6.85.28, version 65.6.85.28: OID 65.6.85.28, 65.6.85.28+dfsg 65.6.85.28~rc": [],
    "65.6.85.28~65.6.85.31 me@foo.com--and more": ["ip", "ip", "email"],
    (
        "to 4.6.85.28 (>= 1.9.99.12) 3.43.6.1 libXi 1.91.6.1 V8 from 4.2.77.18 to 4.2.77.20 "
        "-2.12 3.51.98.32 Oct 25 2000::"
    ): [],
    (
        "IP 4.6.85.28 address: 4.2.77.18, from [4.6.85.28] http://4.6.85.28/ u@4.6.85.28 "
        "4.6.85.28/24 4.6.85.28:80 ::ffff:4.6.85.28\n4.6.85.28 - - [27/Nov"
    ): ["ip"] * 9,
    "65.6.85.28 server IPv4 65.6.85.28 2000::/48": ["ip"] * 3,
    "::1 fe80::1 fc00::1 ff02::1 2001:db8::1 2002::1 std::vector 2001:1 12:34:56": [],
    "20:aa:bb:cc:dd:ee": [],
    "078-05-1120 (123-45-6789)": ["ssn", "ssn"],
    (
        "000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000 1123-45-6789 123-45-67890 "
        "x-123-45-6789"
    ): [],
    "4111111111111111 4111-1111-1111-1111 3782 822463 10005": ["card"] * 3,
    "4111111111111112 0.4111111111111111 /4111111111111111": [],
    "4111 1111-1111 1111 1234567812345670": [],
    (
        "[4220315081820346526, 7177518203184491332], (1, 6458161865649291, -53), 86400000, "
        "4031078400000]"
    ): [],
    (
        "t**14 + 4828147466240000*t**12, n1 + 4111111111111111, f(6)+4111111111111111, "
        "4111111111111111*x, 5360 5394 5428 5462 5496 5531\n 5565"
    ): [],
    (
        "(4111111111111111) [4111111111111111, 378282246310005] (4111111111111111, 123)\n* "
        "4111111111111111 see **4111111111111111** 1 + 4111111111111111"
    ): ["card"] * 7,
    "git@foo.org, git@foo.org: hg@bar.de svn@foo.com.": ["email"] * 4,
    "GB82WEST12345698765432 DE89 3704 0044 0532 0130 00 gb82west12345698765432": ["iban"] * 3,
    "GB83WEST12345698765432 XX82WEST12345698765432": [],
    "Gb82WEST12345698765432 GB82WEST1234569876543": [],
}


@pytest.mark.parametrize("text", CASES)
def test_cases(text: str) -> None:
    assert [kind for kind, *_ in find(text)] == CASES[text]


WHOLE = {
    "pat.o'neil@foo.com": "",
    "pat.o’neil@foo.com": "",
    "jürgen.müller@foo.com": "",
    "ju\u0308rgen.mu\u0308ller@foo.com": "",
    "R&D@foo.com, r~b@foo.com": ", ",
    "pat@müller.de": "",
    "иван.петров2@пример.рф": "",
    "用户@例子.中": "",
    "'pat@foo.com' it's: pat@foo.com's": "'' it's: 's",
    "邮箱123456@foo.com联系我们": "邮箱联系我们",
    "请联系pat@foo.com。": "请联系。",
    "пишите pat@foo.com": "пишите ",
    "?a=b&email=pat@foo.com": "?a=b&email=",
}


@pytest.mark.parametrize("text", WHOLE)
def test_an_address_goes_whole_and_nothing_beside_it(text: str) -> None:
    assert without(text, find(text, "email"), "") == WHOLE[text]


NOBODYS = [
    ipaddress.ip_network(name)
    for name in "224.0.0.0/4 192.88.99.0/24 2001::/23 2001:db8::/32 2002::/16 3fff::/20".split()
]


def public(address: str) -> bool:
    value = ipaddress.ip_address(address)
    if value.version == 6 and value not in ipaddress.ip_network("2000::/3"):
        return False
    if str(value) in ("192.0.0.9", "192.0.0.10"):
        return True
    if value.version == 4 and value in ipaddress.ip_network("192.0.0.0/24"):
        return False  # before Python 3.11.10 these were told otherwise
    special = any(value.version == net.version and value in net for net in NOBODYS)
    return not special and (value.version == 6 or value.is_global)


def counted(address: str) -> bool:
    """Whether it may number a section."""
    octets = [*map(int, address.split("."))]
    return max(octets) < 32 or max(octets[1:]) < 16


def test_registries_are_ipaddress() -> None:
    """Around every border of what is special, and some between."""
    edges = [int(net.network_address) for net in map(ipaddress.ip_network, BORDERS)]
    edges += [int(net.broadcast_address) for net in map(ipaddress.ip_network, BORDERS)]
    texts = [
        str(ipaddress.ip_address(max(0, min(edge + by, (1 << 32) - 1))))
        for edge in edges
        for by in (-1, 0, 1)
    ]
    # Low numbers need a sign that they are an address.
    ours = [bool(find(f"address {text}", "ip")) for text in texts]
    theirs = [bool(as_datatrove.find(text, frozenset(("ip",)))) for text in texts]
    assert ours == [public(text) and not counted(text) for text in texts]
    assert theirs == [is_global(text) for text in texts]
    assert 20 < sum(ours) < len(texts) - 20


BORDERS = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
192.0.0.0/24 192.0.0.9/32 192.0.0.10/32 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16
198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
""".split()


def test_ibans_of_every_country() -> None:
    """One made for each country of the registry is found, and no digit of it may change."""
    for country, layout in zip(IBANS.split()[::2], IBANS.split()[1::2], strict=True):
        kinds = re.findall("([nac])([0-9]+)", layout)
        body = "".join({"n": "7", "a": "K", "c": "Z"}[kind] * int(size) for kind, size in kinds)
        rest = int("".join(str(int(sign, 36)) for sign in f"{body}{country}00")) % 97
        whole = f"{country}{98 - rest:02}{body}"
        wrong = f"{country}{(98 - rest) % 97 + 1:02}{body}"
        texts = [whole, wrong, whole + "0", whole[:-1], " ".join(re.findall(".{1,4}", whole))]
        found = [bool(find(text, "iban")) for text in texts]
        assert found == [True, False, False, False, True], country


def test_too_large_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "MOST_BYTES", 200)
    assert redact(["a@b.org " * 10, "more"])[0] == ["<EMAIL> " * 10, "more"]
    with pytest.raises(RecipeError, match="2 GiB"):
        redact(["a@b.org " * 10, "more"], placeholder=f"[{'x' * 20}]")


@pytest.mark.parametrize(
    "unit",
    [
        "@",
        "a@",
        "a.",
        "a@b.",
        "a@b.com",
        "1",
        "1.",
        "1.1.1.1.",
        "2001:",
        "2001:0::",
        "4111 ",
        "41111111111111111111",
        "123-",
        "GB82",
        "ip ",
        "x",
        "1, ",
        "5.6.7.8 ",
        "1234 ",
        "4111111111111111,",
        "+1",
        "+1 ",
        "1 1-",
        "a-",
        "é",
        "@[1.1.1.",
        "a@é.",
        "8.8.8.80 ",
        "GB82 ",
        "=a",
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """Four times the text takes about four times the time; a quadratic search would take sixteen
    times as long, and minutes. On a busy machine either measurement may be half as long again.
    """
    times = []
    for size in (1 << 18, 1 << 20):
        text = unit * (size // len(unit.encode()))
        best = 1e9
        for _ in range(2):
            start = time.process_time()
            redact([text])
            redact([text], rules="datatrove", kinds=["email", "ip"])
            best = min(best, time.process_time() - start)
        times.append(best)
    assert times[1] < 10 * times[0] + 0.05
    assert times[1] < 6


@pytest.mark.parametrize("unit", ["1 1-", "5.6.7.8 ", "+1 ", "call ", "1/", "1234 ", "(1) "])
def test_hostile_numbers_of_phones_take_linear_time(unit: str) -> None:
    times = []
    for size in (1 << 16, 1 << 18):
        start = time.process_time()
        redact([unit * (size // len(unit))], regions=["US", "DE"])
        times.append(time.process_time() - start)
    assert times[1] < 10 * times[0] + 0.05
