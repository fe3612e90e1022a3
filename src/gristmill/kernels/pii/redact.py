"""Personal data in texts: where it is. By which rules: numbers.py, cards.py, ip_addresses.py and
email_addresses.py in this room.

    offsets, data -> find -> Spans: kind, start, stop, in order -> rewrite.py -> offsets, data

E-mail addresses are found first, from each `@`; then numbers in the text between them, from the
first digit of each run (no public IPv6 address starts with a letter); then phones.py looks for
phone numbers in the rest. Every search looks at 64 bytes together, and goes on behind what it
found.
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
from gristmill.kernels.pii.cards import card_stop
from gristmill.kernels.pii.email_addresses import (
    RESERVED,
    KnownDomains,
    address,
    datatrove_address,
    domain,
    octet_stop,
)
from gristmill.kernels.pii.ip_addresses import carrier_start, ipv4_stop, ipv6_stop, public_v4
from gristmill.kernels.pii.numbers import (
    CARD,
    COLON,
    DOT,
    HYPHEN,
    IBAN,
    IP,
    LAYOUTS,
    SPACE,
    SSN,
    ZERO,
    iban_stop,
    is_digit,
    is_letter,
    joined_before,
    ssn_stop,
)
from gristmill.kernels.unicode.tables import CLASSES, PointBits

ONE = np.uint64(1)
KINDS = ("email", "phone", "ssn", "ip", "card", "iban", "name")  # a kind's number is its place
EMAIL = 0
EVERY = 8  # the bit of `wanted` that asks for addresses which are nobody's too
PUBLIC_ADDRESSES, ALL_ADDRESSES, AS_DATATROVE = 0, 1, 2

NOTHING = np.empty(0, np.uint64)


class PiiSpans(NamedTuple):
    """What was found in n texts, in order; positions are bytes of the texts' buffer."""

    offsets: Int64s  # (n + 1,): text i has spans offsets[i] up to offsets[i + 1]
    kinds: Int8s  # (spans,): places in KINDS
    starts: Int32s  # (spans,)
    stops: Int32s  # (spans,)


class _Addresses(NamedTuple):
    """Where the e-mail addresses of one text stand; used again for the next."""

    starts: Int32s
    stops: Int32s


@helper
def _is_year(data, at):
    """Whether digits at `at` start as a year does: 19 or 20."""
    return (data[at] == 0x31 and data[at + 1] == 0x39) or (
        data[at] == 0x32 and data[at + 1] == ZERO
    )


@helper
def _number(data, wall, at, stop, wanted, layouts):
    """What starts with the run of digits at `at`: (its kind, -1: nothing; start; stop)."""
    run = 1
    while run < 20 and at + run < stop and is_digit(data[at + run]):
        run += 1
    if (
        run >= 2
        and wanted & (1 << IBAN)
        and at - 2 >= wall
        and is_letter(data[at - 1])
        and is_letter(data[at - 2])
    ):
        if not joined_before(data, wall, at - 2):
            end = iban_stop(data, at - 2, stop, layouts)
            if end > 0:
                return IBAN, at - 2, end
    if at + run < stop or run >= 12:
        after = data[at + run] if at + run < stop else SPACE
        if run <= 3 and after == DOT and wanted & (1 << IP) and not joined_before(data, wall, at):
            end = ipv4_stop(data, wall, at, stop, wanted & (1 << EVERY) != 0)
            if end > 0:
                return IP, carrier_start(data, wall, at), end
        if (
            run == 3
            and after == HYPHEN
            and wanted & (1 << SSN)
            and not joined_before(data, wall, at)
        ):
            end = ssn_stop(data, at, stop)
            if end > 0:
                return SSN, at, end
        # Behind years a dot and what is beyond ASCII are common; no issuer has them.
        grouped = run == 4 and (
            after in (SPACE, HYPHEN) or ((after == DOT or after >= 0x80) and not _is_year(data, at))
        )
        if wanted & (1 << CARD) and (run >= 12 or grouped):
            if not joined_before(data, wall, at):
                end = card_stop(data, wall, at, run, stop)
                if end > 0:
                    return CARD, at, end
    # 2000::/3: the first group has four digits, and starts with a 2 or a 3.
    if (
        run <= 4
        and at + 4 < stop
        and data[at + 4] == COLON
        and data[at] & 0xFE == 0x32
        and wanted & (1 << IP)
    ):
        if not joined_before(data, wall, at):
            end = ipv6_stop(data, wall, at, stop, wanted & (1 << EVERY) != 0)
            if end > 0:
                return IP, at, end
    return -1, at, np.int64(0)


@helper
def _add(spans, count, kind, start, stop):
    """Write a span after `count` others; how many there are then."""
    spans.kinds[count] = kind
    spans.starts[count] = start
    spans.stops[count] = stop
    return count + 1


@helper
def _find_numbers(data, wall, stop, wanted, layouts, tail, spans, count):
    """Write the numbers in data[wall:stop] after `count` spans; how many spans there are then."""
    at = wall
    before = np.uint64(0)
    while at < stop:
        if at + 64 > len(data):
            copy_tail(data, at, stop, tail)
        block = block_of(data, at, tail)
        digits = mask_of_range(block, 0, 0x30, 9) & valid_in(at, stop)
        firsts = digits & ~((digits << ONE) | before)
        before = digits >> np.uint64(63)
        while firsts:
            first = at + count_trailing_zeros(firsts)
            firsts &= firsts - ONE
            if first < wall:
                continue
            kind, start, end = _number(data, wall, first, stop, wanted, layouts)
            if kind >= 0:
                count = _add(spans, count, kind, start, end)
                wall = end
        at += 64
    return count


@helper
def _find_addresses(data, begin, stop, every, domains, classes, tail, found):
    """Write the e-mail addresses in data[begin:stop]; how many there are.

    `every`: ALL_ADDRESSES, PUBLIC_ADDRESSES (without those that are nobody's), or AS_DATATROVE.
    """
    count = 0
    wall = begin
    at = begin
    while at < stop:
        if at + 64 > len(data):
            copy_tail(data, at, stop, tail)
        signs = mask_of_range(block_of(data, at, tail), 0, 0x40, 0) & valid_in(at, stop)
        while signs:
            sign = at + count_trailing_zeros(signs)
            signs &= signs - ONE
            if sign < wall:
                continue
            if sign == wall and count > 0 and every != AS_DATATROVE:
                end, _ = domain(data, sign + 1, stop, domains, classes)
                if end > 0:  # `pat@host@host`
                    found.stops[count - 1] = end
                    wall = end
                continue
            if every == AS_DATATROVE:
                start, end = datatrove_address(data, begin, wall, sign, stop, classes)
            else:
                start, end = address(
                    data, wall, sign, stop, domains, classes, every == ALL_ADDRESSES
                )
            if end > 0:
                found.starts[count] = start
                found.stops[count] = end
                count += 1
                wall = end
        at += 64
    return count


@kernel(
    *(OFFSETS, BYTES, types.int64, Bytes, KnownDomains), *(PointBits, Bytes, _Addresses, PiiSpans)
)
def _find(offsets, data, wanted, layouts, domains, classes, tail, mails_found, spans):
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        spans.offsets[i] = count
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        mails = 0
        if wanted & (1 << EMAIL):
            every = ALL_ADDRESSES if wanted & (1 << EVERY) else PUBLIC_ADDRESSES
            mails = _find_addresses(data, begin, stop, every, domains, classes, tail, mails_found)
        wall = begin
        for j in range(mails + 1):
            end = np.int64(mails_found.starts[j]) if j < mails else stop
            if wanted & ~(1 << EMAIL):
                count = _find_numbers(data, wall, end, wanted, layouts, tail, spans, count)
            if j < mails:
                wall = np.int64(mails_found.stops[j])
                count = _add(spans, count, EMAIL, end, wall)
    spans.offsets[len(offsets) - 1] = count


def _room(offsets: np.ndarray) -> tuple[_Addresses, PiiSpans]:
    """Room for all addresses and spans of n texts.

    No kind is shorter than five bytes (`a@b.c`); memory that is not written costs nothing.
    """
    most = (int(offsets[-1]) - int(offsets[0])) // 5 + 1
    mails = _Addresses(np.empty(most, np.int32), np.empty(most, np.int32))
    return mails, PiiSpans(
        np.empty(len(offsets), np.int64),
        np.empty(most, np.int8),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
    )


def _written(spans: PiiSpans) -> PiiSpans:
    count = int(spans.offsets[-1])
    return PiiSpans(spans.offsets, *(column[:count] for column in spans[1:]))


def find(
    offsets: np.ndarray,
    data: np.ndarray,
    kinds: frozenset[str],
    domains: np.ndarray,
    *,
    every: bool = False,
) -> PiiSpans:
    """Find personal data in n texts in UTF-8, offsets (n + 1,) int32 into data (bytes,) uint8, by
    gristmill's rules.

    `domains`: kernels.pii.context_words.word_hashes of the top-level domains. `every`: whatever has
    the form of an address is one, reserved or not. Phone numbers are not found here.
    """
    wanted = sum(1 << KINDS.index(kind) for kind in kinds) | every << EVERY
    mails, spans = _room(offsets)
    labels = KnownDomains(domains, RESERVED)
    _find(offsets, data, wanted, LAYOUTS, labels, CLASSES, np.zeros(64, np.uint8), mails, spans)
    return _written(spans)


@helper
def _their_address_stop(data, at, stop):
    """Where four octets that start at `at` stop as datatrove's pattern has them, and whether they
    are public; 0: there are none.
    """
    value = np.int64(0)
    plain = True
    for part in range(4):
        if part < 3:
            end = octet_stop(data, at, stop)
            if end == 0 or end >= stop or data[end] != DOT:
                return np.int64(0), False
        else:  # the last takes as many digits as it can
            end = at
            while end < stop and end - at < 3 and is_digit(data[end]):
                end += 1
            if end == at:
                return np.int64(0), False
            if end - at == 3 and octet_stop(data, at, end) == 0:
                end -= 1
        octet = np.int64(0)
        for j in range(at, end):
            octet = octet * 10 + np.int64(data[j] - ZERO)
        plain = plain and (
            end - at == 1 or data[at] != ZERO
        )  # what leads with a zero is no address to ipaddress
        value = (value << 8) | octet
        at = end + 1
    return at - 1, plain and public_v4(value, False)


@kernel(*(OFFSETS, BYTES, types.int64, KnownDomains, PointBits, Bytes, _Addresses, PiiSpans))
def _find_as_datatrove(offsets, data, wanted, domains, classes, tail, mails_found, spans):
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        spans.offsets[i] = count
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        mails = 0
        if wanted & (1 << EMAIL):
            mails = _find_addresses(
                data, begin, stop, AS_DATATROVE, domains, classes, tail, mails_found
            )
        wall = begin
        for j in range(mails + 1):
            end = np.int64(mails_found.starts[j]) if j < mails else stop
            at = wall
            while at < end and wanted & (1 << IP):
                if at + 64 > len(data):
                    copy_tail(data, at, end, tail)
                dots = mask_of_range(block_of(data, at, tail), 0, 0x2E, 0) & valid_in(at, end)
                while dots:
                    dot = at + count_trailing_zeros(dots)
                    dots &= dots - ONE
                    if dot <= wall or not is_digit(data[dot - 1]):
                        continue
                    # The first octet: as many of the digits before the dot as make one.
                    first = dot
                    while first > wall and dot - first < 3 and is_digit(data[first - 1]):
                        first -= 1
                    if octet_stop(data, first, dot) == 0:
                        first += 1
                    last, public = _their_address_stop(data, first, end)
                    if last > 0:
                        wall = last
                        if public:
                            count = _add(spans, count, IP, first, last)
                at += 64
            if j < mails:
                wall = np.int64(mails_found.stops[j])
                count = _add(spans, count, EMAIL, end, wall)
    spans.offsets[len(offsets) - 1] = count


def find_as_datatrove(offsets: np.ndarray, data: np.ndarray, kinds: frozenset[str]) -> PiiSpans:
    """As `find`, of `email` and `ip`: what datatrove's PIIFormatter replaces (0.10.1,
    pipeline/formatters/pii.py).
    """
    wanted = sum(1 << KINDS.index(kind) for kind in kinds)
    mails, spans = _room(offsets)
    tail, labels = np.zeros(64, np.uint8), KnownDomains(NOTHING, NOTHING)
    _find_as_datatrove(offsets, data, wanted, labels, CLASSES, tail, mails, spans)
    return _written(spans)
