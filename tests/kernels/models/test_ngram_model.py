"""The n-gram model: its estimate against Kneser-Ney in dictionaries, its scores against integers in
dictionaries, both against KenLM.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.filters.models import ngram_file
from gristmill.kernels.models import ngram_model
from gristmill.kernels.models.ngram_model import BEGIN, END, FIRST, UNIT, UNKNOWN
from gristmill.kernels.unicode.normalised import normalise
from gristmill.tables.columns import utf8_buffers
from tests.support import naive, strategies
from tests.support.corpora import article
from tests.support.kneser_ney import B, E, Estimate, U

# The twins.


def hash_words(line: str) -> list[int]:
    """FNV-1a of each word of a normalised line, mixed."""
    return [naive.hash_word(word) for word in line.split(" ") if word]


def find_ids(line: str, vocabulary: list[str]) -> list[int]:
    """The place of each word in the vocabulary (list_words), from FIRST on."""
    return [
        vocabulary.index(word) + FIRST if word in vocabulary else UNKNOWN
        for word in line.split(" ")
        if word
    ]


def cost(share: float) -> int:
    """-log p in steps."""
    return min(max(math.floor(-UNIT * math.log(share) + 0.5), 0), 32767)


def score(line: str, vocabulary: list[str], model: dict[str, Any]) -> tuple[int, int]:
    """What a normalised line costs by the arrays of a model, kept as a dictionary (list_grams), and
    its words.
    """
    words = [*find_ids(line, vocabulary), END]
    if len(words) == 1:
        return 0, 0
    grams, order = model["grams"], model["order"]
    total, past = 0, (BEGIN,)
    for word in words:
        gram = (*past, word)
        for size in range(min(order, len(gram)), 0, -1):
            known = grams.get(gram[-size:])
            if known is not None:
                total += known[0]
                break
            total += grams.get(gram[-size:-1], (0, 0))[1]
        total += model["unknown"] if word == UNKNOWN else 0
        past = gram[-(order - 1) :] if order > 1 else ()
    return total, len(words)


# What is tested.


def counted(
    lines: list[list[str]], vocabulary: list[str], order: int
) -> list[ngram_file.NgramCounts]:
    rows = [
        [
            BEGIN,
            *(vocabulary.index(word) + FIRST if word in vocabulary else UNKNOWN for word in line),
            END,
        ]
        for line in lines
    ]
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    return ngram_file.count(
        offsets, np.array([word for row in rows for word in row], np.uint16), order
    )


def fitted(
    lines: list[list[str]], vocabulary: list[str], order: int, least: int, unknown: int = 0
) -> tuple[Any, dict[str, Any]]:
    """(the kernel's model, the same as a dictionary)."""
    grams = [some for some in counted(lines, vocabulary, order) if len(some.keys)]
    arrays = ngram_file.estimate(grams, len(vocabulary) + FIRST, least)
    hashes = np.array([naive.hash_word(word) for word in vocabulary], np.uint64)
    told = {
        (number,): (int(arrays["costs"][number]), int(arrays["backs"][number]))
        for number in range(len(vocabulary) + FIRST)
    }
    for key, one, back in zip(
        arrays["keys"].tolist(),
        arrays["gram_costs"].tolist(),
        arrays["gram_backs"].tolist(),
        strict=True,
    ):
        gram = tuple(
            part
            for part in (key >> 48, key >> 32 & 0xFFFF, key >> 16 & 0xFFFF, key & 0xFFFF)
            if part
        )
        told[gram] = (one, back)
    model = ngram_model.NgramModel(
        ngram_model.list_words(hashes),
        arrays["costs"],
        arrays["backs"],
        ngram_model.list_grams(arrays["keys"], arrays["gram_costs"], arrays["gram_backs"]),
        len(grams),
        unknown,
    )
    return model, {"grams": told, "order": len(grams), "unknown": unknown}


WORDS = ["a", "b", "c", "the", "mill", "ü", "中"]
LINES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), min_size=1, max_size=25)


@strategies.fuzz(200)
@given(
    LINES,
    st.integers(1, 4),
    st.integers(1, 3),
    strategies.batches(),
    st.lists(st.lists(st.sampled_from([*WORDS, "x"]), max_size=9), max_size=5),
)
def test_fuzz_score(
    lines: list[list[str]], order: int, least: int, texts: list[str], more: list[list[str]]
) -> None:
    model, told = fitted(lines, WORDS[:5], order, least, unknown=77)
    asked = [*texts, *map(" ".join, more), *map(" ".join, lines)]
    offsets, data = normalise(*strategies.buffers(asked))
    totals, tokens = ngram_model.score(offsets, data, model)
    expected = [score(line.decode(), WORDS[:5], told) for line in strategies.cut(offsets, data)]
    assert list(zip(totals.tolist(), tokens.tolist(), strict=True)) == expected
    got = ngram_model.perplexity(totals, tokens)
    for value, (total, words) in zip(got.tolist(), expected, strict=True):
        assert (
            math.isnan(value)
            if not words
            else math.isclose(value, math.exp(total / UNIT / words), rel_tol=1e-12)
        )


@strategies.fuzz(100)
@given(LINES, st.integers(1, 4), st.integers(1, 3))
def test_fuzz_estimate(lines: list[list[str]], order: int, least: int) -> None:
    """Every n-gram's probability and back-off, to half a step; and of every context all words
    together are 1.
    """
    vocabulary = sorted({word for line in lines for word in line})
    _, told = fitted(lines, vocabulary, order, least)
    twin = Estimate(lines, told["order"], least)
    names = {BEGIN: B, END: E, UNKNOWN: U} | dict(enumerate(vocabulary, FIRST))
    stored = {
        tuple(names[part] for part in gram): costs
        for gram, costs in told["grams"].items()
        if gram not in ((0,), (BEGIN,))
    }
    assert set(stored) == {gram for grams in twin.kept for gram in grams} | {(U,)}
    for gram, (share, back) in stored.items():
        assert abs(share + UNIT * math.log(twin.share(gram))) <= 0.5001, gram
        if len(gram) < told["order"]:
            assert abs(back + UNIT * math.log(twin.back(gram))) <= 0.5001, gram
    for context in list(twin.whole)[:20]:
        assert math.isclose(
            sum(twin.share((*context, word)) for word in twin.vocabulary), 1.0, rel_tol=1e-9
        )


@strategies.fuzz(100)
@given(strategies.batches())
def test_fuzz_words_and_ids(texts: list[str]) -> None:
    offsets, data = normalise(*strategies.buffers(texts))
    lines = [line.decode() for line in strategies.cut(offsets, data)]
    vocabulary = list(dict.fromkeys(word for line in lines for word in line.split(" ") if word))[
        ::2
    ]
    table = ngram_model.list_words(
        np.array([naive.hash_word(word) for word in vocabulary], np.uint64)
    )
    out, hashes, starts, stops = ngram_model.hash_words(offsets, data)
    raw = data.tobytes()
    for line, begin, end in zip(lines, out[:-1].tolist(), out[1:].tolist(), strict=True):
        assert hashes[begin:end].tolist() == hash_words(line)
        assert [
            raw[a:b].decode() for a, b in zip(starts[begin:end], stops[begin:end], strict=True)
        ] == line.split()
        assert ngram_model.find_ids(hashes[begin:end], table).tolist() == find_ids(line, vocabulary)


@strategies.fuzz(100)
@given(st.lists(st.floats(1e-300, 1.0), max_size=20))
def test_fuzz_cost(shares: list[float]) -> None:
    got = ngram_model.cost(np.array(shares, np.float64)).tolist()
    assert all(
        abs(a - cost(b)) <= (abs(-UNIT * math.log(b) % 1 - 0.5) < 1e-6)
        for a, b in zip(got, shares, strict=True)
    )


@strategies.fuzz(60)
@given(LINES, LINES, st.integers(1, 4))
def test_fuzz_counts_add_up(one: list[list[str]], other: list[list[str]], order: int) -> None:
    merged = ngram_file.merge(counted(one, WORDS, order), counted(other, WORDS, order))
    for got, expected in zip(merged, counted(one + other, WORDS, order), strict=True):
        assert got.keys.tolist() == expected.keys.tolist()
        assert got.counts.tolist() == expected.counts.tolist()


@pytest.mark.parametrize(("order", "least"), [(2, 1), (3, 1), (3, 2), (4, 2)])
def test_kenlm_says_the_same(order: int, least: int, tmp_path: Path) -> None:
    """The twin's model in an ARPA file, read by KenLM, beside the kernel's, on text that neither
    has seen.
    """
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")

    def clean(text: str) -> list[list[str]]:
        return [naive.normalise(line).split() for line in text.split("\n")]

    lines = [line for number in range(40) for line in clean(article(number)) if line]
    vocabulary = sorted({word for line in lines for word in line})
    model, _ = fitted(lines, vocabulary, order, least)
    path = tmp_path / "model.arpa"
    path.write_text(Estimate(lines, order, least).arpa(), "utf-8")
    config = kenlm.Config()
    config.show_progress = False
    library = kenlm.Model(str(path), config)
    asked = [
        " ".join(line)
        for number in range(100, 110)
        for line in clean(article(number) + "\nunheard words of the mill")
        if line
    ]
    totals, tokens = ngram_model.score(*normalise(*utf8_buffers(pa.array(asked))), model)
    for line, total, words in zip(asked, totals.tolist(), tokens.tolist(), strict=True):
        assert words == len(line.split()) + 1
        # Each word is rounded once, and once for each context that it was backed off from.
        assert abs(total / UNIT + library.score(line) * math.log(10)) <= words * order * 0.51 / UNIT
