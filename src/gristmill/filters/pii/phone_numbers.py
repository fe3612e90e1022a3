"""Phone numbers among candidates (kernels/pii/phones.py): what `phonenumbers` says is one.

A candidate is tried whole, then without its last group, and so on, at places where nothing goes on;
the first that is a number is taken, and what overlaps it is not. With a `+` it is one if it is
possible: a country's code, and as many digits as whole numbers have there. Without, it must be
valid in one of `regions` (an area and a range in use), or possible there if that is asked, and
stand in groups as dates, years, addresses and columns do not. What is only valid must have the
national prefix where the region writes one, and groups as the region writes them: no group is cut
(`360-90-90-140` is no American number), as libphonenumber's strict grouping has it. Elsewhere than
in North America people group as they like, with one sign between all groups. What follows a digit
that belongs to no number found is one only if its groups say so: the rest are terms and rows of
numbers.
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
)
_ROW = re.compile(r"[0-9.]+(?: -?[0-9.]+)*")  # of numbers
_RUN = re.compile(r"[0-9]+(?:x[0-9]+)?")
_CODE = re.compile(r"\+[ (]?([0-9]{1,3})")
_SIGNS = re.compile(r"(?<=[0-9])[^0-9x]+(?=[0-9])")  # between groups
NORTH_AMERICA = 1  # the country's code
FEWEST = 7  # digits
# What is no number without a `+`, and then with one.
_OTHER = re.compile(
    r"""
      [0-9]+ \.[0-9]+ (?:x[0-9]+)?                                      # a fraction
    | \+ [ (]? 1 [^0-9]{0,3} [01] .*                                     # no area starts so
    | \+ (?:19|20)[0-9]{2} (?:0[1-9]|1[0-2]) [0-3][0-9] (?:-[0-9]{1,2})? # a day's version
    | (?:[1-9][0-9]*|0+)[ ][0-9]+ (?:\.[0-9]+)?  # two numbers: a house's and a street's
    | .*[ ][ ].*                                                        # columns of a table
    | \([^)]*
    | .*\.[ ].*                                                         # the end of a sentence
    | [0-9]{5}-[0-9]{3,4}                                               # a postal code
    | (?:19|20)[0-9]{2} - (?:19|20)[0-9]{2}                             # years
    | (?:.*[^0-9])? [0-9]{4}([-/.]) [0-9]{1,2}\1 [0-9]{1,2} (?![0-9]).*  # a date
    | (?:.*[^0-9])? [0-9]{1,2}([-/.]) [0-9]{1,2}\2 [0-9]{4} (?![0-9]).*
    | [0-9]{1,3} (?:\.[0-9]{1,3}){3} (?:/[0-9]+)?                       # an address of IPv4
    | \+[0-9]+\.[0-9]{1,2}
    """,
    re.DOTALL | re.VERBOSE,
)


def judge(regions: Sequence[str], *, possible: bool = False) -> Callable[[str], bool]:
    """A function that says whether a string is a phone number; `possible`: without a `+`, too, the
    number of digits alone counts.

    Raises ValueError for a region that is none.
    """
    import phonenumbers

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
            (not possible and _RUN.fullmatch(text))
            or _OTHER.fullmatch(text)
            or (code and not any(code[1][:size] in codes for size in range(1, 4)))
        ):
            return False
        return is_number(text, None) if code else any(is_number(text, region) for region in regions)

    def is_number(text: str, region: str | None) -> bool:
        try:
            number = phonenumbers.parse(text, region)
        except phonenumbers.NumberParseException:
            return False
        if region and not possible:
            return phonenumbers.is_valid_number(number) and is_grouped(text, region)
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
    valid: Callable[[str], bool],
) -> tuple[np.ndarray, np.ndarray]:
    """Of candidates in data (bytes,) uint8 (kernels.pii.phones.candidates) those that are numbers:
    starts and stops (numbers,) int32.
    """
    starts: list[int] = []
    stops: list[int] = []
    end = 0
    columns = (firsts.tolist(), lasts.tolist(), limits.tolist(), operands.tolist())
    for first, last, limit, operand in zip(*columns, strict=True):
        if first < end:
            continue
        counted = operand > 0 and operand != end  # behind a digit of something else
        text = data[first : min(last + 4, limit)].tobytes()  # and what follows
        if counted and text[:1] == b"+":
            continue
        size = _longest(text, last - first, valid)
        if size and not (counted and _ROW.fullmatch(text[:size].decode("ascii"))):
            starts.append(first)
            stops.append(first + size)
            end = first + size
    return np.array(starts, np.int32), np.array(stops, np.int32)


def _longest(text: bytes, size: int, valid: Callable[[str], bool]) -> int:
    """The bytes of the number at the start of a candidate of this many bytes; 0: there is none."""
    ends, digits = [], 0
    for group in _GROUP.finditer(text, 0, size):
        digits += len(group[0])
        if digits >= FEWEST and not _JOINED.match(text, group.end()):
            ends.append(group.end())
    return next((end for end in reversed(ends) if valid(text[:end].decode("ascii"))), 0)
