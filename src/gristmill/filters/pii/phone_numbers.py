"""Phone numbers among candidates (phones.py): what `phonenumbers` says is one.

A candidate is tried whole, then without its last group, and so on, at places where nothing goes on;
the first that is a number is taken, and what overlaps it is not. With a `+` it is one if it is
possible: a country's code, and as many digits as whole numbers have there. Without, it must be
valid in one of `regions` (an area and a range in use), or possible there if that is asked, and
stand in groups as dates, years, addresses and columns do not. What is only valid must have the
national prefix where the region writes one, and groups as the region writes them: no group is cut
(`360-90-90-140` is no American number), as libphonenumber's strict grouping has it. Elsewhere than
in North America people group as they like, with one sign between all groups. Two say more than
groups do: a word for phones before (`Tel.: 4505986`, phones.py), and `00` or `011`,
a valid country's code and number behind it. What follows a digit that belongs to no number found is
one only if its groups say so, and not behind a `/`: the rest are terms, dates and rows of numbers.

An extension (`ext. 12`), and other last digits (`/ 0959`), belong to the number before them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from gristmill.filters.pii import phones
from gristmill.filters.pii.alone import HIDDEN, HYPHENS, WIDE_DIGITS

REMEMBERED = 1 << 14  # numbers: pages of one site repeat theirs
_GROUP = re.compile("[0-9]+(?:[xX][0-9]+)?")
# A word may follow, `-Fax`, and an IBAN not; nor what multiplies, nor the rest of a version,
# `+20151223~rc`; nor a digit in full width, a dash and a digit, or what is not seen, and what goes
# on.
_JOINED = re.compile(
    r"[0-9A-Za-z_]|[-.](?:[0-9]|[A-Za-z]{2}[0-9]|git)|[*^+~][A-Za-z(]|[ ][*^][ ]?[A-Za-z(]"
    rf"|[{WIDE_DIGITS}]|[{HYPHENS}\u2012\u2013\u2212][0-9]|[{HIDDEN}][0-9A-Za-z]"
)
_WORD = re.compile(r"(?<=[0-9])[A-Z][a-z]{2}")  # glued to a number, as in texts of pages
# Other last digits, and an extension: nothing goes on behind them.
_TAIL = re.compile(
    r"""
    (?: (?: [ ]?/[ ]?[0-9]{1,4} )+ (?! [0-9A-Za-z_] | [ ]?[-./:][ ]?[0-9] | [ ][0-9] ) )?
    (?: [,;]?[ ]? (?: ext (?:ension|n)? | x | \# | durchwahl | poste | ramal | anexo | interno )
        [.:=]{0,2}[ ]?[0-9]{1,7} (?:/[0-9]{1,7})* (?! [0-9A-Za-z_] | [-.:/][0-9] ) )?
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_LONGEST_TAIL = 64  # characters
# As libphonenumber's patterns and those here have them.
_PLAIN = {
    **dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F], " "),
    **dict.fromkeys([0x2010, 0x2011, 0xFF0D], "-"),
    **dict.fromkeys([0x2012, 0x2013, 0x2212], "\u2013"),
    **dict.fromkeys([0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF]),
}
_ROW = re.compile(r"[0-9.]+(?: -?[0-9.]+)*(?:-[0-9]{1,3})?")  # of numbers
_LAST_DIGITS = re.compile(r"/[0-9]{1,2}(?![0-9]|/[0-9])")
_RUN = re.compile(r"[0-9]+(?:x[0-9]+)?")
_CODE = re.compile(r"\+[ (]?([0-9]{1,3})")
_ABROAD = re.compile(r"\(?0(?:0|11)[ .-]?(?=[1-9(])")  # in place of a `+`
_SIGNS = re.compile(r"(?<=[0-9])[^0-9x]+(?=[0-9])")  # between groups
NORTH_AMERICA = 1  # the country's code
FEWEST = 7  # digits
FOLLOWS = 4  # characters behind a candidate that decide whether it goes on
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
    """Return a function that says whether a string is a phone number; `possible`: without a `+`,
    too, the number of digits alone counts; `called`: a word before says that it is one.

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
        """Return whether libphonenumber's matcher takes all of a string for one number."""
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


def find(
    gap: str, asked: int, valid: Callable[[str], bool], valid_if_called: Callable[[str], bool]
) -> Iterator[tuple[int, int]]:
    """Yield where a number starts and stops in what no other find covers, by `judge` without a word
    before and with one; `asked` as for `phones.candidates`.
    """
    end = skip = 0
    for start, stop, operand, called in phones.candidates(gap, asked):
        if start < skip:
            continue
        counted = operand > 0 and operand != end  # behind a digit of something else
        if counted and (gap[start] == "+" or gap[start - 1] == "/"):
            continue
        text = gap[start : stop + FOLLOWS]
        size, skipped = _longest(text, stop - start, valid_if_called if called else valid)
        if skipped:
            skip = start + skipped
        if size and not (counted and _ROW.fullmatch(_plain(text[:size]))):
            end = start + size
            end += _TAIL.match(gap[end : end + _LONGEST_TAIL]).end()  # type: ignore[union-attr]
            yield start, end
            skip = end


def _plain(text: str) -> str:
    """Return a candidate with the separators of ASCII."""
    return text if text.isascii() else text.translate(_PLAIN)


def _longest(text: str, size: int, valid: Callable[[str], bool]) -> tuple[int, int]:
    """Return how long the number is at the start of a candidate of this size, 0: there is none; and
    how long one is that is none since it goes on.
    """
    ends, joined, digits = [], [], 0
    slashed = "/" in text
    for group in _GROUP.finditer(text, 0, size):
        first, end = group.span()
        digits += end - first
        if digits >= FEWEST:
            goes_on = _JOINED.match(text, end) or (slashed and _is_path(text, end))
            if goes_on and not (first > 2 and _WORD.match(text, end)):  # not in the first group
                joined.append(end)
            else:
                ends.append(end)
    plus = text[0] == "+"
    if not ends and not plus:
        return 0, 0
    least = 0
    for end in reversed(ends):
        if valid(_plain(text[:end])):
            least = end
            break
    if least or plus:
        for end in reversed(joined):
            if end > least and valid(_plain(text[:end])):
                return 0, end
    return least, 0


def _is_path(text: str, end: int) -> bool:
    """Return whether digits with a `/` between go on behind `end`."""
    if text[end : end + 1] != "/" or not "0" <= text[end + 1 : end + 2] <= "9":
        return False
    slashes = text.count("/", 0, end)
    return slashes > 1 or (slashes == 1 and not _LAST_DIGITS.match(text, end))
