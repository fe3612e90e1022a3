"""Loads and copies by address, as numba intrinsics: of memory-mapped files, of which a kernel reads
hundreds and cannot take each as an array.

The caller sees to it that the mapping lives as long as the call, and that it has the bytes.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


@intrinsic
def load_i64_at(typing_context, address, index):
    """Return the int64 number `index` behind an address."""

    def generate(context, builder, signature, arguments):
        base = builder.inttoptr(arguments[0], _WORD.as_pointer())
        load = builder.load(builder.gep(base, [arguments[1]]))
        load.align = 1
        return load

    return types.int64(types.int64, types.int64), generate


@intrinsic
def copy_from(typing_context, out, at, address, count):
    """Copy `count` bytes behind an address into a uint8 array, from index `at` on."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        target = builder.gep(array.data, [arguments[1]])
        source = builder.inttoptr(arguments[2], _BYTE.as_pointer())
        cgutils.raw_memcpy(builder, target, source, arguments[3], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64, types.int64), generate
