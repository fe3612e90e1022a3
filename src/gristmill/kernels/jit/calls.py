"""Calls of C functions by their address, as numba intrinsics.

The address is an argument of the kernel: a ctypes function that a kernel names is written into its
machine code, and that is loaded in another process, where the library is elsewhere.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTES, _SIZE, _RESULT = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(32)


@intrinsic
def call_gzip_decompress(typing_context, function, decompressor, data, span, out, filled, sizes):
    """libdeflate_gzip_decompress_ex (libdeflate.h, 1.x) on data[span[0]:span[1]], into out[filled:]
    (uint8); its result, 0 for success.

    `sizes` (2,) int64 gets the bytes that were read and those that were written. `function` and
    `decompressor` are addresses (int64).
    """

    def generate(context, builder, signature, arguments):
        def array(place):
            made = context.make_array(signature.args[place])(context, builder, arguments[place])
            return made.data, made.nitems

        start, stop = (builder.extract_value(arguments[3], place) for place in (0, 1))
        (source, _), (target, room), (counts, _) = (array(place) for place in (2, 4, 6))
        pointer = _SIZE.as_pointer()
        kind = ir.FunctionType(
            _RESULT, [_BYTES, _BYTES, _SIZE, _BYTES, _SIZE, pointer, pointer]
        ).as_pointer()
        return builder.call(
            builder.inttoptr(arguments[0], kind),
            [
                builder.inttoptr(arguments[1], _BYTES),
                builder.gep(source, [start]),
                builder.sub(stop, start),
                builder.gep(target, [arguments[5]]),
                builder.sub(room, arguments[5]),
                builder.bitcast(counts, pointer),
                builder.bitcast(builder.gep(counts, [ir.Constant(_SIZE, 1)]), pointer),
            ],
        )

    place = types.UniTuple(types.int64, 2)
    return types.int32(types.int64, types.int64, data, place, out, types.int64, sizes), generate
