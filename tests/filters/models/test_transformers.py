"""A classification head: as transformers itself scores, whatever the batch, and resumed."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Input
from gristmill.filters.models.transformers import Judge, Transformers
from gristmill.tables import schema
from tests.support.corpora import article
from tests.support.judges import make_judge
from tests.support.steps import given

TEXTS = ["", "mill", *(article(f"judged {number}", 2 + number % 7) for number in range(11))]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_judge(tmp_path_factory.mktemp("judge"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def step_of(model: Path, **table: Any) -> Transformers:
    return msgspec.convert({"model": str(model), **table}, Transformers)


def inputs_of(step: Transformers) -> dict[str, Input]:
    return {
        location: Input(location, "", location.encode().hex())
        if location.startswith("version:")
        else given(Path(location))
        for location in step.inputs().values()
    }


def batch_of(texts: list[str]) -> pa.RecordBatch:
    rows = [{"document": (4 << 32) + row, "text": text} for row, text in enumerate(texts)]
    return pa.RecordBatch.from_pylist(rows, schema.DOCUMENTS)


def measured(step: Transformers, texts: list[str]) -> dict[str, list[Any]]:
    found = step.load(inputs_of(step))(batch_of(texts)).measures
    return {name: column.to_pylist() for name, column in found.items()}


def test_as_transformers_scores_one_text_after_another(model: Path) -> None:
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertForSequenceClassification

    step = step_of(model, tokens=100, batch=4)
    found = measured(step, TEXTS)
    pieces = Tokenizer.from_file(str(model / "tokenizer.json"))
    theirs = BertForSequenceClassification(BertConfig.from_json_file(model / "config.json")).eval()
    theirs.load_state_dict(load_file(model / "model.safetensors"))
    for text, label, score in zip(TEXTS[1:], found["label"][1:], found["score"][1:], strict=True):
        ids = torch.tensor([pieces.encode(text).ids[:100]])
        with torch.inference_mode():
            said = theirs(input_ids=ids).logits.double().softmax(-1)[0].numpy()
        assert label == f"topic{said.argmax()}"
        assert score == pytest.approx(said.max(), abs=1e-5)
    assert len(set(found["label"])) > 1
    one = measured(step_of(model, tokens=100, batch=4, positive="topic1"), TEXTS)
    assert one["label"] == found["label"]
    assert one["score"] != found["score"]


def test_a_score_does_not_depend_on_the_texts_beside_it(model: Path, tmp_path: Path) -> None:
    step = step_of(model, batch=4)
    together = measured(step, TEXTS)["score"]
    for path in (tmp_path / "cache").rglob("00004"):
        path.unlink()
    again = step.load(inputs_of(step))
    alone = [again(batch_of([text])).measures["score"][0].as_py() for text in reversed(TEXTS)]
    assert alone[::-1] == together


def test_a_crash_loses_one_batch(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was scored is not scored again; what was cut off or changed on disk is."""
    step = step_of(model, batch=4)
    whole = measured(step, TEXTS)
    (path,) = (tmp_path / "cache").rglob("00004")
    data = path.read_bytes()
    size = len(data) // len(TEXTS)
    seen: list[int] = []
    score = Judge.scores

    def counting(self: Judge, texts: pa.Array, rows: int) -> Any:
        seen.append(len(texts))
        yield from score(self, texts, rows)

    monkeypatch.setattr(Judge, "scores", counting)
    damaged = bytearray(data)
    damaged[size + 20] ^= 1
    for bytes_, missing in (
        (data, []),
        (data[: 7 * size + 5], [len(TEXTS) - 7]),
        (bytes(damaged), [1]),
        (b"", [len(TEXTS)]),
    ):
        path.write_bytes(bytes_)
        seen.clear()
        assert measured(step, TEXTS) == whole
        assert seen == missing

    def failing(self: Judge, texts: pa.Array, rows: int) -> Any:
        batches = score(self, texts, rows)
        yield next(batches)
        raise KeyboardInterrupt

    path.write_bytes(b"")
    monkeypatch.setattr(Judge, "scores", failing)
    with pytest.raises(KeyboardInterrupt):
        measured(step, TEXTS)
    assert 0 < len(path.read_bytes()) <= 4 * size


def test_a_regression_and_its_thresholds(tmp_path: Path) -> None:
    model = make_judge(tmp_path / "one", labels=1)
    found = measured(step_of(model), TEXTS)
    assert set(found) == {"score"}
    limit = float(np.median(found["score"]))
    step = step_of(model, min_score=limit)
    measures = step.load(inputs_of(step))(batch_of(TEXTS)).measures
    reasons = step.decide(measures).reason.to_pylist()
    assert reasons == ["low" if score < limit else None for score in found["score"]]


def test_labels_are_kept(model: Path) -> None:
    step = step_of(model, keep=["topic1"])
    measures = step.load(inputs_of(step))(batch_of(TEXTS)).measures
    labels = measures["label"].to_pylist()
    reasons = step.decide(measures).reason.to_pylist()
    assert reasons == [None if label == "topic1" else "label" for label in labels]


def test_models_that_are_none(model: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="the model has the labels topic0, topic1, topic2"):
        measured(step_of(model, positive="good"), TEXTS)
    broken = make_judge(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(RecipeError, match="no classification model"):
        measured(step_of(broken), TEXTS)
    (broken / "config.json").write_text("[]")
    with pytest.raises(RecipeError, match="no classification model"):
        measured(step_of(broken), TEXTS)
