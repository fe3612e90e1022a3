r"""Formulas of a page as TeX: MathML by its annotation, its alttext, or a small translation;
scripts of MathJax; images whose class says that their text is TeX.

The translation writes msup, msub and their like, mfrac, msqrt, mroot (as a power of 1/n) and tables
(as matrices); all other elements by their text, letters outside ASCII as they are:

    <msup><mi>x</mi><mn>2</mn></msup>  ->  {x}^{2}
    <mfrac><mi>a</mi><mi>b</mi></mfrac>  ->  \frac{a}{b}
"""

import re

from gristmill.filters.extract.markdown.page_source import BLANKS, SPACES, PageSource, words
from gristmill.filters.extract.markdown.references import NBSP, decode
from gristmill.kernels.html.names import ATTRIBUTE, ELEMENT
from gristmill.kernels.html.tokens import CLOSED, END, RAW, START, TEXT

ANNOTATION, MI, MTEXT, TABLE, ROW = (
    ELEMENT[name] for name in ("annotation", "mi", "mtext", "mtable", "mtr")
)
CLASS, ENCODING, ALTTEXT = (ATTRIBUTE[name] for name in ("class", "encoding", "alttext"))
MOST_OPEN = 64  # elements in one another; deeper ones are written by their text alone

# What is written before an element, between its first and second child, between its second and
# third, and behind it.
MARKS = {
    ELEMENT[name]: tuple(mark.encode() for mark in marks)
    for name, marks in {
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
    }.items()
}
NO_MARKS = (b"", b"", b"", b"")
SPACED = bytes.maketrans(BLANKS, b" " * len(BLANKS))
BLANK_RUN = re.compile(rb"[\x00-\x20]+")
DISPLAYSTYLE = re.compile(rb"\{\\displaystyle", re.IGNORECASE)
BRACE = re.compile(rb"[{}]")
LETTER = re.compile(rb"[A-Za-z]")
SPECIAL = re.compile(rb"[{}%#&$_^\\~]")  # what TeX takes for a sign of its own
UNSEEN = {chr(operator).encode(): b"" for operator in range(0x2061, 0x2065)}
DOLLARS = b"$" + BLANKS
PICTURES = {b"latex", b"tex"}  # classes of images of TeX


def math_tex(page: PageSource, token: int, stop: int) -> bytes:
    """Return the TeX of the <math> of the tokens token..stop."""
    for place in range(token + 1, stop - 1):
        is_annotation = page.kinds[place] == START and page.names[place] == ANNOTATION
        kind = page.kinds[place + 1]
        if is_annotation and kind in (TEXT, RAW) and page.has_word(place, ENCODING, b"tex"):
            return one_space(page.span(place + 1), kind == TEXT)
    alttext = page.attribute(token, ALTTEXT)
    return one_space(alttext) if alttext else translate(page, token + 1, stop)


def script_tex(text: bytes) -> bytes:
    """Return the TeX of a script of MathJax's, without kramdown's % <![CDATA[ and %]]>."""
    section = text.lstrip(SPACES + b"%")
    if section.startswith(b"<![") and len(section) >= 9:
        text = section[9:]
        section = text.rstrip(SPACES + b">")
        if section.endswith(b"]]"):
            text = section[:-2].rstrip(SPACES + b"%")
    return one_space(text, False)


def picture(names: bytes) -> int:
    """Return whether an <img> of these classes shows TeX: 1 in a line, 2 as a display, 0 not."""
    for name in words(names.lower()):
        if name in PICTURES:
            return 1
        if name == b"eeimg" or b"mwe-math-fallback" in name:
            return 2 if b"display" in name else 1
    return 0


def one_space(text: bytes, has_references: bool = True) -> bytes:
    """Return text with a run of white space as one space, or as one newline where it holds one."""
    if has_references:
        text = decode(text, {NBSP: b" "})
    return BLANK_RUN.sub(lambda run: b"\n" if b"\n" in run[0] else b" ", text).strip(b" \n")


def trim(tex: bytes) -> bytes:
    r"""Return a formula without the dollars around it, and the {\displaystyle } of Wikipedia's."""
    tex = tex.lstrip(DOLLARS)
    core = tex.rstrip(DOLLARS)
    if core.endswith(b"\\") and tex.startswith(b"$", len(core)):
        core += b"$"  # a dollar behind a backslash is one of the formula's
    if len(core) > 14 and DISPLAYSTYLE.match(core) and _is_braced(core):
        core = core[14:-1].strip(BLANKS)
    return core


def _is_braced(tex: bytes) -> bool:
    """Return whether the brace that TeX begins with is closed by its last byte."""
    depth = 0
    for brace in BRACE.finditer(tex):
        depth += 1 if brace[0] == b"{" else -1
        if depth == 0:
            return brace.end() == len(tex)
    return False


def translate(page: PageSource, first: int, stop: int) -> bytes:
    """Return the MathML of the tokens first..stop as TeX."""
    tex: list[bytes] = []
    names: list[int] = []  # the open elements
    children: list[int] = []  # of each of them
    over = 0
    for token in range(first, stop):
        kind, name = page.kinds[token], page.names[token]
        if kind in (START, CLOSED):
            if names:
                children[-1] += 1
                tex.append(_mark_between(names[-1], children[-1]))
            if kind == START:
                if len(names) == MOST_OPEN:
                    over += 1
                    continue
                names.append(name)
                children.append(0)
                tex.append(MARKS.get(name, NO_MARKS)[0])
        elif kind == END:
            if over:
                over -= 1
            elif name in names:
                place = len(names) - 1 - names[::-1].index(name)
                tex += _ends(names[place:])
                del names[place:], children[place:]
        elif kind in (TEXT, RAW) and names and names[-1] != ANNOTATION:
            tex.append(_letters(page.span(token), names[-1], kind == TEXT))
    return b"".join(tex + _ends(names))


def _ends(names: list[int]) -> list[bytes]:
    """Return what is written behind open elements."""
    return [MARKS.get(name, NO_MARKS)[3] for name in reversed(names)]


def _mark_between(parent: int, child: int) -> bytes:
    """Return what is written before the n-th child of an element."""
    if child in (2, 3) or (child > 3 and parent in (TABLE, ROW)):
        return MARKS.get(parent, NO_MARKS)[min(child - 1, 2)]
    return b""


def _letters(text: bytes, name: int, has_references: bool) -> bytes:
    """Return the text of one of MathML's elements: of <mtext> with its spaces, else without."""
    # letters of a reference are none of the name
    is_word = name == MI and len(LETTER.findall(text)) > 1 + 99 * text.count(b"&")
    if has_references:
        text = decode(text, UNSEEN)
    text = text.translate(SPACED) if name == MTEXT else text.translate(None, BLANKS)
    text = SPECIAL.sub(rb"\\\g<0>", text)
    return rb"\mathrm{" + text + b"}" if is_word else text
