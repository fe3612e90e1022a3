"""Every family of tokenizers, encoded by our kernel, against HF tokenizers and tiktoken."""

import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import given

from gristmill.kernels.pieces.patterns import mark
from gristmill.kernels.unicode.tables import CLASSES, NUMBER, unicode_bits
from gristmill.tables.columns import utf8_buffers
from gristmill.tokens.tokenizer import Tokenizer, load
from tests.support import strategies
from tests.support.helpers import compiled
from tests.support.piece_texts import FRAMES, HARD, some_points
from tests.support.real_data import RealData
from tests.support.tokenizer_families import END_OF_TEXT, FAMILIES, library, written

SPECIAL = [
    *(END_OF_TEXT, f"a{END_OF_TEXT}b  {END_OF_TEXT}  ", "<tool_call>\n{}\n</tool_call>"),
    *("<think>x", "<think<think>>", "<｜User｜>你好<｜fim▁hole｜>"),
    *("a  b   c" + " " * 60 + "d", "\t\t\t\tx", " " * 24),
    *("<tool_call>\u0301e\u0301", "e\u0301 <think>\u0301", "  \u0301  ", "\u1100\u1161\u11a8"),
    *("Å  A\u030a", "\u0344", "\u2126 \u212a \u212b", "q\u0323\u0307 q\u0307\u0323"),
    *("\ud7a3 \u1112\u1175\u11c2", "\u0958"),
]  # fmt: skip
RUNS = ("a", " ", "\n", "é", "中", "1", "=", "ab", "\u0301", "Aa", " \n", "'s", "\U000e0001")


@cache
def ours(name: str) -> Tokenizer:
    """A family's tokenizer by our kernel."""
    tokenizer = Tokenizer("test", written(name).encode())
    assert tokenizer.kernel, "the library encodes"
    assert tokenizer.pattern == FAMILIES[name].pattern
    return tokenizer


def tokens_of(tokenizer: Tokenizer, batch: list[str] | pa.Array) -> list[list[int]]:
    offsets, tokens = tokenizer.encode(batch)
    assert (offsets[0], offsets[-1]) == (0, len(tokens))
    return [tokens[start:stop].tolist() for start, stop in itertools.pairwise(offsets)]


def check(name: str, batch: list[str], column: pa.Array | None = None) -> None:
    found = tokens_of(ours(name), batch if column is None else column)
    wanted = library(name).encode_batch_fast(batch, add_special_tokens=False)
    for text, tokens, encoding in zip(batch, found, wanted, strict=True):
        assert tokens == encoding.ids, text


def pieces_of(name: str, text: str) -> list[str]:
    """The pieces of a text by the library."""
    return [text[a:b] for _, (a, b) in library(name).pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", FAMILIES)
@strategies.fuzz(80)
@given(drawn=strategies.slices())
def test_fuzz(name: str, drawn: tuple[list[str], pa.Array]) -> None:
    check(name, *drawn)


@pytest.mark.parametrize("name", FAMILIES)
def test_hard_texts(name: str) -> None:
    """White space at ends, line breaks, apostrophes, marks, and literals of added tokens."""
    check(name, [*HARD, *SPECIAL, "", *(f"{text}{text} " for text in SPECIAL)])
    check(name, [one + other for one in SPECIAL for other in (*HARD[:12], *SPECIAL)])


bits_of = compiled(unicode_bits)


def is_newer_number(point: int) -> bool:
    """Whether a code point is a number by tables newer than ours: `Digits` has those of Rust,
    17.0 in tokenizers 0.23, where its patterns have 16.0.
    """
    number = regex.fullmatch(r"\p{N}", chr(point)) is not None
    return number and not bits_of(point, CLASSES) & NUMBER


@pytest.mark.parametrize("name", FAMILIES)
def test_every_code_point(name: str, soak: int) -> None:
    """Pieces of each code point alone and among ASCII, unassigned and private ones too."""
    for number, frame in enumerate(FRAMES):
        points = some_points(len(name) + number, soak)
        if '"Digits"' in written(name):
            points = [point for point in points if not is_newer_number(point)]
        texts = [frame.format(chr(point)) for point in points]
        if frame != "{0}":
            texts = ["".join(texts[at : at + 50]) for at in range(0, len(texts), 50)]
        offsets, data = utf8_buffers(pa.array(texts, pa.string()))
        pattern = FAMILIES[name].pattern
        bits = np.unpackbits(mark(pattern, offsets, data).view(np.uint8), bitorder="little")
        raw, places = data.tobytes(), np.flatnonzero(bits).tolist()
        found = [raw[one:two] for one, two in itertools.pairwise(places)]
        assert found == [piece.encode() for text in texts for piece in pieces_of(name, text)]
        check(name, texts)


@pytest.mark.parametrize("name", FAMILIES)
def test_long_runs(name: str, soak: int) -> None:
    many = 3_000 if soak == 1 else 10_000
    for text in RUNS:
        check(name, [text * many, f"x{text * (many - 1)}y", f"{text * (many // 2)}  {text * 100}"])


@cache
def real_texts(data: RealData, most: int) -> list[str]:
    """Lines in 200 languages, books, and pages, in documents."""
    texts = []
    for folder, pattern in (
        ("D_langid/flores200_devtest", "*"),
        ("I_prose", "*/*.xml"),
        ("B_html", "*/*/*.html"),
    ):
        paths = sorted(path for path in (data / folder).glob(pattern) if path.is_file())
        for path in paths[:: max(1, len(paths) // 60)]:
            texts.append(path.read_text("utf-8", "replace")[:most])
    assert len(texts) > 100
    return texts


@pytest.mark.parametrize("name", FAMILIES)
def test_real_texts(name: str, data: RealData, soak: int) -> None:
    check(name, real_texts(data, 3_000 * soak))


@cache
def named(name: str) -> tuple[Tokenizer, Any]:
    """A tokenizer by name, by our kernel and by tiktoken."""
    tiktoken = pytest.importorskip("tiktoken")
    return load(name, Path(), Path("/nonexistent")), tiktoken.get_encoding(name)


NAMES = ("gpt2", "r50k_base", "cl100k_base", "o200k_base")


@pytest.mark.parametrize("name", NAMES)
def test_named_is_tiktokens(name: str, tiktoken_folder: Path, data: RealData, soak: int) -> None:
    kernel, theirs = named(name)
    assert kernel.kernel
    assert kernel.vocabulary == theirs.n_vocab
    assert kernel.end_of_text == theirs.eot_token
    assert kernel.decode([kernel.end_of_text]) == END_OF_TEXT
    texts = [*HARD, *SPECIAL, *(one + other for one in HARD for other in HARD)]
    texts += real_texts(data, 10_000 * soak)
    found = tokens_of(kernel, texts)
    assert found == [theirs.encode_ordinary(text) for text in texts]
    for text, tokens in zip(texts, found, strict=True):
        assert kernel.decode(tokens) == text
        assert not set(tokens) & set(theirs._special_tokens.values())


@pytest.mark.parametrize("name", NAMES)
@strategies.fuzz(120)
@given(drawn=strategies.slices())
def test_fuzz_named_is_tiktokens(
    name: str, tiktoken_folder: Path, drawn: tuple[list[str], pa.Array]
) -> None:
    batch, column = drawn
    kernel, theirs = named(name)
    assert tokens_of(kernel, column) == [theirs.encode_ordinary(text) for text in batch]


@pytest.mark.parametrize("name", NAMES)
def test_every_code_point_named_is_tiktokens(name: str, tiktoken_folder: Path, soak: int) -> None:
    kernel, theirs = named(name)
    for number, frame in enumerate(FRAMES):
        texts = [frame.format(chr(point)) for point in some_points(number, soak)]
        if frame != "{0}":
            texts = ["".join(texts[at : at + 50]) for at in range(0, len(texts), 50)]
        assert tokens_of(kernel, texts) == theirs.encode_ordinary_batch(texts, num_threads=1)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_special_tokens_are_tiktokens(name: str, tiktoken_folder: Path) -> None:
    """No number of a special token is another token's."""
    kernel, theirs = named(name)
    for token in range(kernel.vocabulary):
        try:
            wanted = theirs.decode_single_token_bytes(token)
        except KeyError:
            wanted = b""
        assert kernel.spelling(token) == wanted


def altered(name: str, old: str, new: str) -> str:
    """A family's file with one thing of its pre-tokenizer changed."""
    table = json.loads(written(name))
    spelled = json.dumps(table["pre_tokenizer"])
    assert json.dumps(old)[1:-1] in spelled
    table["pre_tokenizer"] = json.loads(
        spelled.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1], 1)
    )
    return json.dumps(table)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("Llama 3", "{1,3}", "{1,4}"),
        ("Llama 3", "(?i:", "(?:"),
        ("Llama 3", r"[\r\n]+|", r"[\r\n]|"),
        ("Qwen 2", r"\p{N}|", r"\p{Nd}|"),
        ("gpt-oss, Llama 4", r"[\r\n/]*", r"[\r\n]*"),
        ("gpt-oss, Llama 4", r"\p{Lt}", ""),
        ("Mistral NeMo", r"*|\p{N}|", r"*|\p{N}+|"),
        ("DeepSeek V3, R1", "一-龥", "一-龦"),
        ("DeepSeek V3, R1", "[A-Za-z]+", "[A-Za-z]*"),
        ("GPT-2, split", r" ?\p{L}+", r"\p{L}+"),
    ],
)
def test_a_pattern_that_is_nearly_known_is_the_librarys(name: str, old: str, new: str) -> None:
    import tokenizers

    text = altered(name, old, new)
    tokenizer = Tokenizer("test", text.encode())
    assert not tokenizer.kernel
    assert tokenizer.pattern is None
    theirs = tokenizers.Tokenizer.from_str(text)
    theirs.encode_special_tokens = True
    batch = [*HARD, *SPECIAL]
    wanted = [theirs.encode(text, add_special_tokens=False).ids for text in batch]
    assert tokens_of(tokenizer, batch) == wanted


@pytest.mark.parametrize(
    ("key", "value"), [("lstrip", True), ("rstrip", True), ("single_word", True)]
)
def test_added_tokens_that_take_more_than_themselves_are_the_librarys(
    key: str, value: bool
) -> None:
    table = json.loads(written("Qwen 2.5, 3"))
    table["added_tokens"][-1][key] = value
    assert not Tokenizer("test", json.dumps(table).encode()).kernel


def test_end_of_text_that_is_not_special_is_plain_text() -> None:
    table = json.loads(written("Qwen 2.5, 3"))
    tokenizer = Tokenizer("test", json.dumps(table).encode(), "<think>")
    assert tokenizer.kernel
    tokens = tokenizer.encode(["a<think>b<tool_call>"]).tokens.tolist()
    assert tokenizer.end_of_text not in tokens
    assert table["added_tokens"][1]["id"] in tokens
    assert tokenizer.decode(tokens) == "a<think>b<tool_call>"


def test_versions_of_the_library_are_named_where_it_takes_part() -> None:
    import tokenizers

    assert ours("Llama 3").libraries == {}
    assert ours("Qwen 2").libraries == {"tokenizers": tokenizers.__version__}
