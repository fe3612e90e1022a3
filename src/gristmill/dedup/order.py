"""The order that decides: of two alike documents the one that comes first stays.

    plan                       as the plan numbers them; what is appended changes nothing before it
    longest                    texts of most bytes first
    highest STEP.MEASURE       by what a step measured, highest or lowest first; documents without a value come last
    lowest STEP.MEASURE

Equal ones go by number. In any order but the plan's, a document's place is its row in the near stage, and its number in same.sql.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup.database import Relations
from gristmill.errors import RecipeError
from gristmill.store.parts import read_batches

VALUED = pa.schema([pa.field("document", pa.int64()), pa.field("value", pa.float64())])
PLACED_TOGETHER = 1 << 18  # documents of a row group: who wants the places of a few reads one
PLACED = pa.schema([pa.field("document", pa.int64()), pa.field("place", pa.int64())])


class Order:
    """Documents in the order that decides. 8 bytes a document in memory, 24 while it is made."""

    def __init__(self, documents: np.ndarray, path: Path) -> None:
        """`documents` (n,) int64 in that order; `path` will hold their places, PLACED, sorted by document."""
        self.documents, self.path = documents, path
        places = np.argsort(documents)
        pq.write_table(pa.table([documents[places], places], schema=PLACED), path, row_group_size=PLACED_TOGETHER)


def put_in_order(
    order: str, tables: Iterable[tuple[Path, Path | None]], relations: Callable[[], Relations], work: Path
) -> Order | None:
    """The order that a recipe's word asks for, of shards' documents and measures; None: the plan's.

    Raises RecipeError where no step measures what it names.
    """
    if order == "plan":
        return None
    with pq.ParquetWriter(work / "valued.parquet", VALUED, compression="none") as writer:
        for documents, measures in tables:
            for columns in _lengths(documents) if order == "longest" else _measures(measures, order):
                writer.write_table(pa.table(list(columns), schema=VALUED))
    with relations() as connection:
        connection.table("valued", [work / "valued.parquet"], "document, value")
        written = connection.write("order", work / "order.parquet")
    found = [pq.read_table(path)["document"].to_numpy() for path in written]
    return Order(np.concatenate(found), work / "places.parquet")


def _lengths(documents: Path) -> Iterator[tuple[pa.Array, pa.Array]]:
    for batch in read_batches(documents, ["document", "text"]):
        yield batch["document"], pc.binary_length(batch["text"]).cast(pa.float64())


def _measures(measures: Path | None, order: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    way, _, name = order.partition(" ")
    if measures is None or name not in pq.read_schema(measures).names:
        raise RecipeError(f"deduplicate.order = {order!r}: no step of the recipe measures {name!r} in every source")
    for batch in read_batches(measures, ["document", name]):
        try:
            values = batch[name].cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise RecipeError(f"deduplicate.order = {order!r}: {name!r} is no number") from error
        values = pc.if_else(pc.is_nan(values), None, values)
        yield batch["document"], values if way == "highest" else pc.negate(values)
