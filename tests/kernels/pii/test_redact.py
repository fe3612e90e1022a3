"""Personal data: kernels against re, ipaddress and int; datatrove's patterns; what is next to what;
time.
"""

import ipaddress
import re
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.filters.pii.private import ROUNDS
from gristmill.kernels.pii import context_words, email_addresses, ip_addresses, numbers, phones
from gristmill.kernels.pii import redact as kernel
from gristmill.kernels.pii.rewrite import rewrite as rewrite_spans
from gristmill.kernels.unicode.tables import CLASSES, LETTER, NUMBER, UNSPACED
from gristmill.tables.columns import utf8_buffers
from tests.support import strategies
from tests.support.pii import PIECES, THEIR_IP, THEIR_MAIL, is_global

DOMAINS = {"com", "org", "net", "de", "uk", "museum", "xn--p1ai", "info", "рф", "中"}
HASHED = context_words.word_hashes([name.encode() for name in sorted(DOMAINS)])
ALL = frozenset(kernel.KINDS) - {"phone", "name"}
BRACKETS = [f"<{kind.upper()}>".encode() for kind in kernel.KINDS]

# --- the twins ---


HIDDEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
BLANKS = "\u00a0" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f"
HYPHENS = "\u2010\u2011\uff0d"
DASHES = "\u2012\u2013\u2212"
WIDE_DIGITS = "".join(chr(0xFF10 + digit) for digit in range(10))
SEPARATORS = "- ." + BLANKS + HYPHENS + DASHES


def addresses(text: str) -> list[tuple[int, int]]:
    found, wall = [], 0
    for sign in re.finditer("@", text):
        at = sign.start()
        if at < wall:
            continue
        if at == wall and found:
            end, _ = domain(text[at + 1 :])
            if end:
                wall = at + 1 + end
                found[-1] = (found[-1][0], wall)
            continue
        left = text[wall:at]
        local = local_part(left, text[at + 1 : at + 2])
        local = value(left[len(left) - len(local) - 1 : len(left) - len(local)], local)
        local = local.lstrip(".-%")
        if not local or local.endswith("."):
            continue
        if text[at + 1 : at + 2] == "[":
            rest = text[wall:]
            first = re.compile(r"\[(?:ipv6:)?", re.IGNORECASE).match(rest, at + 1 - wall).end()
            plain = first == at + 2 - wall
            stop = None
            if rest[first : first + 1].isascii() and rest[first : first + 1].isdigit():
                stop = (ipv4(rest, first) if plain else None) or ipv6(rest, first)
            if stop and rest[stop : stop + 1] == "]":
                found.append((at - len(local), wall + stop + 1))
                wall += stop + 1
            continue
        end, ours = domain(text[at + 1 :])
        if end and ours and not service(text, wall, at, local, at + 1 + end):
            found.append((at - len(local), at + 1 + end))
            wall = at + 1 + end
    return found


def seen(text: str) -> str:
    return re.sub(f"[{HIDDEN}]", "", text)


def domain(text: str) -> tuple[int, bool]:
    """Where a domain stops, 0: there is none; and whether it is somebody's."""
    end, place, before, ours = 0, 0, "", True
    for count, label in enumerate(labels(text), 1):
        name = label.rstrip("-").lower()
        if not name or name.startswith("-") or len(name) > 63:
            break
        dash = name.find("--", 4 if name[:2] == "xn" and len(name) > 4 else 1)
        top = name if dash < 0 else name[:dash]
        if seen(top) not in DOMAINS:
            top = re.split(f"[{HIDDEN}]", top)[0]
        if count > 1 and seen(top) in DOMAINS and not top[0].isdigit():
            end = place + len(top)
            ours = not (before == "example" and seen(top) in ("com", "net", "org"))
        if len(name) < len(label):
            break
        place, before = place + len(label) + 1, seen(name)
    return end, ours


def value(lead: str, local: str) -> str:
    """What stands behind keys, paths and digits before a `/`."""
    query = lead in tuple("?&") or re.search("=.*&", local) is not None
    path, part, begin = lead == "/", 0, 0
    for sign in re.finditer("[=/]", local):
        piece = local[part : sign.start()]
        if sign[0] == "=":
            key = re.search(r"[A-Za-z]*\Z", piece)[0].lower()
            known = is_word(key, email_addresses.KEYS) if key else not piece
            cut = query or known or key.endswith("mail")
        else:
            path = path or ("." in piece and piece.rpartition(".")[2].lower() in DOMAINS)
            cut = path or re.fullmatch("[0-9]*", piece) is not None
        part = sign.end()
        begin = part if cut else begin
    return local[begin:]


BITS = CLASSES.every()


def script(character: str) -> str:
    """Which letter a character is: latin, other, crowded; "" for a digit or a mark; none."""
    point = ord(character)
    if BITS[point] & LETTER:
        if BITS[point] & UNSPACED:
            return "crowded"
        return "latin" if point < 0x250 or 0x1E00 <= point < 0x1F00 else "other"
    mark = BITS[point] == 0 and point >= 0x300 and point != 0xFEFF
    return "" if BITS[point] & NUMBER or (mark and not 0x2000 <= point < 0x2070) else "none"


def local_part(before: str, behind: str) -> str:
    local, crowded = "", behind > "\x7f"
    for place in range(len(before) - 1, -1, -1):
        character, kind = before[place], script(before[place])
        if kind == "none":
            if not is_sign(before[:place], character, local):
                break
        elif kind and local and script(local[0]) not in (kind, "", "none"):
            break
        crowded = crowded and kind in ("crowded", "none")
        if kind == "crowded" and not crowded:
            break
        local = character + local
    return local


def is_joint(character: str, more: str = "") -> bool:
    return character > "\x7f" or (
        character != "" and (character in more or (character.isascii() and character.isalnum()))
    )


def is_sign(left: str, character: str, local: str) -> bool:
    """Whether a sign belongs to an address, between what stands left of it and the rest."""
    if character in "_%+-" or (character == "." and local[:1] != "."):
        return True
    if character == ".":
        return is_joint(left[-1:]) and is_joint(local[1:2])
    if character in "=$":
        return is_joint(left[-1:], "_+-") and is_joint(local[:1], "_+-")
    joints = "!#&'*/^`~’％＆＇＋－．＿" + HIDDEN
    return character in joints and is_joint(left[-1:]) and is_joint(local[:1])


def labels(text: str) -> Iterator[str]:
    """The labels of a domain; after the last one nothing goes on."""
    while True:
        end, own = 0, ""
        for place, character in enumerate(text):
            if character in HIDDEN and re.match(r"[A-Za-z0-9.]", text[place + 1 :]):
                end += 1
                continue
            kind = script(character)
            if character != "-" and (kind == "none" or (kind and own and kind != own)):
                break
            own, end = kind or own if character != "-" else own, end + 1
        yield text[:end]
        if text[end : end + 1] not in (".", "．"):
            return
        if text[end] == "．" and end + 1 == len(text):
            return
        text = text[end + 1 :]


def is_word(name: str, hashes: np.ndarray) -> bool:
    return context_words.word_hashes([name.lower().encode()])[0] in hashes


def service(text: str, wall: int, at: int, local: str, end: int) -> bool:
    if local.lower() not in ("git", "hg", "svn"):
        return False
    here = at - len(local)
    slash = here > wall and text[here - 1] == "/"
    return (
        slash
        or is_word(text[at + 1 : end], email_addresses.HOSTS)
        or re.match(r"[:/][^\0- ]", text[end:]) is not None
    )


def before(text: str, at: int) -> bool:
    joined = rf"(?:[A-Za-z0-9_+{WIDE_DIGITS}]|[A-Za-z0-9][-.{HIDDEN}{HYPHENS}])\Z"
    return re.search(joined, text[:at]) is not None


def after(text: str, at: int) -> bool:
    joined = rf"[A-Za-z0-9_{WIDE_DIGITS}]|[-.{HIDDEN}{HYPHENS}][A-Za-z0-9]"
    return re.match(joined, text[at:]) is not None


NOBODYS = [
    ipaddress.ip_network(name)
    for name in "224.0.0.0/4 192.88.99.0/24 2001::/23 2001:db8::/32 2002::/16 3fff::/20".split()
]


def public(address: str) -> bool:
    value = ipaddress.ip_address(address)
    if value.version == 6 and value not in ipaddress.ip_network("2000::/3"):
        return False
    if str(value) in ("192.0.0.9", "192.0.0.10"):
        return True
    if value.version == 4 and value in ipaddress.ip_network("192.0.0.0/24"):
        return False  # before Python 3.11.10 these were told otherwise
    special = any(value.version == net.version and value in net for net in NOBODYS)
    return not special and (value.version == 6 or value.is_global)


def word_before(text: str, at: int) -> str:
    line = re.search(r"[^\n\r@<>\[\]{}|]*\Z", text[:at])[0].encode()
    for count, word in enumerate(reversed(list(re.finditer(rb"[A-Za-z]+", line)))):
        if count == 4 or len(line) - word.end() >= 48:
            break
        name = word[0][-48:].decode()
        if is_word(name, ip_addresses.NUMBERED):
            return "near" if count == 0 and len(line) - word.end() <= 4 else "version"
        if is_word(name, ip_addresses.ADDRESSED):
            return "address"
        if len(word[0]) >= 48:
            break
    return ""


def low(text: str, at: int, octets: list[int]) -> bool:
    if sum(octet < 32 for octet in octets) >= 3:
        return True
    fraction = re.search(r"\.[0-9]{1,6} \Z", text[:at])
    return octets[0] < 32 and (octets[1] < 40 or fraction is not None)


def addressed(text: str, at: int, end: int) -> bool:
    if re.search(r"(?:::|[Ff]{3}:)\Z", text[:at]):
        return True
    if (
        text[at - 1 : at] == "@"
        or text[max(0, at - 2) : at] == "//"
        or text[end : end + 4] == " - -"
    ):
        return True
    more = re.compile(r"(?:/([0-9]{1,5})|:([0-9]{2,5}))(?![0-9])").match(text, end)
    if not more or after(text, more.end()):
        return False
    return int(more[1]) <= 32 if more[1] else int(more[2]) < 1 << 16


def ipv4(text: str, at: int) -> int | None:
    octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])"
    match = re.compile(rf"{octet}(?:\.{octet}){{3}}").match(text, at)
    if not match or after(text, match.end()) or not public(match[0]) or counted(match[0]):
        return None
    if re.match("[+~](?![A-Za-z]{2}[0-9]{2})[A-Za-z]", text[match.end() :]):
        return None
    if text[at - 1 : at] == "[" and text[match.end() : match.end() + 1] == "]":
        return match.end()
    word = word_before(text, at)
    if word == "near":
        return None
    plain = not low(text, at, [*map(int, match[0].split("."))])
    return match.end() if word == "address" or plain or addressed(text, at, match.end()) else None


def counted(address: str) -> bool:
    """Whether it may number a section."""
    octets = [*map(int, address.split("."))]
    return max(octets) < 32 or max(octets[1:]) < 16


def ipv6(text: str, at: int) -> int | None:
    if text[at - 1 : at] == ":" and not re.search(
        r"[g-zG-Z]", re.search(r"[A-Za-z0-9]{0,12}\Z", text[: at - 1])[0]
    ):
        return None
    run = re.compile("[0-9A-Fa-f:.]*").match(text, at)[0]
    for size in range(min(len(run), 46), 0, -1):
        try:
            ipaddress.IPv6Address(run[:size])
        except ValueError:
            continue
        end = at + size
        if (
            after(text, end)
            or re.compile(r":(?=[^\0- ])").match(text, end)
            or not public(run[:size])
        ):
            return None
        if re.fullmatch("20[0-9][0-9]::", run[:size]) and text[end : end + 1] != "/":
            return None
        zone = re.compile("%(?![0-9A-Fa-f]{2})[A-Za-z][A-Za-z0-9]{0,14}").match(text, end)
        return zone.end() if zone and not after(text, zone.end()) else end
    return None


def carrier(text: str, at: int) -> int:
    """Where the IPv6 address starts that has the IPv4 address at `at`, or `at`."""
    run = re.search(r"(?<![A-Za-z0-9_:])[0-9A-Fa-f:]+:\Z", text[:at])
    if run:
        try:
            ipaddress.IPv6Address(f"{run[0]}1.2.3.4")
        except ValueError:
            return at
        return run.start()
    return at


def luhn(digits: str) -> bool:
    doubled = [
        sum(divmod(2 * int(d), 10)) if place % 2 else int(d)
        for place, d in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0


ISSUERS = (
    (r"4", {13, 16, 19}),
    (r"5[1-5]|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720", {16}),
    (r"3[47]", {15}),
    (r"30[0-5]|3095|3[689]", {14, 16, 17, 18, 19}),
    (r"352[89]|35[3-8]\d", {16, 17, 18, 19}),
    (r"2131|1800", {15}),
    (r"6011|64[4-9]|65|62|220[0-4]", {16, 17, 18, 19}),
    (r"5018|5020|5038|5893|6304|6759|676[123]", set(range(12, 20))),
)
FORMS = [
    re.compile(form, re.ASCII)
    for form in (
        r"\d{12,19}(?!\d)",
        rf"\d{{4}}([{SEPARATORS}])\d{{4}}\1\d{{4}}\1\d{{4}}\1\d{{3}}",
        rf"\d{{4}}([{SEPARATORS}])\d{{4}}\1\d{{4}}\1\d{{4}}",
        rf"\d{{4}}([{SEPARATORS}])\d{{6}}\1\d{{5}}",
        rf"\d{{4}}([{SEPARATORS}])\d{{6}}\1\d{{4}}",
    )
]


def is_card(digits: str) -> bool:
    return luhn(digits) and any(
        re.match(start, digits) and len(digits) in sizes for start, sizes in ISSUERS
    )


def term(text: str, at: int, end: int) -> bool:
    """Whether what stands at text[at:end] is added or multiplied."""
    for space in ("", " "):
        sign = re.search(rf"(?<![*]){space}([+]{{1,3}}|[*]{{1,3}}|\^{{1,3}}){space}\Z", text[:at])
        token = re.search(r"[A-Za-z0-9_*)]{1,16}\Z", text[: sign.start()]) if sign else None
        if token and not token[0].endswith("*") and re.search("[A-Za-z_)]", token[0]):
            return True
    return (
        re.compile(r"(?: \*{1,3} ?| \^{1,3} ?|\*{1,4}|\^{1,4})[A-Za-z(]").match(text, end)
        is not None
    )


def counts(digits: str, phone: bool) -> bool:
    return not is_card(digits) and not (phone and 7 <= len(digits) <= 15)


def item(text: str, at: int, end: int, phone: bool = False) -> bool:
    """Whether what stands at text[at:end] is one of several numbers in brackets, or between commas
    with white space.
    """
    left = re.search(r"[\0- ]{0,32}\Z", text[:at]).start()
    first = text[left - 1 : left] if left else ""
    number = (
        re.search(r"[(\[{,][\0- ]{0,32}-?([0-9]{1,32})\Z", text[: left - 1])
        if first == ","
        else None
    )
    lone = number and counts(number[1], phone)
    space = re.compile(r"[\0- ]{0,32}")
    right = space.match(text, end).end()
    last = text[right : right + 1]
    follows, spaced = "", False
    if last == ",":
        start = space.match(text, right + 1).end()
        spaced = start > right + 1
        more = re.compile(r"-?([0-9]{1,32})[\0- ]{0,32}[,)}\]]").match(text, start)
        follows = more[1] if more and counts(more[1], phone) else ""
    if first and first in "([{":
        return bool(follows) and len(follows) not in (3, 4)
    if last and last in ")]}":
        return bool(lone)
    return bool(lone and left < at and follows and (spaced or len(follows) in (3, 4)))


def row(text: str, at: int, end: int) -> bool:
    """Whether four groups of four digits rise, and go on rising on either side."""
    groups = re.split("[ .-]", text[at:end])
    if [len(group) for group in groups] != [4] * 4 or groups != sorted(set(groups)):
        return False
    left = re.search(r"(?:\A|[^A-Za-z0-9])([0-9]{4})[\0- ]{1,32}\Z", text[:at])
    right = re.compile(r"[\0- ]{1,32}([0-9]{4})(?![A-Za-z0-9])").match(text, end)
    return bool((left and left[1] < groups[0]) or (right and right[1] > groups[3]))


def card(text: str, at: int) -> int | None:
    if re.search(r"[/=#$%&]\Z", text[:at]):
        return None
    for form in FORMS:
        match = form.match(text, at)
        if match and is_card(re.sub("[^0-9]", "", match[0])):
            if after(text, match.end()):
                return None
            span = at, match.end()
            other = (
                (term(text, *span) or item(text, *span)) if match[0].isdigit() else row(text, *span)
            )
            return (
                None if other else code(text, match.end(), 4 if match[0][:2] in ("34", "37") else 3)
            )
    return None


def code(text: str, end: int, size: int) -> int:
    more = re.compile(rf"[ {BLANKS}][0-9]{{{size}}}(?![ ,./:-][0-9])").match(text, end)
    return more.end() if more and not after(text, more.end()) else end


def ssn(text: str, at: int) -> int | None:
    match = re.compile(r"(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}").match(text, at)
    return match.end() if match and not after(text, match.end()) else None


def layouts() -> dict[str, str]:
    words = numbers.IBANS.split()
    kinds = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Z0-9]"}
    return {
        country: re.sub(r"([nac])(\d+)", lambda m: f"{kinds[m[1]]}{{{m[2]}}}", layout)
        for country, layout in zip(words[::2], words[1::2], strict=True)
    }


LAYOUTS = layouts()
KINDS = {country: re.findall(r"\[[^\]]+\]", layout) for country, layout in LAYOUTS.items()}


def iban(text: str, at: int) -> int | None:
    """At the two letters."""
    country = text[at : at + 2].upper()
    if country not in LAYOUTS or before(text, at):
        return None
    kinds = "".join(
        kind * int(size)
        for kind, size in zip(
            ["n" if k == "[0-9]" else "a" if k == "[A-Z]" else "c" for k in KINDS[country]],
            re.findall(r"\{(\d+)\}", LAYOUTS[country]),
            strict=True,
        )
    )
    for sign in ("", *SEPARATORS):
        run = f"(?:(?:{re.escape(sign)})?[A-Za-z0-9]){{{len(kinds)}}}"
        match = re.compile(f"[A-Za-z]{{2}}[0-9]{{2}}{run}").match(text, at)
        if not match:
            continue
        groups = match[0].split(sign) if sign else [match[0]]
        plain = "".join(groups)
        if plain not in (plain.upper(), plain.lower()) or after(text, match.end()):
            return None
        plain = plain.upper()
        if not re.fullmatch(r"[A-Z]{2}[0-9]{2}" + LAYOUTS[country], plain):
            return None
        place, words = -4, False
        for group in groups:
            first, last = max(place, 0), place + len(group)
            own = (
                [*zip(kinds[first:last], plain[first + 4 : last + 4], strict=True)]
                if last > 0
                else []
            )
            words = words or (bool(own) and all(k == "c" and c.isalpha() for k, c in own))
            place += len(group)
        fours = all(len(group) == 4 for group in groups[:-1]) and len(groups[-1]) <= 4
        if sign and words and not fours:
            return None
        valid = int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1
        return match.end() if valid else None
    return None


def find_numbers(text: str, kinds: frozenset[str]) -> list[tuple[str, int, int]]:
    found, wall = [], 0
    for run in re.finditer("[0-9]+", text):
        at = run.start()
        if at < wall:
            continue
        rest = text[wall:]
        place = at - wall
        if (
            "iban" in kinds
            and re.search(r"[A-Za-z]{2}\Z", rest[:place])
            and (end := iban(rest, place - 2))
        ):
            found.append(("iban", at - 2, wall + end))
            wall += end
            continue
        if before(rest, place):
            continue
        for kind, search in (("ip", ipv4), ("ssn", ssn), ("card", card), ("ip", ipv6)):
            if kind in kinds and (end := search(rest, place)):
                first = carrier(rest, place) if search is ipv4 else place
                found.append((kind, wall + first, wall + end))
                wall += end
                break
    return found


def between(text: str, walls: list[tuple[int, int]], search) -> list[tuple]:
    """What `search` finds between the spans."""
    found, at = [], 0
    for start, stop in [*walls, (len(text), len(text))]:
        found += [(*rest, at + a, at + b) for *rest, a, b in search(text[at:start])]
        at = stop
    return found


def find(text: str, kinds: frozenset[str]) -> list[tuple[str, int, int]]:
    mails = addresses(text) if "email" in kinds else []
    found = [("email", *span) for span in mails]
    return sorted(
        found + between(text, mails, lambda gap: find_numbers(gap, kinds)), key=lambda span: span[1]
    )


def find_as_datatrove(text: str, kinds: frozenset[str]) -> list[tuple[str, int, int]]:
    mails = [match.span() for match in THEIR_MAIL.finditer(text)] if "email" in kinds else []

    def addresses_of(gap: str) -> list[tuple[str, int, int]]:
        return [("ip", *match.span()) for match in THEIR_IP.finditer(gap) if is_global(match[0])]

    found = [("email", *span) for span in mails] + (
        between(text, mails, addresses_of) if "ip" in kinds else []
    )
    return sorted(found, key=lambda span: span[1])


def operand_of_many(left: str) -> int:
    """Where a digit or so stops, and behind it only blanks, dashes and signs; 0: nowhere."""
    wide = BLANKS + HYPHENS + DASHES
    signs, size = "", 0
    while left and size < 3 and left[-1] in " \t*+/%&^-" + wide:
        signs, size = left[-1] + signs, size + len(left[-1].encode())
        left = left[:-1]
    return len(left) if signs and left and left[-1] in "0123456789)]_" else 0


def operand_before(gap: str, first: int, spaced: bool) -> int | None:
    """Where the operand stops before a candidate; 0: there is none; None: no number starts so."""
    if gap[first] != "+":
        return operand_of_many(gap[:first])
    if re.search(r"[A-Za-z+_)\]]\Z", gap[:first]):
        return None
    if re.search(r"[0-9]\Z", gap[:first]):
        return first
    found = re.search(r"[0-9)\]_]( {1,2})\Z", gap[:first]) if spaced else None
    return found.start(1) if found else 0


def run_stop(gap: str, digit: int) -> int | None:
    """Where the groups stop that start with the digit at `digit`; None: they are too short."""
    digits, gaps, size, end = 0, 0, 0, digit
    for place in range(digit, len(gap)):
        character = gap[place]
        if size >= 40 or (digits == 15 and character in "0123456789"):
            break
        if character in "0123456789":
            digits, gaps, end = digits + 1, 0, place + 1
        elif gaps < 2 and character in SEPARATORS + "()/" + HIDDEN:
            gaps += 1
        else:
            break
        size += len(character.encode())
    return end if digits >= 7 else None


def called(left: str) -> bool:
    """Whether a word for phones stands before."""
    rest, colon = left.encode(), False
    for count in range(4):
        size = 0
        while size < 8 and (sign := re.search(rb"(?:[\0- .(#:-]|\xc2\xa0|\xef\xbc\x9a)\Z", rest)):
            colon = colon or sign[0] in (b":", "：".encode())
            size += len(sign[0])
            rest = rest[: sign.start()]
        word = re.search(
            rb"(?:(?!\xc2\xa0)(?:[A-Za-z]|(?<!\xc2)[\x80-\xff]|(?<=\xc2)[^\xa0]))*\Z", rest
        )[0]
        rest = rest[: len(rest) - len(word)]
        if not word or len(left.encode()) - len(rest) > 48:
            return False
        hashed = context_words.word_hashes([re.sub(b"[A-Z]", lambda m: m[0].lower(), word)])[0]
        if hashed in phones.PHONES or (colon and hashed in phones.LABELS):
            return True
        if (colon or count) and hashed in phones.CALLS:
            return True
        if hashed not in phones.FILLERS:
            return False
    return False


def candidate(gap: str, first: int, digit: int, asked: int) -> tuple[int, bool, int, int] | None:
    """A candidate at `first` whose first digit is at `digit`."""
    plus, spaced = gap[first] == "+", gap[first : first + 2] == "+ "
    operand = operand_before(gap, first, spaced)
    dashed = re.search(f"[0-9][{DASHES}]\\Z", gap[:first])
    if operand is None or (not plus and (before(gap, first) or dashed)):
        return None
    end = run_stop(gap, digit)
    if end is None:
        return None
    extension = re.compile("[xX][0-9]{1,7}").match(gap, end)
    end = extension.end() if extension else end
    groups = re.findall("[0-9]+", gap[digit:end])
    if spaced and (
        len(groups[0]) > 3
        or len(groups) < 2
        or (len(groups) == 2 and not re.search(" [0-9]", gap[digit:end]))
    ):
        return None
    is_called = not plus and called(gap[:first])
    alone = not plus and gap[digit:end].isdigit()
    if alone and asked < 2 and not is_called:
        return None
    if alone and (item(gap, first, end, True) or term(gap, first, end)):
        return None
    behind = len(gap[operand:first].encode()) if operand else 0  # in bytes
    return behind, is_called, first, end


def candidates(
    text: str, walls: list[tuple[int, int]], asked: int
) -> list[tuple[int, bool, int, int]]:
    """Of each how far before it an operand stops (0: there is none), whether a word says that it is
    a phone's, start and stop.
    """

    def search(gap: str) -> list[tuple[int, bool, int, int]]:
        starts = r"(?<![0-9])[0-9]" if asked else r"\+[ (]?(?=[0-9])"
        found = []
        for match in re.finditer(starts, gap):
            first, digit = match.span() if not asked else (match.start(), match.start())
            if asked:
                first -= gap[first - 1 : first] == "("
                first -= first > 0 and gap[first - 1] == "+"
                if first == digit and gap[max(0, first - 2) : first] == "+ ":
                    first -= 2
            more = candidate(gap, first, digit, asked)
            if more is None and asked and gap[first:digit] == "+ ":
                more = candidate(gap, digit, digit, asked)
            if more:
                found.append(more)
        return found

    return between(text, walls, search)


def rewrite(text: str, spans: list[tuple[str, int, int]]) -> str:
    for kind, start, stop in reversed(spans):
        text = f"{text[:start]}<{kind.upper()}>{text[stop:]}"
    return text


# --- the tests ---


def in_bytes(text: str, spans: list[tuple]) -> list[tuple]:
    return [(*rest, len(text[:a].encode()), len(text[:b].encode())) for *rest, a, b in spans]


def told(column: pa.Array, spans: kernel.PiiSpans) -> list[list[tuple[str, int, int]]]:
    offsets, _ = utf8_buffers(column)
    rows = []
    for row in range(len(column)):
        places = range(spans.offsets[row], spans.offsets[row + 1])
        base = int(offsets[row])
        rows.append(
            [
                (
                    kernel.KINDS[spans.kinds[j]],
                    int(spans.starts[j]) - base,
                    int(spans.stops[j]) - base,
                )
                for j in places
            ]
        )
    return rows


def check(texts: list[str], column: pa.Array, kinds: frozenset[str] = ALL) -> None:
    buffers = utf8_buffers(column)
    spans = kernel.find(*buffers, kinds, HASHED)
    expected = [find(text, kinds) for text in texts]
    assert told(column, spans) == [
        in_bytes(text, row) for text, row in zip(texts, expected, strict=True)
    ]
    out = rewrite_spans(*buffers, spans, spans.kinds.astype(np.int32), BRACKETS)
    assert [row.decode() for row in strategies.cut(*out)] == [
        rewrite(text, row) for text, row in zip(texts, expected, strict=True)
    ]
    for asked in (phones.PLUS, phones.REGIONAL, phones.BARE):
        offsets, firsts, lasts, limits, operands, words = phones.candidates(*buffers, spans, asked)
        for row, (text, walls) in enumerate(zip(texts, expected, strict=True)):
            places = slice(offsets[row], offsets[row + 1])
            base = int(buffers[0][row])
            columns = zip(
                operands[places].tolist(),
                words[places].tolist(),
                firsts[places].tolist(),
                lasts[places].tolist(),
                strict=True,
            )
            found = [
                (a - operand if operand else 0, bool(word), a - base, b - base)
                for operand, word, a, b in columns
            ]
            wanted = candidates(text, [wall[1:] for wall in walls], asked)
            assert found == in_bytes(text, wanted), text
            ends = [*(start for _, start, _ in in_bytes(text, walls)), len(text.encode())]
            assert [int(limit) - base for limit in limits[places]] == [
                min(end for end in ends if end >= last) for *_, last in found
            ]
    theirs = kernel.find_as_datatrove(*buffers, kinds & {"email", "ip"})
    assert told(column, theirs) == [
        in_bytes(text, find_as_datatrove(text, kinds)) for text in texts
    ]


def pieces() -> st.SearchStrategy[str]:
    """Texts of what kernels tell apart, side by side."""
    return st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


@st.composite
def texts(draw: st.DrawFn) -> str:
    pad = draw(st.sampled_from((0, 0, 40, 55, 60, 63, 64))) * draw(st.sampled_from(("x", " ", "é")))
    return pad + draw(st.one_of(pieces(), pieces(), strategies.texts()))


@strategies.fuzz(600)
@given(strategies.slices(texts()), st.sets(st.sampled_from(sorted(ALL)), min_size=1))
@example((["1.2.3.456.7.8.9"], pa.array(["1.2.3.456.7.8.9"])), ALL)
@example((["éa-b@x.com", "²a@b.de"], pa.array(["éa-b@x.com", "²a@b.de"])), {"email"})
def test_fuzz_find(drawn: tuple[list[str], pa.Array], kinds: set[str]) -> None:
    check(*drawn, frozenset(kinds))


@strategies.fuzz(300)
@given(pieces())
@example("172.32.1.1~172.32.1.1")
@example("git@foo.com--2a00::1.2.3.4")
@example("2a00::1.2.3.40:")
@example("2a00::1.2.3.40:412-34-5678")
@example("a@foo.de--2a00::1 a@foo.xn--p1ai--2a00::1 a@b.xn2a00::1 a@b.com--x.org a@b.com--x.y")
@example("172.32.1.1~412-34-5678 172.32.1.1+de89370400440532013000")
def test_fuzz_redacted_again_is_redacted(text: str) -> None:
    """What stands beside what was found is judged alike before and after; of two finds that touch
    the first pass may take one (`2a00::1.2.3.4:412-34-5678`), as `private` allows for.
    """
    offsets, data = strategies.buffers([text])
    for _ in range(2 + ROUNDS):
        spans = kernel.find(offsets, data, ALL, HASHED)
        before_, offsets_, data_ = data.tobytes(), offsets, data
        offsets, data = rewrite_spans(
            offsets_, data_, spans, spans.kinds.astype(np.int32), BRACKETS
        )
    assert data.tobytes() == before_


CASES = {
    "mail foo.bar@baz.com, or <a-b@c.org>.": ["email", "email"],
    "x@example.com x@mail.example.org image@2x.png lodash@4.17.21.tgz a@b a@b.c": [],
    "a..b@foo.com .a@foo.com a.@foo.com": ["email", "email"],
    "pat.o'neil@foo.com jürgen.müller@foo.com": ["email", "email"],
    "foo@bar.com.Then it": ["email"],
    "88.8.8.80 8.8.8.80:80 [8.8.8.80] 8.8.8.80/24 88.8.8.80.": ["ip"] * 5,
    (
        "v8.8.8.80 8.8.8.8.80 8.8.80 08.8.8.80 8.8.8.256 lib-8.8.8.80 8.8.8.80-rc section "
        "8.5.1.4, 31.1.1.31, 143.6.15.1"
    ): [],
    (
        "127.0.0.1 10.1.1.1 192.168.1.1 172.16.0.1 169.254.0.1 0.0.0.0 255.255.255.255 192.0.2.1 "
        "224.0.0.251"
    ): [],
    "2001:4860:4860::8888 [2a00:1450::1]:80 IPv6:2a00::1 2a00::1: 2a00::1/64": ["ip"] * 5,
    "V8 65.6.85.28, version 65.6.85.28: OID 65.6.85.28, 65.6.85.28+dfsg 65.6.85.28~rc": [],
    "65.6.85.28~65.6.85.31 me@foo.com--and more": ["ip", "ip", "email"],
    (
        "to 4.6.85.28 (>= 1.9.99.12) 3.43.6.1 libXi 1.91.6.1 V8 from 4.2.77.18 to 4.2.77.20 "
        "-2.12 3.51.98.32 Oct 25 2000::"
    ): [],
    (
        "IP 4.6.85.28 address: 4.2.77.18, from [4.6.85.28] http://4.6.85.28/ u@4.6.85.28 "
        "4.6.85.28/24 4.6.85.28:80 ::ffff:4.6.85.28\n4.6.85.28 - - [27/Nov"
    ): ["ip"] * 9,
    "65.6.85.28 server IPv4 65.6.85.28 2000::/48": ["ip"] * 3,
    "::1 fe80::1 fc00::1 ff02::1 2001:db8::1 2002::1 std::vector 2001:1 12:34:56": [],
    "20:aa:bb:cc:dd:ee": [],
    "078-05-1120 (123-45-6789)": ["ssn", "ssn"],
    (
        "000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000 1123-45-6789 123-45-67890 "
        "x-123-45-6789"
    ): [],
    "4111111111111111 4111-1111-1111-1111 3782 822463 10005": ["card"] * 3,
    "4111111111111112 0.4111111111111111 /4111111111111111": [],
    "4111 1111-1111 1111 1234567812345670": [],
    (
        "[4220315081820346526, 7177518203184491332], (1, 6458161865649291, -53), 86400000, "
        "4031078400000]"
    ): [],
    (
        "t**14 + 4828147466240000*t**12, n1 + 4111111111111111, f(6)+4111111111111111, "
        "4111111111111111*x, 5360 5394 5428 5462 5496 5531\n 5565"
    ): [],
    (
        "(4111111111111111) [4111111111111111, 378282246310005] (4111111111111111, 123)\n* "
        "4111111111111111 see **4111111111111111** 1 + 4111111111111111"
    ): ["card"] * 7,
    "git@foo.org, git@foo.org: hg@bar.de svn@foo.com.": ["email"] * 4,
    "GB82WEST12345698765432 DE89 3704 0044 0532 0130 00 gb82west12345698765432": ["iban"] * 3,
    "GB83WEST12345698765432 XX82WEST12345698765432": [],
    "Gb82WEST12345698765432 GB82WEST1234569876543": [],
}


@pytest.mark.parametrize("text", CASES)
def test_cases(text: str) -> None:
    column = pa.array([text])
    check([text], column)
    assert [
        kind for kind, *_ in told(column, kernel.find(*utf8_buffers(column), ALL, HASHED))[0]
    ] == CASES[text]


WHOLE = {
    "pat.o'neil@foo.com": "",
    "pat.o’neil@foo.com": "",
    "jürgen.müller@foo.com": "",
    "ju\u0308rgen.mu\u0308ller@foo.com": "",
    "R&D@foo.com, r~b@foo.com": ", ",
    "pat@müller.de": "",
    "иван.петров2@пример.рф": "",
    "用户@例子.中": "",
    "'pat@foo.com' it's: pat@foo.com's": "'' it's: 's",
    "邮箱123456@foo.com联系我们": "邮箱联系我们",
    "请联系pat@foo.com。": "请联系。",
    "пишите pat@foo.com": "пишите ",
    "?a=b&email=pat@foo.com": "?a=b&email=",
}


@pytest.mark.parametrize("text", WHOLE)
def test_an_address_goes_whole_and_nothing_beside_it(text: str) -> None:
    offsets, data = strategies.buffers([text])
    spans = kernel.find(offsets, data, frozenset({"email"}), HASHED)
    _, rest = rewrite_spans(offsets, data, spans, spans.kinds.astype(np.int32), [b""])
    assert rest.tobytes().decode() == WHOLE[text]


def test_registries_are_ipaddress() -> None:
    """Around every border of what is special, and some between."""
    edges = [int(net.network_address) for net in map(ipaddress.ip_network, BORDERS)]
    edges += [int(net.broadcast_address) for net in map(ipaddress.ip_network, BORDERS)]
    texts = [
        str(ipaddress.ip_address(max(0, min(edge + by, (1 << 32) - 1))))
        for edge in edges
        for by in (-1, 0, 1)
    ]
    column = pa.array(
        [f"address {text}" for text in texts]
    )  # low numbers need a sign that they are one
    ours = told(column, kernel.find(*utf8_buffers(column), frozenset({"ip"}), HASHED))
    theirs = told(column, kernel.find_as_datatrove(*utf8_buffers(column), frozenset({"ip"})))
    assert [bool(row) for row in ours] == [public(text) and not counted(text) for text in texts]
    assert [bool(row) for row in theirs] == [is_global(text) for text in texts]
    assert 20 < sum(map(bool, ours)) < len(texts) - 20


BORDERS = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
192.0.0.0/24 192.0.0.9/32 192.0.0.10/32 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16
198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
""".split()


def test_ibans_of_every_country() -> None:
    """One made for each country of the registry is found, and no digit of it may change."""
    for country, layout in LAYOUTS.items():
        body = "".join(
            {"[0-9]": "7", "[A-Z]": "K", "[A-Z0-9]": "Z"}[kind] * int(size)
            for kind, size in re.findall(r"(\[[^\]]+\])\{(\d+)\}", layout)
        )
        rest = int("".join(str(int(sign, 36)) for sign in f"{body}{country}00")) % 97
        whole = f"{country}{98 - rest:02}{body}"
        wrong = f"{country}{(98 - rest) % 97 + 1:02}{body}"
        column = pa.array(
            [whole, wrong, whole + "0", whole[:-1], " ".join(re.findall(".{1,4}", whole))]
        )
        found = told(column, kernel.find(*utf8_buffers(column), frozenset({"iban"}), HASHED))
        assert [bool(row) for row in found] == [True, False, False, False, True], country


def test_too_large_is_told() -> None:
    offsets, data = strategies.buffers(["a@b.org " * 10])
    spans = kernel.find(offsets, data, ALL, HASHED)
    assert len(spans.kinds) == 10
    with pytest.raises(OverflowError, match="2 GiB"):
        rewrite_spans(offsets, data, spans, np.zeros(10, np.int32), [b"x" * (1 << 28)])


@pytest.mark.parametrize(
    "unit",
    [
        "@",
        "a@",
        "a.",
        "a@b.",
        "a@b.com",
        "1",
        "1.",
        "1.1.1.1.",
        "2001:",
        "2001:0::",
        "4111 ",
        "41111111111111111111",
        "123-",
        "GB82",
        "ip ",
        "x",
        "1, ",
        "5.6.7.8 ",
        "1234 ",
        "4111111111111111,",
        "+1",
        "+1 ",
        "1 1-",
        "a-",
        "é",
        "@[1.1.1.",
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """Four times the text takes about four times the time; a quadratic search would take sixteen
    times as long, and minutes. On a busy machine either measurement may be half as long again.
    """
    times = []
    for size in (1 << 19, 1 << 21):
        buffers = strategies.buffers([unit * (size // len(unit))])
        best = 1e9
        for _ in range(3):
            start = time.process_time()
            spans = kernel.find(*buffers, ALL, HASHED)
            kernel.find_as_datatrove(*buffers, frozenset({"email", "ip"}))
            for asked in (phones.PLUS, phones.REGIONAL, phones.BARE):
                phones.candidates(*buffers, spans, asked)
            best = min(best, time.process_time() - start)
        times.append(best)
    assert times[1] < 10 * times[0] + 0.02
    assert times[1] < 3
