"""What processes do with memory that they no longer need.

A worker takes and frees the same few tens of MB for every batch. By default the allocators give
freed memory back to the system, which then clears every page anew: a tenth of a worker's processor
time. So a worker keeps what it frees until its task has ended, or a stage of a task about the whole
corpus (executor.py). Nothing of this changes a result; with a C library other than glibc nothing
happens. Arrow keeps its own allocator, mimalloc where it has it (arrow_setup.py): with glibc's each
growth and each end of a buffer is a copy into memory that is cleared before (7 % of the processor
time and 90 MB of a run that reads Parquet).
"""

import ctypes
import gc
import mmap
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt (malloc.h)
KEPT = 1 << 30  # bytes of free memory that a task may hold
FROM_HEAP = 1 << 28  # bytes of an allocation that comes from the heap
# A mapping of a file that can be read, not written, and is private: its start, its end, and the kB
# of it that are no longer the file's.
MAPPING = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-[x-]p [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ [1-9]\d* .*\n"
    r"(?:(?!Anonymous:)\w+: .*\n)+Anonymous: +(\d+) kB$",
    re.MULTILINE,
)


def keep_freed() -> None:
    """Keep freed memory for the next batch, Arrow's as well where that is the C library's."""
    library = _glibc()
    if library is not None:
        import pyarrow

        library.mallopt(M_TRIM_THRESHOLD, KEPT)
        library.mallopt(M_MMAP_THRESHOLD, FROM_HEAP)
        if "mimalloc" in pyarrow.supported_memory_backends():
            pyarrow.set_memory_pool(pyarrow.mimalloc_memory_pool())
        else:
            pyarrow.set_memory_pool(pyarrow.system_memory_pool())


def give_back() -> None:
    """Give freed memory back to the system."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)
        import pyarrow

        pyarrow.default_memory_pool().release_unused()


@contextmanager
def without_collections() -> Iterator[None]:
    """Load modules without garbage collections: loading makes many objects and next to no garbage,
    and each collection looks at all of them (a tenth of the time that loading takes).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def let_go_of_code() -> None:
    """Unmap the pages of libraries' code and constants that this process has read.

    What loading a library reads, and what LLVM reads to load a kernel, an idle process never reads
    again. The pages stay in the system's file cache; one that is needed again is mapped again, in
    less than a microsecond. Linux only.
    """
    library = _glibc()
    if library is None:
        return
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with suppress(OSError):
        for start, size in _of_files():
            library.madvise(start, size, mmap.MADV_DONTNEED)


def _of_files() -> Iterator[tuple[int, int]]:
    """Yield (start, bytes) of the mappings that hold nothing but what their file holds: read-only,
    and without a page of their own, as the loader's corrections of addresses would be
    (proc_pid_smaps of Linux' manual).
    """
    for mapping in MAPPING.finditer(Path("/proc/self/smaps").read_text("utf-8", "replace")):
        start, stop, own = mapping.groups()
        if own == "0":
            yield int(start, 16), int(stop, 16) - int(start, 16)


def _glibc() -> Any:
    """Return the C library, if it is glibc."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            if library.gnu_get_libc_version:
                return library
    return None
