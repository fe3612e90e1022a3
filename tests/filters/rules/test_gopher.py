"""The lab's rules against the lab's own Python, on made and on real text: reason, value and every
measure.
"""

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings

from gristmill.filters.api.step import Decision
from gristmill.filters.rules.gopher import Lab
from gristmill.tables import schema
from tests.support.corpora import article
from tests.support.strategies import batches

RULES = {
    "length": (50, 100_000),
    "word_len": (3, 10),
    "symbol_ratio": 0.10,
    "too_bulleted": 0.90,
    "too_truncated": 0.30,
    "repeat_2gram": 0.20,
    "repeat_3gram": 0.18,
}


def top_ngram_fraction(words: list[str], n: int) -> float:
    grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    return Counter(grams).most_common(1)[0][1] / len(grams) if grams else 0.0


def lab(text: str) -> tuple[str | None, float | None]:
    """The lab's rules in plain Python (its section 3), `...` seen as well as `…`: the first reason,
    and its value.
    """
    words = text.split()
    count = len(words)
    if count < 50 or count > 100_000:
        return "length", count
    mean = sum(len(word) for word in words) / count
    if mean < 3 or mean > 10:
        return "word_len", mean
    symbols = sum(map(text.count, ("#", "…", "..."))) / max(1, len(text))
    if symbols > 0.10:
        return "symbol_ratio", symbols
    lines = text.splitlines()
    bullets = sum(1 for line in lines if line.lstrip().startswith(("•", "-", "*"))) / max(
        1, len(lines)
    )
    if bullets > 0.90:
        return "too_bulleted", bullets
    ellipses = sum(1 for line in lines if line.rstrip().endswith(("…", "..."))) / max(1, len(lines))
    if ellipses > 0.30:
        return "too_truncated", ellipses
    for n, limit in ((2, 0.20), (3, 0.18)):
        share = top_ngram_fraction(words, n)
        if share > limit:
            return f"repeat_{n}gram", share
    return None, None


def batch_of(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"document": row, "text": text} for row, text in enumerate(texts)], schema.DOCUMENTS
    )


def judged(step: Lab, texts: list[str]) -> tuple[Decision, dict[str, pa.Array]]:
    measures = step.load({})(batch_of(texts)).measures
    return step.decide(measures), measures


def check(texts: list[str]) -> Counter:
    said, _ = judged(Lab(), texts)
    expected = [lab(text) for text in texts]
    assert said.reason.to_pylist() == [reason for reason, _ in expected]
    for got, (_, value) in zip(said.value.to_pylist(), expected, strict=True):
        assert got == pytest.approx(value, rel=1e-15) if value is not None else got is None
    return Counter(reason for reason, _ in expected)


PLANTED = {
    "length": "too short",
    "word_len": "incomprehensibilities " * 60,
    "symbol_ratio": "#### and #### " * 40,
    "too_bulleted": "\n".join(
        f"  {sign} point number {n} of the list" for n, sign in enumerate("•-*" * 10)
    ),
    "too_truncated": "\n".join(
        f"The tale of number {n} and of another day went further … " for n in range(20)
    ),
    "repeat_2gram": "buy now " * 30 + " ".join(f"word{n}" for n in range(30)),
    # Of 3-grams more than 18 %, of 2-grams less than 20 %.
    "repeat_3gram": " ".join(
        f"one two three word{n} name{n}" + (f" more{n}" if n % 4 == 0 else "") for n in range(20)
    ),
}


def test_each_reason_is_reached_and_right() -> None:
    texts = [*PLANTED.values(), *(article(number) for number in range(20)), "word " * 100_001]
    found = check(texts)
    assert set(PLANTED) | {None} <= found.keys()


def test_on_real_text(data: Path) -> None:
    pick = random.Random(1)
    texts = []
    for path in sorted((data / "I_prose").rglob("*.txt"))[:20]:
        text = path.read_text("utf-8", "replace")
        starts = [pick.randrange(max(1, len(text) - 9000)) for _ in range(30)]
        texts += [text[start : start + pick.randint(50, 9000)] for start in starts]
    assert check(texts)[None] > 300


@settings(max_examples=60, deadline=None)
@given(batches())
def test_on_all_of_unicode(texts: list[str]) -> None:
    check([*texts, " \u2028".join(texts * 8)])


def test_a_document_over_the_limit_has_no_ngram_measure() -> None:
    said, measures = judged(Lab(max_words=60), ["a b " * 40, "alpha beta gamma " * 20])
    assert said.reason.to_pylist() == ["length", "repeat_2gram"]
    assert measures["top_2gram"].to_pylist()[0] is None
    assert measures["top_2gram"].to_pylist()[1] == pytest.approx(20 / 59)
    assert measures["words"].to_pylist() == [80, 60]


def test_thresholds_are_parameters_and_told() -> None:
    said, _ = judged(
        Lab(min_words=10, max_symbol_ratio=0.01),
        ["# one two three four five six seven eight nine ten"],
    )
    assert said.reason.to_pylist() == ["symbol_ratio"]
    assert said.threshold.to_pylist() == [0.01]


@pytest.mark.parametrize(("sign", "signs"), [("...", 1), ("…", 1), ("....", 1), ("......", 2)])
def test_three_dots_are_an_ellipsis(sign: str, signs: int) -> None:
    """The paper's ellipsis is either form: in teasers that break off, and in text full of them."""
    teasers = "\n".join(
        f"The tale of number {n} and of another day went further{sign}" for n in range(20)
    )
    full = " ".join(f"{n}{sign}" for n in range(100, 200))
    said, measures = judged(Lab(), [teasers, full, "The end.. of it.\n" * 20])
    assert said.reason.to_pylist()[:2] == ["too_truncated", "symbol_ratio"]
    assert measures["ellipsis_lines"].to_pylist() == [1.0, 1.0, 0.0]
    assert measures["symbol_ratio"].to_pylist() == [
        20 * signs / len(teasers),
        100 * signs / len(full),
        0.0,
    ]
    check([teasers, full])
