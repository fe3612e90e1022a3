"""Personal data in texts: where it stands, and the texts with something else in its place. What is
what: kernels/pii/numbers.py, cards.py, internet.py and mail.py.

    offsets, data -> find -> Spans: kind, start, stop, in order -> rewrite -> offsets, data

Addresses of e-mail are found first, from each `@`; numbers in what is left between, from the first
digit of each run (no public IPv6 address starts with a letter); where a phone number may be,
kernels/pii/phones.py tells in what is left then. Every search looks at 64 bytes together, and goes
on where what it found stops.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, INT32S, INT64S, OFFSETS, UINT64S, helper, kernel
from gristmill.kernels.jit.loads import (
    block_of,
    copy_tail,
    count_trailing_zeros,
    mask_of_range,
    valid_in,
)
from gristmill.kernels.pii.cards import card_stop
from gristmill.kernels.pii.email_addresses import RESERVED, address, datatrove_address, octet_stop
from gristmill.kernels.pii.ip_addresses import ipv4_stop, ipv6_stop, public_v4
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
from gristmill.kernels.unicode.tables import CLASS_INDEX, CLASS_PAGES

ONE = np.uint64(1)
KINDS = ("email", "phone", "ssn", "ip", "card", "iban", "name")  # a kind's number is its place
EMAIL = 0
EVERY = 8  # the bit of `wanted` that asks for addresses which are nobody's too

KINDS_OUT, PLACES = types.int8[::1], types.int32[::1]


class Spans(NamedTuple):
    """What was found in n texts, in order; positions are bytes of the texts' buffer."""

    offsets: np.ndarray  # (n + 1,) int64: text i has spans offsets[i] up to offsets[i + 1]
    kinds: np.ndarray  # (spans,) int8: places in KINDS
    starts: np.ndarray  # (spans,) int32
    stops: np.ndarray  # (spans,) int32


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
                return IP, at, end
        if (
            run == 3
            and after == HYPHEN
            and wanted & (1 << SSN)
            and not joined_before(data, wall, at)
        ):
            end = ssn_stop(data, at, stop)
            if end > 0:
                return SSN, at, end
        if wanted & (1 << CARD) and (run >= 12 or (run == 4 and after in (SPACE, HYPHEN))):
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
def _find_numbers(data, wall, stop, wanted, layouts, tail, kinds, starts, stops, count):
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
                kinds[count] = kind
                starts[count] = start
                stops[count] = end
                count += 1
                wall = end
        at += 64
    return count


@helper
def _find_addresses(
    data,
    begin,
    stop,
    theirs,
    every,
    domains,
    reserved,
    class_index,
    class_pages,
    tail,
    starts,
    stops,
):
    """Write the e-mail addresses in data[begin:stop]; how many there are."""
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
            if theirs:
                start, end = datatrove_address(
                    data, begin, wall, sign, stop, class_index, class_pages
                )
            else:
                start, end = address(data, wall, sign, stop, domains, reserved, every)
            if end > 0:
                starts[count] = start
                stops[count] = end
                count += 1
                wall = end
        at += 64
    return count


@kernel(
    OFFSETS,
    BYTES,
    types.int64,
    BYTES,
    UINT64S,
    UINT64S,
    types.uint8[::1],
    PLACES,
    PLACES,
    types.int64[::1],
    KINDS_OUT,
    PLACES,
    PLACES,
    BYTES,
    BYTES,
)
def _find(
    offsets,
    data,
    wanted,
    layouts,
    domains,
    reserved,
    tail,
    mail_starts,
    mail_stops,
    span_offsets,
    kinds,
    starts,
    stops,
    class_index,
    class_pages,
):
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        span_offsets[i] = count
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        mails = 0
        if wanted & (1 << EMAIL):
            mails = _find_addresses(
                data,
                begin,
                stop,
                False,
                wanted & (1 << EVERY) != 0,
                domains,
                reserved,
                class_index,
                class_pages,
                tail,
                mail_starts,
                mail_stops,
            )
        wall = begin
        for j in range(mails + 1):
            end = np.int64(mail_starts[j]) if j < mails else stop
            if wanted & ~(1 << EMAIL):
                count = _find_numbers(
                    data, wall, end, wanted, layouts, tail, kinds, starts, stops, count
                )
            if j < mails:
                kinds[count] = EMAIL
                starts[count] = end
                stops[count] = mail_stops[j]
                wall = np.int64(mail_stops[j])
                count += 1
    span_offsets[len(offsets) - 1] = count


def _room(offsets: np.ndarray) -> int:
    """No kind is shorter than five bytes (`a@b.c`); memory that is not written costs nothing."""
    return (int(offsets[-1]) - int(offsets[0])) // 5 + 1


def _spans(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    room = _room(offsets)
    return (
        np.empty(len(offsets), np.int64),
        np.empty(room, np.int8),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
    )


def find(
    offsets: np.ndarray,
    data: np.ndarray,
    kinds: frozenset[str],
    domains: np.ndarray,
    *,
    every: bool = False,
) -> Spans:
    """Find personal data in n texts in UTF-8, offsets (n + 1,) int32 into data (bytes,) uint8, by
    gristmill's rules.

    `domains`: kernels.pii.context_words.word_hashes of the top-level domains. `every`: whatever has
    the form of an address is one, reserved or not. Phone numbers are not found here.
    """
    wanted = sum(1 << KINDS.index(kind) for kind in kinds) | every << EVERY
    room = _room(offsets)
    spans = _spans(offsets)
    mails = np.empty(room, np.int32), np.empty(room, np.int32)
    tail = np.zeros(64, np.uint8)
    _find(
        offsets,
        data,
        wanted,
        LAYOUTS,
        domains,
        RESERVED,
        tail,
        *mails,
        *spans,
        CLASS_INDEX,
        CLASS_PAGES,
    )
    count = int(spans[0][-1])
    return Spans(spans[0], *(column[:count] for column in spans[1:]))


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


@kernel(
    OFFSETS,
    BYTES,
    types.int64,
    types.uint8[::1],
    PLACES,
    PLACES,
    types.int64[::1],
    KINDS_OUT,
    PLACES,
    PLACES,
    BYTES,
    BYTES,
    UINT64S,
)
def _find_as_datatrove(
    offsets,
    data,
    wanted,
    tail,
    mail_starts,
    mail_stops,
    span_offsets,
    kinds,
    starts,
    stops,
    class_index,
    class_pages,
    none,
):
    count = np.int64(0)
    for i in range(len(offsets) - 1):
        span_offsets[i] = count
        begin = np.int64(offsets[i])
        stop = np.int64(offsets[i + 1])
        mails = 0
        if wanted & (1 << EMAIL):
            mails = _find_addresses(
                data,
                begin,
                stop,
                True,
                False,
                none,
                none,
                class_index,
                class_pages,
                tail,
                mail_starts,
                mail_stops,
            )
        wall = begin
        for j in range(mails + 1):
            end = np.int64(mail_starts[j]) if j < mails else stop
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
                            kinds[count] = IP
                            starts[count] = first
                            stops[count] = last
                            count += 1
                at += 64
            if j < mails:
                kinds[count] = EMAIL
                starts[count] = end
                stops[count] = mail_stops[j]
                wall = np.int64(mail_stops[j])
                count += 1
    span_offsets[len(offsets) - 1] = count


def find_as_datatrove(offsets: np.ndarray, data: np.ndarray, kinds: frozenset[str]) -> Spans:
    """As `find`, of `email` and `ip`: what datatrove's PIIFormatter replaces (0.10.1,
    pipeline/formatters/pii.py).
    """
    wanted = sum(1 << KINDS.index(kind) for kind in kinds)
    room = _room(offsets)
    spans = _spans(offsets)
    mails = np.empty(room, np.int32), np.empty(room, np.int32)
    none = np.empty(0, np.uint64)
    _find_as_datatrove(
        offsets,
        data,
        wanted,
        np.zeros(64, np.uint8),
        *mails,
        *spans,
        CLASS_INDEX,
        CLASS_PAGES,
        none,
    )
    count = int(spans[0][-1])
    return Spans(spans[0], *(column[:count] for column in spans[1:]))


@kernel(
    OFFSETS,
    BYTES,
    INT64S,
    INT32S,
    INT32S,
    INT32S,
    INT32S,
    BYTES,
    types.uint8[::1],
    types.int32[::1],
)
def _rewrite(
    offsets, data, span_offsets, starts, stops, chosen, word_offsets, words, out, out_offsets
):
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        at = np.int64(offsets[i])
        for j in range(span_offsets[i], span_offsets[i + 1] + 1):
            stop = np.int64(starts[j]) if j < span_offsets[i + 1] else np.int64(offsets[i + 1])
            size = np.uint64(stop - at)
            source = np.uint64(at)
            target = np.uint64(end)
            for k in range(size):
                out[target + k] = data[source + k]
            end += stop - at
            if j < span_offsets[i + 1]:
                for k in range(word_offsets[chosen[j]], word_offsets[chosen[j] + 1]):
                    out[end] = words[k]
                    end += 1
                at = np.int64(stops[j])
    out_offsets[len(offsets) - 1] = end


def rewrite(
    offsets: np.ndarray, data: np.ndarray, spans: Spans, chosen: np.ndarray, words: list[bytes]
) -> tuple[np.ndarray, np.ndarray]:
    """N texts with words[chosen[i]] in place of span i: (offsets (n + 1,) int32, data (bytes,)
    uint8).

    Raises OverflowError where they are more than 2 GiB together.
    """
    word_offsets = np.cumsum([0, *map(len, words)], dtype=np.int32)
    grown = int(np.diff(word_offsets)[chosen].sum()) - int(
        (spans.stops - spans.starts).sum(dtype=np.int64)
    )
    size = int(offsets[-1]) - int(offsets[0]) + grown
    if size >= 1 << 31:
        raise OverflowError("the texts of a batch grow beyond 2 GiB")
    out, out_offsets = np.empty(size, np.uint8), np.empty(len(offsets), np.int32)
    put = np.frombuffer(b"".join(words), np.uint8)
    _rewrite(
        offsets,
        data,
        spans.offsets,
        spans.starts,
        spans.stops,
        chosen.astype(np.int32),
        word_offsets,
        put,
        out,
        out_offsets,
    )
    return out_offsets, out
