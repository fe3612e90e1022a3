"""How the values of each measure are distributed, and what each limit would drop by itself.

Two queries for all measures together: ranges from a sample of the rows, then exact counts between
edges that are round numbers. DuckDB's bins have the values above their lower edge, up to their
upper edge. For limits that keep a value equal to themselves and drop what is below, the values are
negated, so that every count that the page shows at an edge is exact.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from gristmill.filters.api.step import Check
from gristmill.reports.page.tables import CorpusTables

BINS = 120  # at least half as many, unless there are fewer different values
SAMPLED = 200_000  # rows, about, from which ranges are taken
INNER = (0.002, 0.5, 0.998)
MOST = 150  # measures
AT_ONCE = 24  # measures of one query


class LimitCurve(NamedTuple):
    """A limit, and what it and others in its place would drop by themselves."""

    reason: str
    broken: str
    limit: float
    dropped: int  # at the limit
    at_edges: list[int]  # (edges,)


class Distribution(NamedTuple):
    """The values of a measure."""

    name: str
    documents: int  # that have it
    least: float
    most: float
    log: bool
    edges: list[float]  # ascending
    counts: list[int]  # (edges - 1,) in (edge, next edge]; the first also at its lower edge
    below: int  # under the first edge
    above: int  # over the last one
    rules: list[LimitCurve]


class Constant(NamedTuple):
    """A measure with one value."""

    name: str
    documents: int
    value: float | None  # null: no document has it


class MeasureTable(NamedTuple):
    """All numeric measures of a corpus, in the order of the table."""

    distributions: list[Distribution]
    constants: list[Constant]
    left_out: int


class _Range(NamedTuple):
    name: str
    whole: bool  # all values are whole numbers
    documents: int
    least: float
    most: float
    low: float
    median: float
    high: float


def measured(
    tables: CorpusTables,
    columns: Mapping[str, Any],
    limits: Mapping[str, list[Check]],
    edges_of: Mapping[str, tuple[bool, list[float]]] | None = None,
) -> MeasureTable:
    """Return the distributions of all numeric measures; with `edges_of`, those of another corpus,
    over the same edges.
    """
    names = [name for name, kind in columns.items() if "." in name and _is_number(kind)]
    whole = {name: bool(pa.types.is_integer(columns[name])) for name in names}
    ranges = [
        measure
        for start in range(0, min(len(names), MOST), AT_ONCE)
        for measure in _ranges(tables, names[start : min(start + AT_ONCE, MOST)], whole)
    ]
    constants = [
        Constant(measure.name, measure.documents, measure.least if measure.documents else None)
        for measure in ranges
        if not measure.documents or measure.least == measure.most
    ]
    varied = [measure for measure in ranges if measure.documents and measure.least != measure.most]
    wanted = []
    for measure in varied:
        mine = [check for check in limits.get(measure.name, ()) if check.limit is not None]
        given = (edges_of or {}).get(measure.name)
        log, edges = given or edges_for(measure, mine)
        wanted.append((measure, mine, log, edges))
    distributions = []
    for start in range(0, len(wanted), AT_ONCE):
        distributions += _counted(tables, wanted[start : start + AT_ONCE])
    return MeasureTable(distributions, constants, max(0, len(names) - MOST))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _value(name: str) -> str:
    """Return a measure as a number, null where it is not finite."""
    column = f"cast({_quoted(name)} as double)"
    return f"(case when isfinite({column}) then {column} end)"


def _ranges(tables: CorpusTables, names: list[str], whole: Mapping[str, bool]) -> list[_Range]:
    """Return the ranges of all values, and inner ones of a sample of the rows."""
    step = max(1, tables.manifest.funnel.get("documents", 0) // SAMPLED)
    some = f" where sample_key(document) % {step} = 0" if step > 1 else ""
    values = [_value(name) for name in names]
    ends = ", ".join(f"count({value}), min({value}), max({value})" for value in values)
    inner = ", ".join(f"quantile_disc({value}, {list(INNER)})" for value in values)
    row = tables.rows(f"select {ends} from measures")[0]
    quantiles = tables.rows(f"select {inner} from measures{some}")[0]
    ranges = []
    for place, name in enumerate(names):
        count, least, most = row[3 * place : 3 * place + 3]
        low, median, high = (quantiles[place] or [least, least, most]) if count else (0.0, 0.0, 0.0)
        ranges.append(
            _Range(name, whole[name], count, least or 0.0, most or 0.0, low, median, high)
        )
    return ranges


def edges_for(one: _Range, checks: list[Check]) -> tuple[bool, list[float]]:
    """Return (whether their scale is logarithmic, round numbers that divide a range).

    Each whole number of a small range has a bin: behind its edge where a limit drops what is below,
    before it otherwise.
    """
    inside = [float(check.limit or 0) for check in checks]
    low, high = one.low, one.high
    if low == high:
        low, high = one.least, one.most
    spread = high - low
    near = [x for x in inside if low - 2 * spread <= x <= high + 2 * spread]
    low, high = min([low, *near]), max([high, *near])
    if one.least >= 0 and high > 50 and high > 20 * max(one.median, 1):
        return True, _log_edges(max(low, 0.0), high)
    if low >= 0 and high <= 1 and high - low > 0.3:
        low, high = 0.0, 1.0
    if one.whole and high - low <= BINS:
        behind = any(check.broken in ("<", ">=") for check in checks)
        low, high = (low, high + 1) if behind else (low - 1, high)
    return False, _linear_edges(low, high, 1.0 if one.whole else 0.0)


def _linear_edges(low: float, high: float, least: float) -> list[float]:
    width = max((high - low) / BINS, least)
    power = math.floor(math.log10(width)) if width > 0 else 0
    digits = next((d for d in (1, 2, 5, 10) if d * 10.0**power >= width * 0.999), 10)
    first = math.floor(low / (digits * 10.0**power) + 1e-9)
    last = math.ceil(high / (digits * 10.0**power) - 1e-9)
    scale = 10 ** abs(power)
    edges = [
        place * digits * scale if power >= 0 else place * digits / scale
        for place in range(first, max(last, first + 1) + 1)
    ]
    return [float(edge) for edge in edges]


def _log_edges(low: float, high: float) -> list[float]:
    least = max(low, 0.01 if high < 10 else 1.0)
    steps = math.log10(high / least) / BINS
    edges: dict[float, None] = {} if low > 0 else {0.0: None}
    place = math.floor(math.log10(least) / steps)
    while True:
        edge = 10 ** (place * steps)
        rounded = float(f"{edge:.2g}") if edge < 1e3 else float(f"{edge:.3g}")
        if edge >= 1 and edge < 100:
            rounded = float(round(edge))
        edges[rounded] = None
        if rounded >= high:
            return sorted(edges)
        place += 1


Wanted = tuple[_Range, list[Check], bool, list[float]]


def _counted(tables: CorpusTables, wanted: list[Wanted]) -> list[Distribution]:
    """Exact counts between the edges of some measures, by one scan."""
    asked: list[str] = []
    for measure, checks, _, edges in wanted:
        value = _value(measure.name)
        if _counts_upper(checks):
            asked.append(f"histogram({value}, {edges})")
        if _counts_lower(checks):
            asked.append(f"histogram(-{value}, {[-edge for edge in reversed(edges)]})")
        asked += [
            f"count(*) filter (where {value} {check.broken} {float(check.limit or 0)!r})"
            for check in checks
        ]
    row = list(tables.rows(f"select {', '.join(asked)} from measures")[0])
    distributions = []
    for measure, checks, log, edges in wanted:
        upper = lower = [0] * len(edges)  # values <= each edge, and < each edge
        if _counts_upper(checks):
            upper = _cumulate(row.pop(0), edges)
        if _counts_lower(checks):
            at_least = _cumulate(row.pop(0), [-edge for edge in reversed(edges)])
            lower = [measure.documents - count for count in reversed(at_least)]
        rules = []
        for check in checks:
            curve = {
                "<": lower,
                "<=": upper,
                ">": [measure.documents - count for count in upper],
                ">=": [measure.documents - count for count in lower],
            }[check.broken]
            rules.append(
                LimitCurve(check.reason, check.broken, float(check.limit or 0), row.pop(0), curve)
            )
        up_to = lower if _counts_lower(checks) else upper
        counts, below, above = _bins(measure, up_to, edges)
        shape = (measure.name, measure.documents, measure.least, measure.most, log, edges)
        distributions.append(Distribution(*shape, counts, below, above, rules))
    return distributions


def _counts_lower(checks: list[Check]) -> bool:
    """Return whether a limit needs how many values are below an edge."""
    return any(check.broken in ("<", ">=") for check in checks)


def _counts_upper(checks: list[Check]) -> bool:
    """Return whether a limit, or the bins of a measure without one, need how many are up to an
    edge.
    """
    return not _counts_lower(checks) or any(check.broken in ("<=", ">") for check in checks)


def _bins(one: _Range, up_to: list[int], edges: list[float]) -> tuple[list[int], int, int]:
    """Return (values of each bin, under the first edge, over the last): of how many are up to each
    edge.

    What is at an outer edge is of the bin there, if nothing lies beyond it.
    """
    counts = [after - before for before, after in pairwise(up_to)]
    below, above = up_to[0], one.documents - up_to[-1]
    if one.least >= edges[0]:
        counts[0], below = counts[0] + below, 0
    if one.most <= edges[-1]:
        counts[-1], above = counts[-1] + above, 0
    return counts, below, above


def _cumulate(histogram: dict[float, int], edges: list[float]) -> list[int]:
    """Return how many values are at each edge or below."""
    sums, total = [], 0
    for edge in edges:
        total += histogram.get(edge, 0)
        sums.append(total)
    return sums
