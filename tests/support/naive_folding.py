"""The slow twin of kernels.folding: forms of texts by Python's own Unicode, a character at a time.

It knows the code points of the running Python, which are those that strategies draw.
"""

import re
import unicodedata

from tests.support.naive import UNSPACED

INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
QUOTES = {
    **dict.fromkeys("´ʻʼ‘’‚‛‹›", "'"),
    **dict.fromkeys("«»“”„‟⹂〝〞〟", '"'),
    **dict.fromkeys("‐‑‒–—―−⸺⸻︱︲﹘﹣－", "-"),
    "…": "...",
}
DRAWN = ("wide", "narrow", "small", "vertical", "initial", "medial", "final", "isolated", "noBreak")
LIGATURES = re.compile(
    "[\u0132\u0133\u0149\u01c4-\u01cc\u01f1-\u01f3\u2e9f\u2ef3\u2f00-\u2fd5\ufb00-\ufb06"
    "\ufb13-\ufb17]"
)
ARABIC = re.compile(
    "[\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed]"
)
SIGNS = "#$%&*+-/<=>@\\^|~"
HELD = 64  # code points that are put into order together
BLOCKER = "\u034f"


def expand(character: str) -> str:
    """What a character becomes, decomposed."""
    category = unicodedata.category(character)
    if INVISIBLE.match(character) or (category in ("Cf", "Cc") and not character.isspace()):
        return ""
    if character in QUOTES:
        return QUOTES[character]
    kind, _, parts = unicodedata.decomposition(character).rpartition("> ")
    if character.isspace() or not parts:
        return character
    if kind and kind[1:] not in DRAWN and not LIGATURES.match(character):
        return character
    made = "".join(expand(chr(int(part, 16))) for part in parts.split())
    return character if kind and (len(made) > 4 or " " in made) else made


def fold(text: str, *, arabic_marks: bool = True) -> str:
    """NFC, width, ligatures, quotes and dashes in one form, nothing that is not drawn."""
    if not arabic_marks:
        text = ARABIC.sub("", text)
    out, row = [], 0
    for character in "".join(map(expand, text)):
        for part in unicodedata.normalize("NFD", character):
            row = row + 1 if unicodedata.combining(part) else 1
            if row > HELD:
                out.append(BLOCKER)
                row = 1
            out.append(part)
    folded = unicodedata.normalize("NFC", "".join(out)).replace(BLOCKER, "")
    return ARABIC.sub("", folded) if not arabic_marks else folded


def folded(text: str, *, arabic_marks: bool = True) -> str:
    """The form `folded`: white space is one space, or a line break and the line's indentation."""
    out = []
    pieces = re.split(r"(\s+)", fold(text, arabic_marks=arabic_marks).strip())
    for piece in pieces:
        if not piece or not piece.isspace():
            out.append(piece)
            continue
        lines = f"{piece}|".splitlines()
        indent = "".join(space for space in lines[-1] if space in " \t") if len(lines) > 1 else ""
        out.append(f"\n{indent}" if indent else " ")
    return "".join(out)


def words(text: str, *, signs: bool, arabic_marks: bool = True) -> str:
    """The forms `words` and `signs`."""
    out: list[str] = []
    before = last = ""  # kind of the character before, and the character
    for character in fold(text, arabic_marks=arabic_marks):
        category = unicodedata.category(character)
        sign = signs and (category in ("Sm", "Sc", "So") or character in SIGNS)
        sign = sign and character != "\ufffd" and not (character == "-" and before == "word")
        if sign:
            made = "!=" if character == "=" and last == "!" else character
            out.append(made if before == "sign" else f" {made}")
            before = "sign"
        elif character.isspace() or category[0] in "PS":
            out.append(" ")
            before = ""
        else:
            lower = character.lower()[0]
            spaced = f" {lower} " if UNSPACED.match(character) else lower
            out.append(f" {spaced}" if before == "sign" else spaced)
            before = "word"
        last = character
    return " ".join("".join(out).split())


def signed_words(text: str) -> str:
    """The form `signs`: what near duplicates, lines and paragraphs are compared by."""
    return words(text, signs=True)
