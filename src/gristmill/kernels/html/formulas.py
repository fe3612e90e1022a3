r"""Formulas of a page as TeX: MathML by its annotation, its alttext, or a small translation;
scripts of MathJax; images whose class says that their text is TeX.

The translation writes msup, msub and their like, mfrac, msqrt, mroot (as a power of 1/n) and tables
(as matrices); all other elements by their text, letters outside ASCII as they are:

    <msup><mi>x</mi><mn>2</mn></msup>  ->  {x}^{2}
    <mfrac><mi>a</mi><mi>b</mi></mfrac>  ->  \frac{a}{b}
"""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.html.names import ELEMENT
from gristmill.kernels.html.references import put_reference
from gristmill.kernels.html.tags import is_space
from gristmill.kernels.html.tokens import CLOSED, END, RAW, START, TEXT
from gristmill.kernels.jit.compile import helper
from gristmill.kernels.jit.groups import Bytes, Int32s

ANNOTATION, MI, MTEXT, TABLE, ROW = (
    ELEMENT[name] for name in ("annotation", "mi", "mtext", "mtable", "mtr")
)
MOST_OPEN = 64  # elements in one another; deeper ones are written by their text alone

# What is written before an element, between its first and second child, between its second and
# third, and behind it; by 4 * (its name's number).
_MARKS = {
    "mfrac": (r"\frac{", "}{", "", "}"),
    "msqrt": (r"\sqrt{", "", "", "}"),
    "mroot": ("{(", ")}^{1/(", "", ")}"),
    "msub": ("{", "}_{", "", "}"),
    "munder": ("{", "}_{", "", "}"),
    "msup": ("{", "}^{", "", "}"),
    "mover": ("{", "}^{", "", "}"),
    "msubsup": ("{", "}_{", "}^{", "}"),
    "munderover": ("{", "}_{", "}^{", "}"),
    "mtable": (r"\begin{matrix} ", r" \\ ", r" \\ ", r" \end{matrix}"),
    "mtr": ("", " & ", " & ", ""),
    "mtext": (r"\text{", "", "", "}"),
}


class Marks(NamedTuple):
    """What is written for MathML's elements."""

    starts: Int32s  # (1025,) of the mark 4 * name + place
    data: Bytes


def _marks() -> Marks:
    sizes = np.zeros(1025, np.int32)
    data = b""
    named = {
        4 * ELEMENT[name] + k: mark for name, row in _MARKS.items() for k, mark in enumerate(row)
    }
    for place in range(1024):
        sizes[place] = len(data)
        data += named.get(place, "").encode()
    sizes[1024] = len(data)
    return Marks(sizes, np.frombuffer(data, np.uint8).copy())


MARKS = _marks()
DISPLAYSTYLE = np.frombuffer(b"displaystyle", np.uint8)
ROMAN = np.frombuffer(rb"\mathrm{", np.uint8)
SPECIAL = np.frombuffer(b"{}%#&$_^\\~", np.uint8)


@helper
def put(out, to, byte):
    """Write a byte where there is room; where the next one is."""
    if to < len(out):
        out[to] = byte
    return to + 1


@helper
def put_bytes(data, start, stop, out, to):
    """Write data[start:stop] where there is room."""
    for at in range(start, stop):
        to = put(out, to, data[at])
    return to


@helper
def is_word(data, start, stop, word):
    """Whether data[start:stop] is a word, in any case."""
    if stop - start != len(word):
        return False
    for k in range(len(word)):
        if data[start + k] | 0x20 != word[k]:
            return False
    return True


@helper
def holds(data, start, stop, word):
    """Whether data[start:stop] holds a word, in any case."""
    for at in range(start, stop - len(word) + 1):
        if data[at] | 0x20 == word[0] and is_word(data, at, at + len(word), word):
            return True
    return False


@helper
def value_of(data, start, stop, word):
    """The value of an attribute in a tag's data[start:stop], from its name on: (start, stop), or
    (0, 0) where it has none.
    """
    at = start
    while at < stop and not is_space(data[at]):
        at += 1
    while at < stop:
        if is_space(data[at]) or data[at] == 0x2F:
            at += 1
            continue
        name = at
        at += 1
        while at < stop and not (is_space(data[at]) or data[at] == 0x3D or data[at] == 0x2F):
            at += 1
        end = at
        while at < stop and is_space(data[at]):
            at += 1
        first = last = np.int64(0)
        if at < stop and data[at] == 0x3D:
            at += 1
            while at < stop and is_space(data[at]):
                at += 1
            quote = data[at] if at < stop else np.uint8(0)
            first = at
            if quote == 0x22 or quote == 0x27:
                first = at + 1
                at += 1
                while at < stop and data[at] != quote:
                    at += 1
                last = at
                at += 1
            else:
                while at < stop and not is_space(data[at]):
                    at += 1
                last = at
        if is_word(data, name, end, word):
            return first, min(last, stop)
    return np.int64(0), np.int64(0)


@helper
def put_decoded(data, start, stop, decode, references, spare, out, to):
    """Write data[start:stop], its references decoded; a run of white space as one space, or as one
    newline where it holds one, and none at the start.
    """
    at = start
    blank = np.int64(0)
    first = to
    while at < stop:
        byte = data[at]
        if byte == 0x26 and decode:
            at, size = put_reference(data, at, stop, False, references, spare, 0)
        else:
            at += 1
            size = np.int64(1)
            spare[0] = byte
        if size == 1 and spare[0] <= 0x20:
            blank = max(blank, np.int64(2 if spare[0] == 0x0A else 1))
            continue
        if size == 2 and spare[0] == 0xC2 and spare[1] == 0xA0:
            blank = max(blank, np.int64(1))
            continue
        if blank > 0 and to > first:
            to = put(out, to, np.uint8(0x0A if blank == 2 else 0x20))
        blank = np.int64(0)
        to = put_bytes(spare, 0, size, out, to)
    return to


@helper
def _braced(out, first, stop):
    """Whether the brace at `first` is closed by the one right before `stop`."""
    depth = np.int64(0)
    for at in range(first, stop):
        if out[at] == 0x7B:
            depth += 1
        elif out[at] == 0x7D:
            depth -= 1
            if depth == 0:
                return at == stop - 1
    return False


@helper
def trim(out, first, stop):
    r"""Take the dollars around a formula out[first:stop], and the {\displaystyle } of Wikipedia's;
    where it stops.
    """
    if stop > len(out):
        return stop
    start = first
    end = stop
    while start < end and (out[start] == 0x24 or out[start] <= 0x20):
        start += 1
    while start < end and (out[end - 1] == 0x24 or out[end - 1] <= 0x20):
        # a dollar behind a backslash is one of the formula's
        if out[end - 1] == 0x24 and end - 2 >= start and out[end - 2] == 0x5C:
            break
        end -= 1
    if (
        end - start > 14
        and out[start] == 0x7B
        and is_word(out, start + 2, start + 14, DISPLAYSTYLE)
    ):
        if out[start + 1] == 0x5C and _braced(out, start, end):
            start += 14
            end -= 1
            while start < end and out[start] <= 0x20:
                start += 1
            while start < end and out[end - 1] <= 0x20:
                end -= 1
    for at in range(start, end):
        out[first + at - start] = out[at]
    return first + end - start


@helper
def put_script(data, start, stop, references, spare, out, to):
    """Write the TeX of a script of MathJax's, without kramdown's % <![CDATA[ and %]]>."""
    at = start
    while at < stop and (is_space(data[at]) or data[at] == 0x25):
        at += 1
    if at + 9 <= stop and data[at] == 0x3C and data[at + 1] == 0x21 and data[at + 2] == 0x5B:
        start = at + 9
        end = stop
        while end > start and (is_space(data[end - 1]) or data[end - 1] == 0x3E):
            end -= 1
        if end - start >= 2 and data[end - 1] == 0x5D and data[end - 2] == 0x5D:
            end -= 2
            while end > start and (is_space(data[end - 1]) or data[end - 1] == 0x25):
                end -= 1
            stop = end
    return put_decoded(data, start, stop, False, references, spare, out, to)


@helper
def _mark(name, place, marks, out, to):
    mark = 4 * np.int64(name) + place
    return put_bytes(marks.data, marks.starts[mark], marks.starts[mark + 1], out, to)


@helper
def _put_letters(data, start, stop, name, decode, references, spare, out, to):
    """Write the text of one of MathML's elements: in <mtext> with its spaces, else without; what
    TeX takes for a sign of its own behind a backslash.
    """
    letters = np.int64(0)
    if name == MI:
        for at in range(start, stop):
            letters += np.uint8((data[at] | 0x20) - 0x61) < 26
            letters -= 99 if data[at] == 0x26 else 0
    if letters > 1:
        to = put_bytes(ROMAN, 0, len(ROMAN), out, to)
    at = start
    while at < stop:
        byte = data[at]
        if byte == 0x26 and decode:
            at, size = put_reference(data, at, stop, False, references, spare, 0)
        else:
            at += 1
            size = np.int64(1)
            spare[0] = byte
        byte = spare[0]
        if size == 1 and byte <= 0x20:
            if name == MTEXT:
                to = put(out, to, np.uint8(0x20))
            continue
        # U+2061 to U+2064: operators that are not seen
        if size == 3 and byte == 0xE2 and spare[1] == 0x81 and 0xA1 <= spare[2] <= 0xA4:
            continue
        if size == 1:
            for special in SPECIAL:
                if byte == special:
                    to = put(out, to, np.uint8(0x5C))
        to = put_bytes(spare, 0, size, out, to)
    if letters > 1:
        to = put(out, to, np.uint8(0x7D))
    return to


@helper
def translate(data, tokens, first, stop, tables, work, out, to):
    """Write the MathML of the tokens first..stop as TeX."""
    stack = work.stack
    depth = np.int64(0)
    over = np.int64(0)
    for token in range(first, stop):
        kind = tokens.kinds[token]
        name = tokens.names[token]
        if kind == START or kind == CLOSED:
            if depth > 0:
                parent = stack[2 * depth - 2]
                stack[2 * depth - 1] += 1
                child = stack[2 * depth - 1]
                if child == 2 or child == 3 or (child > 3 and (parent == TABLE or parent == ROW)):
                    to = _mark(parent, min(child - 1, np.int64(2)), tables.marks, out, to)
            if kind == START:
                if depth == MOST_OPEN:
                    over += 1
                    continue
                stack[2 * depth] = name
                stack[2 * depth + 1] = 0
                depth += 1
                to = _mark(name, 0, tables.marks, out, to)
        elif kind == END:
            if over > 0:
                over -= 1
                continue
            place = depth - 1
            while place >= 0 and stack[2 * place] != name:
                place -= 1
            while place >= 0 and depth > place:
                depth -= 1
                to = _mark(stack[2 * depth], 3, tables.marks, out, to)
        elif (kind == TEXT or kind == RAW) and depth > 0:
            name = np.uint8(stack[2 * depth - 2])
            if name != ANNOTATION:
                to = _put_letters(
                    data,
                    tokens.starts[token],
                    tokens.stops[token],
                    name,
                    kind == TEXT,
                    tables.references,
                    work.spare,
                    out,
                    to,
                )
    while depth > 0:
        depth -= 1
        to = _mark(stack[2 * depth], 3, tables.marks, out, to)
    return to
