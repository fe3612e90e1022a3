"""Where a phone number may be: a `+` and digits, or any digits that a region's people would dial.
Which it is, a library says.

A candidate is at most 40 bytes and 15 digits (ITU-T E.164) in groups, between them one or two of
space, `.`, `-`, `/`, `(` and `)`, of other blanks and dashes, and of what is not seen
(numbers.beside); it has at least 7 digits. An extension, `x123`, belongs to it.

A `+` behind a letter, `_`, `)` or `]`, or behind another, belongs to a word or a term
(`1.0a+20210905`, `f(6)+98172489`). One behind a digit does, or behind a space and a digit where a
space follows it as well (`6.2+20210905`, `x[0] + 98172489`), unless the digit is of a number that
is found: the place where that digit stops is given with the candidate. With a space behind the `+`
the country's code stands alone, and groups with spaces or two more follow (`+ 49 30 901820`; not
`+ 11-636512`, a list's item, and not `+ 98172489*x`).

Without a `+`, a run without groups is a candidate only where it is asked for (`bare`) or a word
before it says that it is a phone's, and not as a term or one of a list of numbers
(kernels/pii/cards.py); where a digit stops before it in its line, with blanks or a sign of
arithmetic between, is given, and whether such a word stands there: one of PHONES, one of LABELS and
a colon, or one of CALLS and a word or a colon (`Tel. 1234`, `Mobile: 1234`, `call us on 1234`).
Words of FILLERS may stand between, four words and 48 bytes are read at most, and not beyond what
placeholders start and stop with.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int8s, Int32s, Int64s
from gristmill.kernels.jit.loads import (
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_range,
    valid_in,
)
from gristmill.kernels.pii.cards import is_item, is_term
from gristmill.kernels.pii.context_words import hash_of, known, word_hashes
from gristmill.kernels.pii.numbers import (
    APART,
    BLANK,
    COLON,
    DASH,
    WIDE_DIGIT,
    beside,
    is_digit,
    is_letter,
    joined_before,
    start_of,
)
from gristmill.kernels.pii.redact import PiiSpans

ONE = np.uint64(1)
FEWEST, MOST = 7, 15
WIDEST = 40
EXTENSION = 7  # digits
# What is asked for: numbers with a `+`; those dialled in a region as well; and those in one run.
PLUS, REGIONAL, BARE = 0, 1, 2
PHONES = word_hashes(
    """
    phone phones telephone telephones textphone tel tels telefon telefono telefone telefoon telefax
    telefonnummer telefoonnummer téléphone teléfono tél fax faks fon fone hotline helpline helpdesk
    whatsapp тел телефон факс
    """.encode().split()
)
LABELS = word_hashes(
    """
    mobile mobil mobiel mob móvil movil cell cellular celular cellulare handy gsm desk office ph
    kontakt contact моб
    """.encode().split()
)
CALLS = word_hashes(b"call dial ring text".split())
FILLERS = word_hashes(
    b"""
    me us him her them on at is toll free no nr number numbers nummer numero
    """.split()
)
REACH, WORDS, GAP = 48, 4, 8  # bytes, words, bytes between words


@helper
def _is_between(byte):
    return byte == 0x20 or byte == 0x28 or byte == 0x29 or (byte >= 0x2D and byte <= 0x2F)


@helper
def _candidate_stop(data, at, stop):
    """Where the digits that start at `at` and those in groups behind them stop; 0: they are too
    few.
    """
    digits = 0
    end = at
    first = at
    gap = 0
    while at < stop and at - first < WIDEST:
        if is_digit(data[at]):
            if digits == MOST:
                break
            digits += 1
            gap = 0
            at += 1
            end = at
        elif _is_between(data[at]) and gap < 2:
            gap += 1
            at += 1
        elif data[at] >= 0x80 and gap < 2:
            kind = beside(data, at, stop)
            if kind == APART or kind == WIDE_DIGIT:
                break
            gap += 1
            at += 2 if data[at] == 0xC2 else 3
        else:
            break
    if digits < FEWEST:
        return np.int64(0)
    if end < stop and data[end] | 0x20 == 0x78:
        more = end + 1
        while more < stop and more - end <= EXTENSION and is_digit(data[more]):
            more += 1
        if more > end + 1:
            return more
    return end


@helper
def _is_operand(byte):
    return is_digit(byte) or byte == 0x29 or byte == 0x5D or byte == 0x5F


@helper
def _plus_operand(data, wall, first, spaced):
    """Where the operand stops that a `+` at `first` follows; 0: none; -1: what stands there can be
    no number's end.
    """
    if first <= wall:
        return np.int64(0)
    before = data[first - 1]
    if is_letter(before) or before == 0x2B or before == 0x5F or before == 0x29 or before == 0x5D:
        return np.int64(-1)
    if is_digit(before):
        return first
    back = first
    while spaced and back > wall and first - back < 2 and data[back - 1] == 0x20:
        back -= 1
    return back if back < first and back > wall and _is_operand(data[back - 1]) else np.int64(0)


@helper
def _is_dashed(data, wall, first):
    """Whether a digit and a dash, one for numbers, stand before `first`."""
    if first <= wall or data[first - 1] < 0x80:
        return False
    begin = start_of(data, wall, first)
    return begin > wall and beside(data, begin, first) == DASH and is_digit(data[begin - 1])


@helper
def _operand(data, wall, first):
    """Where the digit stops that stands before `first`, white space or a sign of arithmetic
    between; 0: there is none.
    """
    back = first
    while back > wall and first - back < 3:
        byte = data[back - 1]
        sign = (
            byte == 0x2A
            or byte == 0x2B
            or byte == 0x2D
            or byte == 0x2F
            or byte == 0x25
            or byte == 0x26
            or byte == 0x5E
        )
        if byte >= 0x80:
            begin = start_of(data, wall, back)
            kind = beside(data, begin, back)
            if kind < BLANK or kind > DASH:
                break
            back = begin
            continue
        if byte != 0x20 and byte != 0x09 and not sign:
            break
        back -= 1
    return back if back < first and back > wall and _is_operand(data[back - 1]) else np.int64(0)


@helper
def _word_start(data, wall, end):
    """Where the word starts that stops at `end`: of letters, and of what is beyond ASCII, blanks
    aside.
    """
    back = end
    while back > wall and end - back < REACH:
        byte = data[back - 1]
        if byte == 0xA0 and back - 2 >= wall and data[back - 2] == 0xC2:
            break
        if not is_letter(byte) and byte < 0x80:
            break
        back -= 1
    return back


@helper
def is_called(data, wall, first):
    """Whether a word before `first` says that a phone's number follows."""
    back = first
    colon = False
    more = False  # words
    for _ in range(WORDS):
        end = back
        while back > wall and end - back < GAP:
            byte = data[back - 1]
            if byte == COLON:
                colon = True
            elif byte == 0xA0 and back - 2 >= wall and data[back - 2] == 0xC2:
                back -= 1
            elif (
                byte == 0x9A
                and back - 3 >= wall
                and data[back - 3] == 0xEF
                and data[back - 2] == 0xBC
            ):
                colon = True
                back -= 2
            elif byte > 0x20 and byte != 0x2E and byte != 0x28 and byte != 0x23 and byte != 0x2D:
                break
            back -= 1
        end = back
        back = _word_start(data, wall, end)
        if back == end or first - back > REACH:
            return False
        word = hash_of(data, back, end)
        if known(word, PHONES):
            return True
        if (colon and known(word, LABELS)) or ((colon or more) and known(word, CALLS)):
            return True
        if not known(word, FILLERS):
            return False
        more = True
    return False


@helper
def _groups(data, digit, last):
    """How many groups the digits in data[digit:last] stand in; of two, a hyphen or so between:
    one.
    """
    count = 1
    spaced = False
    for at in range(digit + 1, last):
        if is_digit(data[at]) and not is_digit(data[at - 1]):
            count += 1
            spaced = spaced or data[at - 1] == 0x20
    return count if count != 2 or spaced else 1


@helper
def _code_alone(data, digit, last):
    """Whether the first group is a country's code: three digits at most."""
    size = 0
    while digit + size < last and is_digit(data[digit + size]):
        size += 1
    return size <= 3


@helper
def _first(data, wall, digit, regional):
    """Where a candidate starts whose first digit is at `digit`."""
    first = digit
    if regional:
        if first > wall and data[first - 1] == 0x28:
            first -= 1
        if first > wall and data[first - 1] == 0x2B:
            first -= 1
        elif (
            first == digit
            and first - 2 >= wall
            and data[first - 1] == 0x20
            and data[first - 2] == 0x2B
        ):
            first -= 2
    return first


@helper
def _candidate(data, wall, first, digit, stop, asked):
    """Of a candidate at `first`: (where it stops, 0: it is none; the operand before it, 0: none;
    whether a word says that it is a phone's).
    """
    nothing = np.int64(0)
    called = False
    plus = data[first] == 0x2B
    spaced = plus and data[first + 1] == 0x20
    last = _candidate_stop(data, digit, stop)
    if last == 0 or (
        spaced and not (_code_alone(data, digit, last) and _groups(data, digit, last) > 1)
    ):
        return nothing, nothing, called
    if plus:
        operand = _plus_operand(data, wall, first, spaced)
    elif joined_before(data, wall, first) or _is_dashed(data, wall, first):
        return nothing, nothing, called
    else:
        operand = _operand(data, wall, first)
    if operand < 0:
        return nothing, nothing, called
    if not plus:
        called = is_called(data, wall, first)
        end = digit
        while end < last and is_digit(data[end]):
            end += 1
        one = end == last
        if one and asked < BARE and not called:
            return nothing, nothing, called
        if one and (
            is_item(data, wall, first, last, stop, True) or is_term(data, wall, first, last, stop)
        ):
            return nothing, nothing, called
    return last, operand, called


class Candidates(NamedTuple):
    """Where phone numbers may be in n texts; positions are bytes of the texts' buffer."""

    offsets: Int64s  # (n + 1,): text i has candidates offsets[i] up to offsets[i + 1], in order
    starts: Int32s
    stops: Int32s
    limits: Int32s  # where what no span covers stops
    operands: Int32s  # where the operand before stops; 0: there is none
    called: Int8s  # 1: a word before says that it is a phone's


@kernel(OFFSETS, BYTES, PiiSpans, types.int64, Bytes, Candidates)
def _candidates(offsets, data, spans, asked, tail, found):
    span_offsets, starts, stops = spans.offsets, spans.starts, spans.stops
    out_offsets, firsts, lasts, limits, operands, called = found
    count = np.int64(0)
    regional = asked >= REGIONAL
    for i in range(len(offsets) - 1):
        out_offsets[i] = count
        wall = np.int64(offsets[i])
        for j in range(span_offsets[i], span_offsets[i + 1] + 1):
            end = np.int64(starts[j]) if j < span_offsets[i + 1] else np.int64(offsets[i + 1])
            at = wall
            before = np.uint64(0)
            while at < end:
                if at + 64 > len(data):
                    copy_tail(data, at, end, tail)
                block = block_of(data, at, tail)
                if regional:
                    digits = mask_of_range(block, 0, 0x30, 9) & valid_in(at, end)
                    places = digits & ~((digits << ONE) | before)
                    before = digits >> np.uint64(63)
                else:
                    places = mask_of_range(block, 0, 0x2B, 0) & valid_in(at, end)
                while places:
                    digit = at + count_trailing_zeros(places)
                    places &= places - ONE
                    first = _first(data, wall, digit, regional)
                    if not regional:
                        digit += 1
                        if digit < end and (data[digit] == 0x28 or data[digit] == 0x20):
                            digit += 1
                    if digit >= end or not is_digit(data[digit]):
                        continue
                    last, operand, is_phone = _candidate(data, wall, first, digit, end, asked)
                    if regional and last == 0 and first == digit - 2 and data[digit - 1] == 0x20:
                        first = digit  # no number behind `+ `
                        last, operand, is_phone = _candidate(data, wall, first, digit, end, asked)
                    if last > 0:
                        firsts[count] = first
                        lasts[count] = last
                        limits[count] = end
                        operands[count] = operand
                        called[count] = is_phone
                        count += 1
                at += 64
            if j < span_offsets[i + 1]:
                wall = np.int64(stops[j])
    out_offsets[len(offsets) - 1] = count


def candidates(offsets: np.ndarray, data: np.ndarray, spans: PiiSpans, asked: int) -> Candidates:
    """Where a phone number may be in what `spans` leave of n texts: offsets (n + 1,) int32 into
    data (bytes,) uint8. `asked`: PLUS, REGIONAL or BARE.

    Candidates may overlap.
    """
    most = (int(offsets[-1]) - int(offsets[0])) // 2 + 1  # a digit and what is before the next
    found = Candidates(
        np.empty(len(offsets), np.int64),
        *(np.empty(most, kind) for kind in (*[np.int32] * 4, np.int8)),
    )
    _candidates(offsets, data, spans, asked, np.zeros(64, np.uint8), found)
    count = int(found.offsets[-1])
    return Candidates(found.offsets, *(column[:count] for column in found[1:]))
