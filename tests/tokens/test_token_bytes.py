"""The bytes of tokens are the bytes of the text, for each family of tokenizers."""

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.tokens.tokenizer import Tokenizer
from tests.support import spelling_families, strategies, tokenizer_families
from tests.support.piece_texts import HARD, some_points
from tests.support.real_data import RealData
from tests.support.spelling_families import SPACE

WORDS = ("T5", "XLM-R")  # whose white space is one space between words
BYTE_LEVEL = ("GPT-2", "Llama 3", "DeepSeek V3, R1", "Qwen 2.5, 3")


def written(name: str) -> str:
    if name in BYTE_LEVEL:
        return tokenizer_families.written(name)
    return spelling_families.written(name)


_MADE: dict[str, Tokenizer] = {}


def tokenizer(name: str) -> Tokenizer:
    if name not in _MADE:
        _MADE[name] = Tokenizer(name, written(name).encode())
    return _MADE[name]


def text_of_pieces(name: str, text: str) -> bytes:
    """The text that the library cuts into tokens: normalized, and without what its pre-tokenizer
    leaves out.
    """
    library = spelling_families.library(name)
    text = library.normalizer.normalize_str(text)
    pieces = [piece for piece, _ in library.pre_tokenizer.pre_tokenize_str(text)]
    if name == "BERT":
        return "".join(pieces).encode()
    return "".join(pieces).replace(SPACE, " ").removeprefix(" ").encode()


def plain(name: str, text: str) -> bytes:
    return text.encode()


def without_first_space(name: str, text: str) -> bytes:
    """Metaspace puts no space before a text that begins with one: it has the same tokens."""
    return text.removeprefix(" ").encode()


TEXT_OF: dict[str, Callable[[str, str], bytes]] = {
    **dict.fromkeys(BYTE_LEVEL, plain),
    "Llama 2": plain,
    "Gemma": plain,
    "Mistral": without_first_space,
    "Unigram with bytes": without_first_space,
    "T5": text_of_pieces,
    "XLM-R": text_of_pieces,
    "BERT": text_of_pieces,
}


def check(name: str, texts: list[str]) -> int:
    """Compare the bytes of the tokens of texts with those of the texts; returns how many there
    were.
    """
    ours = tokenizer(name)
    known = ours.token_bytes
    sizes, characters = known.sizes, known.characters
    offsets, tokens = ours.encode(texts)
    unknown = ours._file.unknown if ours._file else None
    compared = 0
    for number, text in enumerate(texts):
        one = tokens[offsets[number] : offsets[number + 1]]
        if unknown is not None and unknown in one:
            continue  # its text is lost
        wanted = TEXT_OF[name](name, text)
        if "Qwen" in name and not text.isascii():
            continue  # it composes texts
        if "Unigram" in name and "<0x" in text:
            continue  # the library takes a literal <0x41> for the byte
        first = int(known.leads[one[:1]].sum())
        assert int(sizes[one].sum()) - first == len(wanted), text
        assert int(characters[one].sum()) - first == len(wanted.decode()), text
        if name != "BERT":
            assert known.decode(one.tolist()) == wanted, text
        compared += len(wanted)
    return compared


FAMILIES = tuple(TEXT_OF)
ODD = [
    "",
    " ",
    "  ",
    "a",
    " a",
    "a ",
    "  two  spaces   three ",
    "\n\nlines\n\n\n\ttabs\r\n",
    "</s> <b>bold</b> <eos> <s> <unk> [SEP] <|endoftext|>",
    "<0x41> <0xE2><0x96>",
    "naïve 😀😀 文字 ไทย हिन्दी ٣",
]


@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_of_tokens_are_the_bytes_of_the_text(name: str) -> None:
    texts = [*ODD, *HARD, *(one + other for one in ODD for other in ODD)]
    texts = [text for text in texts if SPACE not in text]
    assert check(name, texts) > 1_000


@pytest.mark.parametrize("name", FAMILIES)
@strategies.fuzz(100)
@given(texts=st.lists(strategies.texts(), max_size=5))
def test_bytes_of_tokens_are_the_bytes_of_random_texts(name: str, texts: list[str]) -> None:
    check(name, [text for text in texts if SPACE not in text])


@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_of_tokens_of_every_code_point(name: str, soak: int) -> None:
    for frame in ("{0}", "a{0}b", " {0} {0}"):
        points = [point for point in some_points(len(name), soak) if chr(point) != SPACE]
        check(name, [frame.format(chr(point)) for point in points])


def real_texts(data: RealData, most: int) -> Iterator[str]:
    """Lines of 200 languages, then books, up to this many bytes."""
    size = 0
    for folder, pattern in (("D_langid/flores200_devtest", "devtest/*"), ("I_prose", "*/*")):
        for path in sorted(path for path in (data / folder).glob(pattern) if path.is_file()):
            text = path.read_text("utf-8", "replace").replace(SPACE, "")
            for start in range(0, len(text), 2_000):
                yield text[start : start + 2_000]
                size += len(text[start : start + 2_000].encode())
                if size > most:
                    return
                if most < 1 << 22 and start > most // 300:
                    break


@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_of_tokens_of_real_texts(name: str, data: RealData, soak: int) -> None:
    texts = list(real_texts(data, 300_000 if soak == 1 else 30_000_000))
    for start in range(0, len(texts), 500):
        check(name, texts[start : start + 500])


def test_each_family_shows_text() -> None:
    """What decode gives, and the pieces of a text."""
    text = "The café, 😀."
    for name in FAMILIES:
        ours = tokenizer(name)
        tokens = ours.encode([text]).tokens
        if name == "BERT":
            assert "##" not in ours.decode(tokens)
            assert ours.decode(ours.encode(["The dog"]).tokens) == "the dog"
            continue
        shown = "".join(ours.token_text(token) for token in tokens)
        assert SPACE not in shown
        if ours._file is None or ours._file.unknown not in tokens:
            assert ours.decode(tokens) == text
            spelled = b"".join(ours.spelling(token) for token in tokens.tolist())
            assert spelled.removeprefix(b" ").decode() == text


def test_text_behind_an_added_token_begins_as_a_text_does() -> None:
    """Llama 2's `Prepend` puts a space before every part of a text between added tokens."""
    table = json.loads(written("Llama 2"))
    added = {**table["added_tokens"][0], "content": "<call>", "special": False}
    added |= {"id": max(table["model"]["vocab"].values()) + 1, "normalized": False}
    table["added_tokens"].append(added)
    ours = Tokenizer("t", json.dumps(table).encode())
    for text in ("a<call>b c", "a <call> b", "<call><call>a", "<call>"):
        assert ours.decode(ours.encode([text]).tokens) == text


def test_special_and_unknown_tokens_have_no_text() -> None:
    ours = tokenizer("T5")
    known = ours.token_bytes
    assert ours._file is not None
    for literal in ("<pad>", "</s>", "<unk>"):
        number = ours._file.numbers[literal]
        assert known.text[number] == b""
        assert ours.token_text(number) == literal
    assert np.array_equal(known.sizes > 0, [bool(one) for one in known.text])


def test_a_space_put_before_byte_level_text_is_no_text() -> None:
    table = json.loads(tokenizer_families.written("GPT-2"))
    table["pre_tokenizer"]["add_prefix_space"] = True
    ours = Tokenizer("t", json.dumps(table).encode())
    assert not ours.kernel
    assert ours.decode(ours.encode(["The end"]).tokens) == "The end"
    known = ours.token_bytes
    tokens = ours.encode(["The end"]).tokens
    assert known.sizes[tokens].sum() - known.leads[tokens[0]] == len("The end")
