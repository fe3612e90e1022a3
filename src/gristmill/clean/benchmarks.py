"""Benchmarks: evaluation sets as files, and the items in them.

    kind        told by the bytes: `PAR1` at the start is Parquet, a JSON object JSONL, all else text; CSV must be said, or be the name's end
    jsonl       an object a line; Parquet a row, CSV a row under a header: `fields` names what makes an item, in order
    text        an item a line, or a paragraph (unit = "paragraphs": with blank lines between them)

Packed with gzip, zstd or xz, all but Parquet. A field may lie in another (`choices.text`); a list's entries stand with a space between
them, and so do the fields of an item. An item is looked for in parts: all its fields joined, and, where there are several, each that has as
many words as an n-gram by itself, so that a question without its answer is found. An item of fewer than `least_words` words (of
normalised text) is looked for by nothing, and counted: so few words stand in any text.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from gristmill.clean.lists import read_bytes
from gristmill.clean.step import Inputs
from gristmill.columns import utf8_buffers, well_formed
from gristmill.errors import RecipeError

Kind = Literal["jsonl", "parquet", "csv", "text"]
MOST_BYTES = 1 << 30  # of all items' parts: text and table stay within some GB
CHUNK = 4096  # items normalised together
SPACE = 0x20


class Benchmark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An evaluation set."""

    name: Annotated[str, Meta(min_length=1)]
    file: str | list[str]  # paths or URLs
    fields: list[str] | None = None  # what makes an item; text has none
    id: str | None = None  # the field that names an item
    kind: Kind | None = None  # null: told by the bytes
    unit: Literal["lines", "paragraphs"] = "lines"  # of text

    @property
    def files(self) -> list[str]:
        """Its files."""
        return [self.file] if isinstance(self.file, str) else self.file


class Parts(NamedTuple):
    """What is looked for: p parts of m items, in order of benchmarks, items and fields."""

    offsets: np.ndarray  # (p + 1,) int64 into data
    data: np.ndarray  # (bytes,) uint8: normalised
    items: np.ndarray  # (p,) int32: a part's item, among those of all benchmarks
    fields: list[str | None]  # (p,): null: all fields
    benchmarks: np.ndarray  # (m,) int32: an item's benchmark
    numbers: np.ndarray  # (m,) int64: its number there
    ids: list[str | None]  # (m,)
    counted: dict[str, dict[str, int]]  # of each benchmark `items`, and how many of them are `ignored`


class _Item(NamedTuple):
    texts: list[tuple[str | None, str]]  # field and text
    id: str | None


def read_parts(benchmarks: Sequence[Benchmark], inputs: Inputs, *, ngram: int, least_words: int) -> Parts:
    """Read all benchmarks. Raises RecipeError for a file that is none, and for a benchmark in which nothing can be looked for."""
    offsets, data, items, fields = [np.zeros(1, np.int64)], [np.empty(0, np.uint8)], [], []
    owners: list[int] = []
    numbers: list[int] = []
    ids: list[str | None] = []
    counted = {}
    size = 0
    for place, benchmark in enumerate(benchmarks):
        waiting: list[_Item] = []
        count = looked_for = 0
        for item in (*_items(place, benchmark, inputs), None):
            if item is not None:
                waiting.append(item)
            if len(waiting) < CHUNK and item is not None:
                continue
            bounds, text, rows, names = _cut(waiting, ngram, least_words)
            offsets.append(bounds[1:] + size)
            data.append(text)
            items += [len(owners) + row for row in rows]
            fields += names
            owners += [place] * len(waiting)
            numbers += range(count, count + len(waiting))
            ids += [one.id for one in waiting]
            count, looked_for, size = count + len(waiting), looked_for + len(set(rows)), size + len(text)
            waiting = []
            if size > MOST_BYTES:
                raise RecipeError(
                    f"decontaminate: the benchmarks hold more than {MOST_BYTES:,} bytes of items; name fewer, or fewer fields of them"
                )
        counted[benchmark.name] = {"items": count, "ignored": count - looked_for}
        if looked_for == 0:
            why = (
                f"none of its {count:,} items has {least_words} words or more" if count else "expected items, got none"
            )
            raise RecipeError(
                f"decontaminate: benchmark {benchmark.name!r}: {why}: is it the right file, and `fields`?"
            )
    return Parts(
        np.concatenate(offsets), np.concatenate(data), np.array(items, np.int32), fields, np.array(owners, np.int32),
        np.array(numbers, np.int64), ids, counted,
    )  # fmt: skip


def _cut(
    items: list[_Item], ngram: int, least_words: int
) -> tuple[np.ndarray, np.ndarray, list[int], list[str | None]]:
    """The parts of items: (offsets, normalised text, of each part its item, its field)."""
    from gristmill.kernels.normalise import normalise

    texts, rows, names = [], [], []
    for row, item in enumerate(items):
        held = [(name, text) for name, text in item.texts if text]
        whole = [(None, " ".join(text for _, text in held))]
        for name, text in [*whole, *held] if len(held) > 1 else whole:
            texts.append(well_formed(text))
            rows.append(row)
            names.append(name)
    if sum(map(len, texts)) > MOST_BYTES // 2:
        raise RecipeError("decontaminate: items of this size are no benchmark's: is the file the right one?")
    offsets, data = normalise(*utf8_buffers(pa.array(texts, pa.string())))
    gaps = np.concatenate([[0], np.cumsum(data == SPACE)])[offsets]
    words = np.where(np.diff(offsets) > 0, np.diff(gaps) + 1, 0)
    by_itself = np.array([name is not None for name in names], bool)
    kept = np.flatnonzero(words >= np.where(by_itself, ngram, least_words))
    pieces = [data[offsets[part] : offsets[part + 1]] for part in kept.tolist()]
    bounds = np.concatenate([[0], np.cumsum(np.diff(offsets)[kept])]).astype(np.int64)
    joined = np.concatenate([np.empty(0, np.uint8), *pieces])
    return bounds, joined, [rows[part] for part in kept.tolist()], [names[part] for part in kept.tolist()]


def _items(place: int, benchmark: Benchmark, inputs: Inputs) -> Iterator[_Item]:
    """The items of a benchmark, of all its files."""
    for number, location in enumerate(benchmark.files):
        given = inputs[location]
        name = f"decontaminate.benchmarks[{place}].file" + (f"[{number}]" if len(benchmark.files) > 1 else "")
        name = f"{name}: {given.name}"
        kind = benchmark.kind or _kind(name, given.path, given.name)
        if kind == "parquet":
            rows = _parquet(name, given.path, benchmark)
        else:
            data = bytes(read_bytes(name, given.path))
            if b"\0" in data:
                raise RecipeError(f"{name}: is binary, not {kind}: it holds bytes 0")
            text = data.decode("utf-8", "replace")
            if kind == "text":
                yield from _text(name, text, benchmark)
                continue
            rows = _csv(name, text) if kind == "csv" else _jsonl(name, text, told=benchmark.kind is not None)
        if not benchmark.fields:
            first = next(rows, (0, {}))[1]
            raise RecipeError(f"{name}: say which fields make an item: fields = [...]; there are {', '.join(first)}")
        for line, row in rows:
            try:
                texts: list[tuple[str | None, str]] = [
                    (field, _flat(_field(name, line, row, field))) for field in benchmark.fields
                ]
            except RecursionError as error:
                raise RecipeError(f"{name}: row {line} is nested too deep to be an item") from error
            yield _Item(texts, _flat(_field(name, line, row, benchmark.id)) if benchmark.id else None)


def _kind(name: str, path: str, file: str) -> Kind:
    if re.search(r"\.csv(\.(gz|zst|xz))?$", file):
        return "csv"
    try:
        with open(path, "rb") as opened:
            if opened.read(4) == b"PAR1":
                return "parquet"
    except OSError as error:
        raise RecipeError(f"{name}: cannot be read: {error.strerror or error}") from error
    return "jsonl" if bytes(read_bytes(name, path)[:4096]).lstrip().startswith(b"{") else "text"


Rows = Iterator[tuple[int, dict[str, Any]]]  # the line or row, from 1, and what it holds


def _jsonl(name: str, text: str, *, told: bool) -> Rows:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line.encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError) as error:
            other = "" if told else '; text that starts with a brace needs kind = "text"'
            raise RecipeError(f"{name}: line {number} is no JSON: {error}{other}") from error
        if not isinstance(row, dict):
            raise RecipeError(f"{name}: line {number} is no object, and its fields cannot be told")
        yield number, row


def _csv(name: str, text: str) -> Rows:
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline=""), restkey="", restval=""), 1):
            yield number, {name: value for name, value in row.items() if name}
    except csv.Error as error:
        raise RecipeError(f"{name}: is no CSV: {error}") from error


def _parquet(name: str, path: str, benchmark: Benchmark) -> Rows:
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow.names
            wanted = {
                field.partition(".")[0] for field in (*(benchmark.fields or there), *filter(None, [benchmark.id]))
            }
            number = 0
            for batch in file.iter_batches(columns=[column for column in there if column in wanted]):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise RecipeError(f"{name}: is no Parquet file that can be read: {error}") from error


def _text(name: str, text: str, benchmark: Benchmark) -> Iterator[_Item]:
    if benchmark.fields or benchmark.id:
        raise RecipeError(f"{name}: is text, which has no fields; leave out `fields` and `id`, or say its `kind`")
    units = re.split(r"\n\s*\n", text) if benchmark.unit == "paragraphs" else text.splitlines()
    for unit in units:
        if unit.strip():
            yield _Item([(None, unit)], None)


def _field(name: str, line: int, row: dict[str, Any], field: str) -> Any:
    """What lies in a row under `a` or `a.b`."""
    value: Any = row
    if field in row:
        return row[field]
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            there = ", ".join(map(str, row))
            raise RecipeError(f"{name}: row {line} has no field {field!r}; there are: {there}")
        value = value[key]
    return value


def _flat(value: Any) -> str:
    """A value as text: a list's and a table's entries with a space between them, null nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return " ".join(text for text in map(_flat, value) if text)
    return "" if value is None else str(value)
