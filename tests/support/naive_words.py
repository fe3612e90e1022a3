"""Words of a text as `kernels/html/title_words.py` tells them apart, in plain Python."""

import re
from itertools import pairwise

UNSPACED = "\u0e00-\u0fff\u3040-\uabff"  # of scripts without spaces
BETWEEN = "\x00-\x20\u3000-\u303f\uff00-\uff0f\uff1a-\uff20"  # what ends a word
PASSED = "\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\u2000-\u206f"  # signs that end none


def words_of(text: str) -> list[tuple[str, bool]]:
    """Each word in small ASCII letters, and whether it is a pair of characters."""
    found: list[tuple[str, bool]] = []
    for part in re.findall(f"[{UNSPACED}]+|[^{UNSPACED}{BETWEEN}]+", text):
        if re.match(f"[{UNSPACED}]", part):
            found += [(one + two, True) for one, two in pairwise(part)]
        elif word := re.sub(f"[{PASSED}]", "", part):
            found.append((re.sub("[A-Z]", lambda match: match[0].lower(), word), False))
    return found
