"""Evaluation sets as files: what each form holds, row by row, and what a field of a row is.

    kind        by the name's end (.csv, .tsv, .tab) or the bytes: `PAR1` at the start is Parquet,
                `[` a JSON array, `{` an object a line (or one over several lines, which is a file
                of a single row), all else text
    jsonl       an object a line; JSON an array of objects, or one object; Parquet a row; CSV and
                TSV a row under a header, or under `columns` where the file has none
    text        an item a line, or a paragraph; what looks like a table is refused, because its
                lines would not be items

A field is a path: `choices.text` lies in `choices`, and in a list, in each of its
entries. `a[].b[].c` makes of a row as many items as a's entries have entries in b (SQuAD:
`data[].paragraphs[].qas[].question`); the other fields of the row stay with each of them. Nothing
is read in part: a file of other bytes than UTF-8, a row of too many values and a field that is not
there are errors.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import NO_JSON, RecipeError
from gristmill.filters.lists.lists import read_bytes

MOST_VALUE = 1 << 17  # characters of a value in CSV or TSV
Kind = Literal["jsonl", "json", "parquet", "csv", "tsv", "text"]
Rows = Iterator[tuple[int, dict[str, Any]]]  # the line or row, from 1, and what it holds
LINES = 20  # that are looked at for a table
LONGEST = 1 << 24  # characters of one line; no item is as long
LIST = "[]"


def detect_kind(name: str, path: str, file: str) -> Kind:
    """Return what a file is, by its name and first bytes. Raises RecipeError where it cannot be
    read.
    """
    if ended := re.search(r"\.(csv|tsv|tab)(\.(gz|zst|xz))?$", file, re.IGNORECASE):
        return "csv" if ended[1].lower() == "csv" else "tsv"
    try:
        with open(path, "rb") as opened:
            if opened.read(4) == b"PAR1":
                return "parquet"
    except OSError as error:
        raise RecipeError(f"{name}: cannot be read: {error.strerror or error}") from error
    head = bytes(read_bytes(name, path)[:LONGEST]).lstrip()
    if head.startswith(b"["):
        return "json"
    if not head.startswith(b"{"):
        return "text"
    first, _, rest = head.partition(b"\n")
    return "json" if rest.strip() and not _is_json(first) else "jsonl"


def read_text(name: str, path: str, kind: Kind) -> str:
    """Return a file's characters. Raises RecipeError for what is no UTF-8."""
    data = bytes(read_bytes(name, path))
    if b"\0" in data:
        raise RecipeError(f"{name}: is binary, not {kind}: it holds bytes 0")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{name}: byte {error.start:,} is no UTF-8: save the file as UTF-8"
        ) from error


def read_rows(
    name: str,
    path: str,
    kind: Kind,
    *,
    stated: bool,
    columns: Sequence[str] | None,
    wanted: Sequence[str],
) -> Rows:
    """Return the rows of a table. Raises RecipeError.

    `stated`: the recipe states its kind, which is then not guessed; `wanted`: the fields to read.
    """
    if columns is not None and kind not in ("csv", "tsv"):
        raise RecipeError(
            f"{name}: `columns` names those of a CSV or TSV file without a header, and this "
            f"is {kind}"
        )
    if kind == "parquet":
        return _parquet(name, path, wanted)
    text = read_text(name, path, kind)
    if kind == "json":
        return _json(name, text, stated=stated)
    return (
        _jsonl(name, text, stated=stated) if kind == "jsonl" else _table(name, text, kind, columns)
    )


def units(name: str, text: str, *, stated: bool, paragraphs: bool) -> Iterator[str]:
    """Yield the items of plain text.

    Raises RecipeError for what looks like a table, if its kind is not `stated`.
    """
    if not stated and (looks := _looks_like(text)):
        raise RecipeError(
            f'{name}: looks like {looks}: say kind = "{looks}" and its fields, or kind = "text"'
        )
    for unit in re.split(r"\n\s*\n", text) if paragraphs else text.splitlines():
        if unit.strip():
            yield unit


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except NO_JSON:
        return False
    return True


def _looks_like(text: str) -> str | None:
    """Return whether all first lines have as many values as each other: two or more with tabs, or
    four or more with commas.
    """
    lines = [line for line in text[: 1 << 16].split("\n") if line.strip()][:LINES]
    if len(lines) < 2:
        return None
    if len({line.count("\t") for line in lines}) == 1 and "\t" in lines[0].strip():
        return "tsv"
    try:
        counts = {len(row) for row in csv.reader(lines, strict=True)}
    except csv.Error:
        return None
    return "csv" if len(counts) == 1 and min(counts) >= 4 else None


def _decoded(name: str, what: str, text: str, stated: bool, start: str) -> Any:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except NO_JSON as error:
        why = "nested too deep" if isinstance(error, RecursionError) else error
        other = "" if stated else f'; text that starts with a {start} needs kind = "text"'
        raise RecipeError(f"{name}: {what} no JSON: {why}{other}") from error


def _jsonl(name: str, text: str, *, stated: bool) -> Rows:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        if len(line) > LONGEST:
            raise RecipeError(
                f"{name}: line {number} has {len(line):,} characters; at most {LONGEST:,} "
                "can be an item's"
            )
        row = _decoded(name, f"line {number} is", line, stated, "brace")
        if not isinstance(row, dict):
            raise RecipeError(f"{name}: line {number} is no object, and its fields cannot be told")
        yield number, row


def _json(name: str, text: str, *, stated: bool) -> Rows:
    value = _decoded(name, "is", text, stated, "bracket or brace")
    for number, row in enumerate(value if isinstance(value, list) else [value], 1):
        if not isinstance(row, dict):
            raise RecipeError(f"{name}: entry {number} is no object, and its fields cannot be told")
        yield number, row


def _table(name: str, text: str, kind: str, columns: Sequence[str] | None) -> Rows:
    # A quotation mark in TSV is one of the text's.
    ways: Any = (
        {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if kind == "tsv" else {"strict": True}
    )
    reader = csv.reader(io.StringIO(text, newline=""), **ways)
    names = None if columns is None else list(columns)
    number = 0
    try:
        for row in reader:
            # Python's own limit is of the whole process, and reading a shard of CSV raises it.
            if max(map(len, row), default=0) > MOST_VALUE:
                raise csv.Error(f"field larger than field limit ({MOST_VALUE})")
            if not any(value.strip() for value in row):
                continue
            if names is None:
                names = row
                continue
            number += 1
            if number == 1 and row == columns:
                raise RecipeError(f"{name}: the first row names the columns: leave out `columns`")
            if len(row) < len(names) or any(value.strip() for value in row[len(names) :]):
                named = "`columns` names" if columns else "the header names"
                raise RecipeError(
                    f"{name}: row {number} has {len(row)} values, and {named} {len(names)}: "
                    f"{', '.join(names)}"
                )
            yield number, {key: value for key, value in zip(names, row, strict=False) if key}
    except csv.Error as error:
        raise RecipeError(
            f"{name}: is no {kind.upper()}: line {reader.line_num:,}: {error}"
        ) from error


def _parquet(name: str, path: str, wanted: Sequence[str]) -> Rows:
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow.names
            tops = {re.split(r"[.\[]", field)[0] for field in wanted} | set(wanted)
            number = 0
            for batch in file.iter_batches(
                columns=[column for column in there if not wanted or column in tops]
            ):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise RecipeError(f"{name}: is no Parquet file that can be read: {error}") from error


def expand(name: str, line: int, row: dict[str, Any], fields: Sequence[str]) -> Iterator[list[str]]:
    """Yield the fields of each item of a row, as text.

    Raises RecipeError for a field that is not there.
    """
    lists = [_steps(row, field)[:-1] for field in fields]
    longest = max(lists, key=len)
    for field, own in zip(fields, lists, strict=True):
        if longest[: len(own)] != own:
            where = ".".join(f"{step}{LIST}" for step in longest)
            raise RecipeError(
                f"{name}: {field!r} lies in another list than {where!r}: an item is of one list"
            )
    try:
        yield from _expand(name, line, row, [_steps(row, field) for field in fields])
    except RecursionError as error:
        raise RecipeError(f"{name}: row {line} is nested too deep to be an item") from error


def _steps(row: dict[str, Any], field: str) -> list[str]:
    """Return `a[].b.c` as [a, b.c]; a name that the row has is one as it is."""
    return [field] if field in row else [step.removeprefix(".") for step in field.split(LIST)]


def _expand(name: str, line: int, row: Any, paths: list[list[str]]) -> Iterator[list[str]]:
    at = next((steps[0] for steps in paths if len(steps) > 1), None)
    if at is None:
        yield [_flat(_field(name, line, row, steps[0])) for steps in paths]
        return
    entries = _field(name, line, row, at)
    if not isinstance(entries, list):
        raise RecipeError(
            f"{name}: row {line}: {at!r} is no list, and `{at}{LIST}` asks for its entries"
        )
    # What is not within the list is the same for each of its entries.
    held = [None if len(steps) > 1 else _flat(_field(name, line, row, steps[0])) for steps in paths]
    inner = [steps[1:] for steps in paths if len(steps) > 1]
    for entry in entries:
        for fields in _expand(name, line, entry, inner):
            values = iter(fields)
            yield [next(values) if value is None else value for value in held]


def _field(name: str, line: int, row: Any, field: str) -> Any:
    """Return what lies in a row under `a` or `a.b`; of a list what lies in its entries."""
    if not field:
        return row
    if isinstance(row, dict) and field in row:
        return row[field]
    key, _, rest = field.partition(".")
    if isinstance(row, list):
        return [_field(name, line, entry, field) for entry in row]
    if not isinstance(row, dict) or key not in row:
        there = (
            f"there are: {', '.join(map(str, row))}" if isinstance(row, dict) else "it is no object"
        )
        raise RecipeError(f"{name}: row {line} has no field {field!r}; {there}")
    return _field(name, line, row[key], rest)


def _flat(value: Any) -> str:
    """Return a value as text: a list's and a table's entries with a space between them, null
    nothing.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return " ".join(text for text in map(_flat, value) if text)
    return "" if value is None else str(value)
