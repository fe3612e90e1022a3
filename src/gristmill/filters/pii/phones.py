"""Where a phone number may be: a `+` and digits, or any digits that a region's people would dial.
Which it is, a library says (phone_numbers.py).

A candidate is at most 40 bytes and 15 digits (ITU-T E.164) in groups, between them one or two of
space, `.`, `-`, `/`, `(` and `)`, of other blanks and dashes, and of what is not seen; it has at
least 7 digits. An extension, `x123`, belongs to it.

A `+` behind a letter, `_`, `)` or `]`, or behind another, belongs to a word or a term
(`1.0a+20210905`, `f(6)+98172489`). One behind a digit does, or behind a space and a digit where a
space follows it as well (`6.2+20210905`, `x[0] + 98172489`), unless the digit is of a number that
is found: the place where that digit stops is given with the candidate. With a space behind the `+`
the country's code stands alone, and groups with spaces or two more follow (`+ 49 30 901820`; not
`+ 11-636512`, a list's item, and not `+ 98172489*x`).

Without a `+`, a run without groups is a candidate only where it is asked for (`bare`) or a word
before it says that it is a phone's, and not as a term or one of a list of numbers (cards.py);
where a digit stops before it in its line, with blanks or a sign of arithmetic between, is given,
and whether such a word stands there: one of PHONES, one of LABELS and a colon, or one of CALLS and
a word or a colon (`Tel. 1234`, `Mobile: 1234`, `call us on 1234`). Words of FILLERS may stand
between, four words and 48 bytes are read at most, and not beyond what placeholders start and stop
with.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gristmill.filters.pii.alone import BEGIN, BLANKS, DASHES, HIDDEN, HYPHENS, LEFT, RIGHT
from gristmill.filters.pii.cards import is_item, is_term

# What is asked for: numbers with a `+`; those dialled in a region as well; and those in one run.
PLUS, REGIONAL, BARE = 0, 1, 2
_BETWEEN = f"[ ()./{HIDDEN}{BLANKS}{HYPHENS}{DASHES}-]"  # groups, one or two
_MORE = f"(?:{_BETWEEN}{{0,2}}[0-9]){{6}}"  # digits
SHAPES = {PLUS: r"\+[ (]?[0-9]", REGIONAL: f"[0-9]{_MORE}", BARE: f"[0-9]{_MORE}"}
PHONES = frozenset(
    """
    phone phones telephone telephones textphone tel tels telefon telefono telefone telefoon telefax
    telefonnummer telefoonnummer téléphone teléfono tél fax faks fon fone hotline helpline helpdesk
    whatsapp тел телефон факс
    """.encode().split()
)
LABELS = frozenset(
    """
    mobile mobil mobiel mob móvil movil cell cellular celular cellulare handy gsm desk office ph
    kontakt contact моб
    """.encode().split()
)
CALLS = frozenset(b"call dial ring text".split())
FILLERS = frozenset(
    b"me us him her them on at is toll free no nr number numbers nummer numero".split()
)
WIDEST, REACH, WORDS, GAP = 40, 48, 4, 8  # bytes, bytes, words, bytes between words
_PLUS_FIRST = re.compile(rf"\+[ (]?[0-9](?={_MORE})")
_FIRST = re.compile(rf"[0-9](?<![0-9].)(?={_MORE})", re.DOTALL)
_PREFIX = re.compile(r"(?:\+ |\+?\(?)\Z")
_GROUPS = re.compile(f"[0-9](?:{_BETWEEN}{{0,2}}[0-9]){{6,14}}")
_EXTENSION = re.compile("(?:[xX][0-9]{1,7})?")
_BEGIN = re.compile(f"{BEGIN}(?<![0-9][{DASHES}])")
_NO_PLUS = re.compile(r"[A-Za-z+_)\]]\Z")
_SPACED_OPERAND = re.compile(r"(?<=[0-9)\]_]) {1,2}\Z")
_OPERAND = re.compile(rf"(?<=[0-9)\]_])[ \t*+/%&^{BLANKS}{HYPHENS}{DASHES}-]{{1,3}}\Z")
_CONTEXT = re.compile(  # backwards
    "([\0- .(#:\u00a0：-]{0,8}+)([A-Za-z\x80-\x9f\xa1-\U0010ffff]+)"
)


class Candidate(NamedTuple):
    """Where a number may be; places are characters of what no other find covers."""

    start: int
    stop: int
    operand: int  # where the operand before it stops; 0: there is none
    called: bool  # whether a word before says that it is a phone's


def candidates(gap: str, asked: int) -> Iterator[Candidate]:
    """Yield where a phone number may be in what no other find covers; they may overlap.

    `asked`: PLUS, REGIONAL or BARE.
    """
    for match in (_FIRST if asked >= REGIONAL else _PLUS_FIRST).finditer(gap):
        first, digit = match.start(), match.end() - 1
        if asked >= REGIONAL:
            first -= len(_PREFIX.search(gap[max(0, digit - 2) : digit])[0])  # type: ignore[index]
        candidate = _candidate(gap, first, digit, asked)
        if candidate is None and asked >= REGIONAL and gap[first:digit] == "+ ":
            candidate = _candidate(gap, digit, digit, asked)
        if candidate:
            yield candidate


def _candidate(gap: str, first: int, digit: int, asked: int) -> Candidate | None:
    """Return the candidate at `first` whose first digit is at `digit`, if it is one."""
    plus = gap[first] == "+"
    stop = _stop(gap, digit) if plus or _BEGIN.match(gap, first) else 0
    if not stop:
        return None
    left, number = gap[max(0, first - LEFT) : first], gap[digit:stop]
    if plus:
        spaced = gap[first + 1] == " "
        if _NO_PLUS.search(left) or (spaced and not _has_code(number)):
            return None
        return Candidate(first, stop, _before_plus(left, first, spaced), False)
    called = is_called(left)
    if number.isdecimal():
        behind = gap[stop : stop + RIGHT]
        if not called and asked < BARE:
            return None
        if is_item(left, behind, phone=True) or is_term(left, behind):
            return None
    return Candidate(first, stop, _operand(left, first), called)


def _stop(gap: str, digit: int) -> int:
    """Return where the groups that start with the digit at `digit` stop; 0: they are too short."""
    window = gap[digit : digit + WIDEST]
    if not window.isascii():
        window = window.encode()[:WIDEST].decode("utf-8", "ignore")
    groups = _GROUPS.match(window)
    return _EXTENSION.match(gap, digit + groups.end()).end() if groups else 0  # type: ignore[union-attr]


def _has_code(number: str) -> bool:
    """Return whether a country's code stands alone, and groups with spaces or two more follow."""
    groups = re.findall("[0-9]+", number)
    return len(groups[0]) <= 3 and (
        len(groups) > 2 or (len(groups) == 2 and re.search(" [0-9]", number) is not None)
    )


def _before_plus(left: str, first: int, spaced: bool) -> int:
    """Return where the operand stops that a `+` at `first` follows; 0: there is none."""
    if "0" <= left[-1:] <= "9":
        return first
    spaces = _SPACED_OPERAND.search(left) if spaced else None
    return first - len(spaces[0]) if spaces else 0


def _operand(left: str, first: int) -> int:
    """Return where the digit stops that stands before `first`, white space or a sign of arithmetic
    between, of three bytes at most but for the first; 0: there is none.
    """
    signs = _OPERAND.search(left[-4:])
    return first - len(signs[0]) if signs and len(signs[0][1:].encode()) < 3 else 0


def is_called(left: str) -> bool:
    """Return whether a word before says that a phone's number follows."""
    back = left[::-1]
    colon, place = False, 0
    for count in range(WORDS):
        match = _CONTEXT.match(back, place)
        if not match or len(match[1][:-1].encode()) >= GAP:
            return False
        place = match.end()
        if len(back[:place].encode()) > REACH:
            return False
        colon = colon or ":" in match[1] or "：" in match[1]
        name = match[2][::-1].encode().lower()
        if name in PHONES or (colon and name in LABELS):
            return True
        if name in CALLS and (colon or count):
            return True
        if name not in FILLERS:
            return False
    return False
