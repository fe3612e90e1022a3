"""Unaligned and wide loads, as numba intrinsics: what plain indexing of a byte array cannot say.
The only such file.

LLVM lowers the 64-byte vectors to whatever the processor has (AVX-512, AVX2, NEON); the result is
the same everywhere.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gristmill.kernels.jit.compile import helper

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BYTE, _WORD, _INDEX = ir.IntType(8), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_BYTE, 64)


def _place(context, builder, signature, arguments, kind):
    """Return where a byte lies, at an index of an array or behind an address."""
    start, of = arguments[0], signature.args[0]
    if isinstance(of, types.Array):
        start = context.make_array(of)(context, builder, start).data
    return builder.bitcast(builder.gep(start, [arguments[1]]), kind.as_pointer())


def _splat(builder, value):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(_INDEX, 0))
    zeros = ir.Constant(ir.VectorType(_INDEX, 64), [0] * 64)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)


@intrinsic
def load_u64(typing_context, data, at):
    """Return the 8 bytes of a uint8 array at an index as one little-endian uint64.

    The caller sees to `at + 8 <= len(data)`.
    """

    def generate(context, builder, signature, arguments):
        load = builder.load(_place(context, builder, signature, arguments, _WORD))
        load.align = 1
        return load

    return types.uint64(data, types.int64), generate


@intrinsic
def store_u64(typing_context, data, at, value):
    """Write a uint64 as the 8 little-endian bytes of a uint8 array at an index; `at + 8 <=
    len(data)` is the caller's.
    """

    def generate(context, builder, signature, arguments):
        store = builder.store(arguments[2], _place(context, builder, signature, arguments, _WORD))
        store.align = 1
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@intrinsic
def mask_of_range(typing_context, data, at, low, span):
    """Of the 64 bytes at an index, which lie in low..low + span: bit j is byte j. `at + 64 <=
    len(data)` is the caller's.
    """

    def generate(context, builder, signature, arguments):
        load = builder.load(_place(context, builder, signature, arguments, _VECTOR))
        load.align = 1
        shifted = builder.sub(load, _splat(builder, arguments[2]))
        return builder.bitcast(
            builder.icmp_unsigned("<=", shifted, _splat(builder, arguments[3])), _WORD
        )

    return types.uint64(data, types.int64, types.uint8, types.uint8), generate


@intrinsic
def mask_of_letter(typing_context, data, at, letter):
    """Of the 64 bytes at an index, which are a small ASCII letter or its capital: bit j is byte j.
    As `mask_of_range`.
    """

    def generate(context, builder, signature, arguments):
        load = builder.load(_place(context, builder, signature, arguments, _VECTOR))
        load.align = 1
        folded = builder.or_(load, _splat(builder, ir.Constant(_BYTE, 0x20)))
        return builder.bitcast(
            builder.icmp_unsigned("==", folded, _splat(builder, arguments[2])), _WORD
        )

    return types.uint64(data, types.int64, types.uint8), generate


@intrinsic
def store_lower_64(typing_context, data, at, block, place, gaps):
    """Write the 64 bytes at `place` of a block (`block_of`) at an index: A-Z as a-z, and a space
    for each set bit of `gaps`. The room is the caller's.
    """

    def generate(context, builder, signature, arguments):
        def every(value):
            return _splat(builder, ir.Constant(_BYTE, value))

        start = builder.gep(arguments[2], [arguments[3]])
        load = builder.load(builder.bitcast(start, _VECTOR.as_pointer()))
        load.align = 1
        capital = builder.icmp_unsigned("<=", builder.sub(load, every(0x41)), every(25))
        lower = builder.or_(load, builder.select(capital, every(0x20), every(0)))
        bits = builder.bitcast(arguments[4], ir.VectorType(ir.IntType(1), 64))
        spaced = builder.select(bits, every(0x20), lower)
        store = builder.store(spaced, _place(context, builder, signature, arguments, _VECTOR))
        store.align = 1
        return context.get_dummy_value()

    return types.void(data, types.int64, block, types.int64, types.uint64), generate


@intrinsic
def count_ones(typing_context, mask):
    """Return the number of set bits of a uint64."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def count_trailing_zeros(typing_context, mask):
    """Return the position of the lowest set bit of a uint64; 64 where there is none."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def block_of(typing_context, data, at, tail):
    """Return the address of the 64 bytes at an index; of `tail` where the array stops inside as
    many bytes as it has: `copy_tail` is the caller's.

    `tail` is (64,) uint8, or longer where more than the 64 bytes is loaded.

    Masks take it for an array, at 0. For each array that a loop chooses among numba counts
    references, which takes as long as the masks do; an address has none, and the caller keeps both
    arrays.
    """

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        spare = context.make_array(signature.args[2])(context, builder, arguments[2])
        last = builder.add(arguments[1], spare.nitems)
        inside = builder.icmp_signed("<=", last, array.nitems)
        return builder.select(inside, builder.gep(array.data, [arguments[1]]), spare.data)

    return types.CPointer(types.uint8)(data, types.int64, tail), generate


@intrinsic
def prefetch(typing_context, array, at):
    """Begin to load the cache line of the element at an index of an array; rows count by their
    elements. An index outside the array does no harm.
    """

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), _BYTE.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INDEX, _INDEX, _INDEX])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # a read (0), to be kept in all caches (3), of data (1)
        builder.call(call, [place, *(ir.Constant(_INDEX, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@helper
def copy_tail(data, at, stop, tail):
    """Copy data[at:stop], or as much as `tail` takes, where the buffer stops inside the bytes at
    `at`.
    """
    for j in range(min(stop - at, len(tail))):
        tail[j] = data[at + j]


@helper
def valid_in(at, stop):
    """Of the 64 bytes at an index, which lie before `stop`: bit j is byte j. at < stop."""
    return ALL if stop - at >= 64 else (ONE << np.uint64(stop - at)) - ONE


@helper
def write_ones(mask, base, out, count):
    """Write the positions of a mask's set bits; up to 8 places more are written and mean nothing.

    Eight at a time without asking costs less than a branch for each, which no processor can predict
    (simdjson's way, Langdale and Lemire 2019: doi 10.1007/s00778-019-00578-5).
    """
    ones = count_ones(mask)
    written = np.int64(0)
    while True:
        for k in range(8):
            out[count + written + k] = base + count_trailing_zeros(mask)
            mask &= mask - ONE
        written += 8
        if written >= ones:
            return count + ones


@helper
def load_up_to_8(data, at, length):
    """Return the first 8 bytes of data[at:at + length] as a little-endian uint64; missing ones are
    0. length >= 1.
    """
    if at + 8 <= len(data):
        value = load_u64(data, at)
        if length < 8:
            value &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
        return value
    value = np.uint64(0)
    for j in range(min(length, 8)):
        value |= np.uint64(data[at + j]) << np.uint64(8 * j)
    return value


@helper
def count_continuations(value):
    """Return how many of 8 bytes are continuation bytes of UTF-8 (10xxxxxx)."""
    high = (value >> np.uint64(7)) & ~(value >> np.uint64(6)) & np.uint64(0x0101010101010101)
    return count_ones(high)


@helper
def count_characters(data, start, stop):
    """Return the code points in data[start:stop], well-formed UTF-8."""
    count = stop - start
    for at in range(start, stop, 8):
        count -= count_continuations(load_up_to_8(data, at, stop - at))
    return count


@helper
def same_bytes(data, one, other, length):
    """Return whether data[one:one + length] equals data[other:other + length]."""
    j = np.int64(0)
    while length - j >= 8:
        if load_u64(data, one + j) != load_u64(data, other + j):
            return False
        j += 8
    return j == length or load_up_to_8(data, one + j, length - j) == load_up_to_8(
        data, other + j, length - j
    )
