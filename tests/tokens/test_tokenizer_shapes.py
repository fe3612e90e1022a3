"""Odd normalizers, pre-tokenizers and added tokens: the library's tokens, or a sentence."""

import json
import os
import pickle
import resource
import sys
from itertools import pairwise
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from gristmill import show_tokenizer
from gristmill.errors import RecipeError
from gristmill.tokens import tokenizer as tokenizer_module
from gristmill.tokens.tokenizer import Tokenizer
from tests.support import strategies
from tests.support.hostile_models import BYTES, CUT, END, FLAGS, tokenizer

TEXTS = ["", " ", "a b", "  Ab  cD 12\n\n x ", "abé <x> é 中文 😀 \t", "<|endoftext|> ab <x><x>  "]


def by_the_library(data: bytes) -> list[list[int]] | str:
    """The library's tokens of the texts, or why there are none, in a process that may die."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        try:
            made = tokenizers.Tokenizer.from_buffer(data)
            made.no_truncation()
            made.no_padding()
            made.encode_special_tokens = True
            said: Any = [made.encode(text, add_special_tokens=False).ids for text in TEXTS]
        except:  # noqa: E722 - a panic is no Exception
            said = str(sys.exc_info()[1])
        os.write(writing, pickle.dumps(said))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        found = file.read()
    os.waitpid(child, 0)
    return pickle.loads(found) if found else "the process died"


def try_by_fork(name: str, data: bytes) -> None:
    """As library.try_library, without a new interpreter."""
    if isinstance(said := by_the_library(data), str):
        raise RecipeError(f"tokenizer {name!r}: {said}")


ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", " ", "▁", [], {}, [{}], {"Regex": "("}, {"String": ""}]
)
NORMALIZERS: dict[str, dict[str, Any]] = {
    "NFC": {},
    "NFKC": {},
    "Lowercase": {},
    "StripAccents": {},
    "Strip": {"strip_left": True, "strip_right": True},
    "Prepend": {"prepend": "▁"},
    "Replace": {"pattern": {"String": " "}, "content": "▁"},
    "BertNormalizer": {
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "Precompiled": {"precompiled_charsmap": "AAAA"},
    "Unheard": {},
}
SPLITS: dict[str, dict[str, Any]] = {
    "ByteLevel": CUT,
    "Whitespace": {},
    "BertPreTokenizer": {},
    "Metaspace": {"replacement": "▁", "prepend_scheme": "always", "split": True},
    "Split": {"pattern": {"Regex": " "}, "behavior": "Isolated", "invert": False},
    "Punctuation": {"behavior": "Isolated"},
    "Digits": {"individual_digits": True},
    "Unheard": {},
}


@st.composite
def spoiled(draw: st.DrawFn, table: dict[str, Any]) -> Any:
    """A table, at times with a field left out or of another type."""
    if draw(st.integers(0, 3)) == 0 and table:
        key = draw(st.sampled_from(sorted(table)))
        if draw(st.booleans()):
            return {name: value for name, value in table.items() if name != key}
        return table | {key: draw(ODD)}
    return table


@st.composite
def steps(draw: st.DrawFn, known: dict[str, dict[str, Any]], inner: str) -> Any:
    names = draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3))
    made = [draw(spoiled({"type": name, **known[name]})) for name in names]
    if len(made) > 1 or draw(st.booleans()):
        return draw(spoiled({"type": "Sequence", inner: made}))
    return made[0]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    added: list[Any] = [{**END, "id": 257}]
    contents = ["<x>", " ", "  ", "\n", "é", "e\u0301", "", "▁", "a b"]
    for number in range(draw(st.integers(0, 3))):
        flags = {name: draw(st.booleans()) for name in FLAGS}
        table = {
            **flags,
            "id": 258 + number + draw(st.sampled_from([0, 0, 0, 40])),
            "content": draw(st.sampled_from(contents)),
        }
        added.append(draw(spoiled(table)))
    more = {}
    if draw(st.booleans()):
        more["normalizer"] = draw(steps(NORMALIZERS, "normalizers"))
    if draw(st.booleans()):
        more["pre_tokenizer"] = draw(steps(SPLITS, "pretokenizers"))
    return tokenizer({**BYTES, "ab": 256}, added=added, merges=[["a", "b"]], **more)


@strategies.fuzz(100)
@given(data=files())
def test_odd_shapes_are_the_librarys_or_refused(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "try_library", try_by_fork)
        try:
            ours = Tokenizer("odd", data)
            offsets, tokens = ours.encode(TEXTS)
        except RecipeError as error:
            assert "odd" in str(error) or "tokenizers library" in str(error)
            return
    wanted = by_the_library(data)
    assert [tokens[start:stop].tolist() for start, stop in pairwise(offsets)] == wanted
    ours.decode(tokens)


def test_a_token_of_texts_has_the_number_of_the_library() -> None:
    """It numbers added tokens behind the vocabulary, whatever the file says."""
    plain = {**FLAGS, "id": 300, "content": "<x>", "special": False}
    with pytest.raises(
        RecipeError, match="'<x>' has the number 300, and the tokenizers library gi"
    ):
        Tokenizer("gap", tokenizer(added=[END, plain]))
    assert Tokenizer("next", tokenizer(added=[END, {**plain, "id": 257}])).kernel


def test_what_ends_the_library_is_refused_with_its_field(tmp_path: Any) -> None:
    """White space that normalization removes, as an added token: the library panics, or takes all
    memory.
    """
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    both = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, strip]}
    blank = {**FLAGS, "id": 257, "content": "  ", "normalized": True, "special": False}
    data = tokenizer(added=[END, blank], normalizer=both)
    with pytest.raises(RecipeError, match=r"cannot be used by the tokenizers library.*its normali"):
        Tokenizer("blank", data)
    (tmp_path / "tokenizer.json").write_bytes(data)
    with pytest.raises(RecipeError, match="cannot be used by the tokenizers library"):
        show_tokenizer(str(tmp_path / "tokenizer.json"))


def test_a_pre_tokenizer_that_is_none_is_named() -> None:
    for wrong in ({"type": "Split"}, {"type": "Unheard"}, 5, [], {**CUT, "use_regex": None}):
        with pytest.raises(RecipeError, match=r"See its pre_tokenizer"):
            Tokenizer("odd", tokenizer(pre_tokenizer=wrong))
    with pytest.raises(RecipeError, match="See its normalizer"):
        Tokenizer("odd", tokenizer(normalizer={}))


def test_show_takes_any_shape_of_pre_tokenizer(tmp_path: Any) -> None:
    path = tmp_path / "tokenizer.json"
    splits = [
        {"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": False}
    ]
    for pre in (None, {"type": "Sequence", "pretokenizers": [*splits, CUT]}, splits[0]):
        table = json.loads(tokenizer()) | {"pre_tokenizer": pre}
        path.write_text(json.dumps(table))
        assert show_tokenizer(str(path))["special"]
