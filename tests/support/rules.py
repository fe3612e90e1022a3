"""The published filters in plain Python, from the table of their facts: the slow twins of
filters/rules/ and its kernels.

Each gives (reason, measures) of one text; words are `str.split()`, each character of an unspaced
script a word (`words`). "datatrove-0.2" is what made FineWeb, "datatrove-0.10" is 0.10.1.
benchmarks/parity.py compares the kernels with the real datatrove; this compares them with an
independent statement, of both versions.
"""

import re
import unicodedata
from collections import Counter
from typing import Any

from gristmill.kernels.unicode import tables
from tests.support.naive import UNSPACED

# What 0.10 calls terminal punctuation is 0.2's quotes and ASCII ends besides other scripts' ends;
# kernels.unicode.tables's table is checked against the peers' own set by benchmarks/parity.py, here
# by samples of it.
PUNCTUATION = set(
    "!/—”:％１〈&(、━\\【#%「」，】；+^]~“《„';’{|∶´[=-`*．（–？！：$～«〉,><》)?）。…@_.\"}►»"
)
PUNCTUATION |= {
    chr(point) for a, b in ((0, 9), (11, 13), (13, 32), (127, 160)) for point in range(a, b)
}
STOP_WORDS = {"the", "be", "to", "of", "and", "that", "have", "with"}


def _flagged(bit: int) -> set[str]:
    """The code points that have a sign of kernels.unicode.tables."""
    table = tables.SIGNS.every()
    return {chr(point) for point in (table & bit).nonzero()[0].tolist()}


TERMINAL, SENTENCE = _flagged(tables.TERMINAL), _flagged(tables.SENTENCE)


def separate(text: str) -> list[str]:
    """`str.split()`, and each character of an unspaced script a word of its own."""
    return " ".join(
        UNSPACED.sub(lambda found: f" {found[0]} ", word) for word in text.split()
    ).split()


def share(part: float, whole: float) -> float:
    return part / max(whole, 1)


def first(checks: list[tuple[str, bool]]) -> str | None:
    return next((reason for reason, broken in checks if broken), None)


def quality(text: str, rules: str) -> tuple[str | None, dict[str, Any]]:
    """Gopher's quality rules."""
    words, lines = separate(text), text.splitlines()
    symbols = PUNCTUATION | TERMINAL if rules == "datatrove-0.10" else PUNCTUATION
    plain = [word for word in words if any(character not in symbols for character in word)]
    stops = [word for word in words if word in STOP_WORDS]
    found = {
        "words": len(plain),
        "word_length": sum(map(len, plain)) / len(plain) if plain else None,
        "hash_ratio": share(text.count("#"), len(words)),
        "ellipsis_ratio": share(text.count("...") + text.count("…"), len(words)),
        "bullet_lines": share(
            sum(line.lstrip().startswith(("•", "-")) for line in lines), len(lines)
        ),
        "ellipsis_lines": share(
            sum(line.rstrip().endswith(("...", "…")) for line in lines), len(lines)
        ),
        "letter_words": share(sum(any(map(str.isalpha, word)) for word in words), len(words)),
        "stop_words": len(set(stops)) if rules == "datatrove-0.10" else len(stops),
    }
    length = found["word_length"]
    reason = first(
        [
            ("short_doc", found["words"] < 50),
            ("long_doc", found["words"] > 100_000),
            ("below_avg_threshold", length is not None and length < 3),
            ("above_avg_threshold", length is not None and length > 10),
            ("too_many_hashes", found["hash_ratio"] > 0.1),
            ("too_many_ellipsis", found["ellipsis_ratio"] > 0.1),
            ("too_many_bullets", found["bullet_lines"] > 0.9),
            ("too_many_end_ellipsis", found["ellipsis_lines"] > 0.3),
            ("below_alpha_threshold", found["letter_words"] < 0.8),
            ("enough_stop_words", found["stop_words"] < 2),
        ]
    )
    return reason, found


def repeats(pieces: list[str]) -> tuple[int, int]:
    """(pieces that repeat an earlier one, their characters)."""
    seen: set[str] = set()
    number = characters = 0
    for piece in pieces:
        if piece in seen:
            number, characters = number + 1, characters + len(piece)
        seen.add(piece)
    return number, characters


def repeated(words: list[str], size: int) -> int:
    """Characters of n-grams that repeat an earlier one, from the left, going on behind each that
    does.
    """
    seen: set[str] = set()
    at = characters = 0
    while at + size <= len(words):
        gram = "".join(words[at : at + size])
        if gram in seen:
            characters, at = characters + len(gram), at + size
        else:
            seen.add(gram)
            at += 1
    return characters


def repetition(text: str, rules: str) -> tuple[str | None, dict[str, Any]]:
    """Gopher's repetition rules."""
    words = separate(text)
    paragraphs = re.split(r"\n{2,}", text.strip())
    lines = re.split(r"\n+", text) if rules == "datatrove-0.10" else text.splitlines()
    same, characters = repeats(paragraphs)
    same_lines, line_characters = repeats(lines)
    found = {
        "paragraphs": share(same, len(paragraphs)),
        "paragraph_characters": share(characters, len(text)),
        "lines": share(same_lines, len(lines)),
        "line_characters": share(line_characters, len(text)),
    }
    for size in (2, 3, 4):
        grams = Counter(" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
        gram, count = grams.most_common(1)[0] if grams else ("", 0)
        found[f"top_{size}"] = share(len(gram) * count, len(text))
    for size in range(5, 11):
        found[f"repeated_{size}"] = share(repeated(words, size), len(text))
    limits = (0.3, 0.2, 0.3, 0.2, 0.20, 0.18, 0.16, 0.15, 0.14, 0.13, 0.12, 0.11, 0.10)
    names = (
        "dup_para_frac",
        "dup_para_char_frac",
        "dup_line_frac",
        "dup_line_char_frac",
        *(f"top_{n}_gram" for n in (2, 3, 4)),
        *(f"duplicated_{n}_n_grams" for n in range(5, 11)),
    )
    checks = [
        (name, value > limit)
        for name, value, limit in zip(names, found.values(), limits, strict=True)  # type: ignore[operator]
    ]
    return first(checks), found


def fineweb(text: str, rules: str) -> tuple[str | None, dict[str, Any]]:
    """FineWeb's rules."""
    every = text.split("\n")
    full = [line for line in every if line.strip()]
    old = rules == "datatrove-0.2"
    lines = every if old else full
    ends = (".", "'", '"', "!", "?") if old else tuple(TERMINAL)
    found = {
        "lines": len(full),
        "stopped_lines": share(sum(line.endswith(ends) for line in lines), len(lines)),
        "short_lines": share(sum(len(line) <= 30 for line in lines), len(lines)),
        "repeated": share(repeats(full)[1], len(text.replace("\n", ""))),
        "newlines": share(text.count("\n"), len(separate(text))),
    }
    if old:
        broken = (
            found["stopped_lines"] <= 0.12,
            found["short_lines"] >= 0.67,
            found["repeated"] >= 0.01,
        )
    else:
        broken = (
            found["stopped_lines"] < 0.12,
            found["short_lines"] > 0.67,
            found["repeated"] > 0.01,
        )
    names = ("line_punct_ratio", "short_line_ratio", "char_dup_ratio")
    checks = [
        ("empty", not full),
        *zip(names, broken, strict=True),
        ("list_ratio", found["newlines"] > 0.3),
    ]
    return first(checks), found  # type: ignore[arg-type]


def count_sentences(line: str) -> int:
    """One, and one more for each word behind a word that ends a sentence, if it is no sign
    alone.
    """
    count, ended = 1, False
    for word in separate(line):
        if ended and not all(unicodedata.category(character)[0] == "P" for character in word):
            count, ended = count + 1, False
        bare = word
        while bare and bare[-1] not in SENTENCE and unicodedata.category(bare[-1])[0] == "P":
            bare = bare[:-1]
        ended = ended or (bool(bare) and bare[-1] in SENTENCE)
    return count


POLICY = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)


def c4(text: str, **switches: Any) -> tuple[str | None, str]:
    """C4's rules: (reason, the text that stays)."""
    on = {
        "citations": True,
        "line_stops": True,
        "min_line_words": 3,
        "longest_word": 1000,
        "min_sentences": 5,
        **switches,
    }
    kept: list[str] = []
    count = 0
    for line in (line.strip() for line in text.splitlines()):
        words = line.split()
        if on["longest_word"] is not None and any(len(word) > on["longest_word"] for word in words):
            continue
        if on["citations"]:
            line = re.sub(r"\[\d*\]|\[edit\]|\[citation needed\]", "", line)
        if on["line_stops"] and (
            not line.endswith((".", "?", "!", '"', "'")) or line.endswith("...")
        ):
            continue
        if on["min_line_words"] is not None and len(words) < on["min_line_words"]:
            continue
        small = line.lower()
        if "lorem ipsum" in small:
            return "lorem_ipsum", text
        if "javascript" in small:
            continue
        if "{" in line:
            return "curly_bracket", text
        if any(phrase in small for phrase in POLICY):
            continue
        kept.append(line)
        count += count_sentences(line)
    if on["min_sentences"] is not None and count < on["min_sentences"]:
        return "too_few_sentences", text
    return None, "\n".join(kept).strip()


def simple(text: str) -> tuple[str | None, dict[str, Any]]:
    """The plainest rules."""
    words = text.split()
    special = sum(not character.isalnum() and not character.isspace() for character in text)
    found = {
        "words": len(words),
        "upper": share(sum(map(str.isupper, words)), len(words)),
        "special": share(special, len(text)),
    }
    reason = first(
        [
            ("few_words", found["words"] < 50),
            ("upper_case", found["upper"] > 0.3),
            ("special", found["special"] > 0.1),
        ]
    )
    return reason, found
