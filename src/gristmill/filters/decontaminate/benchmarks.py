"""Benchmarks: evaluation sets, the items in them (filters/decontaminate/benchmark_files.py reads
the files), and what of each item is looked for.

A list's entries stand with a space between them, and so do the fields of an item. Labels of choices
are left out (kernels/decontaminate/labels.py). An item is looked for in parts: all its fields
joined; where there are several, the first, its question, by itself; and each other that has as many
words as an n-gram. What has fewer words than an n-gram is looked for as a whole. A part of fewer
than `least_words` words (of normalised text) is not looked for: so few words stand in any text.

    ngrams      items whose question is looked for by its n-grams
    whole       ... as one sequence of words, for it is shorter than an n-gram
    joined      ... only together with the other fields: by itself it is too short, or common
    templates   all n-grams of whose parts stand in too many items: nothing is looked for
    ignored     too short: nothing is looked for
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Inputs
from gristmill.filters.decontaminate import benchmark_files as files
from gristmill.filters.decontaminate.benchmark_files import Kind
from gristmill.tables.columns import utf8_buffers, well_formed

MOST_BYTES = 1 << 30  # of all items' parts: text and table stay within some GB
WAYS = ("ignored", "templates", "joined", "whole", "ngrams")  # in which an item is looked for
CHUNK = 4096  # items normalised together
SPACE = 0x20


class Benchmark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An evaluation set."""

    name: Annotated[str, Meta(min_length=1)]  # Its name, in verdicts and reports; it has no `/`.
    file: str | list[str]  # The file or files with its items, as paths or URLs.
    # The fields that make an item, its question first. A text file has none.
    fields: list[str] | None = None
    id: str | None = None  # The field that names an item.
    # The format of the files. Unset: recognised by the name's end and the bytes.
    kind: Kind | None = None
    # The columns of CSV or TSV without a header.
    columns: Annotated[list[str], Meta(min_length=1)] | None = None
    unit: Literal["lines", "paragraphs"] = "lines"  # What an item of a text file is.

    @property
    def files(self) -> list[str]:
        """Return its files."""
        return [self.file] if isinstance(self.file, str) else self.file


class Parts(NamedTuple):
    """What is looked for: p parts of m items, in order of benchmarks, items and fields."""

    offsets: np.ndarray  # (p + 1,) int64 into data
    data: np.ndarray  # (bytes,) uint8: normalised
    items: np.ndarray  # (p,) int32: a part's item, among those of all benchmarks
    fields: list[str | None]  # (p,): null: all fields
    questions: np.ndarray  # (p,) bool: it is its item's question, or all that the item has
    whole: np.ndarray  # (p,) bool: shorter than an n-gram
    benchmarks: np.ndarray  # (m,) int32: an item's benchmark
    numbers: np.ndarray  # (m,) int64: its number there
    ids: list[str | None]  # (m,)
    names: list[str]  # of the benchmarks


class _Item(NamedTuple):
    texts: list[tuple[str | None, str]]  # field and text
    id: str | None


def read_parts(
    benchmarks: Sequence[Benchmark],
    inputs: Inputs,
    *,
    ngram: int,
    least_words: int,
    arabic_marks: bool,
) -> Parts:
    """Read all benchmarks. Raises RecipeError for a file that is none, and for a benchmark in which
    nothing can be looked for.
    """
    offsets, data, items, fields = [np.zeros(1, np.int64)], [np.empty(0, np.uint8)], [], []
    questions: list[bool] = []
    owners: list[int] = []
    numbers: list[int] = []
    ids: list[str | None] = []
    size = 0
    for place, benchmark in enumerate(benchmarks):
        waiting: list[_Item] = []
        count = looked_for = 0
        for item in (*_items(place, benchmark, inputs), None):
            if item is not None:
                waiting.append(item)
            if len(waiting) < CHUNK and item is not None:
                continue
            bounds, text, rows, names, asked = _cut(waiting, ngram, least_words, arabic_marks)
            questions += asked
            offsets.append(bounds[1:] + size)
            data.append(text)
            items += [len(owners) + row for row in rows]
            fields += names
            owners += [place] * len(waiting)
            numbers += range(count, count + len(waiting))
            ids += [entry.id for entry in waiting]
            count, looked_for, size = (
                count + len(waiting),
                looked_for + len(set(rows)),
                size + len(text),
            )
            waiting = []
            if size > MOST_BYTES:
                raise RecipeError(
                    f"decontaminate: the benchmarks hold more than {MOST_BYTES:,} bytes of "
                    "items; name fewer, or fewer fields of them"
                )
        if looked_for == 0:
            why = (
                f"none of its {count:,} items has {least_words} words or more"
                if count
                else "expected items, got none"
            )
            named = ", ".join(inputs[location].name for location in benchmark.files)
            raise RecipeError(
                f"decontaminate: benchmark {benchmark.name!r}: {named}: {why}: is it the right "
                "file, and `fields`?"
            )
    bounds, text = np.concatenate(offsets), np.concatenate(data)
    return Parts(
        bounds,
        text,
        np.array(items, np.int32),
        fields,
        np.array(questions, bool),
        _words(bounds, text) < ngram,
        np.array(owners, np.int32),
        np.array(numbers, np.int64),
        ids,
        [benchmark.name for benchmark in benchmarks],
    )


def count(parts: Parts, left: np.ndarray) -> dict[str, dict[str, int]]:
    """Of each benchmark how many `items` it has, and how many of them are looked for in which way;
    `left`: (p,) n-grams of each part.
    """
    items = len(parts.benchmarks)
    ways = np.zeros(items, np.int8)  # as named in WAYS: the highest that any of an item's parts has
    alive = left > 0
    by_question = np.where(parts.whole, 3, 4)
    of_part = np.where(alive, np.where(parts.questions, by_question, 2), 1)
    np.maximum.at(ways, parts.items, of_part.astype(np.int8))
    counts = {}
    for place, name in enumerate(parts.names):
        own = np.bincount(ways[parts.benchmarks == place], minlength=len(WAYS)).tolist()
        counts[name] = {"items": sum(own)} | dict(zip(WAYS[::-1], own[::-1], strict=True))
        if sum(own[2:]) == 0:
            raise RecipeError(
                f"decontaminate: benchmark {name!r}: all n-grams of all items stand in too "
                "many of them (`template_items`): nothing is left to look for"
            )
    return counts


def _cut(
    items: list[_Item], ngram: int, least_words: int, arabic_marks: bool
) -> tuple[np.ndarray, np.ndarray, list[int], list[str | None], list[bool]]:
    """Return the parts of items: (offsets, normalised text, of each part its item, its field,
    whether it is the question).
    """
    texts, rows, names, asked = [], [], [], []
    for row, item in enumerate(items):
        held = [(place, name, text) for place, (name, text) in enumerate(item.texts) if text]
        whole = [(0 if len(held) < 2 else -1, None, " ".join(text for _, _, text in held))]
        for place, name, text in [*whole, *held] if len(held) > 1 else whole:
            texts.append(well_formed(text))
            rows.append(row)
            names.append(name)
            asked.append(place == 0)
    if sum(map(len, texts)) > MOST_BYTES // 2:
        raise RecipeError(
            "decontaminate: items of this size are no benchmark's: is the file the right one?"
        )
    offsets, data = plain_words(pa.array(texts, pa.string()), arabic_marks=arabic_marks)
    joined = np.array([name is None for name in names], bool)
    least = np.where(
        joined, least_words, np.where(np.array(asked, bool), min(ngram, least_words), ngram)
    )
    kept = np.flatnonzero(_words(offsets, data) >= least)
    pieces = [data[offsets[part] : offsets[part + 1]] for part in kept.tolist()]
    bounds = np.concatenate([[0], np.cumsum(np.diff(offsets)[kept])]).astype(np.int64)
    left = kept.tolist()
    every = np.concatenate([np.empty(0, np.uint8), *pieces])
    return (
        bounds,
        every,
        [rows[part] for part in left],
        [names[part] for part in left],
        [asked[part] for part in left],
    )


def plain_words(texts: pa.Array, *, arabic_marks: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return what items and documents are compared as: without labels, normalised; (offsets (n +
    1,) int64, data (bytes,) uint8).
    """
    from gristmill.kernels.decontaminate.labels import blank
    from gristmill.kernels.folding.compared import compared

    return compared(*blank(*utf8_buffers(texts)), "words", arabic_marks=arabic_marks)


def _words(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Return the words of normalised texts, (n,) int64."""
    gaps = np.concatenate([[0], np.cumsum(data == SPACE)])[offsets]
    return np.asarray(np.where(np.diff(offsets) > 0, np.diff(gaps) + 1, 0))


def _items(place: int, benchmark: Benchmark, inputs: Inputs) -> Iterator[_Item]:
    """Yield the items of a benchmark, of all its files."""
    for number, location in enumerate(benchmark.files):
        given = inputs[location]
        name = f"decontaminate.benchmarks[{place}].file" + (
            f"[{number}]" if len(benchmark.files) > 1 else ""
        )
        name = f"{name}: {given.name}"
        kind = benchmark.kind or files.detect_kind(name, given.path, given.name)
        stated = benchmark.kind is not None
        if kind == "text":
            if benchmark.fields or benchmark.id or benchmark.columns:
                raise RecipeError(
                    f"{name}: is text, which has no fields; leave out `fields` and `id`, or "
                    "say its `kind`"
                )
            text = files.read_text(name, given.path, kind)
            for unit in files.units(
                name, text, stated=stated, paragraphs=benchmark.unit == "paragraphs"
            ):
                yield _Item([(None, unit)], None)
            continue
        wanted = [*(benchmark.fields or []), *filter(None, [benchmark.id])]
        rows = files.read_rows(
            name, given.path, kind, stated=stated, columns=benchmark.columns, wanted=wanted
        )
        if not benchmark.fields:
            first = next(rows, (0, {}))[1]
            raise RecipeError(
                f"{name}: say which fields make an item: fields = [...]; there are "
                f"{', '.join(first)}"
            )
        named: dict[str, int] = {}  # ids, and the rows that have them
        for line, row in rows:
            for texts in files.expand(name, line, row, wanted):
                id_ = texts.pop() if benchmark.id else None
                if id_ and named.setdefault(id_, line) != line:
                    raise RecipeError(
                        f"{name}: rows {named[id_]} and {line} have the same "
                        f"{benchmark.id!r}, {id_[:80]!r}: an id names one item"
                    )
                yield _Item(list(zip(benchmark.fields, texts, strict=True)), id_)
