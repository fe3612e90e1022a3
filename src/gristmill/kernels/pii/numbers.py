"""Numbers that name somebody: is one written at this place, and where does it stop? All helpers
look at 64 bytes at most.

A number stands alone where no ASCII letter, digit or `_` touches it, and no hyphen or `.` joins it
to one, nor a character that is not seen (a soft hyphen, a space of no width), nor a digit in full
width; the same rule holds at both sides, so that what was refused for its neighbour is still
refused when the neighbour is gone. `wall` is where the text starts, or what was found before stops;
nothing looks behind it, nor beyond `stop`.

ip      kernels/pii/ip_addresses.py
card    kernels/pii/cards.py
ssn     AAA-GG-SSSS: areas 001 to 899 but 666, neither group nor serial of zeros (what the Social
        Security Administration never gave)
iban    ISO 13616: a country's length and kinds of characters (SWIFT's IBAN Registry, release 101),
        and 1 by modulo 97; in a row, or in groups with the same separator between all: groups of
        four, or others, where no group is a word (letters alone, where an account may have digits)
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
# What a character beyond ASCII is beside a number.
APART, HIDDEN, BLANK, HYPHENS, DASH, WIDE_DIGIT = 0, 1, 2, 3, 4, 5


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
def beside(data, at, stop):
    """What the character beyond ASCII is that starts at `at`: HIDDEN (soft hyphens, spaces of no
    width, joiners), BLANK, HYPHENS, DASH (for numbers, or an en dash), WIDE_DIGIT or APART.
    """
    if at + 1 >= stop:
        return APART
    lead = data[at]
    second = data[at + 1]
    if lead == 0xC2:
        return HIDDEN if second == 0xAD else BLANK if second == 0xA0 else APART
    if at + 2 >= stop:
        return APART
    third = data[at + 2]
    if lead == 0xE2:
        if second == 0x80:
            if third >= 0x8B and third <= 0x8D:
                return HIDDEN
            if third <= 0x8A or third == 0xAF:
                return BLANK
            if third == 0x90 or third == 0x91:
                return HYPHENS
            return DASH if third == 0x92 or third == 0x93 else APART
        if second == 0x81:
            return HIDDEN if third == 0xA0 else BLANK if third == 0x9F else APART
        return DASH if second == 0x88 and third == 0x92 else APART
    if lead == 0xEF:
        if second == 0xBB:
            return HIDDEN if third == 0xBF else APART
        if second == 0xBC:
            if third >= 0x90 and third <= 0x99:
                return WIDE_DIGIT
            return HYPHENS if third == 0x8D else APART
    return APART


@helper
def separator_width(data, at, stop):
    """Bytes of what may stand between groups of a number at `at`; 0: nothing that may."""
    byte = data[at] if at < stop else np.uint8(0)
    if byte < 0x80:
        return 1 if byte == SPACE or byte == HYPHEN or byte == DOT else 0
    kind = beside(data, at, stop)
    return (2 if byte == 0xC2 else 3) if kind >= BLANK and kind <= DASH else 0


@helper
def is_same(data, first, second, width):
    """Whether the `width` bytes at two places are the same."""
    for j in range(width):
        if data[first + j] != data[second + j]:
            return False
    return True


@helper
def start_of(data, wall, at):
    """Where the character starts that stops at `at`."""
    back = at - 1
    while back > wall and data[back] & 0xC0 == 0x80:
        back -= 1
    return back


@helper
def _joined_beyond_before(data, wall, at):
    """`joined_before` behind a character beyond ASCII."""
    back = start_of(data, wall, at)
    kind = beside(data, back, at)
    if kind == HIDDEN or kind == HYPHENS:
        return back > wall and is_alnum(data[back - 1])
    return kind == WIDE_DIGIT


@helper
def joined_before(data, wall, at):
    """Whether what starts at `at` goes on to the left."""
    if at <= wall:
        return False
    byte = data[at - 1]
    if byte >= 0x80:
        return _joined_beyond_before(data, wall, at)
    if is_alnum(byte) or byte == 0x5F or byte == 0x2B:
        return True
    return byte in (HYPHEN, DOT) and at - 2 >= wall and is_alnum(data[at - 2])


@helper
def joined_after(data, at, stop):
    """Whether what ends before `at` goes on to the right."""
    if at >= stop:
        return False
    byte = data[at]
    if byte >= 0x80:
        kind = beside(data, at, stop)
        after = at + (2 if byte == 0xC2 else 3)
        if kind == HIDDEN or kind == HYPHENS:
            return after < stop and is_alnum(data[after])
        return kind == WIDE_DIGIT
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
    first = np.int64(0)  # where the first separator stands
    width = 0
    fours = True  # whether groups have four characters
    words = False  # whether a group of letters alone stands where digits may
    letters = False
    end = at + 4
    rest = np.int64(0)
    for place in range(LONGEST_BBAN):
        kind = layouts[country * LONGEST_BBAN + place]
        if kind == 0:
            break
        gap = separator_width(data, end, stop)
        if gap > 0:
            if first == 0:
                first = end
                width = gap
                fours = place == 0
            if gap != width or not is_same(data, first, end, width):
                return np.int64(0)
            end += gap
            words = words or letters
            letters = True
        elif place == 0:
            letters = True
        fours = fours and (gap > 0) == (width > 0 and place % 4 == 0)
        if end >= stop:
            return np.int64(0)
        byte = data[end]
        if is_digit(byte):
            if kind == 2:
                return np.int64(0)
            letters = False
            rest = (rest * 10 + np.int64(byte - ZERO)) % 97
        elif is_letter(byte) and byte & 0x20 == small and kind != 1:
            rest = (rest * 100 + (np.int64(byte) & 0xDF) - 0x37) % 97
            letters = letters and kind == 3
        else:
            return np.int64(0)
        end += 1
    if first > 0 and not fours and (words or letters):
        return np.int64(0)
    for j in range(2):
        rest = (rest * 100 + (np.int64(data[at + j]) & 0xDF) - 0x37) % 97
    rest = (rest * 100 + np.int64(data[at + 2] - ZERO) * 10 + np.int64(data[at + 3] - ZERO)) % 97
    return np.int64(0) if rest != 1 or joined_after(data, end, stop) else end
