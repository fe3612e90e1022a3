"""What the fork server loads before it forks: kernels and the heavy modules. (DuckDB is imported,
never connected to.)

A preload that fails is silent there; the worker then imports what it needs, only slower, and says
what is wrong.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import duckdb  # noqa: F401
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from gristmill.kernels.jit import compile as kernels

kernels.import_all()
# Arrow's own threads do not survive a fork, and workers are the parallelism.
pyarrow.set_cpu_count(1)
pyarrow.set_io_thread_count(1)
