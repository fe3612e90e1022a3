"""Card numbers: 12 to 19 digits by Luhn (ISO/IEC 7812-1, annex B) that start and are as long as an
issuer's.

They stand in a row, or as on cards, in groups with single spaces, hyphens or dots, the same between
all; the code of a card, three digits or four of American Express, that follows behind a space
belongs to it. A number in a path, a
query or an amount (`/ = & # % $` before it) is an identifier of something else; one in a term
(`4828147466240000*t`, `t + 4828147466240000`) or in a list of numbers in brackets that are no cards
(`(1, 6458161865649291, -53)`) is a number; four groups that rise, in a row of groups that rises on,
are of a table. Of what stands beside it 32 bytes are read at most.
"""

import numpy as np

from gristmill.kernels.jit.compile import helper
from gristmill.kernels.pii.numbers import (
    BLANK,
    HYPHEN,
    SPACE,
    ZERO,
    beside,
    is_alnum,
    is_digit,
    is_letter,
    is_same,
    joined_after,
    separator_width,
)

BESIDE = 32  # bytes
COMMA = 0x2C


@helper
def _issued(six, size):
    """Whether an issuer's cards start with these six digits and have this length (the issuers'
    published ranges).
    """
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
        four == 5018
        or four == 5020
        or four == 5038
        or four == 5893
        or four == 6304
        or four == 6759
        or (four >= 6761 and four <= 6763)
    )


@helper
def _group(form, place):
    """Digits of a card's groups as they stand on it: 4-4-4-4-3, 4-4-4-4, 4-6-5 and 4-6-4; 0: no
    more.
    """
    if form <= 1:
        return 4 if place < 4 else (3 if form == 0 and place == 4 else 0)
    if place == 0:
        return 4
    if place == 1:
        return 6
    return 5 if form == 2 and place == 2 else (4 if form == 3 and place == 2 else 0)


@helper
def _grouped_stop(data, at, stop, form, width):
    """Where digits in groups stop, between them what stands behind the first, `width` bytes; 0:
    they are others. What follows is the caller's.
    """
    sign = at + 4
    place = 0
    while True:
        size = _group(form, place)
        if size == 0:
            return at
        if place > 0:
            if at + width > stop or not is_same(data, sign, at, width):
                return np.int64(0)
            at += width
        if at + size > stop:
            return np.int64(0)
        for j in range(size):
            if not is_digit(data[at + j]):
                return np.int64(0)
        at += size
        place += 1


@helper
def _is_card(data, start, stop):
    """Whether the digits in data[start:stop], which holds no more than 19, are a card's: issuer,
    length and Luhn.
    """
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
def _is_name(data, wall, at):
    """Whether what stops before `at` is no plain number: a letter, `_` or `)` is in it."""
    back = at
    while back > wall and at - back < 16:
        byte = data[back - 1]
        if is_letter(byte) or byte == 0x5F or byte == 0x29:
            return True
        if not is_alnum(byte) and byte != 0x2A:
            return False
        back -= 1
    return False


@helper
def is_term(data, wall, at, end, stop):
    """Whether what stands at data[at:end] is added to or multiplied by something that has a
    name.
    """
    spaced = at > wall and data[at - 1] == SPACE
    last = at - 1 if spaced else at
    if last > wall and (data[last - 1] == 0x2B or data[last - 1] == 0x2A or data[last - 1] == 0x5E):
        back = last - 1
        while back > wall and last - back < 3 and data[back - 1] == data[last - 1]:
            back -= 1
        if spaced and back > wall and data[back - 1] == SPACE:
            back -= 1
            spaced = False
        if not spaced and back > wall and data[back - 1] != 0x2A and _is_name(data, wall, back):
            return True
    spaced = end < stop and data[end] == SPACE
    after = end + 1 if spaced else end
    if after >= stop or (data[after] != 0x2A and data[after] != 0x5E):
        return False
    sign = data[after]
    while after < stop and after - end < 4 and data[after] == sign:
        after += 1
    if spaced and after < stop and data[after] == SPACE:
        after += 1
    return after < stop and (is_letter(data[after]) or data[after] == 0x28)


@helper
def _skip_back(data, wall, at):
    """Where white space before `at` starts."""
    first = at
    while at > wall and first - at < BESIDE and data[at - 1] <= SPACE:
        at -= 1
    return at


@helper
def _skip(data, at, stop):
    """Where white space from `at` on stops."""
    first = at
    while at < stop and at - first < BESIDE and data[at] <= SPACE:
        at += 1
    return at


@helper
def _is_opening(byte):
    return byte == 0x28 or byte == 0x5B or byte == 0x7B


@helper
def _is_closing(byte):
    return byte == 0x29 or byte == 0x5D or byte == 0x7D


@helper
def _counts(data, first, last, phone):
    """Whether the digits in data[first:last] are a number that may not be a card's, nor, where
    phones are asked for, a phone's.
    """
    size = last - first
    return size > 0 and not _is_card(data, first, last) and not (phone and size >= 7 and size <= 15)


@helper
def _item_before(data, wall, at, phone):
    """What stands before an item at `at`: 1 an opening bracket, 2 a comma and another item, 3 so
    with white space, 0 else.
    """
    back = _skip_back(data, wall, at)
    if back <= wall:
        return 0
    if _is_opening(data[back - 1]):
        return 1
    if data[back - 1] != COMMA:
        return 0
    last = back - 1
    first = last
    while first > wall and last - first < BESIDE and is_digit(data[first - 1]):
        first -= 1
    if not _counts(data, first, last, phone):
        return 0
    if first > wall and data[first - 1] == HYPHEN:
        first -= 1
    first = _skip_back(data, wall, first)
    if first <= wall or not (_is_opening(data[first - 1]) or data[first - 1] == COMMA):
        return 0
    return 3 if back < at else 2


@helper
def _item_after(data, end, stop, phone):
    """As `_item_before`, what stands behind an item: 1 a closing bracket. A number of three or four
    digits may be a card's code: 4.
    """
    at = _skip(data, end, stop)
    if at >= stop:
        return 0
    if _is_closing(data[at]):
        return 1
    if data[at] != COMMA:
        return 0
    first = _skip(data, at + 1, stop)
    spaced = first > at + 1
    if first < stop and data[first] == HYPHEN:
        first += 1
    last = first
    while last < stop and last - first < BESIDE and is_digit(data[last]):
        last += 1
    after = _skip(data, last, stop)
    if (
        after >= stop
        or not (data[after] == COMMA or _is_closing(data[after]))
        or not _counts(data, first, last, phone)
    ):
        return 0
    return 4 if last - first == 3 or last - first == 4 else (3 if spaced else 2)


@helper
def is_item(data, wall, at, end, stop, phone):
    """Whether what stands at data[at:end] is one of several numbers in brackets, or between commas
    with white space.
    """
    before = _item_before(data, wall, at, phone)
    after = _item_after(data, end, stop, phone)
    return (
        (before == 1 and (after == 2 or after == 3))
        or (before >= 2 and after == 1)
        or (before == 3 and after >= 3)
    )


@helper
def _four(data, at):
    """Four digits as a number; -1: they are others."""
    value = np.int64(0)
    for j in range(4):
        if not is_digit(data[at + j]):
            return np.int64(-1)
        value = value * 10 + np.int64(data[at + j] - ZERO)
    return value


@helper
def _is_row(data, wall, at, end, stop):
    """Whether four groups of four digits rise, and go on rising on either side."""
    if end - at != 19:
        return False
    for j in range(3):
        if _four(data, at + 5 * j) >= _four(data, at + 5 * j + 5):
            return False
    back = _skip_back(data, wall, at)
    if back < at and back - 4 >= wall and not (back - 5 >= wall and is_alnum(data[back - 5])):
        before = _four(data, back - 4)
        if before >= 0 and before < _four(data, at):
            return True
    after = _skip(data, end, stop)
    if after > end and after + 4 <= stop and not (after + 4 < stop and is_alnum(data[after + 4])):
        return _four(data, after) > _four(data, end - 4)
    return False


@helper
def _code_stop(data, start, end, stop):
    """Where the code stops that stands behind a card's number at data[start:end]; `end`: there is
    none.
    """
    if end + 1 >= stop:
        return end
    if data[end] == SPACE:
        first = end + 1
    elif data[end] >= 0x80 and beside(data, end, stop) == BLANK:
        first = end + (2 if data[end] == 0xC2 else 3)
    else:
        return end
    size = 4 if data[start] == 0x33 and (data[start + 1] == 0x34 or data[start + 1] == 0x37) else 3
    last = first
    while last < stop and last - first <= size and is_digit(data[last]):
        last += 1
    if last - first != size or joined_after(data, last, stop):
        return end
    # Others go on: a row of numbers, an amount, a time, a date.
    sign = last < stop and (data[last] == SPACE or (data[last] >= 0x2C and data[last] <= 0x3A))
    return end if sign and last + 1 < stop and is_digit(data[last + 1]) else last


@helper
def card_stop(data, wall, at, run, stop):
    """Where a card's number stops that starts with `run` digits in a row (20: so many or more); 0:
    there is none.
    """
    if at > wall:
        before = data[at - 1]
        if before == 0x2F or before == 0x3D or (before >= 0x23 and before <= 0x26):
            return np.int64(0)
    if run >= 12:
        end = at + run
        if run > 19 or joined_after(data, end, stop) or not _is_card(data, at, end):
            return np.int64(0)
        return (
            np.int64(0)
            if is_term(data, wall, at, end, stop) or is_item(data, wall, at, end, stop, False)
            else _code_stop(data, at, end, stop)
        )
    width = separator_width(data, at + 4, stop)
    if run != 4 or width == 0 or at + 4 + width >= stop or not is_digit(data[at + 4 + width]):
        return np.int64(0)
    for form in range(4):
        end = _grouped_stop(data, at, stop, form, width)
        if end > 0 and _is_card(data, at, end):
            if joined_after(data, end, stop) or _is_row(data, wall, at, end, stop):
                return np.int64(0)
            return _code_stop(data, at, end, stop)
    return np.int64(0)
