"""tiktoken's rank files: what is known of a published one without reading its ranks."""

import subprocess
import sys
from pathlib import Path

import pytest

from gristmill.kernels.pieces import literals
from gristmill.tokens import added_tokens, tokenizer_file
from gristmill.tokens.byte_level import gpt2_tokens
from gristmill.tokens.rank_files import (
    R50K_BASE,
    RANK_FILES,
    known_file,
    read_rank_file,
    tokens_of_published,
)
from gristmill.tokens.tokenizer import Tokenizer, load


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", "o200k_base"])
def test_a_published_file_reads_as_one_that_is_checked(tiktoken_folder: Path, name: str) -> None:
    """Every token, and the numbers that follow from the digest alone."""
    data = read_rank_file(name, tiktoken_folder, resume_only=True)
    tokenizer = Tokenizer(name, data)
    file = known_file(tokenizer.sha256)
    assert file is not None
    assert "_ranks" not in vars(tokenizer)
    checked = tokenizer_file.read_ranks(data, file.holes)
    assert tokens_of_published(file, data) == checked
    assert len(checked) == file.ranks + len(file.holes)
    assert tokenizer.vocabulary == max(*file.special.values(), len(checked) - 1) + 1
    assert tokenizer.spelling(tokenizer.end_of_text) == b"<|endoftext|>"
    assert [tokenizer.spelling(number) for number in range(1000)] == checked[:1000]


def test_a_rank_that_only_a_special_token_has() -> None:
    """As p50k_base has one in the middle."""
    file = R50K_BASE._replace(ranks=3, special={"<|endoftext|>": 1})
    data = b"IQ== 0\nIg== 2\nIw== 3\n"
    wanted = [b"!", b"", b'"', b"#"]
    assert tokens_of_published(file, data) == wanted
    assert tokenizer_file.read_ranks(data, file.holes) == wanted


def test_vocab_bpe_has_the_tokens_of_r50k_base(tiktoken_folder: Path) -> None:
    ranks = RANK_FILES["gpt2"][0]
    data = read_rank_file("gpt2", tiktoken_folder, resume_only=True)
    path = next(
        (path for path in tiktoken_folder.iterdir() if path.read_bytes()[:8] == b"#version"), None
    )
    if path is None:
        pytest.skip("TIKTOKEN_CACHE_DIR has no vocab.bpe")
    assert gpt2_tokens(path.read_bytes()) == tokens_of_published(ranks, data)


def test_a_tokenizer_that_is_only_asked_for_numbers_loads_no_kernels(tiktoken_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gristmill.tokens.tokenizer import load\n"
        f"found = load('gpt2', Path(), Path({str(tiktoken_folder)!r}))\n"
        "print(found.vocabulary, found.end_of_text, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "50257 50256 False\n"
    assert load("gpt2", Path(), tiktoken_folder).decode([15496, 995]) == "Hello world"


def test_limits_are_those_of_the_kernels() -> None:
    assert literals.MOST_BYTES == added_tokens.MOST_BYTES
