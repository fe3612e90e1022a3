"""DuckDB as the embedded engine of relations: out of core, shut off from the network and from other folders.

Relations are `.sql` files that other engines run as well; what differs from one engine to another is here.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import duckdb

from gristmill.errors import GristmillError, MachineError


class Database:
    """A connection for one relation. Only in a process that forks no more: connecting starts threads."""

    def __init__(self, temporary: Path, folders: list[Path], *, threads: int, memory_mb: int) -> None:
        """Allow reading and writing in `folders` only; spill to `temporary`."""
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
        self._connection.execute(
            f"set allowed_directories = [{', '.join(_quoted(folder) for folder in (*folders, temporary))}]"
        )
        self._connection.execute("set enable_external_access = false")

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def view(self, name: str, query: str) -> None:
        """Name a query."""
        self._run(f"create view {name} as {query}")

    def write(self, relation: str, target: Path, *, places: int = 0) -> list[Path]:
        """Run `<relation>.sql` into Parquet files, in the order that it states; which files."""
        self._run(
            f"copy ({sql(relation, places)}) to {_quoted(target)} (format parquet, compression zstd, row_group_size 100000)"
        )
        return [target]

    def _run(self, query: str) -> None:
        try:
            self._connection.execute(query)
        except duckdb.OutOfMemoryException as error:
            raise MachineError(f"a relation needs more memory or disk than it was given: {error}\n{query}") from error
        except duckdb.IOException as error:
            raise MachineError(f"a relation could not write its temporary files: {error}\n{query}") from error
        except duckdb.Error as error:
            raise GristmillError(f"a relation failed: {error}\n{query}") from error


EACH = " -- each place\n"


def sql(relation: str, places: int = 0) -> str:
    """The text of a relation; its lines that stand for each place are written out for places 1 to `places`."""
    text = files("gristmill.dedup").joinpath(f"{relation}.sql").read_text("utf-8")
    return "".join(
        "".join(line.replace("{place}", str(place)) for place in range(1, places + 1)) if line.endswith(EACH) else line
        for line in text.splitlines(keepends=True)
    )


def parquet(paths: Mapping[Path, int] | list[Path], columns: str) -> str:
    """A query over Parquet files; a mapping gives each file's `scope`."""
    if isinstance(paths, list):
        names = ", ".join(_quoted(path) for path in paths)
        return f"select {columns} from read_parquet([{names}])"
    groups: dict[int, list[Path]] = {}
    for path, scope in paths.items():
        groups.setdefault(scope, []).append(path)
    return " union all ".join(
        f"select {columns}, cast({scope} as bigint) as scope from ({parquet(members, columns)}) as part"
        for scope, members in groups.items()
    )


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
