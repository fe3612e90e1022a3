"""The Parquet parts of a finished corpus as tables of DuckDB, for a page of figures.

Queries stream over the parts on all processors under a limit on memory; no part is loaded whole.
Results do not depend on threads: nothing is summed as a float, and every order is total.
"""

import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from gristmill.engine.relations import parquet_rows
from gristmill.errors import MachineError, VerificationError
from gristmill.reports.integrity.verify import check_parts, finished
from gristmill.store.manifest import Manifest, make_lock
from gristmill.tables import schema

MEMORY_MB = 1024
SEED = 0x5EED
# A total order of documents that looks random: two steps of a quadratic map modulo a prime, on
# shard and row. Plain arithmetic, so that no version of an engine changes which samples are shown.
PRIME = 2_147_483_647
MACROS = f"""
create macro mixed(x) as ((x * x) % {PRIME} * 3 + x * 48271 + 12345) % {PRIME};
create macro sample_key(document) as mixed((mixed(((document & 4294967295) * 7919
    + (document >> 32) * 104729 + {SEED}) % {PRIME}) + document) % {PRIME});
"""
# Checked byte for byte before they are read; texts are too many for it.
CHECKED = ("verdicts/", "measures/", "duplicates/", "judgement/", "contamination/", "finished/")


class CorpusTables:
    """A corpus' tables, by the names of their folders. Close it."""

    def __init__(self, corpus: Path | str) -> None:
        """Raise VerificationError where the corpus is not finished, or a part is not what the
        manifest says.
        """
        self.root = Path(corpus)
        self.manifest, data = finished(self.root)
        self.digest = make_lock(data).decode().split()[0]
        self.sources = {
            shard.number: shard.source
            for shard in self.manifest.raw_shards
            if shard.missing is None
        }
        _check(self.root, self.manifest)
        self._stack = ExitStack()
        spill = self._stack.enter_context(tempfile.TemporaryDirectory())
        self._connection = duckdb.connect(
            config={
                "threads": os.cpu_count() or 1,
                "memory_limit": f"{MEMORY_MB}MB",
                "temp_directory": spill,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "preserve_insertion_order": False,
            }
        )
        self._stack.callback(self._connection.close)
        self._connection.execute(MACROS)
        self._name_sources()
        for folder in ("verdicts", "measures", "samples", "documents", "text", "contamination"):
            self._view(folder, self.paths(f"{folder}/"))
        for name in ("copies", "pairs", "lines", "substrings"):
            self._view(name, self.paths(f"duplicates/{name}.parquet"))

    def __enter__(self) -> "CorpusTables":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def paths(self, start: str) -> list[Path]:
        """Return the Parquet parts whose paths begin so, in order."""
        return [
            self.root / part.path
            for part in self.manifest.parts
            if part.path.startswith(start) and part.path.endswith(".parquet")
        ]

    def has(self, table: str) -> bool:
        """Return whether the corpus has such parts."""
        folder = "duplicates/" if table in ("copies", "pairs", "lines", "substrings") else ""
        return bool(self.paths(f"{folder}{table}"))

    def of_shards(self, folder: str, documents: Iterable[int]) -> list[Path]:
        """Return the parts of a folder that have some documents."""
        shards = sorted({schema.shard_number(document) for document in documents})
        paths = [self.root / f"{folder}/{schema.shard_name(shard)}.parquet" for shard in shards]
        known = {part.path for part in self.manifest.parts}
        return [path for path in paths if path.relative_to(self.root).as_posix() in known]

    def columns(self, folder: str) -> dict[str, Any]:
        """Return the columns of a folder's parts with their Arrow types; of the first that has
        each.
        """
        columns: dict[str, Any] = {}
        for path in self.paths(f"{folder}/"):
            try:
                read = pq.read_schema(path)
            except (OSError, ValueError) as error:
                raise _damage_error(self.root, path, error) from error
            for field in read:
                columns.setdefault(field.name, field.type)
        return columns

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises VerificationError for a part that cannot be read,
        MachineError where memory or disk do not suffice.
        """
        try:
            rows: list[tuple[Any, ...]] = self._connection.execute(query, list(values)).fetchall()
            return rows
        except duckdb.OutOfMemoryException as error:
            raise MachineError(f"a query over {self.root} needs more memory: {error}") from error
        except duckdb.Error as error:
            raise VerificationError(
                f"{self.root}: its tables cannot be read: {error}. Run `gristmill verify "
                f"{self.root}`"
            ) from error

    def files(self, paths: list[Path]) -> str:
        """Return what a query reads of some files."""
        return parquet_rows(paths, ", union_by_name = true")

    def _view(self, name: str, paths: list[Path]) -> None:
        if paths:
            self._connection.execute(f"create view {name} as select * from {self.files(paths)}")

    def _name_sources(self) -> None:
        """A table of raw shards and their sources."""
        self._connection.execute("create table shards (shard bigint, source varchar)")
        if self.sources:
            self._connection.executemany(
                "insert into shards values (?, ?)", [list(pair) for pair in self.sources.items()]
            )


def _check(root: Path, manifest: Manifest) -> None:
    """Refuse parts that are not what the manifest says: sizes of all, bytes of small tables."""
    wrong: list[str] = []
    check_parts(root, manifest.parts, wrong, True, lambda _: None)
    small = [
        part
        for part in manifest.parts
        if part.path.startswith(CHECKED) and part.path.endswith(".parquet")
    ]
    if not wrong:
        check_parts(root, small, wrong, False, lambda _: None)
    if wrong:
        shown = "\n  ".join(wrong[:20])
        raise VerificationError(
            f"{root} is not what its manifest says, so a page about it would not be true:\n"
            f"  {shown}\nRun the recipe again, or fetch these files again; `gristmill verify "
            f"{root}` checks all of it"
        )


def _damage_error(root: Path, path: Path, error: Exception) -> VerificationError:
    return VerificationError(
        f"{path}: cannot be read: {error}. Run the recipe again, or `gristmill verify {root}`"
    )
