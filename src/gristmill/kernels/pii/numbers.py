"""Numbers that name somebody: is one written at this place, and where does it stop? All helpers
look at 64 bytes at most.

A number stands alone where no ASCII letter, digit or `_` touches it, and no `-` or `.` joins it to
one; the same rule holds at both sides, so that what was refused for its neighbour is still refused
when the neighbour is gone. `wall` is where the text starts, or what was found before stops; nothing
looks behind it, nor beyond `stop`.

ip      kernels/pii/ip_addresses.py
card    kernels/pii/cards.py
ssn     AAA-GG-SSSS: areas 001 to 899 but 666, neither group nor serial of zeros (what the Social
        Security Administration never gave)
iban    ISO 13616: a country's length and kinds of characters (SWIFT's IBAN Registry, release 101),
        and 1 by modulo 97; in a row, or in
        groups of four
"""

import re

import numpy as np

from gristmill.kernels.jit.compile import helper

IP, SSN, CARD, IBAN = 3, 2, 4, 5  # kinds, as kernels/pii/redact.py numbers them
HYPHEN, DOT, COLON, SPACE, ZERO = (
    np.uint8(0x2D),
    np.uint8(0x2E),
    np.uint8(0x3A),
    np.uint8(0x20),
    np.uint8(0x30),
)

# Of each country the BBAN's characters: n digits, a capital letters, c both.
IBANS = """
AD n8c12 AE n19 AL n8c16 AT n16 AZ a4c20 BA n16 BE n12 BG a4n6c8 BH a4c14 BI n23 BR n23a1c1
BY c4n4c16 CH n5c12 CR n18 CY n8c16 CZ n20 DE n18 DJ n23 DK n14 DO c4n20 EE n16 EG n25 ES n20
FI n14 FK a2n12 FO n14 FR n10c11n2 GB a4n14 GE a2n16 GI a4c15 GL n14 GR n7c16 GT c24 HN a4n20
HR n17 HU n24 IE a4n14 IL n19 IQ a4n15 IS n22 IT a1n10c12 JO a4n4c18 KW a4c22 KZ n3c13 LB n4c20
LC a4c24 LI n5c12 LT n16 LU n3c13 LV a4c13 LY n21 MC n10c11n2 MD c20 ME n18 MK n3c10n2 MN n16
MR n23 MT a4n5c18 MU a4n19a3 NI a4n20 NL a4n10 NO n11 OM n3c16 PK a4c16 PL n24 PS a4c21 PT n21
QA a4c21 RO a4c16 RS n18 RU n14c15 SA n2c18 SC a4n20a3 SD n14 SE n20 SI n15 SK n20 SM a1n10c12
SO n19 ST n21 SV a4n20 TL n19 TN n20 TR n6c16 UA n6c19 VA n18 VG a4n16 XK n16 YE a4n4c18
"""
LONGEST_BBAN = 30


def _layouts() -> np.ndarray:
    """(26 * 26, 30) uint8: by country, of each place 1 a digit, 2 a letter, 3 both, 0 none."""
    table = np.zeros((26 * 26, LONGEST_BBAN), np.uint8)
    words = IBANS.split()
    for country, layout in zip(words[::2], words[1::2], strict=True):
        places = [
            code
            for kind, n in re.findall(r"([nac])(\d+)", layout)
            for code in [" nac".index(kind)] * int(n)
        ]
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
