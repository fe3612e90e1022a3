"""Phone numbers among candidates (kernels/phones.py): what `phonenumbers` says is one.

A candidate is tried whole, then without its last group, and so on, at places where nothing goes on; the first that
`phonenumbers.is_valid_number` knows, in international form or as dialled in `region`, is taken, and what overlaps it is not.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

REMEMBERED = 1 << 14  # numbers: pages of one site repeat theirs
_GROUP = re.compile(rb"[0-9]+(?:[xX][0-9]+)?")
_JOINED = re.compile(rb"[0-9A-Za-z_]|[-.][0-9A-Za-z]")
_CODE = re.compile(r"\+[ (]?([0-9]{1,3})")
FEWEST = 7  # digits


def judge(region: str | None) -> Callable[[str], bool]:
    """A function that tells whether a string is a valid phone number. Raises ValueError for a region that is none."""
    import phonenumbers

    if region is not None and region not in phonenumbers.SUPPORTED_REGIONS:
        raise ValueError(f"no region {region!r}: phonenumbers knows ISO 3166's codes of two letters, such as US and GB")
    codes = frozenset(map(str, phonenumbers.COUNTRY_CODE_TO_REGION_CODE))

    @lru_cache(REMEMBERED)
    def valid(text: str) -> bool:
        code = _CODE.match(text)
        if code is not None and not any(code[1][:size] in codes for size in range(1, 4)):
            return False
        try:
            return bool(phonenumbers.is_valid_number(phonenumbers.parse(text, region)))
        except phonenumbers.NumberParseException:
            return False

    return valid


def pick(
    data: np.ndarray, firsts: np.ndarray, lasts: np.ndarray, valid: Callable[[str], bool]
) -> tuple[np.ndarray, np.ndarray]:
    """Of candidates in data (bytes,) uint8, ascending by start, those that are numbers: starts and stops (numbers,) int32."""
    starts: list[int] = []
    stops: list[int] = []
    end = 0
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        if first < end:
            continue
        text = data[first : last + 2].tobytes()  # and what follows: kernels keep candidates apart from what was found
        size = _longest(text, last - first, valid)
        if size:
            starts.append(first)
            stops.append(first + size)
            end = first + size
    return np.array(starts, np.int32), np.array(stops, np.int32)


def _longest(text: bytes, size: int, valid: Callable[[str], bool]) -> int:
    """The bytes of the number at the start of a candidate of so many bytes; 0: there is none."""
    ends, digits = [], 0
    for group in _GROUP.finditer(text, 0, size):
        digits += len(group[0])
        if digits >= FEWEST and not _JOINED.match(text, group.end()):
            ends.append(group.end())
    return next((end for end in reversed(ends) if valid(text[:end].decode("ascii"))), 0)
