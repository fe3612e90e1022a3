"""Unaligned and wide loads, as numba intrinsics: what plain indexing of a byte array cannot say. The only such file.

LLVM lowers the 64-byte vectors to whatever the processor has (AVX-512, AVX2, NEON); the result is the same everywhere.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gristmill.kernels.compile import helper

_BYTE, _WORD, _INDEX = ir.IntType(8), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_BYTE, 64)


def _place(context, builder, signature, arguments, kind):
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())


def _splat(builder, value):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(_INDEX, 0))
    zeros = ir.Constant(ir.VectorType(_INDEX, 64), [0] * 64)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)


@intrinsic
def load_u64(typing_context, data, at):
    """The 8 bytes of a uint8 array at an index as one little-endian uint64. The caller sees to `at + 8 <= len(data)`."""

    def generate(context, builder, signature, arguments):
        load = builder.load(_place(context, builder, signature, arguments, _WORD))
        load.align = 1
        return load

    return types.uint64(data, types.int64), generate


@intrinsic
def mask_of_range(typing_context, data, at, low, span):
    """Of the 64 bytes at an index, which lie in low..low + span: bit j is byte j. `at + 64 <= len(data)` is the caller's."""

    def generate(context, builder, signature, arguments):
        load = builder.load(_place(context, builder, signature, arguments, _VECTOR))
        load.align = 1
        shifted = builder.sub(load, _splat(builder, arguments[2]))
        return builder.bitcast(builder.icmp_unsigned("<=", shifted, _splat(builder, arguments[3])), _WORD)

    return types.uint64(data, types.int64, types.uint8, types.uint8), generate


@intrinsic
def count_ones(typing_context, mask):
    """The number of set bits of a uint64."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def count_trailing_zeros(typing_context, mask):
    """The position of the lowest set bit of a uint64; 64 where there is none."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@helper
def load_up_to_8(data, at, length):
    """The first 8 bytes of data[at:at + length] as a little-endian uint64; missing ones are 0. length >= 1."""
    if at + 8 <= len(data):
        value = load_u64(data, at)
        if length < 8:
            value &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
        return value
    value = np.uint64(0)
    for j in range(min(length, 8)):
        value |= np.uint64(data[at + j]) << np.uint64(8 * j)
    return value
