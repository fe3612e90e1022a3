"""E-mail addresses: is one written round this `@`, and from where to where? By gristmill's rules,
and by those of datatrove's PIIFormatter.

An address is searched from its `@`, to both sides; what may stand on either side holds no `@`, so
that no byte is looked at more than a few times, whatever the text. `wall` and `stop` are as in
kernels/pii/numbers.py.

gristmill   before the `@` letters, digits, marks and `._%+-`, without `...`, trimmed of `.-%` at
            the start and not ending in a dot, and between two of them `..`, what RFC 5322 allows
            besides (JOINTS, as in `pat.o'neil`; not `?{|}`, which text has there too), these signs
            in full width, and what is not seen (numbers.HIDDEN). A key and its `=`, a path and its
            `/`, and digits before a `/` stay: `?email=pat@`, `GIT_AUTHOR_EMAIL=pat@`, `//host/pat@`
            (`_value_start`).
            Behind it labels
            of letters, digits, marks and inner hyphens, up to the last one that is a top-level
            domain, or is one up to a dash of two hyphens; or a public address of a host in brackets
            (`pat@[1.2.3.4]`), and of `pat@host@host` both.
            Letters are those of all scripts (RFC 6531, RFC 5890). Where Latin letters and others
            touch, an address begins or ends, for text may touch it there; letters of scripts
            written without spaces belong to one only before a domain of such letters too.
            Domains for examples and tests (RFC 2606, RFC 6761) are nobody's, nor is what programs
            log in as where code is kept: `git`, `hg` or `svn` at one of HOSTS, in `//git@host` or
            before a path, `git@host:path`
datatrove   pipeline/formatters/pii.py of datatrove 0.10.1: atoms of RFC 5322 from the first word
            boundary, then any labels, or an
            address in brackets
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.hashing.primitives import BASIS, PRIME
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Uint64s
from gristmill.kernels.pii.context_words import hash_of, known, word_hashes
from gristmill.kernels.pii.ip_addresses import ipv4_stop, ipv6_stop
from gristmill.kernels.pii.numbers import (
    COLON,
    DOT,
    HIDDEN,
    HYPHEN,
    SPACE,
    ZERO,
    beside,
    is_alnum,
    is_digit,
    is_letter,
)
from gristmill.kernels.unicode.tables import (
    LETTER,
    NUMBER,
    UNSPACED,
    code_point,
    unicode_bits,
    width_of,
)

SHORT, LONG = 2, 36  # of top-level domains, in bytes of UTF-8
# What a character is to an address: none of it, a letter by its script, a digit or a mark, a sign.
NONE, LATIN, OTHER, CROWDED, NEUTRAL, SIGN = 0, 1, 2, 3, 4, 5
SLASH, EQUALS, AMPERSAND = 0x2F, 0x3D, 0x26
# Between two letters or digits these, `=` and `$` belong to an address; and in full width, of three
# bytes EF BC xx, the second ones.
JOINTS = np.zeros(256, np.bool_)
JOINTS[list(b"!#&'*/^`~")] = True
WIDE_JOINTS = np.zeros(256, np.bool_)
WIDE_JOINTS[[0x85, 0x86, 0x87, 0x8B, 0x8D, 0x8E, 0xBF]] = True  # % & ' + - . _
# Keys whose values are addresses; and what ends in `mail`.
MAIL, IPV6 = word_hashes([b"mail"]), word_hashes([b"ipv6"])
KEYS = word_hashes(
    b"""
    cn e m to cc bcc from sender recipient recipients rcpt reply replyto user username login account
    contact author committer owner admin maintainer address addr emailaddress emails mailto id uid
    name value key param href url q query subject responsible
    """.split()
)

# RFC 2606, section 3: example.com, example.net, example.org.
RESERVED = np.concatenate([word_hashes([b"example"]), word_hashes([b"com", b"net", b"org"])])
SERVICES = word_hashes([b"git", b"hg", b"svn"])
HOSTS = word_hashes(
    b"""
    altssh.bitbucket.org altssh.gitlab.com aur.archlinux.org bitbucket.org code.google.com
    codeberg.org framagit.org gist.github.com git.code.sf.net git.kernel.org git.launchpad.net
    git.savannah.gnu.org git.sr.ht gitee.com github.com gitlab.com gitlab.freedesktop.org
    gitlab.gnome.org gitlab.kitware.com gitlab.torproject.org heroku.com hf.co hg.code.sf.net
    hg.mozilla.org huggingface.co invent.kde.org notabug.org pagure.io salsa.debian.org
    ssh.dev.azure.com ssh.github.com svn.code.sf.net vs-ssh.visualstudio.com
    """.split()
)


class KnownDomains(NamedTuple):
    """Labels of domains, as `context_words.known` looks them up."""

    top: Uint64s  # the top-level domains
    examples: Uint64s  # RESERVED


@helper
def _is_service(data, wall, start, at, end, stop):
    """Whether the address at data[start:end] is what programs log in as where code is kept."""
    if at - start < 2 or at - start > 3 or not known(hash_of(data, start, at), SERVICES):
        return False
    if known(hash_of(data, at + 1, end), HOSTS) or (start > wall and data[start - 1] == 0x2F):
        return True
    return end + 1 < stop and (data[end] == COLON or data[end] == 0x2F) and data[end + 1] > SPACE


@helper
def _label_stop(data, at, stop):
    """Where a run of letters, digits and hyphens stops."""
    while at < stop and (is_alnum(data[at]) or data[at] == HYPHEN):
        at += 1
    return at


@helper
def _kind(data, at, classes):
    """What the character is that starts at `at`: NONE, LATIN, OTHER, CROWDED or NEUTRAL."""
    byte = data[at]
    if byte < 0x80:
        return LATIN if is_letter(byte) else NEUTRAL if is_digit(byte) else NONE
    point = code_point(data, at, width_of(byte))
    bits = unicode_bits(point, classes)
    if bits & LETTER:
        if bits & UNSPACED:
            return CROWDED
        return LATIN if point < 0x250 or point >> 8 == 0x1E else OTHER
    if bits & NUMBER:
        return NEUTRAL
    # Marks have no bit, and neither have controls.
    general = point >> 4 >= 0x200 and point >> 4 < 0x207
    return NEUTRAL if bits == 0 and point >= 0x300 and not general and point != 0xFEFF else NONE


@helper
def _hidden_width(data, at, stop):
    """Bytes of a character at `at` that is not seen; 0: it is another, or nothing goes on."""
    if beside(data, at, stop) != HIDDEN:
        return 0
    width = width_of(data[at])
    after = data[at + width] if at + width < stop else SPACE
    return width if is_alnum(after) or after == DOT else 0


@helper
def _wide_label_stop(data, at, stop, classes):
    """Where a run of letters of one kind of script, digits, marks and hyphens stops, and of what is
    not seen between them.
    """
    script = NEUTRAL
    while at < stop:
        if data[at] >= 0x80 and _hidden_width(data, at, stop) > 0:
            at += width_of(data[at])
            continue
        if data[at] != HYPHEN:
            kind = _kind(data, at, classes)
            if kind == NONE or (kind != NEUTRAL and script != NEUTRAL and kind != script):
                break
            if kind != NEUTRAL:
                script = kind
        at += width_of(data[at])
    return at


@helper
def _is_word(byte):
    """Whether a byte is of a letter or a digit, or beyond ASCII."""
    return is_alnum(byte) or byte >= 0x80


@helper
def _is_inner(byte):
    return byte == 0x5F or byte == 0x2B or byte == HYPHEN


@helper
def _sign(data, wall, back, start, at):
    """Whether the sign at data[back:start] belongs to an address; `start` is where it begins
    without, `at` its `@`.
    """
    byte = data[back]
    if (
        byte == HYPHEN
        or byte == 0x5F
        or byte == 0x25
        or byte == 0x2B
        or (byte == DOT and data[start] != DOT)
    ):
        return True
    if back == wall or start == at:
        return False
    if byte == DOT:
        return start + 1 < at and _is_word(data[back - 1]) and _is_word(data[start + 1])
    if byte == EQUALS or byte == 0x24:  # ids of messages: `Xa_=DxR`, `8$-x`
        left = _is_word(data[back - 1]) or _is_inner(data[back - 1])
        return left and (_is_word(data[start]) or _is_inner(data[start]))
    if byte < 0x80:
        joint = JOINTS[byte]
    elif start - back == 3 and byte == 0xEF and data[back + 1] == 0xBC:
        joint = WIDE_JOINTS[data[back + 2]]
    else:
        quote = byte == 0xE2 and data[back + 1] == 0x80 and data[back + 2] == 0x99
        joint = quote or beside(data, back, start) == HIDDEN
    return joint and _is_word(data[back - 1]) and _is_word(data[start])


@helper
def _local_start(data, wall, at, stop, classes):
    """Where what may stand before the `@` at `at` starts."""
    crowded = at + 1 < stop and data[at + 1] >= 0x80
    start = at
    last = NONE
    while start > wall:
        back = start - 1
        while data[back] & 0xC0 == 0x80 and back > wall:
            back -= 1
        kind = _kind(data, back, classes)
        if kind == NONE:
            if not _sign(data, wall, back, start, at):
                break
            kind = SIGN
        elif kind <= CROWDED and last <= CROWDED and last != NONE and last != kind:
            break
        crowded = crowded and (kind == CROWDED or kind == SIGN)
        if kind == CROWDED and not crowded:
            break
        last = kind
        start = back
    return start


@helper
def _is_key(data, first, last):
    """Whether an address may be the value of what stands at data[first:last]."""
    start = last
    while start > first and is_letter(data[start - 1]):
        start -= 1
    if last - start >= 4 and known(hash_of(data, last - 4, last), MAIL):
        return True
    return first == last or known(hash_of(data, start, last), KEYS)


@helper
def _is_host(data, first, last, domains):
    """Whether a host's name stands at data[first:last]."""
    start = last
    while start > first and data[start - 1] != DOT:
        start -= 1
    return start > first and known(hash_of(data, start, last), domains)


@helper
def _value_start(data, wall, start, at, domains):
    """Where the address at data[start:at] starts behind keys, paths and digits before a `/`."""
    lead = data[start - 1] if start > wall else SPACE
    query = lead == 0x3F or lead == AMPERSAND
    path = lead == SLASH
    seen = False
    for here in range(start, at):
        query = query or (seen and data[here] == AMPERSAND)
        seen = seen or data[here] == EQUALS
    begin = start
    part = start
    digits = True
    for here in range(start, at):
        byte = data[here]
        if byte == EQUALS:
            if query or _is_key(data, part, here):
                begin = here + 1
            part = here + 1
        elif byte == SLASH:
            path = path or _is_host(data, part, here, domains)
            if path or digits:
                begin = here + 1
            part = here + 1
        digits = here < part or (digits and is_digit(byte))
    return begin


@helper
def _dash(data, label, last):
    """Where the first of two hyphens stands in a label, that of `xn--` aside; `last`: nowhere."""
    first = label + 1
    if last - label > 4 and data[label] | 0x20 == 0x78 and data[label + 1] | 0x20 == 0x6E:
        first = label + 4
    for at in range(first, last - 1):
        if data[at] == HYPHEN and data[at + 1] == HYPHEN:
            return at
    return last


@helper
def _name_of(data, start, stop):
    """`hash_of` a label without what is not seen."""
    value = BASIS
    at = start
    while at < stop:
        byte = data[at]
        if byte >= 0x80 and beside(data, at, stop) == HIDDEN:
            at += width_of(byte)
            continue
        if byte >= 0x41 and byte <= 0x5A:
            byte |= np.uint8(0x20)
        value = (value ^ np.uint64(byte)) * PRIME
        at += 1
    return value


@helper
def _dot_width(data, at, stop):
    """Bytes of the dot at `at`, in full width too; 0: there is none."""
    if at >= stop:
        return 0
    if data[at] == DOT:
        return 1
    wide = at + 3 < stop and data[at] == 0xEF and data[at + 1] == 0xBC and data[at + 2] == 0x8E
    return 3 if wide else 0


@helper
def domain(data, at, stop, known_domains, classes):
    """The domain that starts at `at`: (where it stops, 0: there is none; whether it is
    somebody's).
    """
    end = np.int64(0)
    label = at
    labels = 0
    before = np.uint64(0)
    ours = True
    while True:
        after = _wide_label_stop(data, label, stop, classes)
        last = after
        while last > label and data[last - 1] == HYPHEN:
            last -= 1
        if last == label or data[label] == HYPHEN or last - label > 63:
            break
        labels += 1
        top = _dash(data, label, last)  # `me@example.org--and more`: a dash ends it as well
        name = _name_of(data, label, top)
        if labels > 1 and not known(name, known_domains.top):
            # `pat@example.org`, what is not seen, and a word
            for here in range(label, top):
                if data[here] >= 0x80 and beside(data, here, top) == HIDDEN:
                    name = hash_of(data, label, here)
                    top = here
                    break
        letter = is_letter(data[label]) or data[label] >= 0x80
        if top - label >= SHORT and top - label <= LONG and letter:
            if labels > 1 and known(name, known_domains.top):
                end = top
                ours = not (
                    known(before, known_domains.examples[:1])
                    and known(name, known_domains.examples[1:])
                )
        before = _name_of(data, label, last)
        width = _dot_width(data, after, stop)
        if last < after or width == 0:
            return end, ours
        label = after + width
    return end, ours


@helper
def _host_stop(data, wall, at, stop, every):
    """Where a host's address in brackets stops that starts at `at`; 0: there is none, or it is
    nobody's.
    """
    first = at + 1
    if (
        first + 5 < stop
        and data[first + 4] == COLON
        and known(hash_of(data, first, first + 4), IPV6)
    ):
        first += 5
    end = np.int64(0)
    if first < stop and is_digit(data[first]):
        end = ipv4_stop(data, wall, first, stop, every) if first == at + 1 else end
        end = end if end > 0 else ipv6_stop(data, wall, first, stop, every)
    return end + 1 if end > 0 and end < stop and data[end] == 0x5D else np.int64(0)


@helper
def address(data, wall, at, stop, known_domains, classes, every):
    """The e-mail address round the `@` at `at`, by gristmill's rules: (start, stop); stop 0: there
    is none. `every`: also one that is nobody's.
    """
    nothing = np.int64(0)
    start = _local_start(data, wall, at, stop, classes)
    for here in range(start, at):
        if data[here] == SLASH or data[here] == EQUALS:
            start = _value_start(data, wall, start, at, known_domains.top)
            break
    while start < at and (data[start] == DOT or data[start] == HYPHEN or data[start] == 0x25):
        start += 1
    if start == at or data[at - 1] == DOT:
        return start, nothing
    if at + 1 < stop and data[at + 1] == 0x5B:
        return start, _host_stop(data, wall, at + 1, stop, every)
    end, ours = domain(data, at + 1, stop, known_domains, classes)
    if every or end == 0:
        return start, end
    return start, end if ours and not _is_service(data, wall, start, at, end, stop) else nothing


@helper
def _is_word_before(data, begin, at, classes):
    r"""Whether the character before `at` is one of Python's \w."""
    if at <= begin:
        return False
    before = at - 1
    while data[before] & 0xC0 == 0x80 and before > begin:
        before -= 1
    if data[before] < 0x80:
        return is_alnum(data[before]) or data[before] == 0x5F
    point = code_point(data, before, width_of(data[before]))
    return unicode_bits(point, classes) & (LETTER | NUMBER) != 0


@helper
def _is_atom(byte):
    """Whether a byte is RFC 5322's atext."""
    return (
        is_alnum(byte)
        or byte == 0x21
        or (byte >= 0x23 and byte <= 0x27)
        or byte == 0x2A
        or byte == 0x2B
        or byte == HYPHEN
        or byte == 0x2F
        or byte == 0x3D
        or byte == 0x3F
        or (byte >= 0x5E and byte <= 0x60)
        or (byte >= 0x7B and byte <= 0x7E)
    )


@helper
def octet_stop(data, at, stop):
    """Where one to three digits up to 255 stop, however many zeros lead; 0: they are others, or a
    digit follows.
    """
    value = np.int64(0)
    size = 0
    while at < stop and size < 4 and is_digit(data[at]):
        value = value * 10 + np.int64(data[at] - ZERO)
        at += 1
        size += 1
    return at if size > 0 and size < 4 and value <= 255 else np.int64(0)


@helper
def _literal_stop(data, at, stop):
    """Where `[1.2.3.4]`, or `[1.2.3.name:]`, that starts at `at` stops; 0: there is none."""
    nothing = np.int64(0)
    at += 1
    for _ in range(3):
        at = octet_stop(data, at, stop)
        if at == 0 or at >= stop or data[at] != DOT:
            return nothing
        at += 1
    last = octet_stop(data, at, stop)
    if last > 0 and last < stop and data[last] == 0x5D:
        return last + 1
    last = _label_stop(data, at, stop)
    named = (
        last > at
        and data[last - 1] != HYPHEN
        and last + 1 < stop
        and data[last] == 0x3A
        and data[last + 1] == 0x5D
    )
    return last + 2 if named else nothing


@helper
def _domain_stop(data, at, stop):
    """Where two labels or more that start at `at` stop; 0: there are none. As datatrove's pattern,
    which takes as many as it can.
    """
    end = np.int64(0)
    labels = 0
    label = at
    while label < stop and is_alnum(data[label]):
        after = _label_stop(data, label, stop)
        last = after
        while data[last - 1] == HYPHEN:
            last -= 1
        labels += 1
        if labels > 1:
            end = last
        if last < after or after >= stop or data[after] != DOT:
            break
        label = after + 1
    return end


@helper
def datatrove_address(data, begin, wall, at, stop, classes):
    """The e-mail address round the `@` at `at`, by datatrove's pattern: (start, stop); stop 0:
    there is none. The text starts at `begin`.
    """
    nothing = np.int64(0)
    start = at
    while start > wall:
        byte = data[start - 1]
        if not _is_atom(byte) and not (byte == DOT and start < at and data[start] != DOT):
            break
        start -= 1
    while start < at and data[start] == DOT:
        start += 1
    if start == at:
        return start, nothing
    end = (
        _literal_stop(data, at + 1, stop)
        if at + 1 < stop and data[at + 1] == 0x5B
        else _domain_stop(data, at + 1, stop)
    )
    if end == 0:
        return start, nothing
    # Their pattern begins at a word boundary, \b: the first.
    word = _is_word_before(data, begin, start, classes)
    while start < at:
        here = is_alnum(data[start]) or data[start] == 0x5F
        if here != word and data[start] != DOT:
            return start, end
        word = here
        start += 1
    return start, nothing
