"""Files as arrays, mapped into memory without an open file.

Python's `mmap` and `np.memmap` keep a descriptor for as long as the mapping lives, and a process
may have 1,024 of them: a corpus has more shards. A mapping needs no descriptor once it is made
(mmap(2)). It ends with the last array that views it.
"""

import ctypes
import errno
import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from gristmill.errors import MachineError

_FAILED = ctypes.c_void_p(-1).value
_LIBRARY = ctypes.CDLL(None, use_errno=True)
_LIBRARY.mmap.restype = ctypes.c_void_p
_LIBRARY.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong,
]  # fmt: skip
_LIBRARY.munmap.restype = ctypes.c_int
_LIBRARY.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def map_file(path: Path, dtype: np.dtype | str, start: int = 0) -> np.ndarray:
    """Return the whole numbers of a file from byte `start` on, (n,) of `dtype`, read-only.

    Raises OSError if it cannot be opened, MachineError if the process may not have more files or
    mappings.
    """
    kind = np.dtype(dtype)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise MachineError(
            f"{path}: not opened, as this process, or the machine, has as many open files as it "
            "may have. Raise the limit (ulimit -n)"
        ) from error
    try:
        count = max(os.fstat(handle).st_size - start, 0) // kind.itemsize
        if not count:
            return np.empty(0, kind)
        size = start + count * kind.itemsize
        address = _LIBRARY.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
    finally:
        os.close(handle)
    if address == _FAILED:
        code = ctypes.get_errno()
        raise MachineError(
            f"{path}: {size:,} bytes were not mapped into memory: {os.strerror(code)}. The process "
            "may have too many mappings (sysctl vm.max_map_count), or too little address space "
            "(ulimit -v)"
        )
    return np.asarray(_Mapping(address, size, start, count, kind))


class _Mapping:
    """Owns a mapping: arrays of it have this object as their base."""

    def __init__(self, address: int, size: int, start: int, count: int, kind: np.dtype) -> None:
        self._place = (address, size)
        self.__array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": kind.str,
            "data": (address + start, True),
        }

    def __del__(self, unmap: Callable[..., Any] = _LIBRARY.munmap) -> None:
        unmap(*self._place)


class Recent(Generic[Key, Value]):
    """At most `most` values by key, of which the least recently used ones go first."""

    def __init__(self, make: Callable[[Key], Value], most: int) -> None:
        """`make` makes a value that is not there."""
        self._make, self.most = make, most
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def __getitem__(self, key: Key) -> Value:
        if key in self._values:
            self._values.move_to_end(key)
        else:
            value = self._make(key)
            while len(self._values) >= self.most:
                self._values.popitem(last=False)
            self._values[key] = value
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values
