"""Charsets of many languages: pages made of other people's sentences, under right, wrong and absent
labels.
"""

import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from gristmill.source.archives.charset import read

SENTENCES = "D_langid/flores200_devtest/devtest"
FEW = {
    "rus": ["cp1251"],
    "ukr": ["koi8-u"],
    "pol": ["iso8859-2"],
    "ces": ["cp1250"],
    "tur": ["cp1254"],
    "ell": ["iso8859-7"],
    "ara": ["cp1256"],
    "cmn_Hans": ["gb18030"],
    "jpn": ["euc_jp"],
    "kor": ["cp949"],
    "fra": ["cp1252"],
}
MANY = {
    **FEW,
    "rus": ["cp1251", "koi8-r", "iso8859-5", "cp866"],
    "ukr": ["cp1251", "koi8-u"],
    "pol": ["cp1250", "iso8859-2"],
    "ces": ["cp1250", "iso8859-2"],
    "ell": ["cp1253", "iso8859-7"],
    "ara": ["cp1256", "iso8859-6"],
    "jpn": ["cp932", "euc_jp"],
    "cmn_Hant": ["big5hkscs"],
    "heb": ["cp1255", "iso8859-8"],
    "tha": ["cp874"],
    "vie": ["cp1258"],
    "lit": ["cp1257"],
    "lvs": ["cp1257"],
    "pes": ["cp1256"],
    **{language: ["cp1250"] for language in ("slk", "hun", "ron", "hrv", "slv")},
    **{language: ["cp1251"] for language in ("bul", "srp_Cyrl", "mkd", "bel")},
    **{
        language: ["cp1252"]
        for language in (
            "deu",
            "spa",
            "por",
            "ita",
            "swe",
            "dan",
            "fin",
            "isl",
            "nld",
            "cat",
            "eng",
        )
    },
}
LABELS = {
    "cp874": "windows-874",
    "gb18030": "gb2312",
    "big5hkscs": "big5",
    "cp932": "shift_jis",
    "euc_jp": "euc-jp",
    "cp949": "euc-kr",
}
CASES = ("right", "none", "latin1", "latin1, meta right", "utf-8")
OLDER = str.maketrans("șțȘȚی", "şţŞŢي")  # letters that old charsets lack
TONES = "\u0300\u0301\u0303\u0309\u0323"


def encoded(text: str, codec: str) -> bytes:
    """A text in a charset; its Vietnamese tones are marks, as windows-1258 has them."""
    text = text if codec in ("gb18030", "big5hkscs") else text.translate(OLDER)
    if codec == "cp1258":
        text = "".join(map(marked, text))
    return text.encode(codec, "xmlcharrefreplace")


def marked(letter: str) -> str:
    whole = unicodedata.normalize("NFD", letter)
    base = unicodedata.normalize("NFC", "".join(c for c in whole if c not in TONES))
    return base + "".join(c for c in whole if c in TONES)


def pages(
    folder: Path, languages: dict[str, list[str]], sentences: int
) -> Iterator[tuple[str, bytes, str | None, str]]:
    """(what it is, its bytes, the header's label, its text) of each page."""
    drawn = random.Random(sentences)
    for language, codecs in languages.items():
        lines = (folder / f"{language}.devtest").read_text("utf-8").splitlines()
        for codec in codecs:
            label = LABELS.get(codec) or codec.replace("cp125", "windows-125").replace("o8", "o-8")
            for case in CASES:
                start = drawn.randrange(len(lines) - sentences)
                text = "</p><p>".join(lines[start : start + sentences])
                header = {"right": label, "none": None, "utf-8": "utf-8"}.get(case, "iso-8859-1")
                meta = f'<meta charset="{label}">' if "meta" in case else ""
                body = f"<html><head>{meta}</head><body><p>".encode() + encoded(text, codec)
                yield f"{language} {codec} {case}", body, header, body.decode(codec)


def wrong(folder: Path, languages: dict[str, list[str]], sentences: int) -> tuple[list[str], int]:
    """(the pages that are decoded wrongly, the number of pages)."""
    answers = {
        what: unicodedata.normalize("NFC", read(body, header).text)
        == unicodedata.normalize("NFC", text)
        for what, body, header, text in pages(folder, languages, sentences)
    }
    return [what for what, right in answers.items() if not right], len(answers)


def test_of_55_pages_at_least_53_are_right(data: Path) -> None:
    bad, count = wrong(data / SENTENCES, FEW, 4)
    assert count == 55
    assert len(bad) <= 2, bad


@pytest.mark.parametrize(("sentences", "most"), [(1, 0.05), (3, 0.01), (10, 0.01)])
def test_pages_of_all_languages_are_nearly_all_right(
    data: Path, sentences: int, most: float
) -> None:
    bad, count = wrong(data / SENTENCES, MANY, sentences)
    assert count > 200
    assert len(bad) <= most * count, bad
