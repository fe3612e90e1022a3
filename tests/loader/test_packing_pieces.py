"""Where long documents are cut: at the ends of paragraphs and sentences of real text, by the bytes
of a real tokenizer.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from gristmill import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.kernels.packing import lengths as kernels
from gristmill.loader import masks
from gristmill.loader.packing import BestFitWindows, PackedSource
from gristmill.loader.packing_pieces import document_lengths, mark_tokens, piece_lengths
from tests.support import strategies
from tests.support.token_corpora import token_corpus

SENTENCES = (
    "The mill stands by the river.",
    'He said: "It turns all night."',
    "Does it? (Nobody knows.)",
    "Grain comes in; flour goes out!",
    "水車は川のそばにある。夜も回る。",
)


@pytest.fixture(scope="module")
def tokenizer() -> Library:
    """Byte-level BPE, of 500 tokens."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator([text() for _ in range(3)], trainer)
    return library


def text(seed: int = 0, paragraphs: int = 12) -> str:
    """Paragraphs of a few sentences."""
    rng = np.random.default_rng(seed)
    return "\n\n".join(
        " ".join(SENTENCES[int(n)] for n in rng.integers(0, len(SENTENCES), rng.integers(1, 5)))
        for _ in range(paragraphs)
    )


@pytest.fixture
def corpus(tmp_path: Path, tokenizer: Library, monkeypatch: pytest.MonkeyPatch) -> TokenCorpus:
    """Twelve texts, one of them over three shards."""
    monkeypatch.setenv("GRISTMILL_PACKING", str(tmp_path / "packing"))
    texts = [text(seed, 3 + 4 * seed) for seed in range(12)]
    tokens = [[*tokenizer.encode(one).ids, 0] for one in texts]
    root = token_corpus(
        tmp_path / "corpus",
        {"web": tokens},
        vocabulary=500,
        tokens_per_shard=len(tokens[-1]) // 2,
        tokenizer=tokenizer.to_str().encode(),
    )
    return TokenCorpus.open(root)


@pytest.mark.parametrize("split_at", ["paragraph", "sentence"])
def test_pieces_end_where_paragraphs_and_sentences_end(
    corpus: TokenCorpus, tokenizer: Library, split_at: str
) -> None:
    limit = 100
    of = PackedSource(corpus=corpus, source="web", split="train", sequence_length=limit)
    windows = BestFitWindows(of, 1, split_at)
    runs = windows.runs(0, np.arange(windows.count))
    order = np.argsort(runs.positions)
    positions, sizes = runs.positions[order], runs.lengths[order]
    assert (positions[1:] == positions[:-1] + sizes[:-1]).all()
    assert int(sizes.sum()) == of.stream.tokens
    ends = set(np.cumsum(np.concatenate(list(document_lengths(of.stream)))).tolist())
    good = bad = 0
    for position, size in zip(positions.tolist(), sizes.tolist(), strict=True):
        if position + size in ends:
            continue
        assert size > limit // 2
        shown = tokenizer.decode(of.stream.read(position, position + size).tolist())
        behind = tokenizer.decode(of.stream.read(position + size, position + size + 2).tolist())
        ending = shown.rstrip('")') or shown
        if split_at == "paragraph":
            found = shown.endswith("\n\n")
        else:
            found = ending.endswith((".", "?", "!", "。")) or shown.endswith("\n")
            found &= ending.endswith(("。", "\n")) or behind[:1].isspace() or shown[-1] == "\n"
        good, bad = good + found, bad + (not found)
        # A piece without such an end in its second half is as long as a window.
        assert found or size == limit
    assert good > 4 * bad


def test_every_epoch_has_the_same_pieces_however_they_were_cut(corpus: TokenCorpus) -> None:
    of = PackedSource(corpus=corpus, source="web", split="train", sequence_length=64)
    windows = BestFitWindows(of, 1, "sentence")
    pieces = [
        sorted(zip(*(field.tolist() for field in windows.runs(epoch, every)[2:]), strict=True))
        for epoch in (0, 3)
        for every in [np.arange(windows.count)]
    ]
    assert pieces[0] == pieces[1]
    for position, size in pieces[0][::5]:
        found = windows.locate(3, position, position + size)
        runs = windows.runs(3, found)
        assert (position, size) in zip(runs.positions.tolist(), runs.lengths.tolist(), strict=True)


@strategies.fuzz(40)
@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=40), min_size=1, max_size=6),
    st.integers(3, 30),
)
def test_documents_over_shards_are_one(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]], tokens_per_shard: int
) -> None:
    root = token_corpus(
        tmp_path_factory.mktemp("corpus"), {"web": documents}, tokens_per_shard=tokens_per_shard
    )
    stream = TokenCorpus.open(root).stream("web")
    sizes = [len(document) for document in documents]
    assert np.concatenate(list(document_lengths(stream))).tolist() == sizes
    marks = np.zeros(1000, np.uint8)
    marks[7] = kernels.WIDE
    found = np.concatenate(list(piece_lengths(stream, 6, marks, sentences=True))).tolist()
    expected = []
    for document in documents:
        start = 0
        while len(document) - start > 6:
            ends = [at for at in range(start + 4, start + 7) if document[at - 1] == 7]
            stop = max(ends, default=start + 6)
            expected.append(stop - start)
            start = stop
        expected.append(len(document) - start)
    assert found == expected


def test_marks() -> None:
    named = {
        name: bit
        for name, bit in vars(kernels).items()
        if name in ("BREAK", "LINE", "NEXT", "STOP", "CLOSE", "SPACE", "WIDE")
    }
    for spelling, expected in (
        (" the", "SPACE"),
        (".", "STOP"),
        ('."', "STOP"),
        ("”", "CLOSE"),
        (")]", "CLOSE"),
        ("\n", "LINE NEXT SPACE"),
        (".\n\n", "BREAK LINE"),
        ("\r\n \r\n", "BREAK LINE NEXT SPACE"),
        ("。", "WIDE"),
        ("吗？”", "WIDE"),
        ("...", "STOP"),
        ("", ""),
        ("e.g", ""),
    ):
        mark = int(mark_tokens([spelling.encode()])[0])
        assert {name for name, bit in named.items() if mark & bit} == set(expected.split())


def test_bytes_of_tokens(corpus: TokenCorpus, tokenizer: Library, tmp_path: Path) -> None:
    table = masks.token_bytes(corpus)
    assert (table.shape, table[0]) == ((500,), 0)
    for token in range(1, tokenizer.get_vocab_size()):
        # Each character of the byte-level alphabet is a byte.
        assert table[token] == len(tokenizer.id_to_token(token))
    # A text has as many bytes as its tokens.
    one = text(5)
    assert table[tokenizer.encode(one).ids].sum() == len(one.encode())
    unknown = token_corpus(tmp_path / "unknown", {"web": [[1, 0]]})
    with pytest.raises(RecipeError, match="tokenizer"):
        masks.token_bytes(TokenCorpus.open(unknown))
