"""The reader of token shards, beside a plain reading of the files."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill
from gristmill.corpus.token_corpus import TokenCorpus, TokenStream
from gristmill.errors import RecipeError, VerificationError
from gristmill.store.parts import Part
from gristmill.tokens.shards import ShardWriter
from tests.support.manifests import forge
from tests.support.token_corpora import token_corpus

DTYPE = np.dtype("<u2")


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    size=st.integers(1, 50),
    ends=st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
)
def test_a_range_of_a_stream_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], size: int, ends: tuple[int, int]
) -> None:
    root = tmp_path_factory.mktemp("stream")
    total = sum(lengths)
    tokens = np.arange(total, dtype=DTYPE)
    with ShardWriter(root, "tokens/web/train", DTYPE, size) as writer:
        writer.write(tokens, np.arange(100, 100 + len(lengths)), np.array(lengths))
    parts = [part for part in writer.parts if part.path.endswith(".bin")]
    stream = TokenStream(root, "web", "train", DTYPE, parts)
    start, stop = sorted(min(end, total) for end in ends)
    assert stream.tokens == total
    assert stream.read(start, stop).tolist() == list(range(start, stop))
    # one document after another, in plain Python
    expected, at = [], 0
    for place, length in enumerate(lengths):
        low, high = max(at, start), min(at + length, stop)
        if low < high:
            expected.append((100 + place, low, high, at + length > stop))
        at += length
    spans = stream.documents(start, stop)
    assert list(zip(*(column.tolist() for column in spans), strict=True)) == expected


def test_shards_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["train_100000.bin", "train_99999.bin"]
    for place, name in enumerate(names):
        (tmp_path / name).write_bytes(np.array([place], DTYPE).tobytes())
    root = token_corpus(tmp_path / "corpus", {"web": [[1, 2], [3]]}, tokens_per_shard=2)
    corpus = TokenCorpus.open(root)
    assert corpus.sources() == ["web"]
    corpus.manifest.parts[:] = [
        Part(f"tokens/web/{name}", 2, "0" * 64, {"tokens": 1, "documents": 1}) for name in names
    ]
    paths = [part.path for part in corpus.stream("web").shards]
    assert paths == ["tokens/web/train_99999.bin", "tokens/web/train_100000.bin"]


def test_a_run_can_be_opened_and_says_how_its_tokens_are_read(tmp_path: Path) -> None:
    texts = [f"document number {place} about some subject" for place in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    gristmill.train_tokenizer([tmp_path / "a.jsonl"], tmp_path / "t.json", vocabulary=300)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'output = "corpus"\n[[source]]\nname = "web"\nfiles = ["a.jsonl"]\n'
        '[tokens]\ntokenizer = "t.json"\ntokens_per_shard = 100\nvalidation = 0.2\n'
    )
    gristmill.run(recipe)
    corpus = TokenCorpus.open(tmp_path / "corpus")
    corpus.prove()
    assert (corpus.format.dtype, corpus.format.end_of_text_side) == ("uint16", "after")
    train, val = corpus.stream("web"), corpus.stream("web", "val")
    tokens = np.concatenate([train.read(0, train.tokens), val.read(0, val.tokens)])
    assert np.count_nonzero(tokens == corpus.format.end_of_text) == len(texts)
    assert tokens.max() < corpus.format.vocabulary
    found = np.concatenate([train.documents(0, train.tokens)[0], val.documents(0, val.tokens)[0]])
    assert sorted(found.tolist()) == list(range(len(texts)))
    with pytest.raises(RecipeError, match="'books' has no train tokens; there are web"):
        corpus.stream("books")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="not a corpus, or not finished"):
        TokenCorpus.open(tmp_path / "nothing")
    root = token_corpus(tmp_path / "corpus", {"web": [[1, 2, 3]]})
    shard = root / "tokens/web/train_00000.bin"
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(VerificationError, match="not as it was written: 5 bytes, expected 6"):
        TokenCorpus.open(root).stream("web").read(0, 1)
    shard.unlink()
    with pytest.raises(VerificationError, match="not as it was written: missing. Fetch it again"):
        TokenCorpus.open(root).stream("web").read(0, 1)
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    TokenCorpus.open(root).stream("web").read(0, 1)
    with pytest.raises(VerificationError, match="not as it was written"):
        TokenCorpus.open(root).prove()


@pytest.mark.parametrize(
    "ends", [[2, 2**62], [2**63 - 1, 6], [-5, 6], [6, 6], [4, 2], [0, 6], [3, 5], [3, 2**40]]
)
def test_ends_of_documents_that_lie_are_refused(tmp_path: Path, ends: list[int]) -> None:
    """The table of a shard with the right size and other numbers, whatever reads it."""
    root = token_corpus(tmp_path / "corpus", {"web": [[1, 2, 0], [3, 4, 0]]})
    path = root / "tokens/web/train_00000.docs"
    table = np.fromfile(path, "<i8")
    assert table[2:].tolist() == [3, 6]
    table[2:] = ends
    table.tofile(path)
    match = "train_00000.docs: not as it was written: its ends of documents do not increase to 6"
    stream = TokenCorpus.open(root).stream("web")
    with pytest.raises(VerificationError, match=match):
        stream.documents(0, 6)
    with pytest.raises(VerificationError, match=match):
        list(stream.every_document())
    for packing in ("best_fit", "concat"):
        with pytest.raises(VerificationError):
            gristmill.pack(root, 4, packing)


def test_a_manifest_of_format_1_says_what_to_do(tmp_path: Path) -> None:
    root = token_corpus(tmp_path / "corpus", {"web": [[1, 2, 3]]})

    def older(table: dict[str, object]) -> None:
        table["format"] = 1
        del table["tokens"]

    forge(root, older)
    with pytest.raises(RecipeError, match="run the recipe again, which computes nothing again"):
        TokenCorpus.open(root)


MANY_SHARDS = """
import resource, sys
from gristmill.corpus.token_corpus import TokenCorpus

stream = TokenCorpus.open(sys.argv[1]).stream("web")
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
kept = [stream.read(at, at + 1) for at in range(stream.tokens)]  # views of all shards live on
print(sum(int(view[0]) for view in kept), int(stream.read(0, stream.tokens).sum()))
"""


def test_more_shards_than_files_may_be_open(tmp_path: Path) -> None:
    root = token_corpus(tmp_path / "corpus", {"web": [[1]] * 100}, tokens_per_shard=1)
    command = [sys.executable, "-c", MANY_SHARDS, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "100 100\n"
