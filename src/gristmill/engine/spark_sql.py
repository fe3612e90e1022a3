"""Relations on Spark: the `.sql` files of the embedded engine, on a cluster whose nodes share the
corpus' folder.
"""

import re
import shutil
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from gristmill.engine.relations import by_scope, one_row, sql
from gristmill.errors import MachineError


class SparkRelations:
    """Views of one Spark session. They are replaced by the next relation's."""

    def __init__(self, session: Any, spill: Path, folders: list[Path]) -> None:
        """`session` is a SparkSession.

        Spark spills where it was set to, and reaches what its nodes reach.
        """
        self._session = session

    def __enter__(self) -> "SparkRelations":
        return self

    def __exit__(self, *error: object) -> None:
        self._session.catalog.clearCache()

    def table(self, name: str, paths: Mapping[Path, int] | list[Path], columns: str) -> None:
        wanted = [column.strip() for column in columns.split(",")]
        if isinstance(paths, list):
            frame = self._read(paths).selectExpr(*wanted)
        else:
            frame = reduce(
                lambda one, other: one.unionByName(other),
                (
                    self._read(members).selectExpr(*wanted, f"cast({scope} as bigint) as scope")
                    for scope, members in by_scope(paths).items()
                ),
            )
        frame.createOrReplaceTempView(name)

    def row(self, name: str, **values: int) -> None:
        self._session.sql(one_row(values)).createOrReplaceTempView(name)

    def view(self, name: str, relation: str) -> None:
        self._session.sql(sql(relation)).createOrReplaceTempView(name)

    def write(self, relation: str, target: Path) -> list[Path]:
        from pyspark.errors import PySparkException

        shutil.rmtree(target, ignore_errors=True)
        try:
            self._session.sql(sql(relation)).write.parquet(f"file://{target}")
        except PySparkException as error:
            raise MachineError(f"a relation failed on Spark: {relation}.sql: {error}") from error
        # A sort in the relation cuts the rows by range: the files' names are in its order.
        return sorted(target.glob("part-*.parquet"))

    def _read(self, paths: list[Path]) -> Any:
        # Hadoop takes a path as it is, but for the signs of its patterns.
        return self._session.read.parquet(
            *(re.sub(r"([\[\]{}*?\\\\])", r"\\\1", f"file://{path}") for path in paths)
        )
