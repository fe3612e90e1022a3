"""Copies of 64 bytes from one array into another, as a numba intrinsic."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_VECTOR = ir.VectorType(ir.IntType(8), 64)


@intrinsic
def copy_64(typing_context, out, to, data, at):
    """Copy the 64 bytes of a uint8 array at an index to an index of another. The room of both is
    the caller's.
    """

    def generate(context, builder, signature, arguments):
        def place(argument):
            array = context.make_array(signature.args[argument])
            start = array(context, builder, arguments[argument]).data
            place = builder.gep(start, [arguments[argument + 1]])
            return builder.bitcast(place, _VECTOR.as_pointer())

        load = builder.load(place(2))
        load.align = 1
        builder.store(load, place(0)).align = 1
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64), generate
