"""Quality, or anything that a linear classifier predicts: a score for each document, by a model of
gristmill or of fastText.

    low_score       the score is below min_score
    high_score      the score is above max_score

`model` is a path or URL. A file of `gristmill model train-classifier`
(kernels.models.linear_classifier): the score is how likely the text is one of the good. A fastText
model, such as DCLM's: the score is the probability of `label`, with or without `__label__`, on the
whole text, newlines read as spaces. The kernel of the step `language` predicts with models that
score every label (kernels.models.fasttext), equal to the library, float32 for float32; the library
itself predicts with all others.

`drop_lowest = 0.3` drops the three tenths of the corpus whose scores are lowest: a question about
the whole corpus, which `ranks` hands on.
"""

from collections.abc import Callable, Mapping
from functools import cache
from mmap import ACCESS_READ, mmap
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import (
    Input,
    Inputs,
    Measured,
    Rank,
    Rule,
    Step,
    decide_by,
    refuse_nan,
)
from gristmill.filters.api.texts import BatchTexts, TextMeasure
from gristmill.filters.language.language import PREFIX, library_model, no_number, numbers_only
from gristmill.filters.models import fasttext_format, model_file

Share = Annotated[float, Meta(gt=0.0, lt=1.0)]
Score = Callable[[BatchTexts], np.ndarray]  # n texts: (n,) float64


class Classifier(Step, frozen=True, kw_only=True):
    """Judge documents by a classifier's score. A null limit is not checked.

    It is a linear one or a fastText model (docs/models.md). Origin: DCLM and FineWeb-Edu.
    """

    name: ClassVar[str] = "classifier"
    version: ClassVar[int] = 2
    thresholds: ClassVar[frozenset[str]] = frozenset({"drop_lowest"})
    example: ClassVar[str] = 'model = "quality.model"\ndrop_lowest = 0.3'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "score < min_score -> low_score: The score is below `min_score`.",
        "score > max_score -> high_score: The score is above `max_score`.",
    )
    reasons: ClassVar[Mapping[str, str]] = {
        "lowest": "The score is among the lowest of the corpus, the share `drop_lowest`."
    }
    measures: ClassVar[Mapping[str, str]] = {
        "score": "How likely the text is good, or has the label `label`."
    }

    model: str  # The model, by path or URL: of `gristmill model train-classifier`, or fastText's.
    label: str | None = None  # The label of a fastText model whose probability is the score.
    min_score: float | None = None  # The least score. Unset: not checked.
    max_score: float | None = None  # The greatest score. Unset: not checked.
    # The share of the corpus with the lowest scores that is dropped.
    drop_lowest: Share | None = None

    def __post_init__(self) -> None:
        refuse_nan(msgspec.structs.astuple(self))

    @property
    def ranks(self) -> list[Rank]:
        return [Rank("score", "lowest", self.drop_lowest)] if self.drop_lowest is not None else []

    def inputs(self) -> dict[str, str]:
        return {"classifier.model": self.model}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        score = scorer("classifier", inputs[self.model], self.label)
        return TextMeasure(lambda texts: Measured({"score": pa.array(score(texts))}))


@cache
def scorer(step: str, file: Input, label: str | None) -> Score:
    """Return what scores texts by a model file of either kind.

    Raises RecipeError, which names the step.
    """
    from gristmill.filters.models import classifier_file

    where = f"{step}.model: {file.name}"
    try:
        with open(file.path, "rb") as opened:
            head = opened.read(model_file.HEAD)
            if not model_file.is_ours(head):
                if head[:4] != fasttext_format.MAGIC.to_bytes(4, "little"):
                    raise ValueError(
                        f"expected {model_file.NOT_OURS}, or a fastText model, got "
                        f"{model_file.describe(head)}"
                    )
                data = mmap(opened.fileno(), 0, access=ACCESS_READ)
                return _by_fasttext(where, file, label, data)
            opened.seek(0)
            weights = classifier_file.load(
                model_file.read(opened, classifier_file.KIND, classifier_file.VERSION)
            )
    except OSError as error:
        raise RecipeError(f"{where}: {error.strerror}") from error
    except ValueError as error:
        raise RecipeError(
            f"{where} is no classifier: {error}. `gristmill model train-classifier` writes "
            "one, fastText's `supervised` another"
        ) from error
    if label is not None:
        raise RecipeError(f"{where} has no labels, and label = {label!r} is asked for: take it out")
    return lambda texts: _linear(texts, weights)


def _linear(texts: BatchTexts, weights: Any) -> np.ndarray:
    from gristmill.kernels.models import linear_classifier as kernel

    return kernel.score(*texts.normalised, weights)


def _by_fasttext(where: str, file: Input, label: str | None, data: mmap) -> Score:
    from gristmill.filters.models import fasttext_file

    labels = fasttext_file.read_labels(data)
    wanted = (label or "").removeprefix(PREFIX)
    if wanted not in labels:
        shown = ", ".join(labels[:8]) + (", ..." if len(labels) > 8 else "")
        raise RecipeError(f"{where}: label = {label!r}: expected one of its labels: {shown}")
    known = fasttext_file.read(data)
    if known is not None and known.model.loss != fasttext_format.HIERARCHICAL_SOFTMAX:
        return lambda texts: numbers_only(where, _by_kernel(texts, known, labels.index(wanted)))
    library = library_model(file.path, where)
    return lambda texts: _by_library(texts.column, library, PREFIX + wanted, len(labels), where)


def _by_kernel(texts: BatchTexts, known: Any, label: int) -> np.ndarray:
    from gristmill.kernels.models.fasttext import predict

    _, scores = predict(texts.offsets, texts.data, known.model, label=label, tables=known.tables)
    return scores.astype(np.float64)


def _by_library(texts: pa.Array, library: Any, label: str, labels: int, where: str) -> np.ndarray:
    """Return the library's probability of one label; 0 where it does not give it."""
    scores = np.zeros(len(texts))
    for row, text in enumerate(pc.replace_substring(texts, "\n", " ").to_pylist()):
        try:
            names, shares = library.predict(text, k=labels)
        except RuntimeError as error:  # "Encountered NaN."
            raise no_number(where) from error
        scores[row] = dict(zip(names, shares, strict=True)).get(label, 0.0)
    return numbers_only(where, scores)
