"""Documents that the end of text divides, beside a plain reading; blocks of any size in every
reader.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import VerificationError
from gristmill.trainer_formats import datatrove, flat_files, megatron, olmo
from gristmill.trainer_formats.export import export
from gristmill.trainer_formats.import_tokens import import_tokens
from tests.support.token_corpora import token_corpus
from tests.support.trainer_readers import divided, word_tokenizer

END = 0


@settings(max_examples=300, deadline=None)
@given(
    files=st.lists(st.lists(st.integers(0, 3), max_size=20), min_size=1, max_size=4),
    size=st.integers(1, 9),
    side=st.sampled_from(["after", "before"]),
)
def test_documents_and_the_files_where_they_begin(
    files: list[list[int]], size: int, side: str
) -> None:
    tokens = [token for file in files for token in file]
    owner = [number for number, file in enumerate(files) for _ in file]
    opened = [(Path(f"{n}"), np.array(file, np.uint16)) for n, file in enumerate(files)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(flat_files, "BLOCK", size)
        blocks = flat_files.divided(opened, END, side)  # type: ignore[arg-type]
        if side == "before" and tokens and tokens[0] != END:
            with pytest.raises(VerificationError, match="not with the end of text"):
                list(blocks)
            return
        rows: list[list[int]] = []
        begins: list[int] = []
        for found, lengths, numbers in blocks:
            stops = np.cumsum(lengths)
            assert stops[-1] == len(found)
            rows += [part.tolist() for part in np.split(found, stops[:-1])]
            begins += numbers.tolist()
    expected = divided(tokens, END, side)
    assert rows == expected
    starts = np.cumsum([0, *map(len, expected)])[:-1].tolist()
    assert begins == [owner[start] for start in starts]


def test_a_document_without_an_end_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_files, "LONGEST", 100)
    monkeypatch.setattr(flat_files, "BLOCK", 10)
    tokens = [(Path("train.bin"), np.ones(1000, np.uint16))]
    with pytest.raises(VerificationError, match=r"no end of text 0 in 110 tokens"):
        list(flat_files.divided(tokens, END, "after"))


@pytest.mark.parametrize("format_", ["megatron", "datatrove", "olmo", "hf-parquet", "llmc"])
@pytest.mark.parametrize("size", [64, 200])
def test_blocks_of_any_size(
    format_: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (datatrove, flat_files, megatron, olmo):
        monkeypatch.setattr(module, "BLOCK", size)
    pick = np.random.default_rng(3)
    rows = [[*pick.integers(1, 99, n % 90).tolist(), END] for n in range(150)]
    root = token_corpus(
        tmp_path / "corpus", {"web": rows}, vocabulary=300, tokenizer=word_tokenizer(300)
    )
    export(root, tmp_path / "out", to=format_)
    import_tokens(tmp_path / "out", tmp_path / "back", format=format_, source="web")
    for name in ("bin", "docs"):
        found = [
            (at / f"tokens/web/train_00000.{name}").read_bytes() for at in (root, tmp_path / "back")
        ]
        if format_ == "llmc" and name == "bin":
            turned = [END, *[token for row in rows for token in row][:-1]]
            assert np.frombuffer(found[1], "<u2").tolist() == turned
        else:
            assert found[0] == found[1]
