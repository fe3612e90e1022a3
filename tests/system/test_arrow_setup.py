"""pyarrow without pandas in processes of our own."""

import subprocess
import sys
from importlib.util import find_spec

from tests.support.skips import missing

PROGRAM = """
import sys
import pyarrow as pa
from gristmill.system.arrow_setup import without_pandas

without_pandas()
pa.array([1, None])
pa.RecordBatch.from_pylist([{"text": None}])
print("pandas" in sys.modules)
import pandas
print(pa.array(pandas.Series([1, 2])).to_pylist() == [1, 2], pa.table({"a": [1]}).to_pandas().size)
"""


def test_pandas_is_not_imported_and_can_be() -> None:
    """By nothing of pyarrow's but what gives objects of pandas."""
    if find_spec("pandas") is None:
        missing("pandas", "pandas is not installed")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "1"]
