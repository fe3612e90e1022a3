"""The prediction kernel against the library: equal label and float32 score on every document."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from gristmill.clean.fasttext import Known, read
from gristmill.clean.language import Language, library_model, packaged_model
from gristmill.columns import utf8_buffers
from gristmill.kernels import fasttext
from tests.strategies import batches

PLANTED = [
    "", " ", "\0", "\n\n", "</s>", "</s> hello there", "hello </s> there", "__label__en is a label", "__label__xx is none",
    "__label__", "a\nb\tc\vd\fe\rf", "x" * 5000, "é" * 3000, "日本語" * 600, "<a> </a>", "word " * 900, "\u2028 a \u00a0 b", "__label_x",
]  # fmt: skip


@pytest.fixture(scope="module")
def known() -> Known:
    found = read(packaged_model().read_bytes())
    assert found is not None
    return found


def check(known: Known, texts: list[str], characters: int = 1000) -> None:
    library = library_model(packaged_model())
    places, scores = fasttext.predict(*utf8_buffers(pa.array(texts, pa.string())), known.model, characters=characters)
    for text, place, score in zip(texts, places.tolist(), scores, strict=True):
        labels, expected = library.predict(text.replace("\n", " ")[:characters])
        assert (known.labels[place] if place >= 0 else None) == (
            labels[0].removeprefix("__label__") if labels else None
        ), text[:80]
        if labels:
            assert np.float32(expected[0]) == score, text[:80]


def test_planted_texts(known: Known) -> None:
    check(known, PLANTED)
    check(known, PLANTED, characters=7)


@settings(max_examples=60, deadline=None)
@given(batches())
def test_all_of_unicode(known: Known, texts: list[str]) -> None:
    check(known, texts)


def test_204_languages(known: Known, data: Path) -> None:
    texts = []
    for path in sorted((data / "D_langid/flores200_devtest").rglob("*.devtest")):
        if path.is_file():
            texts += path.read_text("utf-8", "replace").split("\n")[:15]
    assert len(texts) > 2000
    check(known, texts)


def test_pieces_of_novels(known: Known, data: Path) -> None:
    pick = random.Random(1)
    texts = []
    for path in sorted((data / "I_prose").rglob("*"))[:150]:
        if path.is_file() and path.suffix in (".txt", ".xml"):
            text = path.read_text("utf-8", "replace")
            texts += [text[start : start + 1500] for start in (pick.randrange(len(text)) for _ in range(8))]
    assert len(texts) > 500
    check(known, texts)


def test_other_models_are_left_to_the_library(tmp_path: Path) -> None:
    data = packaged_model().read_bytes()
    for broken in (b"", b"no model", data[:1000], data[:8] + b"\x08\0\0\0" + data[12:40]):
        assert read(broken) is None
    other = bytearray(data)
    other[8 + 4 * 5 : 8 + 4 * 6] = (2).to_bytes(4, "little")  # wordNgrams = 2
    assert read(bytes(other)) is None
    path = tmp_path / "other.ftz"
    path.write_bytes(bytes(other))
    text = "The old mill by the river has ground the grain of the villages for three hundred years. " * 4
    batch = pa.RecordBatch.from_pydict({"text": [text]})
    label = Language(keep=["en"], model=str(path))(batch).measures["label"].to_pylist()
    assert label == [library_model(path).predict(text)[0][0].removeprefix("__label__")]
