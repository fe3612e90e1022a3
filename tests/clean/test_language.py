"""Language: fastText's own label and score on what the step shows it, and the reasons."""

from pathlib import Path

import fasttext
import pyarrow as pa
import pytest

from gristmill import schema
from gristmill.clean.language import Language, packaged_model
from gristmill.demonstration.texts import OTHER_LANGUAGES
from gristmill.errors import RecipeError
from tests.corpora import article

ENGLISH = (
    "The old mill by the river has ground the grain of the villages around it for three hundred years.\nEvery morning "
    * 5
)


def batch_of(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"document": row, "text": text} for row, text in enumerate(texts)], schema.DOCUMENTS
    )


def test_labels_and_scores_are_the_librarys_own() -> None:
    texts = [ENGLISH, *OTHER_LANGUAGES.values(), article(1), "x", "a\nb\n" * 900, "é" * 3000]
    said = Language(keep=["en"])(batch_of(texts))
    model = fasttext.load_model(str(packaged_model()))
    for row, text in enumerate(texts):
        labels, scores = model.predict(text.replace("\n", " ")[:1000])
        assert said.measures["label"][row].as_py() == labels[0].removeprefix("__label__")
        assert said.measures["score"][row].as_py() == scores[0]


def test_reasons() -> None:
    said = Language(keep=["en", "de"], min_score=0.65)(
        batch_of([ENGLISH, *OTHER_LANGUAGES.values(), "", "zzz qqq 17 the"])
    )
    assert said.reason.to_pylist()[:2] == [None, None]
    assert said.reason.to_pylist()[2:6] == ["other"] * 4
    assert said.reason.to_pylist()[6] in ("other", "low_score")  # of nothing the model says something, at a low score
    strict = Language(keep=["en"], min_score=0.999)(batch_of([ENGLISH]))
    assert strict.reason.to_pylist() == ["low_score"]
    assert strict.threshold.to_pylist() == [0.999]
    assert strict.value.to_pylist() == strict.measures["score"].to_pylist()


def test_only_the_first_characters_are_seen() -> None:
    text = OTHER_LANGUAGES["de"][:200] + ENGLISH * 20
    assert Language(keep=["de"], characters=200)(batch_of([text])).reason.to_pylist() == [None]


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"no model")
    with pytest.raises(RecipeError, match="no fastText model"):
        Language(keep=["en"], model=str(path))(batch_of([ENGLISH]))
    with pytest.raises(RecipeError, match="No such file"):
        Language(keep=["en"], model=str(tmp_path / "none.bin")).inputs()
