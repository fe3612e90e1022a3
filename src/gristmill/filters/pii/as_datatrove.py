"""E-mail and IP addresses as datatrove's PIIFormatter finds them (0.10.1,
pipeline/formatters/pii.py): atoms of RFC 5322 from the first word boundary, then any labels, or an
address in brackets; four octets that Python 3.13's ipaddress calls global.

Its pattern for e-mail takes quadratic time on some texts. Here an address is searched from its `@`.
"""

import re

from gristmill.filters.pii import email_addresses
from gristmill.filters.pii.alone import PiiSpan, gaps
from gristmill.filters.pii.ip_addresses import is_public
from gristmill.filters.pii.letters import is_word

_ATOM = "!#$%&'*+/=?^_`{|}~-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = re.compile(
    rf"@(?:(?:{_LABEL}\.)+{_LABEL}|\[(?:{_OCTET}\.){{3}}(?:{_OCTET}|[A-Za-z0-9-]*[A-Za-z0-9]:)\])"
)
_FOUR = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}")
_SHAPES = {"email": email_addresses.SHAPE, "ip": _FOUR.pattern}


def shape(kinds: frozenset[str]) -> str:
    """Return a pattern for RE2, as `spans.shape` does."""
    return "|".join(_SHAPES[kind] for kind in sorted(kinds))


def find(text: str, kinds: frozenset[str]) -> list[PiiSpan]:
    """Return what datatrove replaces in a text, of `email` and `ip`, in order."""
    mails = _addresses(text) if "email" in kinds else []
    if "ip" not in kinds:
        return mails
    hosts = [
        PiiSpan("ip", at + match.start(), at + match.end())
        for at, gap in gaps(text, mails)
        for match in _FOUR.finditer(gap)
        if is_public(match[0], strict=False)
    ]
    return sorted(mails + hosts, key=lambda span: span.start)


def _addresses(text: str) -> list[PiiSpan]:
    spans: list[PiiSpan] = []
    wall = 0
    for domain in _DOMAIN.finditer(text):
        at = domain.start()
        start = _local_start(text, wall, at)
        if start < at:
            spans.append(PiiSpan("email", start, domain.end()))
            wall = domain.end()
    return spans


def _local_start(text: str, wall: int, at: int) -> int:
    """Return where atoms with single dots between start that stop at `at`, from a word boundary on;
    `at`: there are none.
    """
    before = text[max(wall, text.rfind("@", wall, at) + 1) : at]
    run = before[len(before.rstrip(_ATOM + ".")) :]
    run = run[run.rfind("..") + 1 :].lstrip(".")
    if run.endswith("."):
        return at
    start = at - len(run)
    word = start > 0 and is_word(text[start - 1])
    for place in range(start, at):
        if is_word(text[place]) != word and text[place] != ".":
            return place
        word = is_word(text[place])
    return at
