"""`gristmill.extract`, `gristmill.language` and `gristmill.Tokenizer` on texts in memory."""

import doctest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import gristmill
from gristmill.errors import ArgumentError, RecipeError
from gristmill.library import text_functions
from tests.support.corpora import article, jsonl

PAGE = "<html><meta charset=latin1><title>T</title><main><p>Caf\xe9 au lait, a drink.</p></main>"
GERMAN, ENGLISH = "Der Müller geht am Morgen zur Mühle.", "The miller goes to the mill."


def test_language() -> None:
    assert gristmill.language(GERMAN).label == "de"
    found = gristmill.language([GERMAN, None, ENGLISH, ""])
    assert found["label"].to_pylist()[:3] == ["de", None, "en"]
    assert found["score"][1].as_py() is None
    with pytest.raises(RecipeError, match="no such file"):
        gristmill.language(GERMAN, model="none.bin")


@pytest.mark.parametrize("extractor", ["resiliparse", "gristmill"])
def test_extract(extractor: str) -> None:
    text = gristmill.extract(PAGE, extractor=extractor)
    assert text == "Café au lait, a drink."
    assert gristmill.extract(PAGE.encode("latin1"), extractor=extractor) == text
    found = gristmill.extract([PAGE, "", None], extractor=extractor)
    assert found["text"].to_pylist() == [text, None, None]
    assert found["title"].to_pylist()[0] == "T"
    assert gristmill.extract("", extractor=extractor) is None
    with pytest.raises(ArgumentError, match="extractor"):
        gristmill.extract(PAGE, extractor="other")


def test_tokenizer(tmp_path: Path) -> None:
    rows = [{"text": article(number, 20)} for number in range(20)]
    (tmp_path / "rows.jsonl").write_bytes(jsonl(rows))
    gristmill.train_tokenizer([tmp_path / "rows.jsonl"], tmp_path / "t.json", vocabulary=300)
    tokenizer = gristmill.Tokenizer(str(tmp_path / "t.json"))
    given = ["one mill", "", "\ud800", "two mills"]
    encoded = tokenizer.encode_batch(given)
    assert tokenizer.decode_batch(encoded) == ["one mill", "", "\ufffd", "two mills"]
    assert encoded.offsets.tolist()[0] == 0
    one = tokenizer.encode_text("two mills")
    assert isinstance(one, np.ndarray)
    assert one.tolist() == encoded.tokens[encoded.offsets[3] :].tolist()
    assert tokenizer.decode(one) == "two mills"
    columns = tokenizer.encode_batch(pa.chunked_array([given[:1], given[1:2]], pa.large_string()))
    assert columns.offsets.tolist() == encoded.offsets.tolist()[:3]
    assert tokenizer.encode_batch([]).offsets.tolist() == [0]
    with pytest.raises(ArgumentError, match="one is missing"):
        tokenizer.encode_batch(["a", None])
    with pytest.raises(ArgumentError, match="expected a string"):
        tokenizer.encode_text(5)
    with pytest.raises(RecipeError, match="none.json"):
        gristmill.Tokenizer("none.json")


def test_the_examples_are_true() -> None:
    assert doctest.testmod(text_functions).failed == 0
    assert doctest.testmod(text_functions).attempted
