"""Addresses of the internet protocol: is one written at this place, where does it stop, and is it
one rather than a version or a section?

ipv4    four octets without leading zeros, public: IANA's IPv4 and IPv6 Special-Purpose Address
        Registries (RFC 6890) and multicast (RFC 5771) say what is not. Four numbers also number
        versions, sections and object identifiers, and mostly low ones. Not all below 32, nor the
        last three below 16 (of 2,048 addresses one is). What is low, at its start (below 32, then
        below 40) or in three places (below 32), 2.4 % of addresses, and what starts below 32 behind
        a fraction (`-2.12 3.51.98.32`, a drawing's), needs a sign that it is one: in brackets,
        behind `//`, `@`, `::` or `ffff:`, with a prefix length or a port, in a log's ` - -`, or
        behind a word of ADDRESSED, no word of NUMBERED nearer. Others are one unless a word of
        NUMBERED stands right before (`V8 65.0.11.9`), or a suffix follows: `+` or `~` and a letter
        (`65.9.1.2+dfsg`). Where an IPv6 address carries it (`::ffff:1.2.3.4`), the whole is one
ipv6    as in RFC 4291, section 2.2; of 2000::/3, which is all that IANA has given out, what is
        public, with its zone (`%eth0`). Not a year and `::`

What is read before an address is of its line, four words and 48 bytes at most, and stops at signs
that placeholders start and stop with, so that nothing else is read once a text is redacted.
"""

import re
from ipaddress import AddressValueError, IPv6Address

from gristmill.filters.pii.alone import END

# No public IPv6 address starts with a letter.
SHAPE = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[23][0-9A-Fa-f:.]{3}:"
ADDRESSED = frozenset(
    b"""
    ip ips ipv ipaddr ipaddress addr addrs address addresses adresse adressen adresses indirizzo
    adres inet host hosts hostname dns nameserver nameservers resolver resolvers gateway
    gateways netmask subnet subnets network networks cidr ping pinging traceroute tracert telnet
    ssh http https ftp tcp udp smtp imap proxy client clients peer peers remote endpoint
    endpoints router routers whois localhost vpn nat firewall iptables blocklist blacklist
    whitelist banned spf nslookup dig
    """.split()
)
NUMBERED = frozenset(
    b"""
    version versions versione versie wersja verze versio v vs ver vers rev revision revisions
    release released releases upgrade upgraded upgrades upgrading update updated updates bump
    bumped bumps patch patched requires require required depend depends dependency build builds
    built section sections sect sec chapter chap clause figure table oid objectidentifier
    identifier firmware driver drivers kernel package packages snapshot tag branch sdk jdk jre
    jvm java bios
    """.split()
)
REACH, WORDS, NEAR = 48, 4, 4  # bytes, words, bytes


# IANA's registry; a leading zero is nobody's.
_SPECIAL = re.compile(
    r"""
      (?: 0 | 10 | 127 | 24[0-9] | 25[0-5] ) \.
    | 100 \. (?: 6[4-9] | [7-9][0-9] | 1[01][0-9] | 12[0-7] ) \.
    | 169\.254\. | 172 \. (?: 1[6-9] | 2[0-9] | 3[01] ) \. | 192\.168\.
    | 192\.0\.0\. (?! (?:9|10) \Z ) | 192\.0\.2\.
    | 198 \. 1[89] \. | 198\.51\.100\. | 203\.0\.113\.
    | (?: .* \. )? 0[0-9]
    """,
    re.VERBOSE,
)
_SHARED = re.compile(r"(?:22[4-9]|23[0-9]|192\.88\.99)\.")  # multicast, 6to4

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_FOUR = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}{END}")
_SUFFIX = re.compile(r"[+~](?![A-Za-z]{2}[0-9]{2})[A-Za-z]")
_EDGE = re.compile(rb"[\n\r@<>\[\]{|}]")
_WORD = re.compile(rb"[A-Za-z]+")
_FRACTION = re.compile(r"\.[0-9]{1,7} \Z")
_ADDRESS_BEHIND = re.compile(rf" - -|(?:/(?P<bits>[0-9]{{1,6}})|:(?P<port>[0-9]{{2,6}})){END}")
_CARRIER = re.compile(r"(?<![A-Za-z0-9_:])[0-9A-Fa-f:]{1,39}:\Z")

_GROUP = "[0-9A-Fa-f]{1,4}"
_GROUPS = re.compile(rf"(?:{_GROUP}(?::{_GROUP}){{0,7}}+)(?:::(?:{_GROUP}(?::{_GROUP}){{0,7}}+)?)?")
_LAST_FOUR = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}(?![0-9])")
_CLAUSE = re.compile(rf"(?!:[^\0- ]){END}")  # a colon ends a clause before white space or the end
_LABEL = re.compile(r"[G-Zg-z][0-9A-Za-z]{0,11}:\Z")  # as in `IPv6:2001:...`
_YEAR = re.compile("20[0-9]{2}::(?!/)")  # `Oct 25 2000::`
# Two hexadecimal digits behind a `%` are a byte of an URL (RFC 4007: zones).
_ZONE = re.compile(rf"%(?![0-9A-Fa-f]{{2}})[A-Za-z][A-Za-z0-9]{{0,14}}{END}")


def is_public(address: str, *, strict: bool = True) -> bool:
    """Return whether an IPv4 address is public, as Python 3.13's ipaddress.is_global has it;
    `strict`: neither multicast nor 6to4.
    """
    return not (_SPECIAL.match(address) or (strict and _SHARED.match(address)))


def ip_address(left: str, here: str, *, every: bool = False) -> int:
    """Return the length of the address that starts `here`, a public one unless `every`; 0: there
    is none.
    """
    return (ipv6 if here[4] == ":" else ipv4)(left, here, every=every)


def ipv4(left: str, here: str, *, every: bool = False) -> int:
    """Return the length of the IPv4 address that starts `here`, as `ip_address` does."""
    match = _FOUR.match(here)
    if not match:
        return 0
    end = match.end()
    if every:
        return end
    octets = [int(octet) for octet in match[0].split(".")]
    if max(octets) < 32 or max(octets[1:]) < 16 or not is_public(match[0]):
        return 0
    if _SUFFIX.match(here, end):
        return 0
    if left[-1:] == "[" and here[end : end + 1] == "]":
        return end
    word = _word_before(left)
    if word == "version near":
        return 0
    is_one = word == "address" or not _is_low(left, octets) or _is_addressed(left, here, end)
    return end if is_one else 0


def _word_before(left: str) -> str:
    """Return what the nearest known word says: "address", "version", "version near" or ""."""
    line = _EDGE.split(left[-2 * REACH :].encode()[-2 * REACH :])[-1]
    for count, word in enumerate([*_WORD.finditer(line)][: -WORDS - 1 : -1]):
        name, gap = word[0].lower(), len(line) - word.end()
        if gap >= REACH:
            break
        if name in NUMBERED:
            return "version near" if count == 0 and gap <= NEAR else "version"
        if name in ADDRESSED:
            return "address"
    return ""


def _is_low(left: str, octets: list[int]) -> bool:
    """Return whether four numbers are such as number versions, or stand in a row of fractions."""
    if sum(octet < 32 for octet in octets) >= 3:
        return True
    return octets[0] < 32 and (octets[1] < 40 or _FRACTION.search(left[-9:]) is not None)


def _is_addressed(left: str, here: str, end: int) -> bool:
    """Return whether what touches four numbers says that they are an address."""
    if left.endswith(("@", "//", "::")) or left[-4:].lower() == "fff:":
        return True
    behind = _ADDRESS_BEHIND.match(here, end)
    if not behind:
        return False
    return int(behind["bits"] or 0) <= 32 and int(behind["port"] or 0) < 1 << 16


def carrier(left: str) -> int:
    """Return how many characters of an IPv6 address carry the IPv4 address behind them."""
    run = _CARRIER.search(left) if left[-1:] == ":" else None
    if not run:
        return 0
    try:
        IPv6Address(f"{run[0]}1.2.3.4")
    except AddressValueError:
        return 0
    return len(run[0])


def ipv6(left: str, here: str, *, every: bool = False) -> int:
    """Return the length of the IPv6 address that starts `here`, as `ip_address` does."""
    run = _GROUPS.match(here)
    if not run or (left[-1:] == ":" and not _LABEL.search(left)):
        return 0
    end, double = run.end(), "::" in run[0]
    groups = [group for group in run[0].split(":") if group]
    count = len(groups)
    if here[end : end + 1] == "." and count <= 7:
        last = _LAST_FOUR.match(here, end - len(groups[-1]))
        if last and run[0][-1] != ":":
            end, count = last.end(), count + 1
    if double == (count >= 8) or not _CLAUSE.match(here, end):
        return 0
    if not every and not _is_public_v6(run[0], groups, here):
        return 0
    zone = _ZONE.match(here, end)
    return zone.end() if zone else end


def _is_public_v6(address: str, groups: list[str], here: str) -> bool:
    if len(groups[0]) != 4 or groups[0][0] not in "23" or (len(groups) == 1 and _YEAR.match(here)):
        return False
    second = 0 if len(groups) == 1 or address[4:6] == "::" else int(groups[1], 16)
    first = int(groups[0], 16)
    if first == 0x2001:  # protocols; documentation
        return second >= 0x200 and second != 0xDB8
    # 6to4 carries an IPv4 address: its registry says N/A.
    return first != 0x2002 and not (first == 0x3FFF and second < 0x1000)
