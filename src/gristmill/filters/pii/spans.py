"""Personal data in a text: where it is, by gristmill's rules.

E-mail addresses are found first; then numbers in the text between them, at what has one of SHAPES
and begins alone; then phone numbers in the rest. Every search goes on behind what it found.

SHAPES are patterns that Arrow's RE2 reads as well: it says which texts of a batch have one at all,
in linear time, and most have none.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from gristmill.filters.pii import cards, email_addresses, ibans, ip_addresses, phone_numbers, phones
from gristmill.filters.pii.alone import BEGIN, END, LEFT, RIGHT, Finder, PiiSpan, gaps

Judge = Callable[[str, str], int]
# AAA-GG-SSSS: areas 001 to 899 but 666, neither group nor serial of zeros (what the Social Security
# Administration never gave).
_SSN = re.compile(rf"(?!000|666|9)[0-9]{{3}}-(?!00)[0-9]{{2}}-(?!0000)[0-9]{{4}}{END}")
SHAPES = {
    "email": email_addresses.SHAPE,
    "iban": ibans.SHAPE,
    "ip": ip_addresses.SHAPE,
    "ssn": "[0-9]{3}-[0-9]{2}-[0-9]{4}",
    "card": cards.SHAPE,
}


def shape(kinds: frozenset[str], asked: int) -> str:
    """Return a pattern for RE2: a text without it has nothing of these kinds; `asked` as for
    `phones.candidates`.
    """
    shapes = {**SHAPES, "phone": phones.SHAPES[asked]}
    return "|".join(shapes[kind] for kind in sorted(kinds))


def finder(
    kinds: frozenset[str],
    tops: frozenset[bytes],
    *,
    every: bool = False,
    asked: int = phones.PLUS,
    valid: tuple[Callable[[str], bool], ...] = (),
) -> Finder:
    """Return a function that finds personal data of these kinds in a text.

    `tops`: the top-level domains; `every`: whatever has the form of an address is one, reserved or
    not; `asked` and `valid`: of phone numbers, as for `phone_numbers.find`.
    """
    judges = _judges(kinds, every)
    candidates = _candidates(judges)

    def find(text: str) -> list[PiiSpan]:
        spans = email_addresses.find(text, tops, every=every) if "email" in kinds else []
        if judges:
            spans += [
                PiiSpan(kind, at + start, at + stop)
                for at, gap in gaps(text, spans)
                for kind, start, stop in _numbers(gap, candidates, judges)
            ]
            spans.sort(key=_start)
        if "phone" in kinds:
            spans += [
                PiiSpan("phone", at + start, at + stop)
                for at, gap in gaps(text, spans)
                for start, stop in phone_numbers.find(gap, asked, *valid)
            ]
            spans.sort(key=_start)
        return spans

    return find


def _ssn(_: str, here: str) -> int:
    match = _SSN.match(here)
    return match.end() if match else 0


def _start(span: PiiSpan) -> int:
    return span.start


def _judges(kinds: frozenset[str], every: bool) -> dict[str, Judge]:
    """Return of each kind of number how long the number is that starts behind a text."""
    judges: dict[str, Judge] = {
        "iban": ibans.iban,
        "ip": lambda left, here: ip_addresses.ip_address(left, here, every=every),
        "ssn": _ssn,
        "card": cards.card,
    }
    return {kind: judge for kind, judge in judges.items() if kind in kinds}


def _candidates(kinds: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern with a group, of no width, where a number of each kind may start.

    It matches the first digit of a number, and looks from there, for a search for digits is fast.
    """
    groups = {kind: f"(?P<{kind}>(?={SHAPES[kind]}))" for kind in kinds}
    letters = groups.pop("iban", "(?!)")  # two before the first digit
    others = "|".join(groups.values()) or "(?!)"
    return re.compile(
        f"[0-9](?:(?<={BEGIN}(?:{others}).)|(?<={BEGIN}{letters}[A-Za-z]{{2}}.))", re.DOTALL
    )


def _numbers(gap: str, candidates: re.Pattern[str], judges: dict[str, Judge]) -> Iterator[PiiSpan]:
    wall = 0
    for match in candidates.finditer(gap):
        kind = match.lastgroup or ""
        at = match.start(kind)
        if at < wall:
            continue
        left = gap[max(wall, at - LEFT) : at]
        size = judges[kind](left, gap[at : at + RIGHT])
        if size:
            start = at - ip_addresses.carrier(left) if kind == "ip" else at
            wall = at + size
            yield PiiSpan(kind, start, wall)
