"""Why a document was kept or dropped, by its number or URL, from the corpus alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.parents import DEFAULT, parent_id
from gristmill.errors import RecipeError, VerificationError
from gristmill.reports.documents.reasons import meaning
from gristmill.reports.documents.top_substrings import document_spans
from gristmill.store.manifest import MANIFEST, Manifest
from gristmill.store.parts import read_batches, read_rows
from gristmill.tables import schema
from gristmill.tables.schema import shard_name
from gristmill.tokens.partitions import partition_source


def why(corpus: Path | str, document: str) -> list[dict[str, Any]]:
    """Return the verdict of a document, given as `shard:row`, its number, or its URL (which several
    documents may have).

    Each answer has `document`, `url`, `reason` (null: kept), `value`, `threshold`, `keeper`,
    `keeper_url`, `similarity`, `copies` (how many documents were dropped as copies of it),
    `measures`, `source`, `raw_shard`, `substrings` (its repeated spans, if there are any),
    `parent` (the id in the field that its source names so; null: it has none, or its fields are not
    stored), and `text` if it is stored; with `[tokens]` repeats or partitions also `tokens`, how
    often it is in which token shards. Raises RecipeError if there is no such document,
    VerificationError if the corpus is not finished.
    """
    root = Path(corpus)
    finished = Corpus(root).finished()
    if finished is None:
        raise VerificationError(
            f"{root}: no {MANIFEST}: not a corpus, or not finished. Run the recipe again to finish "
            "it"
        )
    manifest = finished[0]
    number = parse_document(document)
    rows = _by_number(root, number) if number is not None else _by_url(root, manifest, document)
    if not rows:
        if number is not None:
            _refuse_absent(root, manifest, schema.shard_number(number))
        raise RecipeError(
            f"{root}: no document {document!r}. Name it as shard:row, by its number, or by "
            "its exact URL"
        )
    return [_answer(root, manifest, row) for row in rows]


def _refuse_absent(root: Path, manifest: Manifest, number: int) -> None:
    """Raise RecipeError where a raw shard is not in the corpus, with the reason."""
    if number >= len(manifest.raw_shards):
        return
    shard = manifest.raw_shards[number]
    if shard.missing is not None:
        words = {
            "removed": "removed: the recipe named it no longer",
            "replaced": "replaced: its file changed, and was read again under a later number",
        }
        raise RecipeError(
            f"{root}: raw shard {number} ({shard.url}) and its documents are not in the corpus: "
            f"{words.get(shard.missing, shard.missing)}"
        )


def parse_document(document: str) -> int | None:
    """Return `3:17` or `12884901905` as a document's number; None: it is neither."""
    shard, colon, row = document.partition(":")
    if colon and shard.isdecimal() and row.isdecimal():
        return schema.first_document(int(shard)) + int(row)
    return int(document) if document.isdecimal() else None


def _rows(path: Path, field: str, value: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in read_batches(path):
        rows += batch.filter(pc.fill_null(pc.equal(batch[field], value), False)).to_pylist()
    return rows


def _part(root: Path, folder: str, document: int) -> Path:
    return root / folder / f"{shard_name(schema.shard_number(document))}.parquet"


def _by_number(root: Path, number: int) -> list[dict[str, Any]]:
    path = _part(root, "verdicts", number)
    return _rows(path, "document", number) if path.exists() else []


def _by_url(root: Path, manifest: Manifest, url: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for shard in manifest.raw_shards:
        path = root / f"verdicts/{shard_name(shard.number)}.parquet"
        if path.exists():
            rows += _rows(path, "url", url)
    return rows


def _answer(root: Path, manifest: Manifest, verdict: dict[str, Any]) -> dict[str, Any]:
    document = verdict["document"]
    shard = manifest.raw_shards[schema.shard_number(document)]
    result = {
        **verdict,
        "source": shard.source,
        "raw_shard": shard.file_at(schema.row_number(document)),
        "row": schema.row_number(document),
    }
    measures = _one(_part(root, "measures", document), document)
    if (late := _part(root, "finished", document)).exists() and verdict["reason"] is None:
        measures |= _one(late, document)
    result["measures"] = {
        name: value for name, value in measures.items() if name != "document" and value is not None
    }
    if verdict["keeper"] is not None and verdict["keeper_corpus"] is None:
        keeper = _by_number(root, verdict["keeper"])
        result["keeper_url"] = keeper[0]["url"] if keeper else None
    copies = root / "duplicates/copies.parquet"
    if copies.exists():
        rows = read_rows(copies, filters=[("keeper", "==", document)])
        rows = rows.filter(pc.is_null(rows["keeper_corpus"]))
        result["copies"] = rows["copies"][0].as_py() if len(rows) else 0
    asked = manifest.recipe.get("tokens") or {}
    if verdict["reason"] is None and ("repeat" in asked or "partition" in asked):
        result["tokens"] = _in_tokens(root, manifest, shard.source, document)
    if verdict["reason"] is None and (spans := document_spans(root, manifest, document)):
        result["substrings"] = spans
    result["parent"] = None
    for folder in ("documents", f"text/{shard.source}", "samples"):
        stored = _one(_part(root, folder, document), document)
        if stored:
            result["text"] = stored["text"]
            result["parent"] = parent_id(stored.get("extra"), _parent_field(manifest, shard.source))
            break
    return result


def _parent_field(manifest: Manifest, source: str) -> str:
    tables = (table for table in manifest.recipe["source"] if table["name"] == source)
    return next((table.get("parent", DEFAULT) for table in tables), DEFAULT)


def _in_tokens(root: Path, manifest: Manifest, source: str, document: int) -> dict[str, int]:
    """Return how often a document is in the token shards of its source: by the shard in which a
    copy begins.
    """
    counts: dict[str, int] = {}
    last: dict[str, int] = {}  # by folder and split: the number that ends the shard before
    for part in manifest.parts:
        folder, _, name = part.path.rpartition("/")
        if not name.endswith(".docs") or partition_source(folder.partition("/")[2]) != source:
            continue
        numbers = np.fromfile(root / part.path, "<i8", part.counts["documents"])
        count = int((numbers == document).sum())
        stream = f"{folder}/{name.partition('_')[0]}"
        # No copy follows another: one that begins a shard and ended the one before goes on.
        if count and last.get(stream) == document == int(numbers[0]):
            count -= 1
        if count:
            counts[part.path.removesuffix(".docs") + ".bin"] = count
        last[stream] = int(numbers[-1])
    return counts


def _one(path: Path, document: int) -> dict[str, Any]:
    if not path.exists():
        return {}
    table = read_rows(path, filters=[("document", "==", document)])
    return dict(table.to_pylist()[0]) if len(table) else {}


def lines(result: dict[str, Any]) -> list[str]:
    """Return an answer as lines of text."""
    name = schema.document_name(result["document"])
    out = [
        f"document {name}   {result['url'] or '(no URL)'}",
        f"  from {result['raw_shard']}, row {result['row']}, source {result['source']}",
    ]
    if result["parent"] is not None:
        out.append(f"  made of {' '.join(result['parent'].split())[:200]}")
    reason = result["reason"]
    if reason is None:
        out.append(
            "  kept"
            + (f"; {result['copies']} copies of it were dropped" if result.get("copies") else "")
        )
        if "tokens" in result:
            times = sum(result["tokens"].values())
            places = ", ".join(f"{name} ({count})" for name, count in result["tokens"].items())
            out.append(f"  in the tokens {times} times" + (f": {places}" if places else ""))
    elif result["keeper"] is not None:
        kept = f"{schema.document_name(result['keeper'])} {result.get('keeper_url') or ''}".rstrip()
        if result["keeper_corpus"] is not None:
            kept += f" of the corpus whose manifest is {result['keeper_corpus']}"
        out.append(
            f"  dropped: {reason}, similarity {result['similarity']:.4f} (threshold "
            f"{result['threshold']:g}) to {kept}, which is kept"
        )
    elif reason.startswith("read."):
        out.append(f"  dropped: {reason}, at byte {result['value']:.0f}")
    else:
        compared = (
            f" (threshold {result['threshold']:g})" if result["threshold"] is not None else ""
        )
        value = f", value {result['value']:g}" if result["value"] is not None else ""
        out.append(f"  dropped: {reason}{value}{compared}")
    if reason is not None and (said := meaning(reason)) is not None:
        out.append(f"  that is: {said}")
    if result["measures"]:
        shown = ", ".join(
            f"{key} {value:g}" if isinstance(value, (int, float)) else f"{key} {value}"
            for key, value in result["measures"].items()
        )
        out.append(f"  measured: {shown}")
    for span in result.get("substrings", ()):
        earliest = schema.document_name(span["earliest"])
        text = " ".join((span["text"] or "").split())
        out.append(
            f"  repeated: bytes {span['first_byte']:,} to {span['end_byte']:,}, at "
            f"{span['places']:,} places, first in {earliest}: "
            f"{text[:100]}{'...' if len(text) > 100 else ''}"
        )
    if result.get("text"):
        text = " ".join(result["text"].split())
        out.append(f"  text: {text[:200]}{'...' if len(text) > 200 else ''}")
    return out
