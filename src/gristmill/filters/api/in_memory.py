"""Filters on texts in memory: the same verdicts as those of a run, without files.

    texts -> table (user_texts.py) -> batches of a few MB -> judge -> VERDICTS, measures, texts

Documents are numbered from 0, as those of a corpus' first shard; a table may have a column
`document`. A missing text is `read.no_text`, as in a run. What a step has loaded (models, lists)
stays in memory for the next call: the steps used last, and while their files are unchanged.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Protocol, TypeVar, overload

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import ArgumentError
from gristmill.filters.api.custom import RESERVED, function_measure
from gristmill.filters.api.judge import Judged, NamedStep, make_schemas, named
from gristmill.filters.api.judge import judge as judge_rows
from gristmill.filters.api.one_text import judge_one
from gristmill.filters.api.step import Step, keep_all
from gristmill.filters.api.step_inputs import PIN, find
from gristmill.filters.api.texts import BatchTexts
from gristmill.tables import schema
from gristmill.tables.user_texts import (
    is_dataset,
    is_stream,
    mapped,
    select_kept,
    slice_batches,
    streamed,
    to_table,
)

HELD = 16  # steps whose models and lists stay in memory
NO_TEXT = "read.no_text"
VERDICT = ("reason", "value", "threshold")
Given = TypeVar("Given")


class HasArrow(Protocol):
    """A column or table that gives itself to Arrow: of Polars, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Texts = Iterable[Any] | HasArrow  # what user_texts.py lists
Filter = Step | Callable[[str], str | None] | Callable[[pa.RecordBatch], pa.Array]


class TextVerdict(NamedTuple):
    """What filters say of one text. It is true if the text is kept."""

    reason: str | None  # step.reason; None: kept
    value: float | None  # what the reason is about
    threshold: float | None  # what it was compared with
    measures: dict[str, Any]  # by step.measure
    text: str | None  # as the filters leave it; None: dropped

    @property
    def kept(self) -> bool:
        """Return whether the text is kept."""
        return self.reason is None

    def __bool__(self) -> bool:
        return self.kept


class LoadedStep(NamedTuple):
    """A step with all that it reads."""

    step: NamedStep
    measures: pa.Schema  # `document`, and a column for each `step.measure`
    columns: tuple[str, ...]  # of DOCUMENTS that it fills


_loaded: OrderedDict[Any, LoadedStep] = OrderedDict()
_loading = RLock()


@overload
def judge(texts: str, steps: Filter | Iterable[Filter], *, text: str = ...) -> TextVerdict: ...
@overload
def judge(
    texts: Mapping[str, Any], steps: Filter | Iterable[Filter], *, text: str = ...
) -> dict[str, Any]: ...
@overload
def judge(texts: Texts, steps: Filter | Iterable[Filter], *, text: str = ...) -> pa.Table: ...
def judge(texts: Any, steps: Any, *, text: str = "text") -> Any:
    """Judge texts by filters, in order: a row for each text, with `reason` (null: kept), `value`,
    `threshold`, a column for each `step.measure`, and, if a filter rewrites texts, `text` as it is
    left (null where dropped).

    `texts` is one string (then a TextVerdict is returned), an iterable or a column of strings, or a
    table, whose column `text` holds them; of a dict of lists, a batch of `Dataset.map`, a dict is
    returned. Steps are filters or functions of your own (docs/custom-filters.md). Raises
    ArgumentError; RecipeError where a file that a filter reads is not usable.

    >>> from gristmill import filters
    >>> filters.judge("a b c", [filters.Simple(min_words=5)]).reason
    'simple.few_words'
    """
    loaded = [_load(step) for step in _steps(steps)]
    if isinstance(texts, str):
        judged = judge_one(texts, [(step.step, step.measures) for step in loaded])
        left = texts if judged.reason is None and judged.text is None else judged.text
        return TextVerdict(*judged._replace(text=left))
    table = pa.concat_tables(
        [
            _verdicts(raw, judged, loaded)
            for raw, judged in _judged(to_table(_only_text(texts, text), text), loaded)
        ]
        or [_nothing(loaded)]
    )
    if isinstance(texts, Mapping):
        columns = table.to_pydict()
        one = isinstance(texts.get(text), str | None)
        return {name: column[0] for name, column in columns.items()} if one else columns
    return table


def keep(texts: Given, steps: Any, *, text: str = "text") -> Given:
    """Return the texts that filters keep, as they leave them, in the form in which they were given:
    a list of a list, a table (its rows, with all columns) of a table, a data set of a Hugging Face
    data set, a generator of a generator; of one string the string, or None.

    Arguments and errors are those of `judge`. Of a DuckDB relation an Arrow table is returned.

    >>> from gristmill import filters
    >>> filters.keep(["one two", "one two three"], [filters.Simple(min_words=3)])
    ['one two three']
    """
    chosen = _steps(steps)
    for step in chosen:
        _check(step)
    if is_dataset(texts):
        return mapped(texts, partial(keep, steps=chosen, text=text))  # type: ignore[no-any-return]
    if is_stream(texts):
        return _keep_stream(texts, chosen)  # type: ignore[return-value,arg-type]
    kept, left = _kept(to_table(_only_text(texts, text), text), [_load(step) for step in chosen])
    return select_kept(texts, kept, left, text)  # type: ignore[no-any-return]


def mask(texts: Any, steps: Any, *, text: str = "text") -> np.ndarray:
    """Return which texts filters keep, (n,) bool. Arguments and errors are those of `judge`.

    `dataset.filter(partial(filters.mask, steps=[...]), batched=True)` filters a Hugging Face data
    set.

    >>> from gristmill import filters
    >>> filters.mask(["one two", "one two three"], [filters.Simple(min_words=3)]).tolist()
    [False, True]
    """
    loaded = [_load(step) for step in _steps(steps)]
    return _kept(to_table(_only_text(texts, text), text), loaded)[0]


def _only_text(texts: Any, text: str) -> Any:
    """Return a row of `Dataset.map` as a batch of one."""
    if isinstance(texts, Mapping) and isinstance(texts.get(text), str | None):
        return {name: [value] for name, value in texts.items()}
    return texts


def _kept(table: pa.Table, loaded: list[LoadedStep]) -> tuple[np.ndarray, pa.ChunkedArray]:
    kept = [np.empty(0, bool)]
    left: list[pa.Array] = []
    for raw, judged in _judged(table, loaded):
        kept.append(np.isin(raw["document"].to_numpy(), judged.kept["document"].to_numpy()))
        left.append(judged.kept["text"])
    return np.concatenate(kept), pa.chunked_array(left, pa.string())


def _keep_stream(texts: Iterator[Any], steps: list[Filter]) -> Iterator[Any]:
    for part in streamed(texts):
        yield from keep(part, steps)


def _steps(steps: Any) -> list[Filter]:
    """Filters as a list; names may not be used twice, or their measures would be mixed up."""
    if isinstance(steps, Step) or (callable(steps) and not isinstance(steps, type)):
        steps = [steps]
    try:
        filters = list(steps)
    except TypeError:
        raise ArgumentError(
            f"filters: a {type(steps).__name__} was given: expected a list"
        ) from None
    names = [_name(step) for step in filters]
    if not names:
        raise ArgumentError("filters: none was given")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ArgumentError(f"filters: {twice[0]} is given twice: verdicts carry its name")
    return filters


def _name(step: Any) -> str:
    if isinstance(step, type):
        raise ArgumentError(f"{step.__name__} is a class: call it first, as in {step.__name__}()")
    if isinstance(step, Step):
        built_in = type(step).__module__.startswith("gristmill.filters.")
        return str(step.name) if built_in else type(step).__name__
    if not callable(step):
        raise ArgumentError(
            f"a {type(step).__name__} is no filter: expected one of gristmill.filters, a step of "
            "your own, or a function"
        )
    name = str(getattr(step, "__name__", type(step).__name__))
    if not name.isidentifier() or name in RESERVED:
        raise ArgumentError(f"a filter's name is {name!r}: write a function with a name (def)")
    return name


def _check(step: Filter) -> None:
    """Refuse what only a run can do."""
    if not isinstance(step, Step):
        return
    for what, there in (
        ("sources: there are no sources here", step.sources),
        ("after_dedup: there is no deduplication here", getattr(step, "after_dedup", False)),
        ("a rank in the whole corpus: a run asks that", [*step.ranks, *step.corpus_rules]),
    ):
        if there:
            raise ArgumentError(f"{_name(step)}: {what}; leave the parameter out")


def _load(step: Filter) -> LoadedStep:
    """Return a step with all that it reads; loaded once, and again where a file has changed."""
    _check(step)
    key = _key(step)
    with _loading:
        if key not in _loaded:
            _loaded[key] = _ready(step)
            while len(_loaded) > HELD:
                _loaded.popitem(last=False)
        _loaded.move_to_end(key)
        return _loaded[key]


def _key(step: Filter) -> Any:
    if not isinstance(step, Step):
        return step
    files = [_state(location) for location in step.inputs().values()]
    return type(step), msgspec.json.encode(step), tuple(files)


def _state(location: str) -> tuple[Any, ...]:
    """Return what tells whether an input is the same file."""
    path = location.partition(PIN)[0]
    try:
        status = os.stat(path)
    except OSError:
        return (location,)
    return location, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _ready(step: Filter) -> LoadedStep:
    name = _name(step)
    if isinstance(step, Step):
        given = {location: _found(what, location) for what, location in step.inputs().items()}
        call = named(step, step.load(given), name)
    else:
        measure = function_measure(name, step)
        call = NamedStep(name, partial(_of_function, measure))
    nothing = pa.RecordBatch.from_pylist([], schema.DOCUMENTS)
    _, said = call.call(nothing, BatchTexts(nothing["text"]))
    filled = [] if said.text is None else ["text", *said.columns]
    if getattr(step, "takes_pages", False):  # without a page it fills nothing
        filled += ["title", "declared_language"]
    return LoadedStep(call, make_schemas([call])[0], tuple(filled))


def _of_function(measure: Any, batch: pa.RecordBatch, texts: BatchTexts) -> Any:
    measured = measure(batch)
    return keep_all(len(batch))._replace(reason=measured.measures["reason"]), measured


def _found(what: str, location: str) -> Any:
    from gristmill.store.cache import Cache, default_cache
    from gristmill.store.http.transfer import Transfer

    transfer = Transfer(Cache(default_cache().absolute()))
    try:
        return find(what, location, Path(), transfer)
    finally:
        transfer.close()


def _judged(table: pa.Table, loaded: list[LoadedStep]) -> Iterator[tuple[pa.RecordBatch, Judged]]:
    """Yield batches of RAW, and what becomes of them."""
    fields = [field for step in loaded for field in list(step.measures)[1:]]
    measures = pa.schema([schema.DOCUMENTS.field("document"), *fields])
    steps = [step.step for step in loaded]
    first = 0
    for part in slice_batches(table):
        raw = _raw(part, first)
        first += len(part)
        yield raw, judge_rows(raw, steps, measures)


def _raw(part: pa.Table, first: int) -> pa.RecordBatch:
    """Return a slice of a table as a reader gives it, RAW."""
    texts = part["text"].chunk(0) if len(part) else pa.array([], pa.string())
    columns = {name: part[name].chunk(0) for name in part.column_names if len(part)}
    columns.setdefault("document", pa.array(np.arange(first, first + len(part))))
    if texts.null_count:
        columns["reason"] = pc.if_else(pc.is_null(texts), NO_TEXT, pa.scalar(None, pa.string()))
        columns["text"] = pc.fill_null(texts, "")
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(len(part), field.type)
        for field in schema.RAW
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.RAW)


def _columns_to_fill(loaded: list[LoadedStep]) -> list[str]:
    return list(dict.fromkeys(name for step in loaded for name in step.columns))


def _verdicts(raw: pa.RecordBatch, judged: Judged, loaded: list[LoadedStep]) -> pa.Table:
    """Return the rows of `judge`."""
    columns = {name: judged.verdicts[name] for name in VERDICT}
    columns |= {name: judged.measures[name] for name in judged.measures.schema.names[1:]}
    if filled := _columns_to_fill(loaded):
        rows = np.full(len(raw), -1, np.int64)
        at = np.searchsorted(raw["document"].to_numpy(), judged.kept["document"].to_numpy())
        rows[at] = np.arange(len(at))
        places = pa.array(rows, mask=rows < 0)
        columns |= {name: judged.kept[name].take(places) for name in filled}
    return pa.table(columns)


def _nothing(loaded: list[LoadedStep]) -> pa.Table:
    raw = _raw(pa.table({"text": pa.array([], pa.string())}), 0)
    fields = [field for step in loaded for field in list(step.measures)[1:]]
    measures = pa.schema([schema.DOCUMENTS.field("document"), *fields])
    return _verdicts(raw, judge_rows(raw, [step.step for step in loaded], measures), loaded)
