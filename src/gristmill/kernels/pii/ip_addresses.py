"""Addresses of the internet protocol: is one written at this place, where does it stop, and is it
one rather than a version or a section?

ipv4    four octets without leading zeros, public: IANA's IPv4 and IPv6 Special-Purpose Address
        Registries (RFC 6890) and multicast
        (RFC 5771) say what is not. Four numbers also number versions, sections and object
        identifiers, and mostly low ones. Not all below 32, nor the last three below 16 (of 2,048
        addresses one is). What is low, at its start (below 32, then below 40) or in three places
        (below 32), 2.4 % of addresses, and what starts below 32 behind a fraction (`-2.12
        3.51.98.32`, a drawing's), needs a sign that it is one: in brackets, behind `//`, `@`, `::`
        or `ffff:`, with a prefix length or a port, in a log's ` - -`, or behind a word of
        ADDRESSED, no word of NUMBERED nearer. Others are one unless a word of NUMBERED stands right
        before (`V8 65.0.11.9`), or a suffix follows: `+` or `~` and a letter (`65.9.1.2+dfsg`)
        Where an IPv6 address carries it (`::ffff:1.2.3.4`), the whole is one
ipv6    as in RFC 4291, section 2.2; of 2000::/3, which is all that IANA has given out, what is
        public, with its zone (`%eth0`). Not a year and `::`

What is read before an address is of its line, four words and 48 bytes at most, and stops at signs
that placeholders start and stop with, so that nothing else is read once a text is redacted.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.pii.context_words import hash_of, known, word_hashes
from gristmill.kernels.pii.numbers import (
    COLON,
    DOT,
    SPACE,
    ZERO,
    is_alnum,
    is_digit,
    is_hex,
    is_letter,
    joined_after,
)

ADDRESSED = word_hashes(
    b"""
    ip ips ipv ipaddr ipaddress addr addrs address addresses adresse adressen adresses indirizzo
    adres inet host hosts hostname dns nameserver nameservers resolver resolvers gateway
    gateways netmask subnet subnets network networks cidr ping pinging traceroute tracert telnet
    ssh http https ftp tcp udp smtp imap proxy client clients peer peers remote endpoint
    endpoints router routers whois localhost vpn nat firewall iptables blocklist blacklist
    whitelist banned spf nslookup dig
    """.split()
)
NUMBERED = word_hashes(
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
APART, ADDRESS, VERSION, VERSION_NEAR = 0, 1, 2, 3  # what a word before says


@helper
def public_v4(value, strict):
    """Whether an IPv4 address (int64) is public: as Python's ipaddress.is_global of 3.13 has it;
    `strict`: neither multicast nor 6to4.
    """
    high = value >> 24
    if high == 0 or high == 10 or high == 127 or high >= 240:
        return False
    if high >= 224:
        return not strict
    if high == 100:
        return (value >> 22) != (100 << 2) + 1  # 100.64.0.0/10
    if high == 169:
        return (value >> 16) != (169 << 8) + 254
    if high == 172:
        return (value >> 20) != (172 << 4) + 1
    if high == 192:
        if (value >> 16) == (192 << 8) + 168:
            return False
        third = value >> 8
        if third == (192 << 16):
            return value & 0xFF == 9 or value & 0xFF == 10
        if third == (192 << 16) + 2:
            return False
        return not (strict and third == (192 << 16) + (88 << 8) + 99)
    if high == 198:
        return (value >> 17) != (198 << 7) + 9 and (value >> 8) != (198 << 16) + (51 << 8) + 100
    return not (high == 203 and (value >> 8) == (203 << 16) + 113)


@helper
def _octets(data, at, stop):
    """Four octets without leading zeros: (their end, 0 where there are none; the address)."""
    value = np.int64(0)
    for part in range(4):
        if part > 0:
            if at >= stop or data[at] != DOT:
                return np.int64(0), value
            at += 1
        octet = np.int64(0)
        size = 0
        while at < stop and is_digit(data[at]) and size < 4:
            octet = octet * 10 + np.int64(data[at] - ZERO)
            at += 1
            size += 1
        if size == 0 or size > 3 or octet > 255 or (size > 1 and data[at - size] == ZERO):
            return np.int64(0), value
        value = (value << 8) | octet
    return at, value


@helper
def _is_edge(byte):
    """Whether nothing is read beyond a byte: a line's end, an `@`, and what placeholders start and
    stop with.
    """
    return (
        byte == 0x0A
        or byte == 0x0D
        or byte == 0x40
        or byte == 0x3C
        or byte == 0x3E
        or byte == 0x5B
        or byte == 0x5D
        or (byte >= 0x7B and byte <= 0x7D)
    )


@helper
def _word_before(data, wall, at):
    """What the nearest known word before `at` says."""
    back = at
    count = 0
    while back > wall and at - back < REACH and count < WORDS and not _is_edge(data[back - 1]):
        if not is_letter(data[back - 1]):
            back -= 1
            continue
        end = back
        while back > wall and end - back < REACH and is_letter(data[back - 1]):
            back -= 1
        value = hash_of(data, back, end)
        if known(value, NUMBERED):
            return VERSION_NEAR if count == 0 and at - end <= NEAR else VERSION
        if known(value, ADDRESSED):
            return ADDRESS
        count += 1
    return APART


@helper
def _is_mapped(data, wall, at):
    """Whether `fff` stands before `at`, as in `::ffff:12.34.56.78`."""
    return (
        at - 3 >= wall
        and data[at - 1] | 0x20 == 0x66
        and data[at - 2] | 0x20 == 0x66
        and data[at - 3] | 0x20 == 0x66
    )


@helper
def _is_addressed(data, wall, at, end, stop):
    """Whether what touches four numbers says that they are an address."""
    if at > wall and (
        data[at - 1] == 0x40 or (data[at - 1] == 0x2F and at - 2 >= wall and data[at - 2] == 0x2F)
    ):
        return True
    if (
        at - 2 >= wall
        and data[at - 1] == COLON
        and (data[at - 2] == COLON or _is_mapped(data, wall, at - 1))
    ):
        return True
    if (
        end + 3 < stop
        and data[end] == SPACE
        and data[end + 1] == 0x2D
        and data[end + 2] == SPACE
        and data[end + 3] == 0x2D
    ):
        return True
    if end + 1 >= stop or (data[end] != 0x2F and data[end] != COLON):
        return False
    last = end + 1
    value = np.int64(0)
    while last < stop and last - end <= 6 and is_digit(data[last]):
        value = value * 10 + np.int64(data[last] - ZERO)
        last += 1
    size = last - end - 1
    if size < 1 or joined_after(data, last, stop):
        return False
    return value <= 32 if data[end] == 0x2F else size >= 2 and value < 1 << 16


@helper
def _is_low(data, wall, at, value):
    """Whether four numbers at `at` are such as number versions, or such as stand in a row of
    fractions.
    """
    few = 0
    for part in range(4):
        few += (value >> (8 * part)) & 0xFF < 32
    if few >= 3:
        return True
    if value >> 24 >= 32:
        return False
    if (value >> 16) & 0xFF < 40:
        return True
    back = at - 1
    while back > wall and at - back < 8 and is_digit(data[back - 1]):
        back -= 1
    return (
        at - 1 > wall
        and data[at - 1] == SPACE
        and back < at - 1
        and back > wall
        and data[back - 1] == DOT
    )


@helper
def _is_suffixed(data, end, stop):
    """Whether a version's suffix stands at `end`. A digit starts none, nor do two letters and two
    digits: that may be an address or an account, and be gone when the text is read once more.
    """
    if end + 1 >= stop or (data[end] != 0x2B and data[end] != 0x7E):
        return False
    if not is_letter(data[end + 1]):
        return False
    return not (
        end + 4 < stop
        and is_letter(data[end + 2])
        and is_digit(data[end + 3])
        and is_digit(data[end + 4])
    )


@helper
def ipv4_stop(data, wall, at, stop, every):
    """Where an IPv4 address that starts at `at` stops; 0: there is none. `every`: four octets are
    one, whatever they are and stand by.
    """
    end, value = _octets(data, at, stop)
    if end == 0 or joined_after(data, end, stop):
        return np.int64(0)
    if every:
        return end
    if not public_v4(value, True) or not (value & 0xE0E0E0E0 and value & 0x00F0F0F0):
        return np.int64(0)
    if _is_suffixed(data, end, stop):
        return np.int64(0)
    if at > wall and data[at - 1] == 0x5B and end < stop and data[end] == 0x5D:
        return end
    word = _word_before(data, wall, at)
    if word == VERSION_NEAR:
        return np.int64(0)
    if (
        word == ADDRESS
        or not _is_low(data, wall, at, value)
        or _is_addressed(data, wall, at, end, stop)
    ):
        return end
    return np.int64(0)


@helper
def carrier_start(data, wall, at):
    """Where the IPv6 address starts whose last part is the IPv4 address at `at`; `at`: there is
    none.
    """
    if at - 2 < wall or data[at - 1] != COLON:
        return at
    start = at - 1
    while (
        start > wall and at - start < 40 and (is_hex(data[start - 1]) or data[start - 1] == COLON)
    ):
        start -= 1
    if start > wall and (
        is_alnum(data[start - 1]) or data[start - 1] == COLON or data[start - 1] == 0x5F
    ):
        return at
    if data[start] == COLON and data[start + 1] != COLON:
        return at
    groups = 0
    doubles = 0
    size = 0
    for here in range(start, at):
        if data[here] != COLON:
            size += 1
            if size > 4:
                return at
        elif here > start:
            doubles += data[here - 1] == COLON
            groups += size > 0
            size = 0
    whole = groups == 6 if doubles == 0 else doubles == 1 and groups < 6
    return start if whole else at


@helper
def _zone_stop(data, end, stop):
    """Where the zone of an IPv6 address that stops at `end` stops (RFC 4007); `end`: it has none.
    Two hexadecimal digits behind a `%` are a byte of an URL.
    """
    if end + 1 >= stop or data[end] != 0x25 or not is_letter(data[end + 1]):
        return end
    if end + 2 < stop and is_hex(data[end + 1]) and is_hex(data[end + 2]):
        return end
    last = end + 1
    while last < stop and last - end <= 15 and is_alnum(data[last]):
        last += 1
    return end if joined_after(data, last, stop) else last


@helper
def _label_before(data, wall, at):
    """Whether a word that is no group of an address stands right before `at`, as in
    `IPv6:2001:...`.
    """
    size = 0
    other = False
    while at - 1 >= wall and size < 12 and is_alnum(data[at - 1]):
        at -= 1
        size += 1
        if not is_hex(data[at]):
            other = True
    return other


@helper
def ipv6_stop(data, wall, at, stop, every):
    """Where an IPv6 address that starts at `at` stops, a public one unless `every`; 0: there is
    none.
    """
    if at > wall and data[at - 1] == COLON and not _label_before(data, wall, at - 1):
        return np.int64(0)
    groups = 0
    first = np.int64(0)
    second = np.int64(0)
    double = False
    end = at
    while True:
        value = np.int64(0)
        size = 0
        while end < stop and size < 5 and is_hex(data[end]):
            byte = np.int64(data[end])
            value = value * 16 + (byte - 0x30 if byte <= 0x39 else (byte | 0x20) - 0x57)
            end += 1
            size += 1
        if size == 0 or size > 4:
            return np.int64(0)
        groups += 1
        if groups == 1:
            first = value
        elif groups == 2 and not double:
            second = value
        if end < stop and data[end] == DOT and groups <= 7:
            last, _ = _octets(data, end - size, stop)
            if last > 0:
                groups += 1
                end = last
            break
        if groups == 8 or end + 1 >= stop or data[end] != COLON:
            break
        if data[end + 1] == COLON:
            if double:
                return np.int64(0)
            double = True
            end += 2
            if end >= stop or not is_hex(data[end]):
                break
        elif is_hex(data[end + 1]):
            end += 1
        else:
            break
    if double == (groups == 8) or joined_after(data, end, stop):
        return np.int64(0)
    # A colon that ends a clause: white space or the end says so.
    if end + 1 < stop and data[end] == COLON and data[end + 1] > SPACE:
        return np.int64(0)
    if every:
        return _zone_stop(data, end, stop)
    year = first < 0x2100 and first & 0xF < 10 and (first >> 4) & 0xF < 10
    if (
        double and groups == 1 and year and not (end < stop and data[end] == 0x2F)
    ):  # `Oct 25 2000::`
        return np.int64(0)
    if (
        first < 0x2000 or first >= 0x4000 or first == 0x2002
    ):  # 6to4 carries an IPv4 address: its registry says N/A
        return np.int64(0)
    if first == 0x2001 and (second < 0x200 or second == 0xDB8):  # protocols; documentation
        return np.int64(0)
    return np.int64(0) if first == 0x3FFF and second < 0x1000 else _zone_stop(data, end, stop)
