"""The runs of a swarm: what each mixed, and what each measured. Two CSV files, as Olmix has them.

    ratios.csv                        metrics.csv
    run,name,web,code,books           run,name,mmlu_bpb,loss
    a1,swarm-0000,0.5,0.3,0.2         a1,swarm-0000,1.21,3.40

A row is a run. Columns named `run` or `run_id`, `name` and `index` are no sources and no metrics;
neither are columns without a name. Rows are matched by `run`. Source: the README of Olmix
(github.com/allenai/olmix), whose files are read as they are.
"""

import csv
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gristmill.errors import RecipeError

LABELS = ("run", "run_id", "name", "index", "")
SUM = 0.01  # how far the ratios of a run may be from 1
LARGEST = 256 << 20  # bytes of a CSV file


class Swarm(NamedTuple):
    """The runs that both files have, in the order of the ratios."""

    names: list[str]
    sources: list[str]
    metrics: list[str]
    ratios: np.ndarray  # (runs, sources) float64, rows sum to 1
    values: np.ndarray  # (runs, metrics) float64
    unmatched: list[str]  # runs that one of the files has alone


class _RunTable(NamedTuple):
    path: Path
    columns: list[str]
    rows: dict[str, list[float]]
    lines: dict[str, int]


def read_runs(ratios: Path | str, metrics: Path | str) -> Swarm:
    """Read both files. Raises RecipeError, which names the file, line and column."""
    mixed, measured = _table(ratios), _table(metrics)
    names = [name for name in mixed.rows if name in measured.rows]
    unmatched = [name for name in (*mixed.rows, *measured.rows) if name not in names]
    if not names:
        raise RecipeError(
            f"{measured.path}: none of its runs is in {mixed.path}: they are matched by the "
            "column run"
        )
    values = np.array([mixed.rows[name] for name in names], np.float64)
    for name, row in zip(names, values, strict=True):
        where = f"{mixed.path}, line {mixed.lines[name]}: run {name!r}"
        if (row < 0).any():
            raise RecipeError(f"{where} has a ratio below 0")
        if abs(row.sum() - 1) > SUM:
            raise RecipeError(f"{where}: its ratios sum to {row.sum():.4g}, not to 1")
    return Swarm(
        names,
        mixed.columns,
        measured.columns,
        values / values.sum(axis=1, keepdims=True),
        np.array([measured.rows[name] for name in names], np.float64),
        list(dict.fromkeys(unmatched)),
    )


def _table(path: Path | str) -> _RunTable:
    """Return one CSV: numbers by run."""
    if not isinstance(path, str | os.PathLike):
        raise RecipeError(f"{path!r}: name a CSV file")
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise RecipeError(f"{path}: more than {LARGEST >> 20} MiB: is it a CSV of runs?")
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file, strict=True))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RecipeError(f"{path}: no CSV in UTF-8: {error}") from error
    if not lines:
        raise RecipeError(f"{path}: an empty file")
    header = [cell.strip() for cell in lines[0]]
    key = next((header.index(name) for name in ("run", "run_id") if name in header), None)
    if key is None:
        raise RecipeError(
            f"{path}: no column run: it says which rows of both files belong together"
        )
    numbers = [place for place, cell in enumerate(header) if _is_number(cell)]
    columns = [header[place] for place in numbers]
    if not columns:
        raise RecipeError(f"{path}: no column of numbers beside {', '.join(filter(None, header))}")
    if len(set(columns)) < len(columns):
        raise RecipeError(f"{path}: a column is there twice: {', '.join(sorted(columns))}")
    return _rows(path, lines, key, numbers, columns)


def _rows(
    path: Path, lines: Sequence[Sequence[str]], key: int, numbers: list[int], columns: list[str]
) -> _RunTable:
    rows: dict[str, list[float]] = {}
    at: dict[str, int] = {}
    for number, line in enumerate(lines[1:], 2):
        if not any(cell.strip() for cell in line):
            continue
        where = f"{path}, line {number}"
        if len(line) != len(lines[0]):
            raise RecipeError(f"{where}: {len(line)} cells, and the first line has {len(lines[0])}")
        run = line[key].strip()
        if run in rows:
            raise RecipeError(f"{where}: run {run!r} is already in line {at[run]}")
        at[run] = number
        rows[run] = [
            _number(line[place], f"{where}: {column}")
            for place, column in zip(numbers, columns, strict=True)
        ]
    if not rows:
        raise RecipeError(f"{path}: no run")
    return _RunTable(path, columns, rows, at)


def _is_number(header: str) -> bool:
    """Return whether a column is of numbers: pandas' index columns are `Unnamed: 0` or empty."""
    return header not in LABELS and not header.startswith("Unnamed:")


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise RecipeError(f"{where} = {text[:40]!r} is no number") from None
    if not math.isfinite(value):
        raise RecipeError(
            f"{where} is {text.strip()}: leave a run out whose loss is not finite, in both files"
        )
    return value
