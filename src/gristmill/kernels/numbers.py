"""Numbers that name somebody: is one written at this place, and where does it stop? All helpers look at 64 bytes at most.

A number stands alone where no ASCII letter, digit or `_` touches it, and no `-` or `.` joins it to one; the same rule holds at both sides,
so that what was refused for its neighbour is still refused when the neighbour is gone. `wall` is where the text starts, or what was found
before stops; nothing looks behind it, nor beyond `stop`.

ip      IPv4 of four octets without leading zeros; not all below 32, nor the last three below 16 (sections and versions are numbered so, and of
        2,048 addresses one is). IPv6 as in RFC 4291, section 2.2; public ones. What is special is IANA's to say: the IPv4
        and IPv6 Special-Purpose Address Registries (RFC 6890), multicast (RFC 5771), and for IPv6 that only 2000::/3 is given out
ssn     AAA-GG-SSSS: areas 001 to 899 but 666, neither group nor serial of zeros (what the Social Security Administration never gave)
card    12 to 19 digits by Luhn (ISO/IEC 7812-1, annex B) that start and are as long as an issuer's; in a row, or as they stand on cards,
        in groups with single spaces or hyphens
iban    ISO 13616: a country's length and kinds of characters (SWIFT's IBAN Registry, release 101), and 1 by modulo 97; in a row, or in
        groups of four
"""

import re

import numpy as np

from gristmill.kernels.compile import helper

IP, SSN, CARD, IBAN = 3, 2, 4, 5  # kinds, as kernels/private.py numbers them
HYPHEN, DOT, COLON, SPACE, ZERO = np.uint8(0x2D), np.uint8(0x2E), np.uint8(0x3A), np.uint8(0x20), np.uint8(0x30)

# Of each country the BBAN's characters: n digits, a capital letters, c both.
IBANS = """
AD n8c12 AE n19 AL n8c16 AT n16 AZ a4c20 BA n16 BE n12 BG a4n6c8 BH a4c14 BI n23 BR n23a1c1 BY c4n4c16 CH n5c12 CR n18 CY n8c16 CZ n20 DE n18
DJ n23 DK n14 DO c4n20 EE n16 EG n25 ES n20 FI n14 FK a2n12 FO n14 FR n10c11n2 GB a4n14 GE a2n16 GI a4c15 GL n14 GR n7c16 GT c24 HN a4n20
HR n17 HU n24 IE a4n14 IL n19 IQ a4n15 IS n22 IT a1n10c12 JO a4n4c18 KW a4c22 KZ n3c13 LB n4c20 LC a4c24 LI n5c12 LT n16 LU n3c13 LV a4c13
LY n21 MC n10c11n2 MD c20 ME n18 MK n3c10n2 MN n16 MR n23 MT a4n5c18 MU a4n19a3 NI a4n20 NL a4n10 NO n11 OM n3c16 PK a4c16 PL n24 PS a4c21
PT n21 QA a4c21 RO a4c16 RS n18 RU n14c15 SA n2c18 SC a4n20a3 SD n14 SE n20 SI n15 SK n20 SM a1n10c12 SO n19 ST n21 SV a4n20 TL n19 TN n20
TR n6c16 UA n6c19 VA n18 VG a4n16 XK n16 YE a4n4c18
"""
LONGEST_BBAN = 30


def _layouts() -> np.ndarray:
    """(26 * 26, 30) uint8: by country, of each place 1 a digit, 2 a letter, 3 both, 0 none."""
    table = np.zeros((26 * 26, LONGEST_BBAN), np.uint8)
    words = IBANS.split()
    for country, layout in zip(words[::2], words[1::2], strict=True):
        places = [code for kind, n in re.findall(r"([nac])(\d+)", layout) for code in [" nac".index(kind)] * int(n)]
        table[(ord(country[0]) - 65) * 26 + ord(country[1]) - 65, : len(places)] = places
    return table.reshape(-1)


LAYOUTS = _layouts()


@helper
def is_digit(byte):
    """Whether a byte is 0 to 9."""
    return byte >= 0x30 and byte <= 0x39


@helper
def is_letter(byte):
    """Whether a byte is an ASCII letter."""
    return (byte | 0x20) >= 0x61 and (byte | 0x20) <= 0x7A


@helper
def is_alnum(byte):
    """Whether a byte is an ASCII letter or digit."""
    return is_digit(byte) or is_letter(byte)


@helper
def is_hex(byte):
    """Whether a byte is a hexadecimal digit."""
    return is_digit(byte) or ((byte | 0x20) >= 0x61 and (byte | 0x20) <= 0x66)


@helper
def joined_before(data, wall, at):
    """Whether what starts at `at` goes on to the left."""
    if at <= wall:
        return False
    byte = data[at - 1]
    if is_alnum(byte) or byte == 0x5F or byte == 0x2B:
        return True
    return byte in (HYPHEN, DOT) and at - 2 >= wall and is_alnum(data[at - 2])


@helper
def joined_after(data, at, stop):
    """Whether what ends before `at` goes on to the right."""
    if at >= stop:
        return False
    byte = data[at]
    if is_alnum(byte) or byte == 0x5F:
        return True
    return byte in (HYPHEN, DOT) and at + 1 < stop and is_alnum(data[at + 1])


@helper
def public_v4(value, strict):
    """Whether an IPv4 address (int64) is public: as Python's ipaddress.is_global of 3.13 has it; `strict`: neither multicast nor 6to4."""
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
def ipv4_stop(data, at, stop):
    """Where a public IPv4 address that starts at `at` stops; 0: there is none. What stands before is the caller's."""
    end, value = _octets(data, at, stop)
    if end == 0 or joined_after(data, end, stop) or not public_v4(value, True):
        return np.int64(0)
    return end if value & 0xE0E0E0E0 and value & 0x00F0F0F0 else np.int64(0)


@helper
def _label_before(data, wall, at):
    """Whether a word that is no group of an address stands right before `at`, as in `IPv6:2001:...`."""
    size = 0
    other = False
    while at - 1 >= wall and size < 12 and is_alnum(data[at - 1]):
        at -= 1
        size += 1
        if not is_hex(data[at]):
            other = True
    return other


@helper
def ipv6_stop(data, wall, at, stop):
    """Where a public IPv6 address that starts at `at` stops; 0: there is none."""
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
    # A colon that ends a clause: only white space says so.
    if end < stop and data[end] == COLON and not (end + 1 < stop and data[end + 1] <= SPACE):
        return np.int64(0)
    if first < 0x2000 or first >= 0x4000 or first == 0x2002:  # 6to4 carries an IPv4 address: its registry says N/A
        return np.int64(0)
    if first == 0x2001 and (second < 0x200 or second == 0xDB8):  # protocols; documentation
        return np.int64(0)
    return np.int64(0) if first == 0x3FFF and second < 0x1000 else end


@helper
def ssn_stop(data, at, stop):
    """Where a social security number that starts at `at` stops; 0: there is none."""
    if stop - at < 11 or data[at + 3] != HYPHEN or data[at + 6] != HYPHEN:
        return np.int64(0)
    value = np.int64(0)
    for j in range(11):
        if j == 3 or j == 6:
            continue
        if not is_digit(data[at + j]):
            return np.int64(0)
        value = value * 10 + np.int64(data[at + j] - ZERO)
    area = value // 1000000
    if area == 0 or area == 666 or area >= 900 or value // 10000 % 100 == 0 or value % 10000 == 0:
        return np.int64(0)
    return np.int64(0) if joined_after(data, at + 11, stop) else at + 11


@helper
def _issued(six, size):
    """Whether an issuer's cards start with these six digits and have so many (the issuers' published ranges)."""
    two = six // 10000
    four = six // 100
    three = six // 1000
    if six // 100000 == 4:
        return size == 13 or size == 16 or size == 19  # Visa
    if (two >= 51 and two <= 55) or (four >= 2221 and four <= 2720):
        return size == 16  # Mastercard
    if two == 34 or two == 37:
        return size == 15  # American Express
    if (three >= 300 and three <= 305) or four == 3095 or two == 36 or two == 38 or two == 39:
        return size == 14 or (size >= 16 and size <= 19)  # Diners Club
    if four >= 3528 and four <= 3589:
        return size >= 16  # JCB
    if four == 2131 or four == 1800:
        return size == 15  # JCB, of old
    if four == 6011 or (three >= 644 and three <= 649) or two == 65 or two == 62:
        return size >= 16  # Discover, UnionPay
    if four >= 2200 and four <= 2204:
        return size >= 16  # Mir
    # Maestro
    return (
        four == 5018 or four == 5020 or four == 5038 or four == 5893 or four == 6304 or four == 6759
        or (four >= 6761 and four <= 6763)
    )  # fmt: skip


@helper
def _group(form, place):
    """Digits of a card's groups as they stand on it: 4-4-4-4-3, 4-4-4-4, 4-6-5 and 4-6-4; 0: no more."""
    if form <= 1:
        return 4 if place < 4 else (3 if form == 0 and place == 4 else 0)
    if place == 0:
        return 4
    if place == 1:
        return 6
    return 5 if form == 2 and place == 2 else (4 if form == 3 and place == 2 else 0)


@helper
def _grouped_stop(data, at, stop, form, sign):
    """Where digits in groups with `sign` between stop; 0: they are others. What follows is the caller's."""
    place = 0
    while True:
        size = _group(form, place)
        if size == 0:
            return at
        if place > 0:
            if at >= stop or data[at] != sign:
                return np.int64(0)
            at += 1
        if at + size > stop:
            return np.int64(0)
        for j in range(size):
            if not is_digit(data[at + j]):
                return np.int64(0)
        at += size
        place += 1


@helper
def _is_card(data, start, stop):
    """Whether the digits in data[start:stop], which holds no more than 19, are a card's: issuer, length and Luhn."""
    six = np.int64(0)
    size = 0
    for at in range(start, stop):
        if is_digit(data[at]):
            if size < 6:
                six = six * 10 + np.int64(data[at] - ZERO)
            size += 1
    if size < 12 or size > 19 or not _issued(six, size):
        return False
    total = np.int64(0)
    double = False
    for back in range(stop - start):
        byte = data[stop - 1 - back]
        if is_digit(byte):
            digit = np.int64(byte - ZERO)
            if double:
                digit = digit * 2 - (9 if digit > 4 else 0)
            total += digit
            double = not double
    return total % 10 == 0


@helper
def card_stop(data, wall, at, run, stop):
    """Where a card's number stops that starts with `run` digits in a row (20: so many or more); 0: there is none.

    A number in a path, a query or an amount (`/ = & # % $` before it) is an identifier of something else.
    """
    if at > wall:
        before = data[at - 1]
        if before == 0x2F or before == 0x3D or (before >= 0x23 and before <= 0x26):
            return np.int64(0)
    if run >= 12:
        fits = run <= 19 and not joined_after(data, at + run, stop) and _is_card(data, at, at + run)
        return at + run if fits else np.int64(0)
    if run != 4 or at + 4 >= stop or (data[at + 4] != SPACE and data[at + 4] != HYPHEN):
        return np.int64(0)
    for form in range(4):
        end = _grouped_stop(data, at, stop, form, data[at + 4])
        if end > 0 and not joined_after(data, end, stop) and _is_card(data, at, end):
            return end
    return np.int64(0)


@helper
def iban_stop(data, at, stop, layouts):
    """Where an IBAN that starts at `at` with two letters and two digits stops; 0: there is none."""
    small = data[at] & 0x20
    if data[at + 1] & 0x20 != small:
        return np.int64(0)
    country = ((np.int64(data[at]) & 0xDF) - 0x41) * 26 + (np.int64(data[at + 1]) & 0xDF) - 0x41
    if layouts[country * LONGEST_BBAN] == 0:
        return np.int64(0)
    spaced = at + 4 < stop and (data[at + 4] == SPACE or data[at + 4] == HYPHEN)
    sign = data[at + 4] if spaced else SPACE
    end = at + 4
    rest = np.int64(0)
    for place in range(LONGEST_BBAN):
        kind = layouts[country * LONGEST_BBAN + place]
        if kind == 0:
            break
        if spaced and place % 4 == 0:
            if end >= stop or data[end] != sign:
                return np.int64(0)
            end += 1
        if end >= stop:
            return np.int64(0)
        byte = data[end]
        if is_digit(byte):
            if kind == 2:
                return np.int64(0)
            rest = (rest * 10 + np.int64(byte - ZERO)) % 97
        elif is_letter(byte) and byte & 0x20 == small and kind != 1:
            rest = (rest * 100 + (np.int64(byte) & 0xDF) - 0x37) % 97
        else:
            return np.int64(0)
        end += 1
    for j in range(2):
        rest = (rest * 100 + (np.int64(data[at + j]) & 0xDF) - 0x37) % 97
    rest = (rest * 100 + np.int64(data[at + 2] - ZERO) * 10 + np.int64(data[at + 3] - ZERO)) % 97
    return np.int64(0) if rest != 1 or joined_after(data, end, stop) else end
