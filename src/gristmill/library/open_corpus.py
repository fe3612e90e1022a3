"""A finished corpus in Python: its tables, its kept documents, its funnel."""

import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus.funnel import Funnel
from gristmill.corpus.parents import DEFAULT, parent_id
from gristmill.engine.relations import pattern
from gristmill.errors import ArgumentError, MachineError, RecipeError, VerificationError
from gristmill.reports.integrity.verify import check_size, finished
from gristmill.store.parts import Part, read_batches, read_rows
from gristmill.tables.schema import shard_number
from gristmill.trainer_formats.kept_texts import KeptTexts
from gristmill.user_input import one_or_more


class OpenCorpus:
    """A finished corpus: `gristmill.Corpus("corpus")`.

    `tables` are the names of its tables: `verdicts`, `measures`, `documents` and others. `arrow`,
    `pandas`, `polars` and `duckdb` read one; `documents` streams the texts. Sizes of files are
    checked when they are read; `gristmill.verify` checks every byte.
    """

    def __init__(self, path: Path | str) -> None:
        """Open the corpus at `path`. Raises VerificationError where it is not finished, or manifest
        and lock do not agree.
        """
        self.path = Path(path)
        self.manifest, self._data = finished(self.path)

    @property
    def recipe(self) -> dict[str, Any]:
        """Return the recipe that made it, as it is stored."""
        return self.manifest.recipe

    @property
    def funnel(self) -> Funnel:
        """Return documents in, what each step dropped and why, what is left."""
        return Funnel.stored(self.manifest.funnel, fresh=False)

    @property
    def tables(self) -> list[str]:
        """Return the names of its tables."""
        return sorted(self._parts())

    def _parts(self) -> dict[str, list[Part]]:
        """Return the files of each table: those of a folder, or one that has a name of its own."""
        tables: dict[str, list[Part]] = {}
        for part in self.manifest.parts:
            if part.path.endswith(".parquet"):
                folder, _, name = part.path.rpartition("/")
                by_shard = name.removesuffix(".parquet").isdecimal()
                name = folder if by_shard else part.path.removesuffix(".parquet")
                name = "text" if name.startswith("text/") else name
                tables.setdefault(name, []).append(part)
        return tables

    def _files(self, table: str) -> list[Path]:
        """Return the files of a table, in the order of raw shards. Raises ArgumentError,
        VerificationError.
        """
        known = self._parts()
        if table not in known:
            raise ArgumentError(
                f"{self.path}: there is no table {table!r}; there are {', '.join(sorted(known))}"
            )
        parts = sorted(known[table], key=lambda part: (len(part.path), part.path))
        for part in parts:
            check_size(self.path, part)
        return [self.path / part.path for part in parts]

    @one_or_more("columns")
    def batches(
        self, table: str = "verdicts", columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield a table, some rows at a time. Raises ArgumentError, VerificationError."""
        for path in self._files(table):
            try:
                with pq.ParquetFile(path) as file:
                    _check_columns(path, file.schema_arrow.names, columns or ())
                    yield from file.iter_batches(columns=columns)
            except (pa.ArrowInvalid, OSError) as error:
                raise VerificationError(
                    f"{path}: cannot be read: {error}: `gristmill verify` shows all damage"
                ) from error

    @one_or_more("columns")
    def arrow(self, table: str = "verdicts", columns: list[str] | None = None) -> pa.Table:
        """Return a table in memory. Raises ArgumentError, VerificationError."""
        batches = list(self.batches(table, columns))
        if batches:
            tables = [pa.Table.from_batches([batch]) for batch in batches]
            return pa.concat_tables(tables, promote_options="default")
        empty = pq.read_schema(self._files(table)[0]).empty_table()
        return empty if columns is None else empty.select(columns)

    @one_or_more("columns")
    def pandas(self, table: str = "verdicts", columns: list[str] | None = None) -> Any:
        """Return a table as a pandas DataFrame. Raises MachineError without pandas."""
        _package("pandas")
        return self.arrow(table, columns).to_pandas()

    @one_or_more("columns")
    def polars(self, table: str = "verdicts", columns: list[str] | None = None) -> Any:
        """Return a table as a Polars DataFrame. Raises MachineError without polars."""
        return _package("polars").from_arrow(self.arrow(table, columns))

    def duckdb(self, table: str = "verdicts", connection: Any = None) -> Any:
        """Return a table as a DuckDB relation that reads the files when it is asked; of a
        `connection`, or of DuckDB's own.
        """
        import duckdb

        files = [pattern(path) for path in self._files(table)]
        return (connection or duckdb).read_parquet(
            files, union_by_name=True, hive_partitioning=False
        )

    def documents(self, *, kept: bool = True) -> Iterator[dict[str, Any]]:
        """Yield the documents, one after another: `document`, `text`, `url` and what else is known
        of each; `parent`, the id in the field that its source names so; of kept ones also `copies`,
        the number of documents that were dropped as copies.

        `kept = False`: all documents whose text is stored, later duplicates included, with the
        verdict's `reason`. Raises RecipeError where the corpus stores no texts.
        """
        names = self._parent_fields()
        for batch in self._kept() if kept else self._stored():
            for row in batch.to_pylist():
                field = names[shard_number(row["document"])]
                yield {**row, "parent": parent_id(row["extra"], field)}

    def _parent_fields(self) -> list[str]:
        """By raw shard, the name of the field with a document's parent."""
        tables = self.recipe.get("source", [])
        names = {table["name"]: table.get("parent", DEFAULT) for table in tables}
        return [names.get(shard.source, DEFAULT) for shard in self.manifest.raw_shards]

    def _kept(self) -> Iterator[pa.RecordBatch]:
        texts = KeptTexts(self.path, self.manifest, [])
        for name in ("verdicts", "text" if "text" in self._parts() else "documents"):
            if name in self._parts():
                self._files(name)  # checks sizes
        for number, source in texts.shards():
            yield from texts.batches(source, number)

    def _stored(self) -> Iterator[pa.RecordBatch]:
        if "documents" not in self._parts():
            raise RecipeError(f"{self.path}: it has no documents/ (keep_documents = false)")
        reasons = dict(zip(self._files("documents"), self._files("verdicts"), strict=True))
        for path, verdicts in reasons.items():
            said = read_rows(verdicts, columns=["document", "reason"])
            for batch in read_batches(path):
                at = pc.index_in(batch["document"], value_set=said["document"])
                reason = said["reason"].combine_chunks().take(at)
                yield batch.append_column("reason", reason)

    def to_dataset(self) -> Any:
        """Return the kept documents as a Hugging Face IterableDataset, read when they are asked
        for. Raises MachineError without datasets.
        """
        return _package("datasets").IterableDataset.from_generator(
            _open_documents, gen_kwargs={"path": str(self.path)}
        )

    def __repr__(self) -> str:
        table = self.manifest.funnel
        return (
            f"Corpus({str(self.path)!r}): {table.get('kept', 0):,} of "
            f"{table.get('documents', 0):,} documents kept; tables {', '.join(self.tables)}"
        )

    def _repr_html_(self) -> str:
        """In a notebook."""
        return f"<p>{html.escape(repr(self))}</p>{self.funnel._repr_html_()}"


def _check_columns(path: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    """Raise ArgumentError for a column that a table does not have; pyarrow would leave it out."""
    for column in columns:
        if column not in names and column.partition(".")[0] not in names:
            raise ArgumentError(
                f"{path}: there is no column {column!r}; there are {', '.join(names)}"
            )


def _open_documents(path: str) -> Iterator[dict[str, Any]]:
    yield from OpenCorpus(path).documents()


def _package(name: str) -> Any:
    """Return an optional package. Raises MachineError where it is not installed."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MachineError(f"this needs the package {name}: pip install {name}") from error
