"""What the fork server loads before it forks: the heavy modules, and what loading kernels takes.

The kernels are compiled here where they are not yet; a worker loads those that its tasks call. A
preload that fails is silent; the worker then imports what it needs, only slower, and says what is
wrong.
"""

import os

from gristmill.system.arrow_setup import LIBRARIES

# Before the libraries are loaded, and so before the imports.
os.environ.update({**LIBRARIES, **os.environ})

import numpy.ma  # noqa: F401 (numba asks for it at the first call of a kernel, in every worker)
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from gristmill.kernels.jit import compile as kernels

kernels.prepare()
# Arrow's own threads do not survive a fork, and workers are the parallelism.
pyarrow.set_cpu_count(1)
pyarrow.set_io_thread_count(1)
