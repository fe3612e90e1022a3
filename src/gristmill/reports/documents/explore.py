"""Explore: the documents of a corpus in one Parquet file that Apple's embedding-atlas and DuckDB
open, with the verdict, the measures and the beginning of the text of each.

    verdicts/   which documents, and why each was kept or dropped
    measures/   a column for each measure
    text/, documents/, samples/   the text: the first of them that has the document

DuckDB joins them, raw shard by raw shard, in a folder of temporary files where they are large.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.engine.relations import RELATIONS_MEMORY_MB, pattern, quoted
from gristmill.errors import RecipeError, VerificationError
from gristmill.filters.api.step_inputs import installed_inputs
from gristmill.filters.pii.private import Private
from gristmill.progress.counted_work import counted
from gristmill.reports.documents.document_map import DocumentMap
from gristmill.reports.documents.document_tables import AUTHORITY, LANGUAGE
from gristmill.reports.integrity.verify import check_size, finished
from gristmill.store.manifest import Manifest, RawShard
from gristmill.store.parts import read_batches, writing
from gristmill.system.ownership import refuse_file
from gristmill.tables import schema
from gristmill.tables.schema import row_number, shard_name
from gristmill.user_input import local

SAMPLE = 100_000  # documents
CHARACTERS = 1_000  # of a text
BEYOND = 200  # characters behind these that are looked at for personal data
MADE_BY = b"gristmill.explore"  # metadata of the file, by which it is known
ROWS = 8_192  # that are in memory at once
TEXTS = ("text", "documents", "samples")  # folders
# embedding-atlas draws a chart of each in this order: what is worth filtering by comes first.
FIRST = pa.schema(
    [
        pa.field("text", pa.string()),  # null: the corpus stores no text of it
        pa.field("reason", pa.string()),
        pa.field("verdict", pa.string()),  # kept or dropped
        pa.field("step", pa.string()),  # which dropped it
        pa.field("source", pa.string()),
        pa.field("language", pa.string()),  # of the step language
        pa.field("characters", pa.int64()),  # of the whole text, where it is stored whole
        pa.field("host", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("threshold", pa.float64()),
        pa.field("similarity", pa.float64()),
    ]
)
LAST = pa.schema(
    [
        pa.field("document", pa.string(), nullable=False),  # shard:row, as `gristmill why` takes it
        pa.field("url", pa.string()),
        pa.field("keeper", pa.string()),
        pa.field("raw_shard", pa.string()),
    ]
)
PLACE = [pa.field("x", pa.float32()), pa.field("y", pa.float32())]
NAME = f"({{0}} >> {schema.ROW_BITS}) || ':' || ({{0}} & {schema.MOST_ROWS - 1})"  # shard:row
HOST = (
    f"regexp_replace(regexp_extract(coalesce(v.url, ''), {quoted(AUTHORITY)}, 1), "
    "'^[^/]*//(?:[^@]*@)?', '')"
)
# of the verdicts v; the text, the source and the raw shard are found for each raw shard
COLUMNS = {
    "reason": "coalesce(v.reason, 'kept')",
    "verdict": "if(v.reason IS NULL, 'kept', 'dropped')",
    "step": "split_part(v.reason, '.', 1)",
    "host": HOST,
    "value": "v.value",
    "threshold": "v.threshold",
    "similarity": "v.similarity",
    "document": NAME.format("v.document"),
    "url": "v.url",
    "keeper": NAME.format("v.keeper"),
}

Verdict = Literal["kept", "dropped"]


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
    import duckdb

    try:
        with _ExploredDocuments(root, manifest, verdict, seed, sample, characters) as documents:
            shown = _ShownTexts(characters, redact)
            names, with_text = _write(target, documents, shown, projection=projection)
    except (pa.ArrowException, duckdb.Error) as error:
        raise VerificationError(
            f"{root}: a table cannot be read: {error}. `gristmill verify {root}` shows all damage"
        ) from error
    return {
        "file": str(target),
        "documents": documents.count,
        "with_text": with_text,
        "of": documents.of,
        "bytes": target.stat().st_size,
        "columns": names,
    }


def _write(
    target: Path, documents: "_ExploredDocuments", shown: "_ShownTexts", *, projection: bool
) -> tuple[list[str], int]:
    """Write the file: its columns, and the number of documents with a text."""
    placed = None
    if projection:
        some = documents.in_order_of_hashes()
        placed = DocumentMap.fitted(shown.texts(rows) for rows in some)
    wanted = pa.schema([*FIRST, *documents.measures, *(PLACE if placed else []), *LAST])
    with_text = 0
    with (
        counted("explore", documents.count, "documents") as counting,
        writing(target.parent, target.name) as file,
        pq.ParquetWriter(file, wanted.with_metadata({MADE_BY: b"1"}), compression="zstd") as writer,
    ):
        for shard in documents.shards:
            for rows in documents.rows(shard):
                text = shown.texts(rows)
                columns = {**dict(zip(rows.schema.names, rows.columns, strict=True)), "text": text}
                if placed is not None:
                    columns |= {
                        x: pa.array(p) for x, p in zip("xy", placed.of(text).T, strict=True)
                    }
                arrays = [columns[field.name].cast(field.type) for field in wanted]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=writer.schema))
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

    def texts(self, rows: pa.RecordBatch) -> pa.Array:
        """Return (n,) strings, null where the corpus has no text of a document."""
        texts = rows["text"]
        if self._redact is None:
            return pc.utf8_slice_codeunits(texts, 0, self._characters)
        begun = pc.utf8_slice_codeunits(texts, 0, self._characters + BEYOND)
        batch = pa.RecordBatch.from_arrays([begun.fill_null("")], ["text"])
        redacted = self._redact(batch).text
        begun = batch["text"] if redacted is None else redacted
        cut = pc.utf8_slice_codeunits(begun, 0, self._characters)
        return pc.if_else(texts.is_valid(), cut, pa.scalar(None, pa.string()))


class _ExploredDocuments:
    """The documents that are wanted, and their rows: a context manager."""

    def __init__(
        self,
        root: Path,
        manifest: Manifest,
        verdict: Verdict | None,
        seed: int,
        sample: int | None,
        characters: int,
    ) -> None:
        self._root, self._verdict, self._seed = root, verdict, seed
        self._characters = characters
        self._parts = {part.path for part in manifest.parts}
        for part in manifest.parts:
            if part.path.startswith(tuple(f"{name}/" for name in ("verdicts", "measures", *TEXTS))):
                check_size(root, part)
        self.shards = [
            shard for shard in manifest.raw_shards if self._path("verdicts", shard) is not None
        ]
        self.of, self._last = self._choose(sample)
        self.count = self.of if sample is None else min(sample, self.of)
        self._columns: dict[str, pa.Field] = {}  # by measure
        for shard in self.shards:
            if (path := self._path("measures", shard)) is not None:
                for field in pq.read_schema(path):
                    kind = _plain(field.type)
                    if field.name not in ("document", LANGUAGE) and kind is not None:
                        self._columns.setdefault(field.name, pa.field(_column(field.name), kind))

    def __enter__(self) -> "_ExploredDocuments":
        import duckdb

        self._folder = tempfile.TemporaryDirectory(prefix="gristmill-explore-")
        self._database = duckdb.connect(
            config={"memory_limit": f"{RELATIONS_MEMORY_MB}MB", "temp_directory": self._folder.name}
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()
        self._folder.cleanup()

    @property
    def measures(self) -> list[pa.Field]:
        """Return a column for each measure of any shard; a dot in its name becomes `_`."""
        return list(self._columns.values())

    def in_order_of_hashes(self) -> Iterator[pa.RecordBatch]:
        """Yield rows of documents, from raw shards in an order by their hash: of any shard."""
        order = np.argsort(_mixed(np.arange(len(self.shards), dtype=np.uint64), self._seed))
        for place in order.tolist():
            yield from self.rows(self.shards[place])

    def rows(self, shard: RawShard) -> Iterator[pa.RecordBatch]:
        """Yield rows of a raw shard, in the order of documents: FIRST, measures and LAST."""
        tables = {folder: self._path(folder, shard) for folder in ("verdicts", "measures", *TEXTS)}
        joins = [
            f"LEFT JOIN read_parquet({quoted(pattern(path))}) {folder} ON "
            f"{folder}.document = v.document"
            for folder, path in tables.items()
            if path is not None and folder != "verdicts"
        ]
        text = ", ".join(f"{name}.text" for name in TEXTS if tables[name] is not None)
        text = f"coalesce({text})" if text else "NULL::VARCHAR"
        begun = f"left({text}, {self._characters + BEYOND})"
        columns = {"text": begun, "characters": f"length({text})", **COLUMNS}
        path = tables["measures"]
        has = () if path is None else pq.read_schema(path).names
        columns["language"] = f'measures."{LANGUAGE}"' if LANGUAGE in has else "NULL::VARCHAR"
        for name, field in self._columns.items():
            columns[field.name] = f'measures."{name}"' if name in has else "NULL"
        columns["number"] = "v.document"
        selected = ", ".join(f'{value} AS "{name}"' for name, value in columns.items())
        verdicts = tables["verdicts"]
        assert verdicts is not None
        wanted = pa.concat_arrays(
            [pa.array([], pa.int64()), *(batch["document"] for batch in self._wanted(shard))]
        )
        self._database.register("wanted", pa.table({"document": wanted}))
        file = Path(self._folder.name) / "rows.parquet"
        self._database.execute(
            f"COPY (SELECT {selected} FROM read_parquet({quoted(pattern(verdicts))}) v "
            f"SEMI JOIN wanted w ON v.document = w.document {' '.join(joins)} ORDER BY v.document) "
            f"TO {quoted(str(file))} (FORMAT parquet, ROW_GROUP_SIZE {ROWS})"
        )
        for batch in read_batches(file):
            numbers = batch["number"].to_pylist()
            files = pa.array([shard.file_at(row_number(number)) for number in numbers], pa.string())
            sources = pa.array([shard.source] * len(numbers), pa.string())
            yield batch.append_column("source", sources).append_column("raw_shard", files)

    def _choose(self, sample: int | None) -> tuple[int, np.uint64]:
        """Return how many documents there are to choose from, and the largest hash of a sample."""
        least, count = np.empty(0, np.uint64), 0
        self._last = np.uint64(2**64 - 1)
        for shard in self.shards:
            for batch in self._wanted(shard):
                count += len(batch)
                if sample is not None:
                    least = np.concatenate([least, self._hashes(batch)])
                    if len(least) > 4 * sample:
                        least = np.partition(least, sample - 1)[:sample]
        if sample is None or count <= sample:
            return count, self._last
        return count, np.partition(least, sample - 1)[sample - 1]

    def _wanted(self, shard: RawShard) -> Iterator[pa.RecordBatch]:
        """Yield `document` and `reason` of the documents of a raw shard that are wanted."""
        path = self._path("verdicts", shard)
        assert path is not None
        for batch in read_batches(path, ["document", "reason"]):
            if self._verdict is not None:
                kept = batch["reason"].is_null()
                batch = batch.filter(kept if self._verdict == "kept" else pc.invert(kept))
            yield batch.filter(pa.array(self._hashes(batch) <= self._last))

    def _hashes(self, batch: pa.RecordBatch) -> np.ndarray:
        return _mixed(batch["document"].to_numpy().view(np.uint64), self._seed)

    def _path(self, folder: str, shard: RawShard) -> Path | None:
        """Return a shard's table in a folder."""
        place = f"text/{shard.source}" if folder == "text" else folder
        name = f"{place}/{shard_name(shard.number)}.parquet"
        return self._root / name if name in self._parts else None


def _mixed(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return a keyed hash of numbers (n,) uint64: (n,) uint64 (SplitMix64; Steele, Lea, Flood
    2014).
    """
    state = numbers + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


def _column(measure: str) -> str:
    """Return the column of a measure: letters, digits and `_`, and none of the other columns."""
    name = re.sub(r"\W", "_", measure)
    known = {*FIRST.names, *LAST.names, *(field.name for field in PLACE)}
    return f"{name}_" if name.lower() in known else name


def _plain(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of a measure's column; None: it is no number, word or truth value."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.string()
    simple = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return kind if simple else None
