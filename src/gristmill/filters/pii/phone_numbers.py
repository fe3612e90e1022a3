"""Phone numbers among candidates (kernels/pii/phones.py): what `phonenumbers` says is one.

A candidate is tried whole, then without its last group, and so on, at places where nothing goes on;
the first that is a number is taken, and what overlaps it is not. With a `+` it is one if it is
possible: a country's code, and as many digits as whole numbers have there. Without, it must be
valid in one of `regions` (an area and a range in use), or possible there if that is asked, and
stand in groups as dates, years, addresses and columns do not. What is only valid must have the
national prefix where the region writes one, and groups as the region writes them: no group is cut
(`360-90-90-140` is no American number), as libphonenumber's strict grouping has it. Elsewhere than
in North America people group as they like, with one sign between all groups. Two say more than
groups do: a word for phones before (`Tel.: 4505986`, kernels/pii/phones.py), and `00` or `011`,
a valid country's code and number behind it. What follows a digit that belongs to no number found is
one only if its groups say so, and not behind a `/`: the rest are terms, dates and rows of numbers.

An extension (`ext. 12`), and other last digits (`/ 0959`), belong to the number before them.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

REMEMBERED = 1 << 14  # numbers: pages of one site repeat theirs
_GROUP = re.compile(rb"[0-9]+(?:[xX][0-9]+)?")
# A word may follow, `-Fax`, and an IBAN not; nor what multiplies, nor the rest of a version,
# `+20151223~rc`.
_JOINED = re.compile(
    rb"[0-9A-Za-z_]|[-.](?:[0-9]|[A-Za-z]{2}[0-9]|git)|[*^+~][A-Za-z(]|[ ][*^][ ]?[A-Za-z(]"
    rb"|(?=[\xC2\xE2\xEF])(?:"
    rb"\xEF\xBC[\x90-\x99]"  # a digit in full width
    # a dash and a digit; what is not seen, and what goes on
    rb"|(?:\xE2\x80[\x90-\x93]|\xE2\x88\x92|\xEF\xBC\x8D)[0-9]"
    rb"|(?:\xC2\xAD|\xE2\x80[\x8B-\x8D]|\xE2\x81\xA0|\xEF\xBB\xBF)[0-9A-Za-z])"
)
_WORD = re.compile(rb"(?<=[0-9])[A-Z][a-z]{2}")  # glued to a number, as in texts of pages
# Other last digits, and an extension: nothing goes on behind them.
_TAIL = re.compile(
    rb"""
    (?: (?: [ ]?/[ ]?[0-9]{1,4} )+ (?! [0-9A-Za-z_] | [ ]?[-./:][ ]?[0-9] | [ ][0-9] ) )?
    (?: [,;]?[ ]? (?: ext (?:ension|n)? | x | \# | durchwahl | poste | ramal | anexo | interno )
        [.:=]{0,2}[ ]?[0-9]{1,7} (?:/[0-9]{1,7})* (?! [0-9A-Za-z_] | [-.:/][0-9] ) )?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST_TAIL = 64  # bytes
# As libphonenumber's patterns and those here have them.
_PLAIN = {
    **dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F], " "),
    **dict.fromkeys([0x2010, 0x2011, 0xFF0D], "-"),
    **dict.fromkeys([0x2012, 0x2013, 0x2212], "\u2013"),
    **dict.fromkeys([0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF]),
}
_ROW = re.compile(r"[0-9.]+(?: -?[0-9.]+)*(?:-[0-9]{1,3})?")  # of numbers
_LAST_DIGITS = re.compile(rb"/[0-9]{1,2}(?![0-9]|/[0-9])")
_RUN = re.compile(r"[0-9]+(?:x[0-9]+)?")
_CODE = re.compile(r"\+[ (]?([0-9]{1,3})")
_ABROAD = re.compile(r"\(?0(?:0|11)[ .-]?(?=[1-9(])")  # in place of a `+`
_SIGNS = re.compile(r"(?<=[0-9])[^0-9x]+(?=[0-9])")  # between groups
NORTH_AMERICA = 1  # the country's code
FEWEST = 7  # digits
SLASH = 0x2F
# What is no number without a `+`, and then with one.
_OTHER = re.compile(
    r"""
      [0-9]+ \.[0-9]+ (?:x[0-9]+)?                                      # a fraction
    | \+ [ (]? 1 [^0-9]{0,3} [01] .*                                     # no area starts so
    | \+ (?:19|20)[0-9]{2} (?:0[1-9]|1[0-2]) [0-3][0-9] (?:-[0-9]{1,2})? # a day's version
    | .*[ ][ ].*                                                        # columns of a table
    | \([^)]*
    | .*\.[ ].*                                                         # the end of a sentence
    | (?:19|20)[0-9]{2} - (?:19|20)[0-9]{2}                             # years
    | (?:.*[^0-9])? [0-9]{4}([-/.]) [0-9]{1,2}\1 [0-9]{1,2} (?![0-9]).*  # a date
    | (?:.*[^0-9])? [0-9]{1,2}([-/.]) [0-9]{1,2}\2 [0-9]{4} (?![0-9]).*
    | [0-9]{1,3} (?:\.[0-9]{1,3}){3} (?:/[0-9]+)?                       # an address of IPv4
    | \+[0-9]+\.[0-9]{1,2}
    """,
    re.DOTALL | re.VERBOSE,
)
# What is none without a `+` or a word for phones before it.
_ALONE = re.compile(
    r"""
      (?:[1-9][0-9]*|0+)[ ][0-9]+ (?:\.[0-9]+)?  # two numbers: a house's and a street's
    | [0-9]{5}-[0-9]{3,4}                        # a postal code
    | [0-9]+\u2013[0-9]+                         # from one number to another
    """,
    re.VERBOSE,
)


def judge(
    regions: Sequence[str], *, possible: bool = False, called: bool = False
) -> Callable[[str], bool]:
    """A function that says whether a string is a phone number; `possible`: without a `+`, too, the
    number of digits alone counts; `called`: a word before says that it is one.

    Raises ValueError for a region that is none.
    """
    import phonenumbers

    bare = phonenumbers.CountryCodeSource.FROM_NUMBER_WITHOUT_PLUS_SIGN

    for region in regions:
        if region not in phonenumbers.SUPPORTED_REGIONS:
            raise ValueError(
                f"no region {region!r}: phonenumbers knows ISO 3166's codes of two letters, "
                "such as US and GB"
            )

    def matches(text: str, region: str, leniency: int) -> bool:
        """Whether libphonenumber's matcher takes all of a string for one number."""
        matcher = phonenumbers.PhoneNumberMatcher(text, region, leniency, max_tries=1)
        return any(match.raw_string == text for match in matcher)

    def is_grouped(text: str, region: str) -> bool:
        if matches(text, region, phonenumbers.Leniency.STRICT_GROUPING):
            return True
        if phonenumbers.country_code_for_region(region) == NORTH_AMERICA:
            return False
        # The first sign stands behind the area's code, and may be another.
        signs = set(_SIGNS.findall(text)[1:])
        return len(signs) <= 1 and matches(text, region, phonenumbers.Leniency.VALID)

    codes = frozenset(map(str, phonenumbers.COUNTRY_CODE_TO_REGION_CODE))

    @lru_cache(REMEMBERED)
    def valid(text: str) -> bool:
        code = _CODE.match(text)
        if (
            (not called and not possible and _RUN.fullmatch(text))
            or (not called and _ALONE.fullmatch(text))
            or _OTHER.fullmatch(text)
            or (code and not any(code[1][:size] in codes for size in range(1, 4)))
        ):
            return False
        if code:
            return is_number(text, None)
        if (abroad := _ABROAD.match(text)) and is_valid(f"+{text[abroad.end() :]}"):
            return True
        return any(is_number(text, region) for region in regions)

    def is_valid(text: str) -> bool:
        try:
            return bool(phonenumbers.is_valid_number(phonenumbers.parse(text)))
        except phonenumbers.NumberParseException:
            return False

    def is_number(text: str, region: str | None) -> bool:
        try:
            number = phonenumbers.parse(text, region, keep_raw_input=True)
        except phonenumbers.NumberParseException:
            return False
        if region and not possible:
            return phonenumbers.is_valid_number(number) and (
                called
                or (
                    is_grouped(text, region)
                    and (number.country_code == NORTH_AMERICA or number.country_code_source != bare)
                )
            )
        # Not as within one town: with a country's code nobody leaves out the area's.
        return bool(
            phonenumbers.is_possible_number_with_reason(number)
            == phonenumbers.ValidationResult.IS_POSSIBLE
        )

    return valid


def pick(
    data: np.ndarray,
    firsts: np.ndarray,
    lasts: np.ndarray,
    limits: np.ndarray,
    operands: np.ndarray,
    called: np.ndarray,
    valid: Callable[[str], bool],
    valid_if_called: Callable[[str], bool],
) -> tuple[np.ndarray, np.ndarray]:
    """Of candidates in data (bytes,) uint8 (kernels.pii.phones.candidates) those that are numbers:
    starts and stops (numbers,) int32.
    """
    starts: list[int] = []
    stops: list[int] = []
    end = skip = 0
    view = data.data
    columns = [column.tolist() for column in (firsts, lasts, limits, operands, called)]
    for first, last, limit, operand, is_called in zip(*columns, strict=True):
        if first < skip:
            continue
        counted = operand > 0 and operand != end  # behind a digit of something else
        text = view[first : min(last + 4, limit)].tobytes()  # and what follows
        if counted and (text[:1] == b"+" or view[first - 1] == SLASH):
            continue
        size, skipped = _longest(text, last - first, valid_if_called if is_called else valid)
        if skipped:
            skip = first + skipped
        if size and not (counted and _ROW.fullmatch(_plain(text[:size]))):
            end = first + size
            tail = _TAIL.match(view[end : min(end + _LONGEST_TAIL, limit)].tobytes())
            end += len(tail[0]) if tail else 0
            starts.append(first)
            stops.append(end)
            skip = end
    return np.array(starts, np.int32), np.array(stops, np.int32)


def _plain(text: bytes) -> str:
    """A candidate with the separators of ASCII."""
    decoded = text.decode()
    return decoded if decoded.isascii() else decoded.translate(_PLAIN)


def _longest(text: bytes, size: int, valid: Callable[[str], bool]) -> tuple[int, int]:
    """The bytes of the number at the start of a candidate of this many bytes, 0: there is none;
    and of a number there that is none since it goes on.
    """
    ends, joined, digits = [], [], 0
    slashed = b"/" in text
    for group in _GROUP.finditer(text, 0, size):
        first, end = group.span()
        digits += end - first
        if digits >= FEWEST:
            goes_on = _JOINED.match(text, end) or (slashed and _is_path(text, end))
            if goes_on and not (first > 2 and _WORD.match(text, end)):  # not in the first group
                joined.append(end)
            else:
                ends.append(end)
    plus = text[:1] == b"+"
    if not ends and not plus:
        return 0, 0
    plain = text[:size].decode()
    is_plain = plain.isascii()
    least = 0
    for end in reversed(ends):
        if valid(plain[:end] if is_plain else _plain(text[:end])):
            least = end
            break
    if least or plus:
        for end in reversed(joined):
            if end > least and valid(plain[:end] if is_plain else _plain(text[:end])):
                return 0, end
    return least, 0


def _is_path(text: bytes, end: int) -> bool:
    """Whether digits with a `/` between go on behind `end`."""
    if text[end : end + 1] != b"/" or not text[end + 1 : end + 2].isdigit():
        return False
    slashes = text.count(b"/", 0, end)
    return slashes > 1 or (slashes == 1 and not _LAST_DIGITS.match(text, end))
