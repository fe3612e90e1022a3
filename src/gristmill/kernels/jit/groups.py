"""Arguments of kernels in groups: NamedTuples whose fields say how numba types them.

    class Words(NamedTuple):          @kernel(BYTES, Words, returns=types.int64)
        offsets: Int64s        ->     def _count(data, words):
        starts: Int32s                    ... words.starts[j] ...

A kernel or helper takes at most ten arguments; what belongs together is one of them. numba takes a
NamedTuple by its class and by its fields' exact types, and converts no field: arrays are contiguous
and may be written. Fields of arrays that may be read-only (Arrow's buffers, memory-mapped files)
are of the types that begin with Read, and their group goes through `read_only` first.

A group costs a kernel nothing. A helper that is called in an inner loop, and is too long to be
inlined, gets the two or three arrays that it reads and not a group of ten.
"""

from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numba import types

Group = TypeVar("Group", bound=tuple[Any, ...])

Bools = Annotated[np.ndarray, types.boolean[::1]]
Bytes = Annotated[np.ndarray, types.uint8[::1]]
Int8s = Annotated[np.ndarray, types.int8[::1]]
Int32s = Annotated[np.ndarray, types.int32[::1]]
Int64s = Annotated[np.ndarray, types.int64[::1]]
Uint32s = Annotated[np.ndarray, types.uint32[::1]]
Uint64s = Annotated[np.ndarray, types.uint64[::1]]
Float32s = Annotated[np.ndarray, types.float32[::1]]
Float64s = Annotated[np.ndarray, types.float64[::1]]
Int32Rows = Annotated[np.ndarray, types.int32[:, ::1]]
Int64Rows = Annotated[np.ndarray, types.int64[:, ::1]]
Uint32Rows = Annotated[np.ndarray, types.uint32[:, ::1]]
Uint64Rows = Annotated[np.ndarray, types.uint64[:, ::1]]
Uint64 = Annotated[np.uint64, types.uint64]

ReadBytes = Annotated[np.ndarray, types.Array(types.uint8, 1, "C", readonly=True)]
ReadInt32s = Annotated[np.ndarray, types.Array(types.int32, 1, "C", readonly=True)]
ReadInt64s = Annotated[np.ndarray, types.Array(types.int64, 1, "C", readonly=True)]
ReadUint16s = Annotated[np.ndarray, types.Array(types.uint16, 1, "C", readonly=True)]
ReadUint32s = Annotated[np.ndarray, types.Array(types.uint32, 1, "C", readonly=True)]
ReadUint64s = Annotated[np.ndarray, types.Array(types.uint64, 1, "C", readonly=True)]
ReadUint64Rows = Annotated[np.ndarray, types.Array(types.uint64, 2, "C", readonly=True)]
ReadFloat64s = Annotated[np.ndarray, types.Array(types.float64, 1, "C", readonly=True)]
ReadFloat32Rows = Annotated[np.ndarray, types.Array(types.float32, 2, "C", readonly=True)]

_SCALARS = {bool: types.boolean, int: types.int64, float: types.float64}


def numba_type(given: Any) -> Any:
    """Return the numba type of a group's class, of one of the names above, or of int, bool or
    float.

    A numba type is returned as it is.
    """
    if get_origin(given) is Annotated:
        return get_args(given)[1]
    if isinstance(given, type) and issubclass(given, tuple):
        hints = get_type_hints(given, include_extras=True)
        fields = [numba_type(hints[name]) for name in given._fields]  # type: ignore[attr-defined]
        return types.BaseTuple.from_types(fields, given)
    return _SCALARS.get(given, given)


def read_only(group: Group) -> Group:
    """Return the group with its arrays as read-only views; nothing is copied."""
    views = [_read_only(field) if isinstance(field, np.ndarray) else field for field in group]
    return type(group)(*views)


def _read_only(array: np.ndarray) -> np.ndarray:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array
