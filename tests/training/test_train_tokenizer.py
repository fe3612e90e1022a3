"""Training tokenizers: the bytes that HF's own trainer would write, whatever the order of texts."""

import json
import subprocess
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from gristmill import RecipeError, Tokenizer, VerificationError, train_tokenizer
from gristmill.errors import MachineError, SourceError
from gristmill.system.memory_use import free_memory
from gristmill.tokens.byte_level import BYTE_LEVEL
from gristmill.tokens.rank_files import END_OF_TEXT
from gristmill.training import count_pieces
from gristmill.training.grow_tokenizer import grow_tokenizer
from gristmill.training.texts import KEY
from gristmill.training.tokenizer_json import PATTERNS
from tests.support import corpora, strategies
from tests.support.command import command_line
from tests.support.real_data import RealData

TEXTS = [
    "The quick brown fox doesn't jump over the lazy dog, and THEY'LL say we've seen it 1234 times.",
    "  def main():\n        return 'nothing'\n\n\n    # the end of the thing ...\n\t\tthe theme ",
    "naïve café Zoë über Straße, ab ab abab aaaa aaaa aaaaaaaa bbbb, 文字 中文 ひらがな ไทย 😀😀",
    "international internationalisation nation national rationalise rational; nations\r\n\r\n",
    "<|endoftext|> and <|pad|>, a\x00b \x7f",
] * 3


def mill(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command_line(*words), capture_output=True, text=True, check=False)


def jsonl(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


def library(
    texts: list[str],
    vocabulary: int,
    pattern: str = "gpt2",
    special: tuple[str, ...] = (END_OF_TEXT,),
    *,
    first: bool = True,
    least: int = 0,
) -> bytes:
    """The tokenizer.json of HF's own trainer."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    splits = PATTERNS[pattern].splits
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence(
            [
                *(pre_tokenizers.Split(Regex(split), "isolated") for split in splits),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        if splits
        else pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - (0 if first else len(special)),
        special_tokens=list(special) if first else [],
        initial_alphabet=sorted(BYTE_LEVEL),
        show_progress=False,
        min_frequency=least,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if not first:
        tokenizer.add_special_tokens(list(special))
    return tokenizer.to_str(pretty=True).encode()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_file_is_the_one_that_the_library_would_write(tmp_path: Path, pattern: str) -> None:
    file = jsonl(tmp_path / "texts.jsonl", TEXTS)
    result = train_tokenizer([file], tmp_path / "t.json", vocabulary=420, pattern=pattern)
    written = (tmp_path / "t.json").read_bytes()
    assert written == library(TEXTS, 420, pattern)
    assert (result["vocabulary"], result["documents"]) == (420, len(TEXTS))
    theirs = tokenizers.Tokenizer.from_str(written.decode())
    theirs.encode_special_tokens = True
    ours = Tokenizer("t", written)
    assert ours.kernel
    for text in TEXTS:
        assert ours.encode([text]).tokens.tolist() == theirs.encode(text).ids
        assert ours.decode(ours.encode([text]).tokens) == text


def test_special_tokens_are_first_or_last_and_merging_stops(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "texts.jsonl", TEXTS)
    for special in ((END_OF_TEXT,), ("<|pad|>", END_OF_TEXT, 'a "quoted" \\ one')):
        for first in (True, False):
            train_tokenizer(
                [file],
                tmp_path / "t.json",
                vocabulary=5000,
                special=special,
                special_first=first,
                least=4,
                force=True,
            )
            written = (tmp_path / "t.json").read_bytes()
            assert written == library(TEXTS, 5000, "gpt2", special, first=first, least=4)
            table = json.loads(written)
            last = 256 + len(table["model"]["merges"])
            start = 0 if first else last
            assert [token["id"] for token in table["added_tokens"]] == list(
                range(start, start + len(special))
            )
            assert Tokenizer("t", written).kernel


@strategies.fuzz(40)
@given(st.lists(strategies.texts(), min_size=1, max_size=6), st.integers(257, 330))
def test_fuzz_library(texts: list[str], vocabulary: int) -> None:
    """Texts without new characters: HF's tables of Unicode are of another version than ours."""
    import pyarrow as pa

    from gristmill.kernels.bpe_training.pairs import choose_merges
    from gristmill.training.train_tokenizer import bytes_in_order, merge_pairs

    batch = pa.RecordBatch.from_arrays([pa.array(texts)], names=["text"])
    pieces, _ = count_pieces.count_pieces([batch], PATTERNS["gpt2"].kernel)
    merges = merge_pairs(choose_merges(*pieces, bytes_in_order(), vocabulary - 257))
    spelled = sorted(BYTE_LEVEL)
    for left, right in merges:
        spelled.append(spelled[left] + spelled[right])
    theirs = json.loads(library(texts, vocabulary))["model"]
    assert theirs["merges"] == [[spelled[left], spelled[right]] for left, right in merges]


def test_order_files_and_workers_change_nothing(tmp_path: Path) -> None:
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS * 40)]
    halves = [jsonl(tmp_path / "a.jsonl", texts[::2]), jsonl(tmp_path / "b.jsonl", texts[1::2])]
    whole = jsonl(tmp_path / "c.jsonl", texts[::-1])
    for sample in (None, 50):
        found = set()
        for files, workers in ((halves, 1), (halves[::-1], 3), ([whole], None)):
            result = train_tokenizer(
                files,
                tmp_path / "t.json",
                vocabulary=600,
                workers=workers,
                sample=sample,
                force=True,
            )
            assert result["documents"] == (sample or len(texts))
            found.add((tmp_path / "t.json").read_bytes())
        assert len(found) == 1


def test_a_sample_takes_as_many_of_equal_texts_as_it_may(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "a.jsonl", ["the same"] * 90 + ["", "another one"] * 5)
    for sample in (1, 7, 93, 95, 200):
        result = train_tokenizer(
            [file], tmp_path / "t.json", vocabulary=262, sample=sample, force=True
        )
        assert result["documents"] == min(sample, 95)


def test_a_corpus(tmp_path: Path) -> None:
    """Its kept documents, which a file of `export` has as well."""
    from gristmill import export

    recipe = corpora.lay_out(tmp_path)
    corpora.run(recipe, out=tmp_path / "corpus", workers=1)
    corpus = tmp_path / "corpus"
    result = train_tokenizer([corpus], tmp_path / "of-corpus.json", vocabulary=700)
    export(corpus, tmp_path / "out", to="jsonl")
    files = sorted((tmp_path / "out").rglob("*.jsonl"))
    again = train_tokenizer(files, tmp_path / "of-files.json", vocabulary=700)
    assert result["documents"] == again["documents"] > 0
    assert (tmp_path / "of-corpus.json").read_bytes() == (tmp_path / "of-files.json").read_bytes()
    (tmp_path / "empty").mkdir()
    with pytest.raises(VerificationError, match="not a corpus, or not finished"):
        train_tokenizer([tmp_path / "empty"], tmp_path / "t.json")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"vocabulary": 256}, "too small for the 256 bytes and 1 special token: at least 257"),
        ({"vocabulary": 10_000_001}, "too large: the limit is 10,000,000"),
        ({"pattern": "gpt5"}, "no such pattern; there are gpt2, cl100k"),
        ({"special": []}, "no special token"),
        ({"special": ["<a>", "<b>", "<a>"]}, "'<a>': named twice"),
        ({"special": [""]}, "empty"),
        ({"special": ["x" * 300]}, "longer than 256 characters"),
        ({"special": ["<\ud800>"]}, "not valid Unicode"),
        ({"special": ["Ġ"]}, "stands for a byte"),
        ({"special": ["internatio"]}, "the texts make a token of the same characters"),
        ({"sample": 0}, "--sample 0: expected"),
        ({"least": 0}, "--least 0: expected"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    file = jsonl(tmp_path / "a.jsonl", TEXTS)
    with pytest.raises(RecipeError, match=said):
        train_tokenizer([file], tmp_path / "t.json", **{"vocabulary": 400, **more})
    assert not (tmp_path / "t.json").exists()


def test_little_text(tmp_path: Path) -> None:
    for texts in ([], ["", ""]):
        with pytest.raises(RecipeError, match="no text to train on"):
            train_tokenizer([jsonl(tmp_path / "a.jsonl", texts)], tmp_path / "t.json")
    result = train_tokenizer([jsonl(tmp_path / "a.jsonl", ["a"])], tmp_path / "t.json")
    assert (result["vocabulary"], result["merges"]) == (257, 0)
    assert (tmp_path / "t.json").read_bytes() == library(["a"], 300)
    (tmp_path / "t.json").unlink()
    (tmp_path / "large.txt").write_bytes(b"word " * (4 << 20))
    with pytest.raises(RecipeError, match="every document is too large"):
        train_tokenizer([tmp_path / "large.txt"], tmp_path / "t.json")
    files = [tmp_path / "large.txt", tmp_path / "a.jsonl"]
    for sample in (None, 5):
        result = train_tokenizer(files, tmp_path / "t.json", sample=sample, force=True)
        assert (result["documents"], result["skipped"]) == (1, 1)


def test_an_output_that_is_there_is_kept(tmp_path: Path) -> None:
    file, out = jsonl(tmp_path / "a.jsonl", TEXTS), tmp_path / "t.json"
    out.write_text("mine")
    words = ("tokenizer", "train", str(file), "--out", str(out), "--vocabulary", "300")
    done = mill(*words)
    assert done.returncode == 2
    assert f"--out {out}: it is there already" in done.stderr
    assert out.read_text() == "mine"
    assert mill(*words, "--force").returncode == 0
    assert out.read_bytes() == library(TEXTS, 300)
    with pytest.raises(RecipeError, match=r"a folder. Name a file: .*/tokenizer.json"):
        train_tokenizer([file], tmp_path, force=True)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "image.txt").write_bytes(bytes(range(256)) * 99)
    with pytest.raises(SourceError, match=r"image.txt: not text") as error:
        train_tokenizer(
            [jsonl(tmp_path / "a.jsonl", TEXTS), tmp_path / "image.txt"], tmp_path / "t"
        )
    assert error.value.reason == "not-text"
    assert not (tmp_path / "t").exists()


def test_too_many_pieces_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of different pieces: those of the least hashes that fit are used."""
    letters = str.maketrans("0123456789", "abcdefghij")
    numbers = [range(50 * row, 50 * row + 50) for row in range(200)]
    texts = [" ".join(map(str, row)).translate(letters) for row in numbers]
    file, out = jsonl(tmp_path / "a.jsonl", texts), tmp_path / "t.json"
    more = {"vocabulary": 400, "force": True}
    monkeypatch.setattr(count_pieces, "FULL", 300)  # a thread's table is added before its end
    whole = train_tokenizer([file], out, **more)
    assert (whole["one_in"], whole["documents"]) == (1, 200)
    assert out.read_bytes() == library(texts, 400)
    for limit, most in (("MOST_PIECES", 4000), ("MOST_BYTES", 20_000)):
        with monkeypatch.context() as patch:
            patch.setattr(count_pieces, limit, most)
            found = []
            for workers in (1, 3):
                result = train_tokenizer([file], out, workers=workers, **more)
                found.append((result["one_in"], result["documents"], out.read_bytes()))
        assert found[0] == found[1]
        one_in, documents, written = found[0]
        assert one_in in (2, 4, 8)
        chosen = [
            text
            for text in texts
            if int.from_bytes(blake2b(text.encode(), digest_size=8, key=KEY).digest()) * one_in
            < 1 << 64
        ]
        assert documents == len(chosen)
        assert written == library(chosen, 400)
        assert result["pieces"] <= 4000
    monkeypatch.setattr(count_pieces, "MOST_PIECES", 10)
    with pytest.raises(RecipeError, match=r"different pieces of .* --sample \d+ fits"):
        train_tokenizer([file], out, **more)
    # A tokenizer that grows records its sample: it is not made smaller without a word.
    with pytest.raises(RecipeError, match=r"limits are 10 pieces .* Train on a sample"):
        grow_tokenizer({"a": [file]}, tmp_path / "v1.json", merges=5)


def test_too_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = jsonl(tmp_path / "a.jsonl", TEXTS)
    assert (free_memory() or 1 << 30) > 1 << 20
    monkeypatch.setattr(count_pieces, "free_memory", lambda: 1000)
    for train in (
        lambda: train_tokenizer([file], tmp_path / "t.json"),
        lambda: grow_tokenizer({"a": [file]}, tmp_path / "t.json", merges=5),
    ):
        with pytest.raises(MachineError, match=r"0.0 GB are free. Train on a sample"):
            train()
    monkeypatch.setattr(count_pieces, "free_memory", lambda: None)
    train_tokenizer([file], tmp_path / "t.json", vocabulary=300)


def test_the_verb(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "a.jsonl", TEXTS)
    done = mill(
        *("tokenizer", "train", str(file), "--out", str(tmp_path / "t.json")),
        *("--vocabulary", "300", "--pattern", "qwen2", "--special", "<a>", "--special", "<b>"),
        *("--special-last", "--workers", "1"),
    )
    assert done.returncode == 0, done.stderr
    assert "300 tokens, learned from 15 documents" in done.stdout
    written = (tmp_path / "t.json").read_bytes()
    assert written == library(TEXTS, 300, "qwen2", ("<a>", "<b>"), first=False)
    done = mill("tokenizer", "train", str(tmp_path / "none"), "--out", str(tmp_path / "u.json"))
    assert (done.returncode, "none: no such file" in done.stderr) == (2, True)


def test_all_merges_of_real_text_are_the_library_s(data: RealData, tmp_path: Path) -> None:
    files = sorted((data / "I_prose").glob("english_novels/*.txt"))[:3]
    files += sorted((data / "I_prose").glob("eltec_*/*.xml"))[::20]
    texts = [file.read_text("utf-8") for file in files]
    source = jsonl(tmp_path / "texts.jsonl", texts)
    train_tokenizer([source], tmp_path / "t.json", vocabulary=8000)
    assert (tmp_path / "t.json").read_bytes() == library(texts, 8000)
