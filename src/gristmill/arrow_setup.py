"""pyarrow in processes that are gristmill's own: without pandas.

Where pandas is installed, pyarrow imports it for the first `pa.array`, to know a Series from a
list: half a second of processor time in every process. gristmill gives pyarrow no object of pandas.
Custom filters may, so nothing of this is done where a run has any; nor in the process of a program
that calls gristmill.
"""

import sys
from typing import Any


class _NoPandas:
    """Finds no pandas, installed or not."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas", name="pandas")


def without_pandas() -> None:
    """Have pyarrow go on without pandas, unless this process has loaded it."""
    if "pandas" in sys.modules:
        return
    import pyarrow

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.array([1, None])  # it asks twice, and remembers the answers
    finally:
        sys.meta_path.remove(finder)
