"""Tokenizer files that are large, odd or damaged: encoded exactly, or refused with the reason."""

import base64
import itertools
import json
import time
from typing import Any

import numpy as np
import pytest
import tokenizers

from gristmill.errors import RecipeError
from gristmill.tokens import library
from gristmill.tokens.byte_level import BYTE_LEVEL, MOST_TOKENS
from gristmill.tokens.tokenizer import Tokenizer
from tests.support.hostile_models import BYTES, END, tokenizer
from tests.support.tokenizer_families import split, written


def both(data: bytes, texts: list[str]) -> Tokenizer:
    """A tokenizer.json that gives what the library gives."""
    ours = Tokenizer("test", data)
    theirs = tokenizers.Tokenizer.from_buffer(data)
    offsets, tokens = ours.encode(texts)
    found = [tokens[start:stop].tolist() for start, stop in itertools.pairwise(offsets)]
    assert found == [theirs.encode(text, add_special_tokens=False).ids for text in texts]
    return ours


def pairs_of(count: int) -> tuple[dict[str, int], list[list[str]]]:
    """A vocabulary of two and three bytes, and its merges."""
    vocabulary, merges = dict(BYTES), []
    pairs = ["".join(pair) for pair in itertools.product(BYTE_LEVEL[33:127], repeat=2)]
    for pair in pairs:
        vocabulary[pair] = len(vocabulary) + 1
        merges.append([pair[0], pair[1]])
    for pair, last in itertools.product(pairs, BYTE_LEVEL[33:127]):
        if len(merges) == count:
            break
        vocabulary[pair + last] = len(vocabulary) + 1
        merges.append([pair, last])
    return vocabulary, merges


def test_vocabulary_over_65536_is_of_uint32() -> None:
    vocabulary, merges = pairs_of(70_000)
    ours = both(tokenizer(vocabulary, merges=merges), ["abcdef xyz ~~~ 123", "hello"])
    assert ours.kernel
    assert ours.vocabulary > 65_536
    assert ours.dtype == np.dtype("<u4")


@pytest.mark.soak
def test_nearly_a_million_merges() -> None:
    """As many as the kernel's tables take, and a number that they do not take."""
    vocabulary, pairs = pairs_of(830_000)
    merges = [" ".join(pair) for pair in pairs]
    ours = both(tokenizer(vocabulary, merges=merges), ["abcdef xyz ~~~ 123"])
    assert ours.kernel
    vocabulary[f"{BYTE_LEVEL[0]}a"] = MOST_TOKENS
    assert not both(tokenizer(vocabulary, merges=merges), ["abcdef xyz"]).kernel
    with pytest.raises(RecipeError, match="it has more than 2,097,152 values"):
        Tokenizer("test", tokenizer(vocabulary, merges=pairs))


def test_numbers_without_a_token() -> None:
    vocabulary = {**BYTES, "ab": 1_000, "abc": 70_000}
    ours = both(tokenizer(vocabulary, merges=[["a", "b"], ["ab", "c"]]), ["abcabab", " abc"])
    assert ours.kernel
    assert ours.vocabulary == 70_001
    assert ours.spelling(500) == b""
    assert ours.decode([70_000, 1_000]) == "abcab"


def test_a_pattern_of_exponential_time_is_an_error() -> None:
    with pytest.raises(RecipeError, match="cannot be used by the tokenizers library"):
        Tokenizer("test", tokenizer(pre_tokenizer=split(r"(a+)+b|(a|aa)+c")))
    data = tokenizer(pre_tokenizer=split(r"(z+)+y|(z|zz)+x"))
    ours = Tokenizer("test", data)
    assert not ours.kernel
    assert len(ours.encode(["abc"]).tokens) == 3
    start = time.process_time()
    with pytest.raises(RecipeError, match="cannot encode a text with this tokenizer.json"):
        ours.encode(["fine", "z" * 200])
    assert time.process_time() - start < 60


def ranks_of(tokens: list[bytes]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def gpt2_sized(missing: int | None) -> list[bytes]:
    order = [*range(0x21, 0x7F), *(byte for byte in range(256) if not 0x21 <= byte < 0x7F)]
    tokens = [bytes([byte]) for byte in order if byte != missing]
    return [*tokens, *(b"%06d" % number for number in range(50_256 - len(tokens)))]


def test_rank_file_without_a_byte_is_refused() -> None:
    assert Tokenizer("ranks", ranks_of(gpt2_sized(None))).vocabulary == 50_257
    with pytest.raises(RecipeError, match="no token for the byte 00: expected one for each"):
        Tokenizer("ranks", ranks_of(gpt2_sized(0)))


@pytest.mark.parametrize("size", [256, 50_255, 50_257, 100_256])
def test_rank_file_that_is_not_a_published_one_is_refused(size: int) -> None:
    tokens = [*gpt2_sized(None), *(b"%07d" % number for number in range(50_000))][:size]
    with pytest.raises(RecipeError, match=r"not one of the published files \(gpt2, r50k_base"):
        Tokenizer("ranks", ranks_of(tokens))


def test_holes_in_ranks() -> None:
    """Of p50k_base's shape: a rank that a special token has. The file itself is published."""
    from gristmill.kernels.bpe.encoder import Encoder
    from gristmill.kernels.bpe.merges import merges_of_ranks
    from tests.support import naive, strategies

    tokens = [*gpt2_sized(None)[:256], b"ab", b"", b"abc", b"bc"]
    encoder = Encoder(merges_of_ranks(tokens))
    twin = naive.Encoder(naive.merges_of_ranks([token or b"\xff\xff" for token in tokens]))
    texts = ["abcbcab", "ab abc  bc", ""]
    offsets, found = encoder.encode(*strategies.buffers(texts))
    assert [found[a:b].tolist() for a, b in itertools.pairwise(offsets)] == [
        twin.encode(text) for text in texts
    ]


@pytest.mark.parametrize("bytes_together", [1, 100, 1 << 20])
def test_batches_of_the_library(monkeypatch: pytest.MonkeyPatch, bytes_together: int) -> None:
    """Texts in order, whatever goes to the library together."""
    monkeypatch.setattr(library, "BATCH_BYTES", bytes_together)
    table: dict[str, Any] = json.loads(written("Qwen 2"))
    table["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\s|\S+"
    texts = ["", "a b c", "x" * 300, "", "the end", *(f"text {k}" for k in range(50))]
    assert not both(json.dumps(table).encode(), texts).kernel


def test_special_token_of_the_vocabulary_is_left_out() -> None:
    """A special token with the spelling of a merged one: the library has the same rule."""
    data = tokenizer({**BYTES, "ab": 300}, added=[END, {**END, "id": 300, "content": "ab"}])
    assert Tokenizer("test", data).encode(["ab"]).tokens.tolist() == [BYTES["a"], BYTES["b"]]


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_end_of_text_that_merges_would_make_is_plain_text(ignore_merges: bool) -> None:
    vocabulary = {**BYTES, "ab": 257}
    data = json.loads(tokenizer(vocabulary, added=[{**END, "id": 257, "content": "ab"}]))
    data["model"] |= {"merges": [["a", "b"]], "ignore_merges": ignore_merges}
    ours = Tokenizer("test", json.dumps(data).encode(), "ab")
    tokens = ours.encode(["ab cab", "ab"]).tokens.tolist()
    assert ours.end_of_text == 257
    assert 257 not in tokens
    assert tokens[-2:] == [BYTES["a"], BYTES["b"]]
