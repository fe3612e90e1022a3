"""Which documents are deduplicated by the settings of their language: `[deduplicate] by_language`.

    measures/ (language.label)  -> the entry that each label means (filters/language/codes.py)
                                -> documents that are not compared, or by another threshold

A label without an entry, and a document without a label, has the corpus' settings.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup.differing import NONE_DIFFER, Differing
from gristmill.dedup.drops import NEAR
from gristmill.dedup.settings import Deduplicate
from gristmill.dedup.shard_tables import ShardTables
from gristmill.errors import RecipeError
from gristmill.filters.language import codes
from gristmill.phases.process.process import LANGUAGE
from gristmill.store.parts import read_batches

THRESHOLD = pa.field("threshold", pa.float64())  # a further column of drops


def find_differing(settings: Deduplicate, tables: Iterable[ShardTables]) -> Differing:
    """Return the documents of shards whose language has settings of its own.

    Raises RecipeError where a shard's measures have no labels.
    """
    if not settings.by_language:
        return NONE_DIFFER
    labels = list(settings.by_language)
    # By place of an entry; the last, -1, is of documents without one.
    entries = [*(_entry(settings, label) for label in labels), (bool(settings.exact), True, None)]
    exact, near = (np.array([entry[which] for entry in entries]) for which in range(2))
    thresholds = np.array([entry[2] for entry in entries], np.float64)  # NaN: none of its own
    exact |= not settings.compares_texts
    near |= settings.near is None
    places_of = codes.LabelPlaces(labels)
    columns: list[list[np.ndarray]] = [[column] for column in NONE_DIFFER]
    for table in tables:
        path = table.measures
        if path is None or LANGUAGE not in pq.read_schema(path).names:
            raise RecipeError(
                f"deduplicate.by_language: {path}: no step measured {LANGUAGE!r}, the language of "
                "a document. Run the recipe"
            )
        for batch in read_batches(path, ["document", LANGUAGE]):
            documents = batch["document"].to_numpy()
            places = places_of.of(batch[LANGUAGE])
            columns[0].append(documents[~exact[places]])
            columns[1].append(documents[~near[places]])
            own = ~np.isnan(thresholds[places])
            columns[2].append(documents[own])
            columns[3].append(thresholds[places[own]])
    result = Differing(*map(np.concatenate, columns))
    order = np.argsort(result.documents)
    return Differing(
        np.sort(result.not_exact),
        np.sort(result.not_near),
        result.documents[order],
        result.thresholds[order],
    )


def _entry(settings: Deduplicate, label: str) -> tuple[bool, bool, float | None]:
    """Of a language whether its texts are looked up, whether they are compared, and its threshold
    where it has one.
    """
    entry = (settings.by_language or {})[label]
    if entry is False:
        return False, False, None
    exact = bool(settings.exact) if entry.exact is None else entry.exact
    return exact, entry.near is not False, entry.near.threshold if entry.near else None


def with_thresholds(drops: pa.Table, settings: Deduplicate, differing: Differing) -> pa.Table:
    """Drops with the threshold that each was found by, where thresholds differ by language."""
    if settings.near is None or not len(differing.documents):
        return drops
    values = differing.thresholds_of(drops["document"].to_numpy(), settings.near.threshold)
    thresholds = pc.if_else(pc.equal(drops["reason"], NEAR), pa.array(values), pa.scalar(1.0))
    return drops.append_column(THRESHOLD, thresholds)
