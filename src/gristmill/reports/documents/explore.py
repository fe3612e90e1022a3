"""Explore: the documents of a corpus in one Parquet file that Apple's embedding-atlas and DuckDB
open, with the verdict, the measures and the beginning of the text of each.

    verdicts/   which documents, and why each was kept or dropped
    measures/   a column for each measure
    text/, documents/, samples/   the text: the first of them that has the document

reports/documents/explored_documents.py merges them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import RecipeError, VerificationError
from gristmill.filters.api.step_inputs import installed_inputs
from gristmill.filters.pii.private import Private
from gristmill.progress.counted_work import counted
from gristmill.reports.documents.document_map import DocumentMap
from gristmill.reports.documents.document_tables import AUTHORITY, LANGUAGE
from gristmill.reports.documents.explored_documents import (
    FIRST,
    KEPT,
    LAST,
    PLACE,
    ChosenDocuments,
    Verdict,
)
from gristmill.reports.integrity.verify import finished
from gristmill.store.parts import writing
from gristmill.system.ownership import refuse_file
from gristmill.tables import schema
from gristmill.user_input import local

SAMPLE = 100_000  # documents
CHARACTERS = 1_000  # of a text
BEYOND = 200  # characters behind these that are looked at for personal data
MADE_BY = b"gristmill.explore"  # metadata of the file, by which it is known


def explore(
    corpus: Path | str,
    out: Path | str = "explore.parquet",
    *,
    sample: int | None = SAMPLE,
    verdict: Verdict | None = None,
    characters: int = CHARACTERS,
    redact: bool = True,
    projection: bool = True,
    seed: int = 1,
    force: bool = False,
) -> dict[str, Any]:
    """Write documents of a finished corpus to the Parquet file `out`, for embedding-atlas or SQL.

    `sample` documents by a keyed hash of their numbers (None: all), so that a larger sample holds a
    smaller one; of kept or dropped ones alone with `verdict`. A text is cut at `characters`, and
    personal data in it are redacted as the step `private` does, unless `redact` is false. With
    `projection` there are columns x and y: texts with the same words are near each other
    (reports/documents/document_map.py). The same corpus and arguments give the same rows.

    Returns `file`, `documents`, `with_text`, `of` (all that the verdict has), `bytes`, `columns`.
    Raises RecipeError for arguments that cannot be, a file that is there and is no such file
    (without `force`), a corpus without verdicts; VerificationError if it is not finished.
    """
    if sample is not None and sample < 1:
        raise RecipeError(f"sample = {sample}: a number of documents, at least 1")
    if characters < 1:
        raise RecipeError(f"characters = {characters}: at least 1")
    if verdict not in (None, "kept", "dropped"):
        raise RecipeError(f"verdict = {verdict!r}: kept or dropped")
    root = Path(corpus)
    manifest, _ = finished(root)
    if manifest.imported is not msgspec.UNSET:
        raise RecipeError(f"{root}: it was imported as tokens: it has no documents to explore")
    target = _target(local(out, "--out"), root, force)
    documents = ChosenDocuments(root, manifest, verdict, seed)
    texts = _ShownTexts(characters, redact)
    try:
        of = documents.choose(sample)
        count = of if sample is None else min(sample, of)
        names, with_text = _write(target, documents, texts, count, projection=projection)
    except pa.ArrowException as error:
        raise VerificationError(
            f"{root}: a table cannot be read: {error}. `gristmill verify {root}` shows all damage"
        ) from error
    return {
        "file": str(target),
        "documents": count,
        "with_text": with_text,
        "of": of,
        "bytes": target.stat().st_size,
        "columns": names,
    }


def _write(
    target: Path, documents: ChosenDocuments, texts: "_ShownTexts", count: int, *, projection: bool
) -> tuple[list[str], int]:
    """Write the file: its columns, and the number of documents with a text."""
    placed = DocumentMap.fitted(texts.of(rows) for rows in documents.some()) if projection else None
    wanted = pa.schema([*FIRST, *documents.measures(), *(PLACE if placed else []), *LAST])
    with_text = 0
    with (
        counted("explore", count, "documents") as counting,
        writing(target.parent, target.name) as file,
    ):
        made = wanted.with_metadata({MADE_BY: b"1"})
        with pq.ParquetWriter(file, made, compression="zstd") as writer:
            for rows in documents.rows():
                text = texts.of(rows)
                found = _columns(rows, text, documents.measures())
                if placed is not None:
                    found |= dict(zip("xy", placed.of(text).T, strict=True))
                columns = [_flat(found[field.name]).cast(field.type) for field in made]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=made))
                with_text += len(text) - text.null_count
                counting.add(len(rows))
    return wanted.names, with_text


def _target(out: Path, root: Path, force: bool) -> Path:
    """Return the file to write. Raises RecipeError for one that may not be replaced."""
    if out.is_dir():
        raise RecipeError(f"--out {out}: a folder. Name a file: {out / 'explore.parquet'}")
    if out.resolve().is_relative_to(root.resolve()):
        raise RecipeError(f"--out {out}: it is in the corpus; name a file outside {root}")
    refuse_file(out, _is_ours, "explore", force=force)
    return out


def _is_ours(path: Path) -> bool:
    try:
        return MADE_BY in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


class _ShownTexts:
    """Makes the texts of rows fit to show: cut, and without personal data."""

    def __init__(self, characters: int, redact: bool) -> None:
        self._characters = characters
        self._redact: Callable[[pa.RecordBatch], Any] | None = None
        if redact:
            step = Private()
            self._redact = step.load(installed_inputs(step))

    def of(self, rows: pa.Table) -> pa.Array:
        """Return (n,) strings, null where the corpus has no text of a document."""
        texts = rows["text"].combine_chunks()
        if self._redact is None:
            return pc.utf8_slice_codeunits(texts, 0, self._characters)
        begun = pc.utf8_slice_codeunits(texts, 0, self._characters + BEYOND)
        batch = pa.RecordBatch.from_arrays([begun.fill_null("")], ["text"])
        redacted = self._redact(batch).text
        begun = batch["text"] if redacted is None else redacted
        cut = pc.utf8_slice_codeunits(begun, 0, self._characters)
        return pc.if_else(texts.is_valid(), cut, pa.scalar(None, pa.string()))


def _columns(rows: pa.Table, text: pa.Array, measures: list[pa.Field]) -> dict[str, Any]:
    """Return the columns by name, but for PLACE."""
    rows = rows.combine_chunks()
    reason = rows["reason"].combine_chunks()
    head = pc.struct_field(pc.extract_regex(pc.fill_null(rows["url"], ""), AUTHORITY), "head")
    label = f"measure {LANGUAGE}"
    language = rows[label].cast(pa.string()) if label in rows.column_names else None
    found = {
        "document": _names(rows["document"]),
        "text": text,
        "characters": pc.utf8_length(rows["text"]),
        "url": rows["url"],
        "host": pc.replace_substring_regex(head, r"^[^/]*//(?:[^@]*@)?", ""),
        "source": rows["source"],
        "raw_shard": rows["raw_shard"],
        "language": pa.nulls(len(rows), pa.string()) if language is None else language,
        "verdict": pc.if_else(reason.is_null(), KEPT, "dropped"),
        "step": pc.replace_substring_regex(reason, r"\..*$", ""),
        "reason": pc.fill_null(reason, KEPT),
        "value": rows["value"],
        "threshold": rows["threshold"],
        "keeper": _names(rows["keeper"]),
        "similarity": rows["similarity"],
    }
    for field in measures:
        name = f"measure {field.metadata[b'measure'].decode()}"
        has = name in rows.column_names
        found[field.name] = rows[name] if has else pa.nulls(len(rows), field.type)
    return found


def _flat(column: Any) -> pa.Array:
    """Return a column as one array; numpy's too."""
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column if isinstance(column, pa.Array) else pa.array(column)


def _names(documents: pa.ChunkedArray) -> pa.Array:
    """Return numbers of documents as `shard:row`."""
    shard = pc.shift_right(documents, schema.ROW_BITS).cast(pa.string())
    row = pc.bit_wise_and(documents, schema.MOST_ROWS - 1).cast(pa.string())
    return pc.binary_join_element_wise(shard, row, ":")
