"""numpy and pyarrow in processes that are gristmill's own: the settings of their libraries, and
pyarrow without pandas.

Where pandas is installed, pyarrow imports it for the first `pa.array`, to know a Series from a
list: half a second of processor time in every process. gristmill gives pyarrow no object of pandas.
Custom filters may, so nothing of this is done where a run has any; nor in the process of a program
that calls gristmill.
"""

import os
import sys
from typing import Any

# What libraries read when they are loaded. OpenBLAS starts no threads: a run gives them no work,
# and a process without threads can be forked. Arrow's mimalloc gives freed memory back to the
# system after 50 ms, in place of 1 s: 15 to 30 MB less of a worker, in the same time.
LIBRARIES = {"OPENBLAS_NUM_THREADS": "1", "MIMALLOC_PURGE_DELAY": "50"}


def set_up_libraries() -> None:
    """Set those environment variables of LIBRARIES that the user has not set. They hold for
    libraries that are loaded afterwards.
    """
    for name, value in LIBRARIES.items():
        os.environ.setdefault(name, value)


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
