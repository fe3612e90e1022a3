"""E-mail addresses: is one written round this `@`, and from where to where?

An address is searched from its `@`, to both sides; what may stand on either side holds no `@`, so
that no character is looked at more than a few times, whatever the text. `wall` is where the address
before stops; nothing looks behind it.

Before the `@` stand letters, digits, marks and `._%+-`, without `...`, trimmed of `.-%` at the
start and not ending in a dot, and between two of them `..`, what RFC 5322 allows besides (_JOINTS,
as in `pat.o'neil`; not `?{|}`, which text has there too), these signs in full width, and what is
not seen. A key and its `=`, a path and its `/`, and digits before a `/` stay: `?email=pat@`,
`GIT_AUTHOR_EMAIL=pat@`, `//host/pat@` (`_value_start`). Behind it stand labels of letters, digits,
marks and inner hyphens, up to the last one that is a top-level domain, or is one up to a dash of
two hyphens; or a public address of a host in brackets (`pat@[1.2.3.4]`), and of `pat@host@host`
both.

Letters are those of all scripts (RFC 6531, RFC 5890). Where Latin letters and others touch, an
address begins or ends, for text may touch it there; letters of scripts written without spaces
belong to one only before a domain of such letters too. Domains for examples and tests (RFC 2606,
RFC 6761) are nobody's, nor is what programs log in as where code is kept: `git`, `hg` or `svn` at
one of HOSTS, in `//git@host` or before a path, `git@host:path`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from gristmill.filters.pii.alone import HIDDEN, LEFT, RIGHT, PiiSpan
from gristmill.filters.pii.ip_addresses import ipv4, ipv6
from gristmill.filters.pii.letters import REMEMBERED, class_bits
from gristmill.kernels.unicode.tables import LETTER, NUMBER, UNSPACED

SHAPE = r"[^\0- ]@[^\0- ]"
# What a character is to an address: none of it, a letter by its script, a digit or a mark, a sign.
NONE, LATIN, OTHER, CROWDED, NEUTRAL, SIGN = range(6)
LONGEST_LABEL, LONGEST_TOP = 63, 36  # bytes
# Between two letters or digits these, `=` and `$` belong to an address.
_JOINTS = re.compile(f"[!#&'*/^`~’％＆＇＋－．＿{HIDDEN}]")
# An `@` with a host's address, or a dot behind its first label.
_LABEL = r"[^\0-,./:-@\[-`{-\x7f．]"
_AT = re.compile(rf"@(?<![\0- .@].)(?=\[[0-9Ii]|{_LABEL}{{1,64}}[.．]{_LABEL})", re.DOTALL)
_ASCII_LABELS = re.compile(r"[A-Za-z0-9-]*(?:\.[A-Za-z0-9-]*)*")
_ASCII_LOCAL = "_%+-.ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_BREAKS = frozenset(' \n\r\t<>()[]{}|:;,"\\@?')  # signs that are in no address
_HIDDEN = re.compile(f"[{HIDDEN}]")
_INNER = re.compile(f"[{HIDDEN}](?=[A-Za-z0-9.])")
_HOST = re.compile(r"\[(?P<tag>[Ii][Pp][Vv]6:)?(?=[0-9])")
# Keys whose values are addresses; and what ends in `mail`.
KEYS = frozenset(
    b"""
    cn e m to cc bcc from sender recipient recipients rcpt reply replyto user username login account
    contact author committer owner admin maintainer address addr emailaddress emails mailto id uid
    name value key param href url q query subject responsible
    """.split()
)
SERVICES = frozenset((b"git", b"hg", b"svn"))
HOSTS = frozenset(
    b"""
    altssh.bitbucket.org altssh.gitlab.com aur.archlinux.org bitbucket.org code.google.com
    codeberg.org framagit.org gist.github.com git.code.sf.net git.kernel.org git.launchpad.net
    git.savannah.gnu.org git.sr.ht gitee.com github.com gitlab.com gitlab.freedesktop.org
    gitlab.gnome.org gitlab.kitware.com gitlab.torproject.org heroku.com hf.co hg.code.sf.net
    hg.mozilla.org huggingface.co invent.kde.org notabug.org pagure.io salsa.debian.org
    ssh.dev.azure.com ssh.github.com svn.code.sf.net vs-ssh.visualstudio.com
    """.split()
)


def find(text: str, tops: frozenset[bytes], *, every: bool = False) -> list[PiiSpan]:
    """Return the addresses in a text, in order; `tops`: the top-level domains; `every`: also those
    that are nobody's.
    """
    spans: list[PiiSpan] = []
    wall = 0
    for sign in _AT.finditer(text):
        at = sign.start()
        if at < wall:
            continue
        if at == wall and spans:  # `pat@host@host`
            start, stop = spans[-1].start, _domain(text, at + 1, tops)[0]
            if stop:
                spans.pop()
        else:
            start, stop = _address(text, wall, at, tops, every)
        if stop:
            spans.append(PiiSpan("email", start, stop))
            wall = stop
    return spans


def _address(text: str, wall: int, at: int, tops: frozenset[bytes], every: bool) -> tuple[int, int]:
    """Return the address round the `@` at `at`: (start, stop); stop 0: there is none."""
    start = _local_start(text, wall, at)
    local = text[start:at]
    if "/" in local or "=" in local:
        local = local[_value_start(text[start - 1 : start] if start > wall else "", local, tops) :]
    local = local.lstrip(".-%")
    start = at - len(local)
    if not local:
        return start, 0
    if text[at + 1] == "[":
        return start, _host_stop(text, wall, at + 1, every)
    stop, ours = _domain(text, at + 1, tops)
    if stop and not every and not (ours and not _is_service(text, wall, start, at, stop)):
        return start, 0
    return start, stop


def _lower(text: str) -> bytes:
    """Return a name with its ASCII letters in lower case."""
    return text.encode().lower()


@lru_cache(REMEMBERED)
def _kind(character: str) -> int:
    """Return NONE, LATIN, OTHER, CROWDED or NEUTRAL."""
    point, bits = ord(character), class_bits(character)
    if bits & LETTER:
        if bits & UNSPACED:
            return CROWDED
        return LATIN if point < 0x250 or point >> 8 == 0x1E else OTHER
    if bits & NUMBER:
        return NEUTRAL
    # Marks have no bit, and neither have controls.
    general = 0x2000 <= point < 0x2070
    return NEUTRAL if bits == 0 and point >= 0x300 and not general and point != 0xFEFF else NONE


def _local_start(text: str, wall: int, at: int) -> int:
    """Return where what may stand before the `@` at `at` starts."""
    left = text[max(wall, at - LEFT) : at]
    rest = left.rstrip(_ASCII_LOCAL)
    if rest[-1:] in _BREAKS and ".." not in left[len(rest) :]:
        return at - len(left) + len(rest)
    crowded = text[at + 1] > "\x7f"
    start, last = at, NONE
    while start > wall:
        kind = _kind(text[start - 1])
        if kind == NONE:
            left = text[max(wall, start - 2) : start - 1]
            if not _is_sign(left, text[start - 1], text[start : min(start + 2, at)]):
                break
            kind = SIGN
        elif kind <= CROWDED and NONE < last <= CROWDED and last != kind:
            break
        crowded = crowded and kind in (CROWDED, SIGN)
        if kind == CROWDED and not crowded:
            break
        last, start = kind, start - 1
    return start


def _is_word(character: str, more: str = "") -> bool:
    """Return whether a character is a letter or a digit, or beyond ASCII; not where there is
    none.
    """
    return character != "" and (character.isalnum() or character > "\x7f" or character in more)


def _is_sign(left: str, sign: str, right: str) -> bool:
    """Return whether a sign belongs to an address, between one character left of it and two right
    of it; fewer: there are no more.
    """
    if sign in "_%+-" or (sign == "." and right[:1] != "."):
        return True
    if sign == ".":
        return _is_word(left) and _is_word(right[1:])
    if sign in "=$":  # ids of messages: `Xa_=DxR`, `8$-x`
        return _is_word(left, "_+-") and _is_word(right[:1], "_+-")
    return bool(_JOINTS.match(sign)) and _is_word(left) and _is_word(right[:1])


def _value_start(lead: str, local: str, tops: frozenset[bytes]) -> int:
    """Return where the address in `local` starts behind keys, paths and digits before a `/`; `lead`
    stands before it.
    """
    query = lead in ("?", "&") or "&" in local.partition("=")[2]
    path = lead == "/"
    begin = part = 0
    for sign in re.finditer("[=/]", local):
        piece = local[part : sign.start()]
        part = sign.end()
        if sign[0] == "=":
            cut = query or _is_key(piece)
        else:
            path = path or ("." in piece and _lower(piece.rpartition(".")[2]) in tops)
            cut = path or re.fullmatch("[0-9]*", piece) is not None
        begin = part if cut else begin
    return begin


def _is_key(piece: str) -> bool:
    """Return whether an address may be the value of this."""
    name = _lower(re.split("[^A-Za-z]", piece)[-1])
    return not piece or name in KEYS or name.endswith(b"mail")


def _host_stop(text: str, wall: int, at: int, every: bool) -> int:
    """Return where a host's address in brackets stops that starts at `at`; 0: there is none, or it
    is nobody's.
    """
    tag = _HOST.match(text, at)
    if not tag:
        return 0
    first = tag.end()
    left, here = text[max(wall, first - LEFT) : first], text[first : first + RIGHT]
    size = 0 if tag["tag"] else ipv4(left, here, every=every)
    size = size or ipv6(left, here, every=every)
    return first + size + 1 if size and here[size : size + 1] == "]" else 0


def _is_service(text: str, wall: int, start: int, at: int, stop: int) -> bool:
    """Return whether an address is what programs log in as where code is kept."""
    if _lower(text[start:at]) not in SERVICES:
        return False
    if _lower(text[at + 1 : stop]) in HOSTS or (start > wall and text[start - 1] == "/"):
        return True
    return text[stop : stop + 1] in (":", "/") and text[stop + 1 : stop + 2] > " "


def _labels(text: str, at: int) -> Iterator[str]:
    """Yield the labels of a domain that starts at `at`: letters of one kind of script, digits,
    marks, hyphens, and what is not seen between them.
    """
    plain = _ASCII_LABELS.match(text, at)
    if plain and text[plain.end() : plain.end() + 1] <= "\x7f":
        yield from plain[0].split(".")
        return
    start, script = at, NEUTRAL
    for place in range(at, len(text)):
        sign = text[place]
        kind = NEUTRAL if sign == "-" or _INNER.match(text, place) else _kind(sign)
        if kind == NONE or (kind != NEUTRAL and script not in (NEUTRAL, kind)):
            yield text[start:place]
            if sign not in (".", "．"):
                return
            start, script = place + 1, NEUTRAL
        elif kind != NEUTRAL:
            script = kind
    yield text[start:]


def _domain(text: str, at: int, tops: frozenset[bytes]) -> tuple[int, bool]:
    """Return where the domain that starts at `at` stops, 0: there is none; and whether it is
    somebody's.
    """
    stop, ours, before, place = 0, True, "", at
    for run in _labels(text, at):
        label = run.rstrip("-")
        if not label or label[0] == "-" or len(label.encode()) > LONGEST_LABEL:
            break
        size, name = _top(label, tops) if place > at else (0, b"")
        if size:
            stop = place + size
            # RFC 2606
            ours = name not in (b"com", b"net", b"org") or _name(before) != b"example"
        if len(label) < len(run):
            break
        before, place = label, place + len(run) + 1
    return stop, ours


def _name(label: str) -> bytes:
    """Return a label without what is not seen."""
    return _lower(label if label.isascii() else _HIDDEN.sub("", label))


def _top(label: str, tops: frozenset[bytes]) -> tuple[int, bytes]:
    """Return how long the top-level domain is that starts a label, and its name; 0: none."""
    # `me@example.org--and more`: a dash ends it as well, but that of `xn--`.
    dash = label.find("--", 4 if label[:2].lower() == "xn" and len(label) > 4 else 1)
    whole = label if dash < 0 else label[:dash]
    # `pat@example.org`, what is not seen, and a word.
    for part in (whole,) if whole.isascii() else (whole, _HIDDEN.split(whole, maxsplit=1)[0]):
        name = _name(part)
        if name in tops and len(part.encode()) <= LONGEST_TOP and part[0] not in "0123456789":
            return len(part), name
    return 0, b""
