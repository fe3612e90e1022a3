"""Contamination: which benchmark items occurred in which documents, how much of each, and the text
around them.

An item is named where no other explains it better: one of which the document holds a higher share,
all fields joined, and whose place in the text takes in all of its own. Items that only share a
passage, a question or a part of a template with one that is there are `shared`.
"""

import re
from bisect import bisect_left, bisect_right
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import RecipeError
from gristmill.filters.decontaminate.decontaminate import FOLDER
from gristmill.reports.integrity.verify import finished
from gristmill.store.manifest import Manifest
from gristmill.store.parts import read_batches
from gristmill.tables import schema

KEY = ("benchmark", "item", "document")
Key = tuple[str, int, int]
COUNTS = (
    "items",
    "ngrams",
    "whole",
    "joined",
    "templates",
    "ignored",
    "found",
    "shared",
    "documents",
)
MOST = 20  # items, and documents of an item, that are shown to people


def contamination(
    corpus: Path | str, *, benchmark: str | None = None, item: str | None = None
) -> dict[str, Any]:
    """Return what documents hold of benchmarks, whether they were dropped for it or not.

    `benchmarks`: of each its `name`, its `items`, how many of them are looked for by their
    question's n-grams (`ngrams`), by their short question as a whole (`whole`), only with all
    fields `joined`, and not at all: they are `templates`, or too short (`ignored`); how many are
    `found`, how many only share text with those (`shared`), and how many `documents` hold one that
    is found. With `benchmark`, `items`: of each that was found `benchmark`, `item`, `id`, and
    `documents`, the highest overlap first: `document`, `overlap`, `matched`, `ngrams`, `field`
    (null: all fields), `similarity`, `start`, `end`, `context`. With `item` (its number or id) the
    same of that item, also where it is only shared.

    What was found is what rows were written of: overlaps from the step's `floor` on. Raises
    RecipeError where no step looks for items, or none is called so; VerificationError where the
    corpus is not finished.
    """
    root = Path(corpus)
    manifest, _ = finished(root)
    paths = [root / part.path for part in manifest.parts if part.path.startswith(f"{FOLDER}/")]
    if not paths:
        raise RecipeError(
            f"{root}: no step looks for benchmark items. Write a [[step]] with use = "
            '"decontaminate"'
        )
    counted: dict[str, dict[str, int]] = {}
    for path in paths:
        counted |= msgspec.json.decode(
            (pq.read_metadata(path).metadata or {}).get(b"benchmarks", b"{}")
        )
    if benchmark is not None and benchmark not in counted:
        raise RecipeError(f"{root}: no benchmark {benchmark!r}; there are: {', '.join(counted)}")
    rows = pa.concat_tables([_rows(path, None) for path in paths])
    named = _named(rows)
    answer: dict[str, Any] = {
        "benchmarks": [_of(name, counts, rows, named) for name, counts in counted.items()]
    }
    if benchmark is not None or item is not None:
        wanted = _best(pa.concat_tables([_rows(path, _mask(benchmark, item)) for path in paths]))
        if item is None:
            keys = zip(*(wanted[name].to_pylist() for name in KEY), strict=True)
            wanted = wanted.filter(pa.array([key in named for key in keys], pa.bool_()))
        answer["items"] = _items(wanted)
        if item is not None and not answer["items"]:
            _refuse_unknown(root, manifest, counted, benchmark, item)
    return answer


def _rows(path: Path, wanted: pc.Expression | None) -> pa.Table:
    """Return rows of a part; without a wish those columns that are counted."""
    columns = [*KEY, "field", "overlap", "start", "end"] if wanted is None else None
    batches = list(read_batches(path, columns))
    if not batches:
        table = pa.Table.from_batches([], schema.CONTAMINATION)
        return table.select(columns) if columns else table
    table = pa.Table.from_batches(batches)
    return (table if wanted is None else table.filter(wanted)).replace_schema_metadata()


def _mask(benchmark: str | None, item: str | None) -> pc.Expression:
    mask = pc.scalar(True)
    if benchmark is not None:
        mask &= pc.field("benchmark") == benchmark
    if item is not None:
        named = pc.field("id") == item
        mask &= (
            (pc.field("item") == int(item)) | pc.coalesce(named, pc.scalar(False))
            if re.fullmatch(r"\d{1,18}", item)
            else named
        )
    return mask


def _best(rows: pa.Table) -> pa.Table:
    """Of each document and item the row with the highest overlap: an item has several parts.
    Highest first, then by document.
    """
    order = pc.sort_indices(
        rows,
        [
            ("benchmark", "ascending"),
            ("item", "ascending"),
            ("overlap", "descending"),
            ("document", "ascending"),
        ],
    )
    rows = rows.take(order)
    seen: set[tuple[str, int, int]] = set()
    kept = []
    for key in zip(
        *(rows[name].to_pylist() for name in ("benchmark", "item", "document")), strict=True
    ):
        kept.append(key not in seen)
        seen.add(key)
    return rows.filter(pa.array(kept, pa.bool_()))


def _named(rows: pa.Table) -> set[Key]:
    """Benchmark, item and document of those that no other explains."""
    held: dict[Key, list[Any]] = {}  # the joined fields' overlap, start, end
    names = (*KEY, "field", "overlap", "start", "end")
    for benchmark, item, document, field, overlap, start, end in zip(
        *(rows[name].to_pylist() for name in names), strict=True
    ):
        own = held.setdefault((benchmark, item, document), [0.0, start, end])
        own[0] = overlap if field is None else own[0]
        own[1], own[2] = min(own[1], start), max(own[2], end)
    order = sorted(held, key=lambda key: (key[2], -held[key][0]))
    named: set[Key] = set()
    for _, of_document in groupby(order, key=lambda key: key[2]):
        starts: list[int] = []  # of the widest places so far, both ascending
        ends: list[int] = []
        for _, equals in groupby(of_document, key=lambda key: held[key][0]):
            free = [key for key in equals if not _within(held[key][1], held[key][2], starts, ends)]
            named.update(free)
            for key in free:
                _widen(held[key][1], held[key][2], starts, ends)
    return named


def _within(start: int, end: int, starts: list[int], ends: list[int]) -> bool:
    place = bisect_right(starts, start) - 1
    return place >= 0 and ends[place] >= end


def _widen(start: int, end: int, starts: list[int], ends: list[int]) -> None:
    """Add a place; those within it go."""
    if _within(start, end, starts, ends):
        return
    first, last = bisect_left(starts, start), bisect_right(ends, end)
    starts[first:last], ends[first:last] = [start], [end]


def _of(name: str, counts: dict[str, int], rows: pa.Table, named: set[Key]) -> dict[str, Any]:
    own = rows.filter(pc.equal(rows["benchmark"], name))
    there = len(np.unique(own["item"].to_numpy()))
    hits = len({item for benchmark, item, _ in named if benchmark == name})
    documents = len({document for benchmark, _, document in named if benchmark == name})
    return {"name": name, **counts, "found": hits, "shared": there - hits, "documents": documents}


def _items(rows: pa.Table) -> list[dict[str, Any]]:
    entries: dict[tuple[str, int], dict[str, Any]] = {}
    names = (
        "document",
        "overlap",
        "matched",
        "ngrams",
        "field",
        "similarity",
        "start",
        "end",
        "context",
    )
    for row in rows.to_pylist():
        key = row["benchmark"], row["item"]
        entry = entries.setdefault(
            key,
            {"benchmark": row["benchmark"], "item": row["item"], "id": row["id"], "documents": []},
        )
        entry["documents"].append({name: row[name] for name in names})
    return list(entries.values())


def _refuse_unknown(
    root: Path,
    manifest: Manifest,
    counted: dict[str, dict[str, int]],
    benchmark: str | None,
    item: str,
) -> None:
    """An item that was looked for and not found is an answer; a number that no benchmark has is
    none. Ids are known only of what was found.
    """
    most = max(counts["items"] for name, counts in counted.items() if benchmark in (None, name))
    if item.isdecimal() and int(item) >= most:
        raise RecipeError(
            f"{root}: no item {item}; items are numbered from 0, and there are {most:,}"
        )


def lines(answer: dict[str, Any]) -> list[str]:
    """For people."""
    out = [f"{'benchmark':<24}" + "".join(f"{name:>11}" for name in COUNTS)]
    for benchmark in answer["benchmarks"]:
        # An older corpus does not have all of them.
        out.append(
            f"{benchmark['name']:<24}"
            + "".join(
                f"{benchmark[name]:>11,}" if name in benchmark else f"{'-':>11}" for name in COUNTS
            )
        )
    items = answer.get("items", [])
    for entry in items[:MOST]:
        named = f" ({entry['id']})" if entry["id"] is not None else ""
        count = len(entry["documents"])
        out.append(
            f"{entry['benchmark']} item {entry['item']}{named}: {count:,} "
            f"document{'' if count == 1 else 's'}"
        )
        for row in entry["documents"][:MOST]:
            part = f" of {row['field']!r}" if row["field"] is not None else ""
            where = "" if row["start"] is None else f", bytes {row['start']:,} to {row['end']:,}"
            similarity = (
                "" if row["similarity"] is None else f", similarity {row['similarity']:.2f}"
            )
            out.append(
                f"  {schema.document_name(row['document']):<12} overlap {row['overlap']:.3f} "
                f"({row['matched']:,} of {row['ngrams']:,} n-grams{part}){where}{similarity}"
            )
            if row["context"]:
                out.append(f"    {' '.join(row['context'].split())}")
        if count > MOST:
            out.append(f"  and {count - MOST:,} documents more (--json has all)")
    if "items" in answer and not items:
        out.append("none of what is asked for was found in a document")
    if len(items) > MOST:
        out.append(f"and {len(items) - MOST:,} items more (--json has all)")
    return out
