"""A step whose parameters differ by the language of a document, as FineWeb2's do.

    label of a document   a measure of an earlier step, `language.label` unless the recipe says so
      -> its parameters   the entry of `by_language` that is spelt so or means it (codes.py);
                          a label without an entry, or none: the step's own parameters
      -> measure          rows of languages that are measured alike at once
      -> decide           each language by its own thresholds, which its verdicts carry

An entry holds the parameters that differ, or `false`: the step does not look at that language. The
label is a measure of this step too (`gopher.language`), so that other thresholds can be tried on
stored measures. The recipe's `[languages]` writes the entries (recipe/languages.py).
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.filters.api.registry import find_step
from gristmill.filters.api.step import Decision, Inputs, Measured, Step
from gristmill.filters.api.texts import BatchMeasure, BatchTexts, TextMeasure
from gristmill.filters.language import codes
from gristmill.store.defaults import without_defaults

LABEL = "language"  # the measure that holds a document's label
LANGUAGE_OF = "language.label"
# What no entry may change.
FIXED = {"use", "sources", "rules", "by_language", "language_of"}
Entry = dict[str, Any] | Literal[False]
One = Callable[[pa.RecordBatch, BatchTexts], Measured]


class ByLanguage(Step, frozen=True, kw_only=True, dict=True):
    """Another step, with parameters of their own for some languages."""

    use: str
    parameters: dict[str, Any]
    # Of each language the parameters that differ; or false: the step does not look at it.
    by_language: dict[str, Entry]
    language_of: str = LANGUAGE_OF  # The measure that says a document's language.

    def __post_init__(self) -> None:
        plain = self.plain
        odd = {
            "looks at the whole corpus": bool(plain.table or plain.ranks or plain.corpus_rules),
            "takes the text out of pages": plain.takes_pages,
            "waits until duplicates are removed": bool(getattr(plain, "after_dedup", False)),
            "says the language itself": plain.name == "language",
        }
        for why, there in odd.items():
            if there:
                raise ValueError(f"the step {plain.name} {why}: it cannot differ by language")
        for language, entry in self.by_language.items():
            if entry is False:
                continue
            if wrong := sorted(FIXED & set(entry)):
                raise ValueError(f"{language}: {wrong[0]} cannot differ by language")
            try:
                other = self._of(entry)
            except msgspec.ValidationError as error:
                message = str(error).replace("Object contains unknown field", "no parameter")
                raise ValueError(f"{language}: {self.use}: {message}") from error
            if other.ranks or other.corpus_rules:
                raise ValueError(
                    f"{language}: {self.use} would look at the whole corpus: it cannot differ by "
                    "language"
                )

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the step's."""
        return self.use

    @property
    def version(self) -> int:  # type: ignore[override]
        """Return the step's."""
        return self.plain.version

    @property
    def redacts(self) -> bool:  # type: ignore[override]
        return self.plain.redacts

    @cached_property
    def plain(self) -> Step:
        """Return the step as it is for languages without an entry."""
        return self._of({})

    @classmethod
    def given(cls, use: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return its fields, of a recipe's table without `use`."""
        own = {name: table[name] for name in ("by_language", "language_of") if name in table}
        rest = {name: value for name, value in table.items() if name not in own}
        return {"use": use, "sources": rest.pop("sources", None), "parameters": rest, **own}

    def _of(self, entry: Mapping[str, Any]) -> Step:
        table = {**self.parameters, **entry}
        kind = find_step(self.use)
        assert kind is not None
        made: Step = msgspec.convert(table, kind.variant(table))
        return made

    @cached_property
    def _languages(self) -> list[str]:
        return list(self.by_language)

    @cached_property
    def _places(self) -> codes.LabelPlaces:
        return codes.LabelPlaces(self._languages)

    @cached_property
    def _steps(self) -> dict[int, Step | None]:
        """Return the steps that were asked for, by the place of a language; -1: without an
        entry.
        """
        return {-1: self.plain}

    def _step(self, place: int) -> Step | None:
        """Return the step for a language; None: it does not look at it."""
        if place not in self._steps:
            entry = self.by_language[self._languages[place]]
            self._steps[place] = None if entry is False else self._of(entry)
        return self._steps[place]

    def content(self) -> dict[str, Any]:
        return {
            **without_defaults(self.plain),
            "sources": self.sources,
            "language_of": self.language_of,
            "by_language": self.by_language,
        }

    def measuring(self, content: Mapping[str, Any]) -> dict[str, Any]:
        plain = self.plain.measuring(content)
        entries = {}
        for language, entry in content["by_language"].items():
            left = (
                entry
                if entry is False
                else {
                    name: value
                    for name, value in self.plain.measuring(entry).items()
                    if value != plain.get(name)
                }
            )
            if left is False or left:
                entries[language] = left
        # Which entry a label means depends on all of them, where any measures something else.
        return {**plain, "by_language": entries, "languages": self._languages if entries else []}

    def inputs(self) -> dict[str, str]:
        inputs = self.plain.inputs()
        for place, language in enumerate(self._languages):
            step = self._step(place)
            for what, location in step.inputs().items() if step is not None else ():
                if location not in inputs.values():
                    inputs[f"{what}.{language}"] = location
        return inputs

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        groups, which = self._groups()
        loaded = [None if step is None else _one(step.load(inputs)) for step in groups]
        measure = _Measure(self, which, loaded).measure
        return BatchMeasure(measure, self.language_of, texts_only=all(map(_texts_only, loaded)))

    def _groups(self) -> tuple[list[Step | None], np.ndarray]:
        """Return the steps that measure differently, the plain one first, and which of them each
        language has, (languages + 1,): the last is that of labels without an entry.
        """
        keys: dict[str, int] = {}
        groups: list[Step | None] = []
        which = np.zeros(len(self._languages) + 1, np.int64)
        for place in (-1, *range(len(self._languages))):
            step = self._step(place)
            content = None if step is None else step.measuring(step.content())
            key = msgspec.json.encode(content).decode()
            if key not in keys:
                keys[key] = len(groups)
                groups.append(step)
            which[place] = keys[key]
        return groups, which

    def places(self, labels: pa.Array) -> np.ndarray:
        """Return which entry each label means, (n,) int64; -1: none."""
        return self._places.of(labels)

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        own = {name: column for name, column in measures.items() if name != LABEL}
        places = self.places(measures[LABEL])
        rows, parts = [], []
        for place in np.unique(places).tolist():
            step = self._step(place)
            if step is not None:
                mask = pa.array(places == place)
                rows.append(np.flatnonzero(places == place))
                parts.append(
                    step.decide({name: values.filter(mask) for name, values in own.items()})
                )
        order = _order(len(places), rows)
        if not parts:
            parts = [self.plain.decide({name: values.slice(0, 0) for name, values in own.items()})]
        return Decision(*(_joined(columns).take(order) for columns in zip(*parts, strict=True)))


class _Measure:
    """Measures a batch, the rows of each language by its own step."""

    def __init__(self, step: ByLanguage, which: np.ndarray, loaded: list[One | None]) -> None:
        self._step, self._which, self._loaded = step, which, loaded

    def measure(self, batch: pa.RecordBatch, texts: BatchTexts) -> Measured:
        result: Measured
        labels = texts.labels
        if labels is None:
            labels = pa.nulls(len(batch), pa.string())
        groups = self._which[self._step.places(labels)]
        asked = np.unique(groups).tolist()
        only = self._loaded[asked[0]] if len(asked) == 1 else None
        result = only(batch, texts) if only is not None else self._of_groups(batch, groups, asked)
        return result._replace(measures={**result.measures, LABEL: labels})

    def _of_groups(self, batch: pa.RecordBatch, groups: np.ndarray, asked: list[int]) -> Measured:
        nothing, plain = batch.slice(0, 0), self._loaded[0]
        assert plain is not None
        parts = [plain(nothing, BatchTexts(nothing["text"]))]
        rows = [np.empty(0, np.int64)]
        for group in asked:
            measure = self._loaded[group]
            if measure is not None:
                rows.append(np.flatnonzero(groups == group))
                part = batch.take(pa.array(rows[-1]))
                parts.append(measure(part, BatchTexts(part["text"])))
        order = _order(len(batch), rows)
        measures = {
            name: _joined([part.measures[name] for part in parts]).take(order)
            for name in parts[0].measures
        }
        columns = {
            name: pc.coalesce(_joined([part.columns[name] for part in parts]).take(order), old)
            for name, old in ((name, batch[name]) for name in parts[0].columns)
        }
        if parts[0].text is None:
            return Measured(measures, columns=columns)
        text = _joined([part.text for part in parts]).take(order)
        # A language that the step does not look at keeps its texts.
        return Measured(measures, pc.coalesce(text, batch["text"]), columns)


def _one(measure: Callable[[pa.RecordBatch], Measured]) -> One:
    if isinstance(measure, TextMeasure):
        return _OfTexts(measure)
    return lambda batch, _: measure(batch)


class _OfTexts:
    """Measures by texts alone."""

    def __init__(self, measure: TextMeasure) -> None:
        self._measure = measure

    def __call__(self, batch: pa.RecordBatch, texts: BatchTexts) -> Measured:
        return self._measure.measure(texts)


def _texts_only(one: One | None) -> bool:
    return one is None or isinstance(one, _OfTexts)


def _joined(columns: Any) -> pa.Array:
    return pa.concat_arrays(list(columns)) if len(columns) > 1 else columns[0]


def _order(size: int, rows: list[np.ndarray]) -> pa.Array:
    """Of n rows the place of each in parts that hold some of them; null: in none."""
    order = np.full(size, -1, np.int64)
    if rows:
        every = np.concatenate(rows)
        order[every] = np.arange(len(every))
    return pa.array(order, mask=order < 0)
