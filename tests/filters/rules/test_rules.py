"""Every published filter against its plain Python twin (tests/support/rules.py): reason and every
measure, exact, on made and real text.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill.filters.rules.c4 import C4
from gristmill.filters.rules.fineweb import FineWeb
from gristmill.filters.rules.gopher import Quality
from gristmill.filters.rules.repetition import Repetition
from gristmill.filters.rules.simple import Simple
from tests.support import naive, rules, strategies
from tests.support.corpora import article

VERSIONS = ("datatrove-0.10", "datatrove-0.2")
KINDS: dict[str, tuple[Any, Any]] = {
    "gopher": (Quality, rules.quality),
    "repetition": (Repetition, rules.repetition),
    "fineweb": (FineWeb, rules.fineweb),
}


def batch_of(column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column], names=["text"])


def check(step: Any, twin: Any, texts: list[str], column: pa.Array) -> Counter[str | None]:
    """Compare what a step measures and decides with what its twin says."""
    measured = step.load({})(batch_of(column)).measures
    reasons = step.decide(measured).reason.to_pylist()
    expected = [twin(text) for text in texts]
    for row, (reason, found) in enumerate(expected):
        got = {name: measured[name][row].as_py() for name in found}
        assert got == found, texts[row][:200]
        assert reasons[row] == reason, texts[row][:200]
    return Counter(reason for reason, _ in expected)


texts = strategies.slices(st.one_of(strategies.texts(), strategies.repetitive_texts()))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", KINDS)
@strategies.fuzz(70)
@given(texts)
@example(
    (
        ["• a\n- b\n\n\n", "a...\n....\n\r\n\nb…"],
        pa.array(["• a\n- b\n\n\n", "a...\n....\n\r\n\nb…"]),
    )
)
@example((["ab c ab c a bc x a bc ab c"], pa.array(["ab c ab c a bc x a bc ab c"])))
def test_fuzz(name: str, version: str, drawn: tuple[list[str], pa.Array]) -> None:
    kind, twin = KINDS[name]
    check(kind(rules=version), lambda text: twin(text, version), *drawn)


@strategies.fuzz(70)
@given(texts)
def test_fuzz_simple(drawn: tuple[list[str], pa.Array]) -> None:
    check(Simple(), rules.simple, *drawn)


LINES = (
    "lorem ipsum",
    "Lorem\tIpsum",
    "JavaScript",
    "java[1]script",
    "{",
    "}",
    "[edit]",
    "[citation needed]",
    "[12]",
    "[]",
    "[١]",
    "[x]",
    "a b c.",
    "use coo\u212aies",
    "USES COOKIES",
    "privacy policy",
    "terms of use",
    '."',
    "...",
    "…",
    "x" * 1001,
    "é" * 600,
    "\x85",
    "\u2028",
    "\x1c",
    "One. Two! Three?",
    "。你好。",
    " ",
    "  ",
    "\n",
    "\r\n",
    "a",
    "word",
    "?",
    "(",
    ")",
    "’",
)


@st.composite
def pages(draw: st.DrawFn) -> str:
    """Lines of what C4's rules look at."""
    return "".join(draw(st.lists(st.sampled_from(LINES), max_size=40)))


@strategies.fuzz(250)
@given(
    st.lists(st.one_of(pages(), strategies.texts()), max_size=6),
    st.booleans(),
    st.booleans(),
    st.sampled_from((None, 1, 3)),
    st.sampled_from((None, 2, 1000)),
    st.sampled_from((None, 0, 1, 2, 5)),
)
@example(["[1] [2] [3]\na b c.\n[1] [2] [3]"], False, True, 3, 1000, 0)
def test_fuzz_c4(
    batch: list[str],
    stops: bool,
    citations: bool,
    least: int | None,
    longest: int | None,
    sentences: int | None,
) -> None:
    switches = {
        "line_stops": stops,
        "citations": citations,
        "min_line_words": least,
        "longest_word": longest,
        "min_sentences": sentences,
    }
    step = C4(**switches)
    measured = step.load({})(batch_of(pa.array(batch, pa.string())))
    reasons = step.decide(measured.measures).reason.to_pylist()
    assert measured.text is not None
    for text, reason, left in zip(batch, reasons, measured.text.to_pylist(), strict=True):
        expected, stays = rules.c4(text, **switches)
        assert reason == expected, text
        if expected is None:
            assert left == stays, text


def test_bad_words(tmp_path: Path) -> None:
    from gristmill.filters.api.step import Input

    path = tmp_path / "bad.txt"
    path.write_text("# a comment\nfoo bar\nkraft\n")
    step = C4(bad_words="bad.txt", min_sentences=0, line_stops=False)
    inputs = {"bad.txt": Input("bad.txt", str(path), "")}
    lines = [
        "Here is Foo Bar, it is.",
        "no foobar in here",
        "a handkraftig thing it is",
        "Kraft!",
        "so much kraft",
    ]
    measured = step.load(inputs)(batch_of(pa.array([f"one two three. {line}" for line in lines])))
    assert step.decide(measured.measures).reason.to_pylist() == [
        "bad_word",
        None,
        None,
        "bad_word",
        "bad_word",
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_on_real_text(data: Path, version: str) -> None:
    """Pieces of novels in English and other languages, as they came."""
    pick = random.Random(1)
    batch = [article(number) for number in range(20)]
    for path in (
        sorted((data / "I_prose").rglob("*.txt"))[:12]
        + sorted((data / "I_prose").rglob("*.xml"))[::12]
    ):
        text = path.read_text("utf-8", "replace")
        starts = [pick.randrange(max(1, len(text) - 6000)) for _ in range(8)]
        batch += [text[start : start + pick.randint(50, 6000)] for start in starts]
    assert len(batch) > 150
    column = pa.array(batch)
    for kind, twin in KINDS.values():
        found = check(
            kind(rules=version), lambda text, twin=twin: twin(text, version), batch, column
        )
        assert found[None] > 20, found
    check(Simple(), rules.simple, batch, column)
    step = C4(line_stops=False)
    measured = step.load({})(batch_of(column))
    for text, reason, left in zip(
        batch,
        step.decide(measured.measures).reason.to_pylist(),
        measured.text.to_pylist(),
        strict=True,
    ):
        assert (reason, left if reason is None else text) == rules.c4(text, line_stops=False)


def test_separate() -> None:
    """Each character of an unspaced script is a word; what stands between stays together."""
    from gristmill.kernels.text import words

    batch = [
        "",
        "a",
        "日本語",
        "x日y本z",
        "ไทยabc",
        "ab 日 cd本",
        "カタカナ と 漢字, ok",
        "é日\U00020000.",
    ]
    offsets, data = strategies.buffers(batch)
    found = words.separate(offsets, data, words.find(offsets, data))
    raw = data.tobytes()
    for row, text in enumerate(batch):
        places = range(found.word_offsets[row], found.word_offsets[row + 1])
        assert [
            raw[found.starts[place] : found.stops[place]].decode() for place in places
        ] == rules.separate(text)
    assert naive.UNSPACED.match("日")


def test_a_limit_itself() -> None:
    """Where 0.10 keeps what is at a limit, 0.2 drops it: 3 lines of 25 stopped are 0.12, short
    lines 0.67 of 100.
    """
    long = "a line of more than thirty characters in it"
    at_stops = "\n".join([f"{long} {n}" + "." * (n < 3) for n in range(25)])
    at_short = "\n".join([f"{long} {n}." for n in range(33)] + [f"short {n}." for n in range(67)])
    for text, reason in ((at_stops, "line_punct_ratio"), (at_short, "short_line_ratio")):
        column = pa.array([text])
        for version, expected in (("datatrove-0.10", None), ("datatrove-0.2", reason)):
            step = FineWeb(rules=version)  # type: ignore[arg-type]
            assert step.decide(step.load({})(batch_of(column)).measures).reason.to_pylist() == [
                expected
            ]
