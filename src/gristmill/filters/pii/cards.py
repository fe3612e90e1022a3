"""Card numbers: 12 to 19 digits by Luhn (ISO/IEC 7812-1, annex B) that start and are as long as an
issuer's.

They stand in a row, or as on cards, in groups with single spaces, hyphens or dots, the same between
all; the code of a card, three digits or four of American Express, that follows behind a space
belongs to it. A number in a path, a query or an amount (`/ = & # % $` before it) is an identifier
of something else; one in a term (`4828147466240000*t`, `t + 4828147466240000`) or in a list of
numbers in brackets that are no cards (`(1, 6458161865649291, -53)`) is a number; four groups that
rise, in a row of groups that rises on, are of a table. Of white space and of the numbers beside it
32 characters are read at most.
"""

import re

from gristmill.filters.pii.alone import BLANKS, END, SEPARATOR

SHAPE = rf"[0-9]{{12}}|[0-9]{{4}}{SEPARATOR}[0-9]{{4}}"
_FORM = re.compile(
    rf"""
      [0-9]{{12,19}} (?![0-9])
    | [0-9]{{4}} ({SEPARATOR})
      (?: [0-9]{{4}} \1 [0-9]{{4}} \1 [0-9]{{4}} (?P<more> \1 [0-9]{{3}} )?
        | [0-9]{{6}} \1 [0-9]{{4}} (?P<fifth> [0-9] )? )
    """,
    re.VERBOSE,
)
# First digits and lengths, as the issuers publish them.
_ISSUED = re.compile(
    r"""
      4 (?: .{12} | .{15} | .{18} )                                               # Visa
    | (?: 5[1-5].. | 222[1-9] | 22[3-9]. | 2[3-6].. | 27[01]. | 2720 ) .{12}      # Mastercard
    | 3[47] .{13}                                                        # American Express
    | (?: 30[0-5]. | 3095 | 36.. | 3[89].. ) (?: .{10} | .{12,15} )               # Diners Club
    | (?: 352[89] | 35[3-8]. ) .{12,15} | (?: 2131 | 1800 ) .{11}                 # JCB
    | (?: 6011 | 64[4-9]. | 65.. | 62.. ) .{12,15}                       # Discover, UnionPay
    | 220[0-4] .{12,15}                                                           # Mir
    | (?: 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 676[1-3] ) .{8,15}            # Maestro
    """,
    re.VERBOSE,
)
_VALUES = bytes(range(10)).rjust(58, b"\0").ljust(256, b"\0")  # of a digit
_DOUBLES = bytes([0, 2, 4, 6, 8, 1, 3, 5, 7, 9]).rjust(58, b"\0").ljust(256, b"\0")
_OTHERS = frozenset("/=#$%&")
_END = re.compile(END)
_CODE = {size: re.compile(rf"[ {BLANKS}][0-9]{{{size}}}{END}(?![ ,-/:][0-9])") for size in (3, 4)}
_TERM_BEFORE = re.compile(
    r"[A-Za-z_)][A-Za-z0-9_*)]{0,15}(?<!\*)( ?)(?:\+{1,3}|\*{1,3}|\^{1,3})\1\Z"
)
_TERM_BEHIND = re.compile(r"(?:\*{1,4}|\^{1,4}| \*{1,3} ?| \^{1,3} ?)[A-Za-z(]")
_SPACE = r"[\0- ]{0,32}"
_ITEM_BEFORE = re.compile(
    rf"(?:(?P<edge>[(\[{{])|[(\[{{,]{_SPACE}-?(?P<number>[0-9]{{1,32}}),)(?P<space>{_SPACE})\Z"
)
_ITEM_BEHIND = re.compile(
    rf"{_SPACE}(?:(?P<edge>[)\]}}])|,(?P<space>{_SPACE})-?(?P<number>[0-9]{{1,32}}){_SPACE}[,)\]}}])"
)
_ROW_BEFORE = re.compile(r"(?<![A-Za-z0-9])([0-9]{4})[\0- ]{1,32}\Z")
_ROW_BEHIND = re.compile(r"[\0- ]{1,32}([0-9]{4})(?![A-Za-z0-9])")


def card(left: str, here: str) -> int:
    """Return the length of the card number that starts `here`; 0: there is none."""
    match = _FORM.match(here)
    if not match or left[-1:] in _OTHERS:
        return 0
    rest = match["more"] or match["fifth"] or ""
    for number in (match[0], match[0][: -len(rest)]):
        if is_card(number.replace(match[1] or " ", "")):
            return _whole(left, here, number)
    return 0


def _whole(left: str, here: str, number: str) -> int:
    """Return the length of a card's number and its code; 0: it goes on, or counts something."""
    end = len(number)
    if not _END.match(here, end):
        return 0
    behind = here[end:]
    if number.isdigit():
        if is_term(left, behind) or is_item(left, behind):
            return 0
    elif _is_row(left, number, behind):
        return 0
    code = _CODE[4 if number[:2] in ("34", "37") else 3].match(here, end)
    return code.end() if code else end


def is_card(digits: str) -> bool:
    """Return whether digits are a card's: issuer, length and Luhn."""
    return bool(_ISSUED.fullmatch(digits)) and _luhn(digits.encode()) == 0


def _luhn(digits: bytes) -> int:
    return (sum(digits[::-2].translate(_VALUES)) + sum(digits[-2::-2].translate(_DOUBLES))) % 10


def is_term(left: str, behind: str) -> bool:
    """Return whether what stands between is added to or multiplied by something that has a name."""
    return bool(_TERM_BEFORE.search(left) or _TERM_BEHIND.match(behind))


def is_item(left: str, behind: str, *, phone: bool = False) -> bool:
    """Return whether what stands between is one of several numbers in brackets, or between commas
    with white space, of which the next ones are no cards, nor as long as phones' where `phone`.
    """
    before, after = _ITEM_BEFORE.search(left), _ITEM_BEHIND.match(behind)
    if not before or not after or not (_counts(before, phone) and _counts(after, phone)):
        return False
    is_code = after["number"] is not None and len(after["number"]) in (3, 4)
    if before["edge"]:
        return not after["edge"] and not is_code
    return bool(after["edge"] or (before["space"] and (after["space"] or is_code)))


def _counts(side: re.Match[str], phone: bool) -> bool:
    number = side["number"]
    return number is None or not (is_card(number) or (phone and 7 <= len(number) <= 15))


def _is_row(left: str, number: str, behind: str) -> bool:
    """Return whether four groups of four digits rise, and go on rising on either side."""
    groups = re.split("[ .-]", number)
    if [len(group) for group in groups] != [4] * 4 or groups != sorted(set(groups)):
        return False
    before, after = _ROW_BEFORE.search(left), _ROW_BEHIND.match(behind)
    return bool((before and before[1] < groups[0]) or (after and after[1] > groups[3]))
