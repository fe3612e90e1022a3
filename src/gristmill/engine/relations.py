"""Relations: questions about the whole corpus, `.sql` files that DuckDB and Spark both run.

DuckDB is here, spark.py is the other.

DuckDB is the embedded engine: out of core, shut off from the network and from other folders.
"""

import glob
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from gristmill.errors import GristmillError, MachineError


class Relations(Protocol):
    """What runs relations: tables in, Parquet files out."""

    def __enter__(self) -> "Relations": ...

    def __exit__(self, *error: object) -> None: ...

    def table(self, name: str, paths: Mapping[Path, int] | list[Path], columns: str) -> None:
        """Name the columns of Parquet files; a mapping gives each file's `scope`, one column
        more.
        """

    def row(self, name: str, **values: int) -> None:
        """Name a table of one row: a relation's parameters."""

    def view(self, name: str, relation: str) -> None:
        """Name what `<relation>.sql` gives."""

    def write(self, relation: str, target: Path) -> list[Path]:
        """Run `<relation>.sql` into Parquet files, in the order that it states; which files, at
        least one.
        """
        ...


# MB of memory for one relation in DuckDB, in a worker that stays under 1 GB; more is spilled
RELATIONS_MEMORY_MB = 400

Opener = Callable[[Path, list[Path]], Relations]  # where to spill, which folders to reach


def duckdb_with(threads: int, memory_mb: int) -> Opener:
    """Return the embedded engine, and what it may take."""
    return partial(Database, threads=threads, memory_mb=memory_mb)


class Database:
    """DuckDB, for one relation. Only in a process that forks no more: connecting starts threads."""

    def __init__(
        self, temporary: Path, folders: list[Path], *, threads: int, memory_mb: int
    ) -> None:
        """Allow reading and writing in `folders` only; spill to `temporary`."""
        import duckdb

        temporary.mkdir(parents=True, exist_ok=True)
        self._connection = duckdb.connect(
            config={
                "threads": threads,
                "memory_limit": f"{memory_mb}MB",
                "temp_directory": str(temporary),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "preserve_insertion_order": False,
            }
        )
        # In this order: shutting external access also forbids changing what is allowed.
        allowed = [name for folder in (*folders, temporary) for name in _spellings(folder)]
        self._connection.execute(f"set allowed_directories = [{', '.join(map(quoted, allowed))}]")
        self._connection.execute("set enable_external_access = false")

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def table(self, name: str, paths: Mapping[Path, int] | list[Path], columns: str) -> None:
        if isinstance(paths, list):
            query = _read(paths, columns)
        else:
            query = " union all ".join(
                (
                    f"select part.*, cast({scope} as bigint) as scope from "
                    f"({_read(members, columns)}) as part"
                )
                for scope, members in by_scope(paths).items()
            )
        self._run(f"create view {name} as {query}")

    def row(self, name: str, **values: int) -> None:
        self._run(f"create view {name} as {one_row(values)}")

    def view(self, name: str, relation: str) -> None:
        self._run(f"create view {name} as {sql(relation)}")

    def write(self, relation: str, target: Path) -> list[Path]:
        self._run(
            f"copy ({sql(relation)}) to {quoted(str(target))} (format parquet, "
            "compression zstd, row_group_size 100000)"
        )
        return [target]

    def _run(self, query: str) -> None:
        import duckdb

        try:
            self._connection.execute(query)
        except duckdb.OutOfMemoryException as error:
            raise MachineError(
                f"a relation needs more memory or disk than it was given: {error}\n{query}"
            ) from error
        except duckdb.IOException as error:
            raise MachineError(
                f"a relation could not write its temporary files: {error}\n{query}"
            ) from error
        except duckdb.Error as error:
            raise GristmillError(f"a relation failed: {error}\n{query}") from error


def _read(paths: list[Path], columns: str) -> str:
    return f"select {columns} from {parquet_rows(paths)}"


def pattern(path: Path) -> str:
    """Return a file as DuckDB reads it: its readers take every path as a glob, and `q[1]` would be
    `q1`. Paths that are written to are no globs.
    """
    return glob.escape(os.path.abspath(path))


def parquet_rows(paths: Iterable[Path], more: str = "") -> str:
    """Return what a query of DuckDB reads of some Parquet files: their own columns, whatever their
    folders are called.
    """
    names = ", ".join(quoted(pattern(path)) for path in paths)
    return f"read_parquet([{names}], hive_partitioning = false{more})"


def sql(relation: str) -> str:
    """Return the text of a relation: a file of dedup/sql/, or of the room that `relation` names, as
    in filters/decontaminate/common_ngrams.
    """
    path = relation if "/" in relation else f"dedup/sql/{relation}"
    return files("gristmill").joinpath(f"{path}.sql").read_text("utf-8")


def quoted(text: str) -> str:
    """Return a string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _spellings(folder: Path) -> list[str]:
    """Return a folder as it is written to, and as it is read: DuckDB compares patterns with what is
    allowed, and not the paths that they match.
    """
    place = os.path.abspath(folder)
    return list(dict.fromkeys((place, glob.escape(place))))


def one_row(values: Mapping[str, int]) -> str:
    """Return a query for a row of numbers."""
    return "select " + ", ".join(
        f"cast({value} as bigint) as {name}" for name, value in values.items()
    )


def by_scope(paths: Mapping[Path, int]) -> dict[int, list[Path]]:
    """Return files by their scope."""
    groups: dict[int, list[Path]] = {}
    for path, scope in paths.items():
        groups.setdefault(scope, []).append(path)
    return groups
