"""Lines and paragraphs by str.splitlines, sentences, and a text without some of them."""

import unicodedata
from typing import NamedTuple

from tests.support.rules import SENTENCE, separate


class Line(NamedTuple):
    """A line, or a paragraph: what it is, and its end."""

    text: str
    end: str


def find(text: str, *, paragraphs: bool) -> list[Line]:
    """Lines by str.splitlines; paragraphs are made of them."""
    found = [
        Line(line, whole[len(line) :])
        for line, whole in zip(text.splitlines(), text.splitlines(keepends=True), strict=True)
    ]
    if not paragraphs:
        return found
    out: list[Line] = []
    for line in found:
        if not line.text.strip():
            last = out.pop() if out else Line("", "")
            out.append(Line(last.text, last.end + line.text + line.end))
        elif out and out[-1].text and len(out[-1].end.splitlines()) == 1:
            out.append(Line(out[-1].text + out.pop().end + line.text, line.end))
        else:
            out.append(line)
    return out


def cut_lines(found: list[Line], gone: list[bool]) -> str:
    """What stays, each but the last with its end, and then the end of the text."""
    stays = [line for line, goes in zip(found, gone, strict=True) if not goes]
    if len(stays) == len(found):
        return "".join(line.text + line.end for line in found)
    if not any(line.text.strip() for line in stays):
        return ""
    return "".join(line.text + line.end for line in stays[:-1]) + stays[-1].text + found[-1].end


def sentences(text: str) -> list[Line]:
    """Sentences with the white space behind them; that before the first one is of it."""
    starts, stops, at = [], [], 0
    for whole in text.splitlines(keepends=True):
        begins, ended, place = True, False, at
        for word in separate(whole):
            start = text.index(word, place)
            place = start + len(word)
            alone = all(unicodedata.category(character)[0] == "P" for character in word)
            if begins or (ended and not alone):
                starts.append(start if starts else 0)
                stops.append(place)
                begins = ended = False
            stops[-1] = place
            bare = word
            while bare and bare[-1] not in SENTENCE and unicodedata.category(bare[-1])[0] == "P":
                bare = bare[:-1]
            ended = ended or (bool(bare) and bare[-1] in SENTENCE)
        at += len(whole)
    if not starts:
        return [Line("", text)] if text else []
    nexts = [*starts[1:], len(text)]
    return [
        Line(text[start:stop], text[stop:behind])
        for start, stop, behind in zip(starts, stops, nexts, strict=True)
    ]
