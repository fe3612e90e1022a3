"""plain-int32 holds the documents of the corpus."""

import struct
from pathlib import Path

from gristmill.trainer_formats.export import export
from tests.support.token_corpora import token_corpus
from tests.support.trainer_readers import divided, word_tokenizer

DOCUMENTS = [[5, 6, 0], [0], [7, 8, 9, 0]]


def test_documents_are_as_they_were(tmp_path: Path) -> None:
    corpus = token_corpus(tmp_path / "corpus", {"web": DOCUMENTS}, tokenizer=word_tokenizer(1000))
    result = export(corpus, tmp_path / "out", to="plain-int32")
    data = (tmp_path / "out/train.i32").read_bytes()
    assert divided(list(struct.unpack(f"<{len(data) // 4}i", data)), 0) == DOCUMENTS
    assert (result["documents"], result["tokens"]) == (3, 8)
