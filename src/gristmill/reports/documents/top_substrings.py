"""The repeated spans of a corpus that are at most places, and those of a document."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import RecipeError
from gristmill.phases.output.corpus_texts import line_cutter
from gristmill.phases.relations.repeated_substrings import LIST
from gristmill.reports.integrity.verify import finished
from gristmill.store.manifest import Manifest
from gristmill.store.parts import read_batches, read_rows
from gristmill.tables import schema
from gristmill.tables.schema import shard_name

TOP = 20
SHOWN = 500  # characters of a span


def repeated(corpus: Path | str, *, top: int = TOP) -> dict[str, Any]:
    """Return the funnel's counts of repeated spans, and the `top` spans that are at most places,
    one of each text, as `spans`.

    A row has `places`, `document`, `first_byte`, `end_byte`, `earliest` document and `text` (its
    first 500 characters; null: the corpus has no documents/). Raises RecipeError if the recipe has
    no [deduplicate.substrings], VerificationError if the corpus is not finished.
    """
    root = Path(corpus)
    manifest, _ = finished(root)
    if all(part.path != LIST for part in manifest.parts):
        raise RecipeError(
            f"{root}: it has no list of repeated spans. Add [deduplicate.substrings] to its recipe"
        )
    kept = pq.read_schema(root / LIST).empty_table()
    for batch in read_batches(root / LIST):
        kept = _most_places(pa.concat_tables([kept, pa.Table.from_batches([batch])]), 2 * top)
    rows = kept.to_pylist()
    add_texts(root, manifest, rows)
    seen: set[str] = set()
    spans: list[dict[str, Any]] = []
    for row in rows:
        if row["text"] is None or row["text"] not in seen:
            seen.add(row["text"] or "")
            spans.append(row)
    return {**manifest.funnel["substrings"], "spans": spans[:top]}


def _most_places(spans: pa.Table, most: int) -> pa.Table:
    """Return the spans at most places, of those that are copies of one another the first."""
    order = [("places", "descending"), ("document", "ascending"), ("first_byte", "ascending")]
    spans = spans.sort_by(order)
    size = pc.subtract(spans["end_byte"], spans["first_byte"])
    alike = np.stack([spans["places"].to_numpy(), spans["earliest"].to_numpy(), size.to_numpy()])
    _, firsts = np.unique(alike, axis=1, return_index=True)
    return spans.take(pa.array(np.sort(firsts)[:most]))


def document_spans(root: Path, manifest: Manifest, document: int) -> list[dict[str, Any]]:
    """Return the repeated spans of one document, with their texts."""
    if all(part.path != LIST for part in manifest.parts):
        return []
    rows: list[dict[str, Any]] = read_rows(
        root / LIST, filters=[("document", "==", document)]
    ).to_pylist()
    add_texts(root, manifest, rows)
    return rows


def add_texts(root: Path, manifest: Manifest, rows: Iterable[dict[str, Any]]) -> None:
    """Add to each span its `text`, from documents/ with frequent lines cut; null: not there."""
    by_shard: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        row["text"] = None
        by_shard.setdefault(schema.shard_number(row["document"]), []).append(row)
    for number, own in by_shard.items():
        path = root / f"documents/{shard_name(number)}.parquet"
        if not path.exists():
            continue
        wanted = np.unique([row["document"] for row in own])
        cutter = line_cutter(root, manifest, manifest.raw_shards[number].source)
        texts: dict[int, bytes] = {}
        for batch in read_batches(path, ["document", "text"]):
            batch = batch.filter(pc.is_in(batch["document"], pa.array(wanted)))
            batch = cutter.remove(batch) if cutter is not None and len(batch) else batch
            for document, text in zip(*(column.to_pylist() for column in batch), strict=True):
                texts[document] = text.encode()
        for row in own:
            span = texts[row["document"]][row["first_byte"] : row["end_byte"]]
            row["text"] = span.decode("utf-8", "replace")[:SHOWN]


def lines(result: dict[str, Any]) -> list[str]:
    """Return the report as lines of text."""
    out = [f"{'places':>12}  {'bytes':>9}  {'document':<12}  {'first in':<12}  text"]
    out += [span_line(row) for row in result["spans"]]
    if len(result["spans"]) < result["listed"]:
        out.append(
            f"{result['listed']:,} spans are listed, of {result['listed_bytes']:,} bytes in "
            f"{result['listed_documents']:,} documents"
        )
    return out


def span_line(row: dict[str, Any]) -> str:
    """Return a span as a line of text."""
    text = " ".join((row["text"] or "").split())
    shown = f"{text[:80]}{'...' if len(text) > 80 else ''}"
    size = row["end_byte"] - row["first_byte"]
    places = [schema.document_name(row[name]) for name in ("document", "earliest")]
    return f"{row['places']:>12,}  {size:>9,}  {places[0]:<12}  {places[1]:<12}  {shown}"
