"""Shards of Genesis come back, and no file of them runs code."""

import os
import pickle
import zipfile
from pathlib import Path

import pytest

from gristmill import TokenCorpus, export, import_tokens
from gristmill.errors import RecipeError, VerificationError
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus
from tests.support.trainer_readers import word_tokenizer

ROWS = [[5, 6, 7, 0], [8, 0], [9] * 70 + [0]]


@pytest.fixture(autouse=True)
def torch_or_skip() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        missing("torch", "torch is not installed")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_bytes(word_tokenizer(1000))
    return tmp_path / "tokenizer.json"


def rows_of(root: Path) -> list[list[int]]:
    """The documents of the only source."""
    corpus = TokenCorpus.open(root)
    (source,) = corpus.sources()
    tokens = corpus.stream(source).read(0, corpus.stream(source).tokens).tolist()
    ends = [place + 1 for place, token in enumerate(tokens) if token == 0]
    return [tokens[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def test_what_was_exported_comes_back(tmp_path: Path) -> None:
    root = token_corpus(
        tmp_path / "c", {"web": ROWS}, {"web": [[3, 0]]}, tokenizer=word_tokenizer(1000)
    )
    for name in ("a", "b"):
        export(root, tmp_path / name, to="genesis", tokens_per_file=30)
    assert (tmp_path / "a/SHA256SUMS").read_bytes() == (tmp_path / "b/SHA256SUMS").read_bytes()
    result = import_tokens(tmp_path / "a", tmp_path / "back", format="genesis", source="web")
    assert (result["documents"], result["end_of_text_side"]) == (len(ROWS) + 1, "after")
    assert result["boundaries"] == "end-of-text"
    assert rows_of(tmp_path / "back") == ROWS


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_what_is_no_file_is_refused(what: str, tokenizer: Path, tmp_path: Path) -> None:
    """A link would lead out of the folder, and to open a pipe would wait for ever."""
    shard = tmp_path / "in/shard_0.pt"
    shard.parent.mkdir()
    if what == "link":
        shard.symlink_to("/etc/passwd")
    elif what == "pipe":
        os.mkfifo(shard)
    else:
        shard.mkdir()
    with pytest.raises((RecipeError, VerificationError)):
        import_tokens(shard.parent, tmp_path / "c", format="genesis", tokenizer=str(tokenizer))


class Bomb:
    """Pickled, it makes a file where it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


def test_genesis_runs_no_code_of_a_file(tokenizer: Path, tmp_path: Path) -> None:
    import torch

    folder, hacked = tmp_path / "in", tmp_path / "hacked"
    folder.mkdir()
    shard = folder / "shard_0.pt"

    def refused(said: str) -> None:
        with pytest.raises(VerificationError, match=said):
            import_tokens(folder, tmp_path / "c", format="genesis", tokenizer=str(tokenizer))
        assert not hacked.exists()

    torch.save(Bomb(hacked), shard)
    refused("not a tensor that torch loads without running code")
    shard.write_bytes(pickle.dumps(Bomb(hacked)))
    refused("not a zip archive")
    torch.save(Bomb(hacked), shard, _use_new_zipfile_serialization=False)
    refused("not a zip archive")
    torch.save(torch.tensor([1, 0]), shard)
    with zipfile.ZipFile(shard) as good, zipfile.ZipFile(folder / "bad.zip", "w") as bad:
        for name in good.namelist():
            data = pickle.dumps(Bomb(hacked)) if name.endswith("data.pkl") else good.read(name)
            bad.writestr(name, data)
    os.replace(folder / "bad.zip", shard)
    refused("not a tensor that torch loads")
    shard.write_bytes(b"no archive")
    refused("not a zip archive")
    torch.save(torch.zeros(1 << 20, dtype=torch.int64), folder / "large.pt")
    with (
        zipfile.ZipFile(folder / "large.pt") as good,
        zipfile.ZipFile(shard, "w", zipfile.ZIP_DEFLATED) as bad,
    ):
        for name in good.namelist():
            bad.writestr(name, good.read(name))
    assert shard.stat().st_size < 1 << 16
    refused("an archive with packed entries")
    for value in (
        torch.tensor([1.0]),
        torch.tensor([[1, 0]]),
        [1, 0],
        {"tokens": torch.tensor([1, 0])},
        torch.tensor([1, 0], dtype=torch.int32),
        torch.tensor([0]).expand(1 << 40),
    ):
        torch.save(value, shard)
        refused("not one tensor of int64 in one dimension")
    torch.save(torch.tensor([1, 5000, 0]), shard)
    refused("token 5,000")
    torch.save(torch.tensor([1, 2, 0, 3]), shard)
    torch.save(torch.tensor([4, 0]), folder / "shard_2.pt")
    with pytest.raises(RecipeError, match="some are missing"):
        import_tokens(folder, tmp_path / "c", format="genesis", tokenizer=str(tokenizer))
    os.rename(folder / "shard_2.pt", folder / "shard_1.pt")
    import_tokens(folder, tmp_path / "c", format="genesis", tokenizer=str(tokenizer))
    assert rows_of(tmp_path / "c") == [[1, 2, 0], [3, 4, 0]]
