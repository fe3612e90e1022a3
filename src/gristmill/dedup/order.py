"""The order that decides: of two duplicates the one that comes first is kept.

    plan                    as the plan numbers documents; documents that are appended later do not
                            change the verdicts of those before them
    longest                 the texts with the most bytes first
    highest STEP.MEASURE    by a step's measure; documents without a value come last
    lowest STEP.MEASURE
    highest field:NAME      by a field of the source, a number or a date (ISO 8601); `a.b` is the
                            field b of the object a
    lowest field:NAME

Documents of equal value are in the order of their numbers. In any order but the plan's, a
document's place is its row in the near stage, and its number in same.sql.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup.settings import FIELD
from gristmill.dedup.shard_tables import read_documents
from gristmill.engine.relations import Relations
from gristmill.errors import RecipeError
from gristmill.store.parts import read_batches

VALUED = pa.schema([pa.field("document", pa.int64()), pa.field("value", pa.float64())])
PLACED_TOGETHER = 1 << 18  # documents of a row group: the places of a few are in one or two
PLACED = pa.schema([pa.field("document", pa.int64()), pa.field("place", pa.int64())])


class Order:
    """Documents in the order that decides. 8 bytes a document in memory, 24 while it is made."""

    def __init__(self, documents: np.ndarray, path: Path) -> None:
        """`documents` (n,) int64 in that order; `path` will hold their places, PLACED, sorted by
        document.
        """
        self.documents, self.path = documents, path
        places = np.argsort(documents)
        pq.write_table(
            pa.table([documents[places], places], schema=PLACED),
            path,
            row_group_size=PLACED_TOGETHER,
        )


def put_in_order(
    order: str,
    tables: Iterable[tuple[Path, Path | None]],
    relations: Callable[[], Relations],
    work: Path,
) -> Order | None:
    """Return the order that a recipe names, over shards' documents and measures; None: the plan's.

    Raises RecipeError if no step has the measure that `order` names, or no document has a number or
    a date in the field that it names.
    """
    if order == "plan":
        return None
    compared = valued = 0
    with pq.ParquetWriter(work / "valued.parquet", VALUED, compression="none") as writer:
        for documents, measures in tables:
            for columns in _values(order, documents, measures):
                compared, valued = (
                    compared + len(columns[1]),
                    valued + len(columns[1]) - columns[1].null_count,
                )
                writer.write_table(pa.table(list(columns), schema=VALUED))
    if FIELD in order and compared and not valued:
        raise RecipeError(
            f"deduplicate.order = {order!r}: no document has a number or a date in this field"
        )
    with relations() as connection:
        connection.table("valued", [work / "valued.parquet"], "document, value")
        written = connection.write("order", work / "order.parquet")
    parts = [pq.read_table(path)["document"].to_numpy() for path in written]
    return Order(np.concatenate(parts), work / "places.parquet")


def read_places(order: Path, documents: np.ndarray) -> np.ndarray:
    """Return the places of documents (n,), sorted, in an order (a file of PLACED): (n,) int64."""
    places = [
        batch["place"].to_numpy()
        for batch in read_documents(order, documents, ["document", "place"])
    ]
    return np.concatenate(places)


def _values(
    order: str, documents: Path, measures: Path | None
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Return documents of a shard, and the values that put them in order, highest first."""
    if order == "longest":
        return _lengths(documents)
    way, _, name = order.partition(" ")
    pairs = (
        _fields(documents, name.removeprefix(FIELD))
        if name.startswith(FIELD)
        else _measures(measures, order, name)
    )
    return (
        (numbers, values if way == "highest" else pc.negate(values)) for numbers, values in pairs
    )


def _lengths(documents: Path) -> Iterator[tuple[pa.Array, pa.Array]]:
    for batch in read_batches(documents, ["document", "text"]):
        yield batch["document"], pc.binary_length(batch["text"]).cast(pa.float64())


def _fields(documents: Path, name: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield values of a field in `extra`. For `date`, the format's own date (of a WARC record)
    where the field is missing.
    """
    decode = msgspec.json.Decoder().decode
    for batch in read_batches(documents, ["document", "date", "extra"]):
        values = [
            None if extra is None else _inside(decode(extra), name)
            for extra in batch["extra"].to_pylist()
        ]
        if name == "date":
            dates = batch["date"].to_pylist()
            values = [
                date if value is None else value for value, date in zip(values, dates, strict=True)
            ]
        yield batch["document"], pa.array(map(as_number, values), pa.float64())


def _inside(fields: Any, name: str) -> Any:
    """Return a field by its name, or by a path of names with dots; None: there is no such field."""
    if isinstance(fields, dict):
        if name in fields:
            return fields[name]
        first, _, rest = name.partition(".")
        return _inside(fields.get(first), rest) if rest else None
    return None


def as_number(value: Any) -> float | None:
    """Return a number as it is, a date (ISO 8601) as seconds since 1970, in UTC if it names no
    zone.

    None: neither a number nor a date.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                date = datetime.fromisoformat(value.strip())
            except ValueError:
                return None
            value = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _measures(measures: Path | None, order: str, name: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    if measures is None or name not in pq.read_schema(measures).names:
        raise RecipeError(
            f"deduplicate.order = {order!r}: no step of the recipe measures {name!r} in "
            "every source"
        )
    for batch in read_batches(measures, ["document", name]):
        try:
            values = batch[name].cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise RecipeError(f"deduplicate.order = {order!r}: {name!r} is not a number") from error
        yield batch["document"], pc.if_else(pc.is_nan(values), None, values)
