"""Byte-pair encoding against the twin, tiktoken, and HF tokenizers."""

import functools
import itertools
import json
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from gristmill import Tokenizer
from gristmill.kernels.bpe import encoder
from gristmill.kernels.bpe import merges as merging
from gristmill.kernels.bpe.pairs import LINE_OF_PAIRS, place_of_pair
from gristmill.tables.columns import utf8_buffers
from gristmill.tokens.byte_level import BYTE_LEVEL
from gristmill.tokens.rank_files import END_OF_TEXT
from gristmill.tokens.tokenizer import load
from tests.support import naive, strategies
from tests.support.helpers import compiled

TRAINING = [
    (
        "The quick brown fox doesn't jump over the lazy dog, and they'll say we've seen it 1234 "
        "times in 2024."
    ),
    (
        "  def main():\n        return 'nothing'\n\n\n    # the end of the thing ...\n\t\tand "
        "the theme of it"
    ),
    (
        "naïve café Zoë über Straße, ab ab abab aaaa aaaa aaaaaaaa bbbb, "
        "文字 文字 中文 ひらがな カタカナ, ไทย ไทย, हिन्दी, 😀😀 👍🏽"
    ),
    "international internationalisation nation national rationalise rational; internationalisation",
] * 3
LONG = {
    "one letter": "a" * 200_000,
    "spaces": " " * 100_000,
    "two letters": "ab" * 50_000,
    "wide letters": "é" * 50_000,
    "signs": "=-" * 50_000,
    "digits": "1234567890" * 10_000,
    "no period": "".join(chr(97 + (k * k + k // 7) % 26) for k in range(100_000)),
    "new lines": "\n" * 100_000 + "x",
}


NO_ROOM = encoder.Limits(1, 1, 1, 1, 1)
SOME_ROOM = encoder.Limits(1 << 12, 1 << 12, 1 << 12, 1 << 16, 1 << 16)


def tokens_of(encoded: tuple[np.ndarray, np.ndarray]) -> list[list[int]]:
    """Each text's tokens."""
    offsets, tokens = encoded
    assert offsets[0] == 0
    assert offsets[-1] == len(tokens)
    return [tokens[start:stop].tolist() for start, stop in itertools.pairwise(offsets)]


@cache
def gpt2() -> tuple[Tokenizer, Any]:
    """GPT-2 by our kernel, and by tiktoken."""
    tiktoken = pytest.importorskip("tiktoken")
    folder = os.environ.get("TIKTOKEN_CACHE_DIR")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TIKTOKEN_CACHE_DIR names no folder with GPT-2's ranks")
    return load("gpt2", Path(), Path(folder)), tiktoken.get_encoding("gpt2")


def trained(vocabulary: int, corpus: list[str] = TRAINING) -> dict[str, Any]:
    """A tokenizer.json as `gristmill tokenizer train` writes it."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return json.loads(tokenizer.to_str())


def written(spellings: list[str], merges: list[list[str]], **model: Any) -> dict[str, Any]:
    """A tokenizer.json of the 256 bytes, the end of text, these tokens and these merges."""
    table = trained(257)
    numbers = {character: number for number, character in enumerate(BYTE_LEVEL)}
    numbers[END_OF_TEXT] = 256
    for spelling in spellings:
        numbers.setdefault(spelling, len(numbers))
    table["model"] |= {"vocab": numbers, "merges": merges, **model}
    table["added_tokens"][0]["id"] = 256
    return table


def both(table: dict[str, Any]) -> tuple[Tokenizer, Callable[[str], list[int]]]:
    """A tokenizer.json by our class, and by the library itself."""
    text = json.dumps(table)
    library = tokenizers.Tokenizer.from_str(text)
    library.encode_special_tokens = True
    return Tokenizer(
        "test", text.encode()
    ), lambda value: library.encode(value, add_special_tokens=False).ids


@cache
def small(vocabulary: int = 500) -> tuple[Tokenizer, Callable[[str], list[int]]]:
    """A small trained tokenizer, both ways."""
    ours, library = both(trained(vocabulary))
    assert ours.kernel
    return ours, library


# The twin


@cache
def random_tokens(seed: int) -> list[bytes]:
    """256 bytes in any order, then strings over a small alphabet, short and long, of which not all
    can be reached.
    """
    generator = np.random.default_rng(seed)
    tokens = [bytes([byte]) for byte in generator.permutation(256)]
    for _ in range(200):
        of = b"ab \n'\xc3\xa9"[: generator.integers(2, 8)]
        tokens.append(bytes(generator.choice(list(of), generator.integers(2, 20)).tolist()))
    return list(dict.fromkeys([*tokens, b"a" * 40, b"ab" * 40, b"a" * 100]))


def grown_merges(seed: int) -> tuple[list[bytes], list[tuple[int, int, int]]]:
    """Tokens made by joining tokens, and their merges in an order that no training gives."""
    generator = np.random.default_rng(seed)
    tokens = [bytes([byte]) for byte in range(256)]
    pool = [97, 98, 32, 10, 0xC3, 0xA9]
    merges: dict[tuple[int, int], int] = {}
    for _ in range(120):
        left, right = (int(token) for token in generator.choice(pool, 2))
        if (left, right) in merges or len(tokens[left] + tokens[right]) > 60:
            continue
        joined = tokens[left] + tokens[right]
        if joined not in tokens:
            tokens.append(joined)
            pool.append(len(tokens) - 1)
        merges[left, right] = tokens.index(joined)
    order = generator.permutation(len(merges))
    triples = [(*pair, merged) for pair, merged in merges.items()]
    return tokens, [triples[k] for k in order]


def mergeable_texts() -> st.SearchStrategy[str]:
    """Texts that the tokens above cover, in pieces up to a few hundred bytes: by all pairs, and by
    the heap.
    """
    alphabet = st.sampled_from(
        ("a", "b", "ab", "aab", "é", " ", "\n", "a" * 17, "ab" * 25, "a" * 49, "'s")
    )
    return st.lists(alphabet, max_size=12).map("".join)


@strategies.fuzz(150)
@given(
    st.integers(0, 7),
    strategies.slices(st.one_of(mergeable_texts(), mergeable_texts(), strategies.texts())),
)
def test_fuzz_ranks(seed: int, drawn: tuple[list[str], pa.Array]) -> None:
    """merges_of_ranks: what is a token merges, and a piece that is a token is never taken apart."""
    batch, column = drawn
    tokens = random_tokens(seed)
    made = encoder.Encoder(merging.merges_of_ranks(tokens))
    twin = naive.Encoder(naive.merges_of_ranks(tokens))
    wanted = [twin.encode(text) for text in batch]
    for _ in ("merged", "from the table"):
        assert tokens_of(made.encode(*utf8_buffers(column))) == wanted


WIDE = ("中", "文", "字", "は", "が", "한", "ก", "ข", "😀", "é", "a", " ", "、")


@cache
def tokens_of_wide_characters(seed: int) -> list[bytes]:
    """256 bytes, then strings of wide characters; of odd seeds also such that begin or end within a
    character.
    """
    generator = np.random.default_rng(seed)
    tokens = [bytes([byte]) for byte in range(256)]
    for _ in range(150):
        text = "".join(generator.choice(WIDE, generator.integers(1, 5)).tolist()).encode()
        if seed % 2 and generator.integers(8) == 0:
            text = text[generator.integers(len(text)) :][: generator.integers(2, 7)]
        tokens.append(text)
    return list(dict.fromkeys([tokens[at] for at in generator.permutation(len(tokens))]))


@strategies.fuzz(150)
@given(
    st.integers(0, 7), strategies.slices(st.lists(st.sampled_from(WIDE), max_size=90).map("".join))
)
def test_fuzz_parts_of_long_pieces(seed: int, drawn: tuple[list[str], pa.Array]) -> None:
    """Long pieces are cut where no token crosses, also between characters that share bytes."""
    batch, column = drawn
    tokens = tokens_of_wide_characters(seed)
    made = encoder.Encoder(merging.merges_of_ranks(tokens))
    twin = naive.Encoder(naive.merges_of_ranks(tokens))
    wanted = [twin.encode(text) for text in batch]
    for _ in ("merged", "from the table"):
        assert tokens_of(made.encode(*utf8_buffers(column))) == wanted


@strategies.fuzz(150)
@given(
    st.integers(0, 7),
    st.booleans(),
    strategies.slices(st.one_of(mergeable_texts(), mergeable_texts(), strategies.texts())),
)
def test_fuzz_list(seed: int, whole: bool, drawn: tuple[list[str], pa.Array]) -> None:
    """merges_of_list: only the list's merges, in the list's order."""
    batch, column = drawn
    tokens, merges = grown_merges(seed)
    made = encoder.Encoder(merging.merges_of_list(tokens, merges, whole=whole))
    twin = naive.Encoder(naive.merges_of_list(tokens, merges, whole=whole))
    wanted = [twin.encode(text) for text in batch]
    for _ in ("merged", "from the table"):
        assert tokens_of(made.encode(*utf8_buffers(column))) == wanted


def test_pairs_that_share_a_mark() -> None:
    """Of pairs whose line and mark in the table are the same, some merge and others do not: each
    is found as what it is.
    """
    letters = "abcdefghijklmn"
    tokens = [bytes([byte]) for byte in range(256)]
    merges = []
    for left in letters.encode():
        for right in letters.encode():
            merges.append((left, right, len(tokens)))
            tokens.append(bytes((left, right)))
    size = ((len(merges) + 60) // 9 + 1) * LINE_OF_PAIRS
    alike: dict[tuple[int, int], list[tuple[int, int]]] = {}
    place = compiled(place_of_pair)
    for left in range(256, len(tokens)):
        for right in range(256, len(tokens)):
            found = place(np.uint64(left << 20 | right), size)
            alike.setdefault(found, []).append((left, right))
    crowded = sorted(alike.values(), key=len)[-20:]
    for pairs in crowded:
        for left, right in pairs[:3]:
            merges.append((left, right, len(tokens)))
            tokens.append(tokens[left] + tokens[right])
    generator = np.random.default_rng(1)
    merges = [merges[k] for k in generator.permutation(len(merges))]
    made = merging.merges_of_list(tokens, merges, whole=False)
    assert len(made.pair_table) == size
    spelled = [
        (tokens[left] + tokens[right]).decode() for pairs in crowded for left, right in pairs
    ]
    assert len(spelled) > 60
    texts = ["".join(generator.choice(spelled, many)) for many in (1, 1, 2, 3, 9, 30, 100) * 12]
    twin = naive.Encoder(naive.merges_of_list(tokens, merges, whole=False))
    found = tokens_of(encoder.Encoder(made).encode(*strategies.buffers(texts)))
    assert found == [twin.encode(text) for text in texts]


@strategies.fuzz(60)
@given(
    st.lists(
        strategies.batches(st.one_of(strategies.texts(), mergeable_texts())), min_size=1, max_size=3
    ),
    st.sampled_from((NO_ROOM, SOME_ROOM)),
)
def test_fuzz_table_that_overflows(many: list[list[str]], limits: encoder.Limits) -> None:
    """A table of pieces with hardly any room forgets all the time, and every token stays right."""
    tokens = random_tokens(1)
    twin = naive.Encoder(naive.merges_of_ranks(tokens))
    made = encoder.Encoder(merging.merges_of_ranks(tokens), limits=limits)
    for batch in [*many, *many]:
        assert tokens_of(made.encode(*strategies.buffers(batch))) == [
            twin.encode(text) for text in batch
        ]


# A limit; pieces that are more than it lets in: how long they are, and how many.
ROOM = {
    "short": (1, 15, 900),
    "middle": (16, 47, 900),
    "long": (48, 200, 300),
    "arena": (20, 200, 300),
    "spelling": (250, 500, 100),
}


@pytest.mark.parametrize("name", ROOM)
def test_table_is_forgotten_and_learned_again(name: str) -> None:
    """Each of the limits alone: hundreds of pieces through room for few, met again and again, and
    inside of one text.
    """
    tokens = random_tokens(2)
    twin = naive.Encoder(naive.merges_of_ranks(tokens))
    # A piece comes several times, and the textbook's merging of a long one is slow.
    twin.merge = functools.cache(twin.merge)  # type: ignore[method-assign]
    generator = np.random.default_rng(5)
    shortest, longest, many = ROOM[name]
    sizes = generator.integers(shortest, longest + 1, many)
    pieces = ["".join(generator.choice(list("abc"), size)) for size in sizes]
    texts = [" ".join(generator.choice(pieces, 400)) for _ in range(8)]
    wanted = [twin.encode(text) for text in texts]
    limits = SOME_ROOM._replace(**{name: 1})
    made = encoder.Encoder(merging.merges_of_ranks(tokens), limits=limits)
    place = encoder.Limits._fields.index(name)
    used, forgotten = [0], 0
    make_room = made._make_room

    def watched() -> None:
        used.append(int(made._learned.used[place]))
        make_room()
        used.append(int(made._learned.used[place]))

    made._make_room = watched  # type: ignore[method-assign]
    for text, tokens_wanted in zip([*texts, *texts], [*wanted, *wanted], strict=True):
        assert tokens_of(made.encode(*strategies.buffers([text]))) == [tokens_wanted]
        forgotten += sum(later < earlier for earlier, later in itertools.pairwise(used))
        used = used[-1:]
    assert forgotten > 3, "never forgot"


def test_tables_grow_to_their_limits_and_no_further() -> None:
    """Random words for ever: memory stays what the limits say."""
    made = encoder.Encoder(merging.merges_of_ranks(random_tokens(2)), limits=SOME_ROOM)
    generator = np.random.default_rng(6)
    for _ in range(6):
        words = generator.integers(97, 123, (40_000, 12), np.uint8)
        words[:, 0] = 32
        data = words.reshape(-1)
        made.encode(np.array([0, len(data)], np.int32), data)
    sizes = encoder.Limits(*(len(array) for array in made._learned[:5]))
    assert sizes.short == 4 * SOME_ROOM.short
    assert sizes.arena <= SOME_ROOM.arena


def test_nothing_at_all() -> None:
    ours, _ = small()
    for batch in ([], [""], ["", "", ""]):
        encoded = ours.encode(batch)
        assert encoded.offsets.tolist() == [0] * (len(batch) + 1)
        assert len(encoded.tokens) == 0


# tiktoken


@strategies.fuzz(400)
@given(strategies.slices())
def test_fuzz_gpt2_is_tiktokens(drawn: tuple[list[str], pa.Array]) -> None:
    batch, column = drawn
    ours, theirs = gpt2()
    assert tokens_of(ours.encode(column)) == [theirs.encode_ordinary(text) for text in batch]


@strategies.fuzz(60)
@given(strategies.batches())
def test_fuzz_twin_is_tiktokens(batch: list[str]) -> None:
    """The twin itself is right about GPT-2."""
    _ours, theirs = gpt2()
    twin = gpt2_twin()
    assert [twin.encode(text) for text in batch] == [theirs.encode_ordinary(text) for text in batch]


@cache
def gpt2_twin() -> naive.Encoder:
    """The twin with GPT-2's ranks."""
    return naive.Encoder(
        naive.merges_of_ranks(
            [gpt2()[1].decode_single_token_bytes(token) for token in range(50_256)]
        )
    )


def test_every_character_is_tiktokens(soak: int) -> None:
    """Each code point among letters, numbers, signs and white space (every tenth of them under
    `make test`).
    """
    ours, theirs = gpt2()
    known = strategies.known_characters()
    for number, frame in enumerate(("{0}\n", "a{0}b {0}1{0}{0} \n", " {0}!{0}  {0}\u3000'{0}")):
        some = known[number::10] if soak == 1 else known
        every = [frame.format(character) for character in some]
        # A text for each would take tiktoken four times as long.
        batch = ["".join(every[at : at + 50]) for at in range(0, len(every), 50)]
        offsets, tokens = ours.encode(batch)
        wanted = theirs.encode_ordinary_batch(batch, num_threads=2)
        for row, text in enumerate(batch):
            assert tokens[offsets[row] : offsets[row + 1]].tolist() == wanted[row], text


# HF tokenizers


@strategies.fuzz(200)
@given(strategies.slices(), st.sampled_from((257, 300, 500)))
def test_fuzz_trained_is_the_librarys(drawn: tuple[list[str], pa.Array], vocabulary: int) -> None:
    batch, column = drawn
    ours, library = small(vocabulary)
    assert tokens_of(ours.encode(column)) == [library(text) for text in batch]


@cache
def untrained(seed: int, whole: bool) -> tuple[Tokenizer, Callable[[str], list[int]]]:
    """A tokenizer.json with merges in an order that no training gives, both ways."""
    tokens, merges = grown_merges(seed)
    spelled = ["".join(BYTE_LEVEL[byte] for byte in token) for token in tokens]
    pairs = [[spelled[left], spelled[right]] for left, right, _ in merges]
    ours, library = both(written(spelled, pairs, ignore_merges=whole))
    assert ours.kernel
    return ours, library


@strategies.fuzz(150)
@given(st.integers(0, 5), st.booleans(), strategies.batches(mergeable_texts()))
def test_fuzz_any_merges_are_the_librarys(seed: int, whole: bool, batch: list[str]) -> None:
    ours, library = untrained(seed, whole)
    assert tokens_of(ours.encode(batch)) == [library(text) for text in batch]


def test_merge_listed_twice_is_the_librarys() -> None:
    """The library takes the rank of the later."""
    ours, library = both(written(["ab", "bc"], [["a", "b"], ["b", "c"], ["a", "b"]]))
    assert tokens_of(ours.encode(["abc ab bc"])) == [library("abc ab bc")]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("spelling", [" ", "\n", "\u65e5"])
def test_token_that_spells_no_bytes_is_the_librarys(spelling: str, whole: bool) -> None:
    """A token of other characters than the 256 that stand for bytes is one that no text gives."""
    ours, library = both(written([spelling, "ab"], [["a", "b"]], ignore_merges=whole))
    assert tokens_of(ours.encode(["ab \n\u65e5"])) == [library("ab \n\u65e5")]


def unknown_to_the_kernel() -> dict[str, dict[str, Any]]:
    """Tokenizers that only the library encodes: a small one with something more."""
    tables = {
        name: trained(400) for name in ("normalizer", "words", "prefix", "unsplit", "added word")
    }
    lower = tokenizers.Tokenizer(models.BPE())
    lower.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tables["normalizer"]["normalizer"] = json.loads(lower.to_str())["normalizer"]
    tables["words"]["pre_tokenizer"] = {"type": "Whitespace"}
    tables["prefix"]["pre_tokenizer"]["add_prefix_space"] = True
    tables["unsplit"]["pre_tokenizer"]["use_regex"] = False
    tables["added word"]["added_tokens"].append(
        {
            **tables["added word"]["added_tokens"][0],
            "id": 400,
            "content": "the",
            "special": False,
            "single_word": True,
        }
    )
    return tables


@pytest.mark.parametrize("name", ["normalizer", "words", "prefix", "unsplit", "added word"])
def test_others_fall_back_to_the_library(name: str) -> None:
    ours, library = both(unknown_to_the_kernel()[name])
    assert not ours.kernel
    batch = ["", "The Quick brown FOX doesn't, the end\u0301.", f"x {END_OF_TEXT} y", *TRAINING]
    column = pa.array(["before", *batch]).slice(1)
    assert tokens_of(ours.encode(column)) == [library(text) for text in batch]
    plain, _ = small(400)
    assert tokens_of(ours.encode(batch)) != tokens_of(plain.encode(batch)), (
        "what the kernel does not know changes nothing"
    )


def test_literal_end_of_text_is_plain_text() -> None:
    texts = [
        END_OF_TEXT,
        f"a{END_OF_TEXT}b",
        f" {END_OF_TEXT}\n{END_OF_TEXT * 3}",
        f"{END_OF_TEXT}" * 50,
    ]
    every = [small()[0], *(both(table)[0] for table in unknown_to_the_kernel().values())]
    for tokenizer in every:
        assert tokenizer.spelling(tokenizer.end_of_text).decode() == END_OF_TEXT
        encoded = tokenizer.encode(texts)
        assert (np.diff(encoded.offsets) > 0).all()
        assert tokenizer.end_of_text not in encoded.tokens
    ours, _ = gpt2()
    assert ours.end_of_text == 50_256
    encoded = ours.encode(texts)
    assert ours.end_of_text not in encoded.tokens
    assert [ours.decode(tokens) for tokens in tokens_of(encoded)] == texts


def models_that_know_the_literal() -> dict[str, tokenizers.Tokenizer]:
    """Small tokenizers whose model itself finds a special token's spelling in its vocabulary."""
    special = ["</s>", "<unk>"]
    corpus = ["hello world, hello there < / s >"] * 5
    unigram = tokenizers.Tokenizer(models.Unigram())
    words = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
    whole = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", ignore_merges=True))
    made = {
        "unigram": (
            unigram,
            trainers.UnigramTrainer(
                vocab_size=40, special_tokens=special, unk_token="<unk>", show_progress=False
            ),
        ),
        "words": (words, trainers.WordLevelTrainer(special_tokens=special, show_progress=False)),
        "whole pieces": (
            whole,
            trainers.BpeTrainer(vocab_size=60, special_tokens=special, show_progress=False),
        ),
    }
    for name, (tokenizer, trainer) in made.items():
        tokenizer.pre_tokenizer = (
            pre_tokenizers.Metaspace() if name == "unigram" else pre_tokenizers.WhitespaceSplit()
        )
        tokenizer.train_from_iterator(corpus, trainer)
    return {name: tokenizer for name, (tokenizer, _) in made.items()}


@pytest.mark.parametrize("name", ["unigram", "words", "whole pieces"])
def test_literal_end_of_text_is_plain_text_to_any_model(name: str) -> None:
    """`encode_special_tokens` keeps the library from cutting the literal out, not the model from
    knowing it.
    """
    ours = Tokenizer("test", models_that_know_the_literal()[name].to_str().encode())
    assert not ours.kernel
    assert ours.spelling(ours.end_of_text) == b"</s>"
    encoded = ours.encode(["hello </s> there</s>x", "</s>", "hello"])
    assert (np.diff(encoded.offsets) > 0).all()
    assert ours.end_of_text not in encoded.tokens


# Long pieces


def timed(encode: Callable[[], list[list[int]]]) -> list[list[int]]:
    """What it gives, in less than two seconds of this process."""
    start = time.process_time()
    out = encode()
    assert time.process_time() - start < 2
    return out


@pytest.mark.parametrize("name", LONG)
def test_long_pieces_by_a_trained_tokenizer(name: str) -> None:
    ours, library = small()
    assert timed(lambda: tokens_of(ours.encode([LONG[name]]))) == [library(LONG[name])]


@pytest.mark.parametrize("name", LONG)
def test_long_pieces_by_gpt2(name: str) -> None:
    ours, theirs = gpt2()
    assert timed(lambda: tokens_of(ours.encode([LONG[name], "x"]))) == [
        theirs.encode_ordinary(LONG[name]),
        [87],
    ]


def test_pieces_of_every_length() -> None:
    """Around the lengths at which the way of merging and of remembering changes, all bytes counted
    when compared.
    """
    ours, library = small()
    texts = [
        letter * size + last
        for size in range(1, 140)
        for letter in ("a", "n", "=")
        for last in ("", "q", "z", "é")
    ]
    texts += [text.replace("a", "b", 1) for text in texts]
    for _ in ("merged", "from the table"):
        assert tokens_of(ours.encode(texts)) == [library(text) for text in texts]
