"""Normal form: the rules one by one, that twice is once, and that nothing takes quadratic time."""

import sys
import time
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.errors import RecipeError
from gristmill.filters.extract.normalise import Normalise
from gristmill.tables import schema
from tests.support import strategies
from tests.support.naive_tidy import PIECES, tidy


def run(texts: list[str], **table) -> list[str]:
    batch = pa.RecordBatch.from_pylist(
        [{"document": row, "text": text} for row, text in enumerate(texts)], schema.DOCUMENTS
    )
    step = Normalise(**table)
    found = step.load({})(batch)
    rows = found.text.to_pylist()
    assert found.text.type == pa.string()
    assert found.text.null_count == 0
    assert found.measures["characters_removed"].to_pylist() == [
        len(text) - len(row) for text, row in zip(texts, rows, strict=True)
    ]
    assert found.measures["urls_removed"].type == pa.int64()
    assert step.decide(found.measures).reason.null_count == len(texts)
    return rows


def twin(text: str, form: str | None, urls: bool) -> str:
    text, _ = tidy(text, control=True, urls=False, space=False)
    text = unicodedata.normalize(form, text) if form else text
    return tidy(text, control=False, urls=urls, space=True)[0]


CASES = {
    # NFC; non-ASCII stays
    "Cafe\u0301 na\u00efve \u2126 \u4e2d\u6587": "Caf\u00e9 na\u00efve \u03a9 \u4e2d\u6587",
    "one\r\ntwo\rthree\x85four\u2028five\u2029six\fseven": (
        "one\ntwo\nthree\nfour\nfive\n\nsix\nseven"
    ),
    "a\0b\x07c\x7fd\x9be": "abcde",
    "so\u00adft \ufeffhy\u200bphen\u2060 \u202eevil\u202c \u2067x\u2069 \ufdd0\uffff\U0001ffff": (
        "soft hyphen evil x"
    ),
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f469\u200d\U0001f467": (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 "
        "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    ),
    "a  b\t\tc\u00a0\u3000d": "a b c d",
    "  title  \n \n\t\n\n    indented \n\nend\n\n": "title\n\n indented\n\nend",
    "e\u200b\u0301": "\u00e9",  # what is dropped no longer stands between letter and mark
    "ﬁ ² ｈｔｔｐ": "ﬁ ² ｈｔｔｐ",
    " \u200b\n ": "",
    "": "",
}


def test_the_rules() -> None:
    assert dict(zip(CASES, run(list(CASES)), strict=True)) == CASES
    assert run(["ﬁ ² ｈｔｔｐ\u00a8x Ⅳ"], form="NFKC") == ["fi 2 http \u0308x IV"]
    assert run(["e\u0301 \u212b"], form=None) == ["e\u0301 \u212b"]
    assert run(["a\x07b  c\r\n"], control=False) == ["a\x07b c\r"]
    assert run(["a\x07b  c\r\n\n\n"], space=False) == ["ab  c\n\n\n"]
    assert run([" e\u0301\0 "], control=False, space=False, form=None) == [" e\u0301\0 "]


def test_urls() -> None:
    texts = [
        "see https://a.example/b?c=d(e) or HTTP://X.Y now",
        "www.example.com, Www.a/b.c",
        "awww. nothttps:/ http:// www. 1www.x",
        '<a href="http://a.b/c">x</a>',
        "访问http://例.cn/路径。然后",
        "visit https://xn.example/пример now",
        "http\u200b://split.example",
    ]
    assert run(texts, urls="drop") == [
        "see or now",
        "",
        "awww. nothttps:/ http:// www. 1www.x",
        '<a href="">x</a>',
        "访问http://例.cn/路径。然后",
        "visit now",
        "",
    ]
    assert run(["访问http://example.cn/a。然后"], urls="drop") == ["访问。然后"]
    assert run(texts) == [text.replace("\u200b", "") for text in texts]
    assert run(["ｈttps：／／a.example b"], urls="drop", form="NFKC") == ["b"]


@strategies.fuzz(120)
@given(strategies.batches(), st.sampled_from(("NFC", "NFKC", None)), st.booleans())
def test_fuzz_against_three_steps(batch: list[str], form: str | None, urls: bool) -> None:
    assert run(batch, form=form, urls="drop" if urls else "keep") == [
        twin(text, form, urls) for text in batch
    ]


MARKS = (
    "e\u0301",
    "\u0301",
    "\u0323",
    "\u212b",
    "\u00a8",
    "ｈttp",
    "／",
    "：",
    "か\u3099",
    "\u1025",
    "\u102e",
    "한",
    "\u1100\u1161",
    "\u11a8",
    "\u0e38",
)


@strategies.fuzz(250)
@given(
    st.lists(st.lists(st.sampled_from(PIECES + MARKS), max_size=30).map("".join), max_size=4),
    st.sampled_from(("NFC", "NFKC", None)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@example(["http://<\u200b\u0338y"], "NFC", True, True, True)
@example(["e\u200bhttp://x\u0e38\u0301", "\u1025http://x\u102e"], "NFC", True, True, True)
def test_fuzz_twice_is_once(
    batch: list[str], form: str | None, urls: bool, control: bool, space: bool
) -> None:
    table = {"form": form, "urls": "drop" if urls else "keep", "control": control, "space": space}
    once = run(batch, **table)
    assert run(once, **table) == once
    if form:
        assert all(unicodedata.is_normalized(form, text) for text in once)


def test_many_marks_in_a_row_take_no_quadratic_time() -> None:
    """Half a megabyte of marks in the worst order: the library alone takes minutes."""
    text = "a" + "\u0301\u0323" * 130_000 + "\u00e9 z"
    start = time.monotonic()
    found, foundk = run([text], form="NFC")[0], run([text], form="NFKC")[0]
    assert time.monotonic() - start < 10
    assert found == foundk == "\u1ea1" + "\u0323" * 129_999 + "\u0301" * 130_000 + "\u00e9 z"
    short = "o\u0301" + "\u0301\u0323\u0344\u0f73\u0345" * 60 + "Ω\u0301"
    assert run([short], control=False) == [unicodedata.normalize("NFC", short)]


def test_real_text_keeps_its_letters(data: Path) -> None:
    for name in ("eng", "rus", "jpn", "hin", "tha", "ara", "kor", "vie"):
        text = (data / f"D_langid/flores200_devtest/devtest/{name}.devtest").read_text("utf-8")
        found = run([text])[0]
        letters = [c for c in unicodedata.normalize("NFC", text) if c.isalnum()]
        assert [c for c in found if c.isalnum()] == letters, name
        assert found == twin(text, "NFC", False)


def test_mojibake() -> None:
    pytest.importorskip("ftfy")
    texts = ["The MÃ¼hle â€” itâ€™s old", "plain &amp; ASCII “quotes” ﬁ", "Ελληνικά русский"]
    assert run(texts, mojibake=True) == ["The Mühle — it’s old", texts[1], texts[2]]
    assert run(texts)[0] == texts[0]


def test_entities_are_those_of_ftfy() -> None:
    ftfy = pytest.importorskip("ftfy")
    texts = [
        "Tom &amp; Jerry, caf&eacute; &#233;&#x1F600; &amp;lt;",
        "<b> &amp; </b>",
        "R&D; AT&T & &bogus;",
        "ÅÉ &nbsp;x",
    ]
    unescaped = list(texts)
    for _ in range(3):  # until nothing is left
        unescaped = [ftfy.fixes.unescape_html(text) for text in unescaped]
    assert run(texts, entities="all", space=False, form=None) == unescaped
    assert unescaped[0] == "Tom & Jerry, café é😀 <"
    automatic = [unescaped[0], texts[1], *unescaped[2:]]
    assert run(texts, entities="auto", space=False, form=None) == automatic
    assert run(texts, mojibake=True)[:3] == texts[:3]
    assert run(["The MÃ¼hle &amp;"], mojibake=True, entities="all") == ["The Mühle &"]


def test_mojibake_without_ftfy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ftfy", None)
    with pytest.raises(RecipeError, match=r"gristmill\[ftfy\]"):
        Normalise(mojibake=True).load({})
