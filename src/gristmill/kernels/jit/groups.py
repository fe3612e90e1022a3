"""Arguments of kernels in groups: NamedTuples whose fields say how numba types them.

    class Words(NamedTuple):          @kernel(BYTES, Words, returns=types.int64)
        offsets: Int64s        ->     def _count(data, words):
        starts: Int32s                    ... words.starts[j] ...

A kernel or helper takes at most ten arguments; what belongs together is one of them. numba takes a
NamedTuple by its class and by its fields' exact types, and converts no field: an array of a group
may be written, and is contiguous. What may be read-only (Arrow's buffers, memory-mapped files) is
an argument of its own, or `writable` copies it.
"""

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
from numba import types

Bools = Annotated[np.ndarray, types.boolean[::1]]
Bytes = Annotated[np.ndarray, types.uint8[::1]]
Int8s = Annotated[np.ndarray, types.int8[::1]]
Int16s = Annotated[np.ndarray, types.int16[::1]]
Int32s = Annotated[np.ndarray, types.int32[::1]]
Int64s = Annotated[np.ndarray, types.int64[::1]]
Uint16s = Annotated[np.ndarray, types.uint16[::1]]
Uint32s = Annotated[np.ndarray, types.uint32[::1]]
Uint64s = Annotated[np.ndarray, types.uint64[::1]]
Float32s = Annotated[np.ndarray, types.float32[::1]]
Float64s = Annotated[np.ndarray, types.float64[::1]]
Int32Rows = Annotated[np.ndarray, types.int32[:, ::1]]
Int64Rows = Annotated[np.ndarray, types.int64[:, ::1]]
Uint32Rows = Annotated[np.ndarray, types.uint32[:, ::1]]
Uint64Rows = Annotated[np.ndarray, types.uint64[:, ::1]]
Float32Rows = Annotated[np.ndarray, types.float32[:, ::1]]
Uint64 = Annotated[np.uint64, types.uint64]

_SCALARS = {bool: types.boolean, int: types.int64, float: types.float64}


def type_of(given: Any) -> Any:
    """The numba type of a group's class; a numba type is returned as it is."""
    if not (isinstance(given, type) and issubclass(given, tuple)):
        return given
    hints = get_type_hints(given, include_extras=True)
    fields = [_field_type(hints[name]) for name in given._fields]  # type: ignore[attr-defined]
    return types.BaseTuple.from_types(fields, given)


def _field_type(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return get_args(hint)[1]
    return _SCALARS.get(hint) or type_of(hint)


def writable(array: np.ndarray) -> np.ndarray:
    """The array itself where it is contiguous and may be written, else a copy, for a group."""
    return np.require(array, requirements=["C", "W"])


def empty_group(group: Any, *shape: int) -> Any:
    """A group all of whose fields are new arrays of one shape, not yet written."""
    hints = get_type_hints(group, include_extras=True)
    types_of = [_field_type(hints[name]).dtype for name in group._fields]
    return group(*(np.empty(shape, np.dtype(str(of))) for of in types_of))
