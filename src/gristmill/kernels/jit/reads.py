"""Reads of open files, as a numba intrinsic: a kernel that reads many small pieces calls the system
itself.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTES, _HANDLE, _SIZE = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)


@intrinsic
def call_pread(typing_context, function, handle, out, at, count, offset):
    """Pread (POSIX.1-2017, off_t of 64 bits) of `count` bytes behind `offset` of an open file, into
    a uint8 array from index `at` on; its result, the bytes that were read, or -1.

    `function` is the address of pread: see calls.py. The caller sees to it that the bytes have room
    in the array.
    """

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[2])(context, builder, arguments[2])
        kind = ir.FunctionType(_SIZE, [_HANDLE, _BYTES, _SIZE, _SIZE]).as_pointer()
        return builder.call(
            builder.inttoptr(arguments[0], kind),
            [
                builder.trunc(arguments[1], _HANDLE),
                builder.gep(array.data, [arguments[3]]),
                arguments[4],
                arguments[5],
            ],
        )

    number = types.int64
    return number(number, number, out, number, number, number), generate
