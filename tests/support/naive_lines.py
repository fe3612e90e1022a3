"""Lines and paragraphs by str.splitlines, and a text without some of them."""

from typing import NamedTuple


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
