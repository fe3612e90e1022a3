"""Addresses instead of arrays, prefetching, and small vectors, as numba intrinsics.

A helper that gets an array gets seven values and counts references; one that gets an address gets
one value. `address_of` gives a kernel the addresses of its arrays, which index as the arrays do but
are not checked. With NUMBA_BOUNDSCHECK=1 it gives the array itself, so that a checked run checks
every index all the same.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gristmill.kernels.jit.compile import helper

_BIT, _BYTE, _INDEX, _WORD = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _start(context, builder, kind, value):
    """Return the address of an array's first element, or the address itself."""
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, value).data
    return value


def _at(context, builder, signature, arguments, place, kind):
    """Return the address of element arguments[place + 1] of arguments[place], as one of `kind`."""
    start = _start(context, builder, signature.args[place], arguments[place])
    return builder.bitcast(builder.gep(start, [arguments[place + 1]]), kind.as_pointer())


def _every(kind, value):
    """Return a vector of one constant."""
    return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)


def _splat(builder, kind, value):
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
    zeros = ir.Constant(ir.VectorType(_INDEX, kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, nothing, zeros)


@intrinsic
def _address_of(typing_context, array):
    """Return the address of an array's elements; the caller keeps the array."""

    def generate(context, builder, signature, arguments):
        return _start(context, builder, signature.args[0], arguments[0])

    return types.CPointer(array.dtype)(array), generate


if numba.config.BOUNDSCHECK == 1:

    @helper
    def address_of(array):
        """Return the array itself, whose indices are checked."""
        return array

else:

    @helper
    def address_of(array):
        """Return the address of an array's elements; the caller keeps the array."""
        return _address_of(array)


@intrinsic
def prefetch(typing_context, data, at):
    """Have the cache line of an element brought to the first cache; nothing is read."""

    def generate(context, builder, signature, arguments):
        place = _at(context, builder, signature, arguments, 0, _BYTE)
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INDEX, _INDEX, _INDEX])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [place, *(ir.Constant(_INDEX, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(data, types.int64), generate


@intrinsic
def fold_multiply(typing_context, one, other):
    """Return the upper 64 bits of a product of 128 bits, exclusive or the lower ones."""

    def generate(context, builder, signature, arguments):
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(value, wide) for value in arguments))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _WORD)
        return builder.xor(upper, builder.trunc(product, _WORD))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def highest_bit(typing_context, mask):
    """Return the position of the highest set bit of a uint64; -1 where there is none."""

    def generate(context, builder, signature, arguments):
        zeros = builder.ctlz(arguments[0], ir.Constant(_BIT, 0))
        return builder.sub(ir.Constant(_WORD, 63), zeros)

    return types.int64(types.uint64), generate


@intrinsic
def store_tokens(typing_context, out, at, low, high):
    """Write the three fields of 20 bits of `low`, then those of `high`, as int32 at an index.

    Eight places are written; the last two mean nothing. The room is the caller's.
    """

    def generate(context, builder, signature, arguments):
        words, tokens = ir.VectorType(_WORD, 8), ir.VectorType(_INDEX, 8)
        vector = _splat(builder, words, arguments[2])
        order = ir.Constant(ir.VectorType(_INDEX, 8), [0, 0, 0, 8, 8, 8, 8, 8])
        vector = builder.shuffle_vector(vector, _splat(builder, words, arguments[3]), order)
        shifts = [ir.Constant(_WORD, value) for value in (0, 20, 40, 0, 20, 40, 40, 40)]
        vector = builder.lshr(vector, ir.Constant(words, shifts))
        vector = builder.trunc(vector, tokens)
        vector = builder.and_(vector, _every(tokens, (1 << 20) - 1))
        place = _at(context, builder, signature, arguments, 0, tokens)
        builder.store(vector, place).align = 4
        return context.get_dummy_value()

    return types.void(out, types.int64, types.uint64, types.uint64), generate


@intrinsic
def move_tokens(typing_context, tokens, at, first, count):
    """Copy `count` int32 from the index `first` to the index `at`; the two may overlap. The room is
    the caller's.
    """

    def generate(context, builder, signature, arguments):
        start = _start(context, builder, signature.args[0], arguments[0])
        target, source = (
            builder.bitcast(builder.gep(start, [place]), _BYTE.as_pointer())
            for place in arguments[1:3]
        )
        size = builder.mul(arguments[3], ir.Constant(_WORD, 4))
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _BYTE.as_pointer(), _WORD, _BIT])
        move = cgutils.get_or_insert_function(builder.module, kind, "llvm.memmove.p0.p0.i64")
        builder.call(move, [target, source, size, ir.Constant(_BIT, 0)])
        return context.get_dummy_value()

    return types.void(tokens, types.int64, types.int64, types.int64), generate


@intrinsic
def differing_bytes(typing_context, one, at, other, place):
    """Of 64 bytes at an index of one array, which differ from those at an index of another: bit j
    is byte j. Both indices count elements; the room is the caller's.
    """

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(_BYTE, 64)
        loads = []
        for argument in (0, 2):
            load = builder.load(_at(context, builder, signature, arguments, argument, vector))
            load.align = 1
            loads.append(load)
        return builder.bitcast(builder.icmp_unsigned("!=", *loads), _WORD)

    return types.uint64(one, types.int64, other, types.int64), generate


@intrinsic
def equal_marks(typing_context, entries, at, mark):
    """Of 16 uint32 at an index, which have `mark` as their lowest 12 bits: bit j is entry j. The
    room is the caller's.
    """

    def generate(context, builder, signature, arguments):
        words = ir.VectorType(_INDEX, 16)
        load = builder.load(_at(context, builder, signature, arguments, 0, words))
        load.align = 4
        marks = builder.and_(load, _every(words, 0xFFF))
        equal = builder.icmp_unsigned("==", marks, _splat(builder, words, arguments[2]))
        return builder.zext(builder.bitcast(equal, ir.IntType(16)), _WORD)

    return types.uint64(entries, types.int64, types.uint32), generate


@intrinsic
def equal_entries(typing_context, table, at, keys, place):
    """Of the two entries of 4 uint64 at an index, which begin with the two uint64 at an index of
    another array: bits 0 and 4. The room is the caller's.
    """

    def generate(context, builder, signature, arguments):
        words, two = ir.VectorType(_WORD, 8), ir.VectorType(_WORD, 2)
        line = builder.load(_at(context, builder, signature, arguments, 0, words))
        line.align = 8
        key = builder.load(_at(context, builder, signature, arguments, 2, two))
        key.align = 8
        order = ir.Constant(ir.VectorType(_INDEX, 8), [0, 1, 0, 1, 0, 1, 0, 1])
        keys = builder.shuffle_vector(key, ir.Constant(two, ir.Undefined), order)
        equal = builder.bitcast(builder.icmp_unsigned("==", line, keys), _BYTE)
        both = builder.and_(equal, builder.lshr(equal, ir.Constant(_BYTE, 1)))
        return builder.zext(builder.and_(both, ir.Constant(_BYTE, 0x11)), _WORD)

    return types.int64(table, types.int64, keys, types.int64), generate


def _least(lanes):
    """Return an intrinsic over `lanes` values, a multiple of 16."""

    @intrinsic
    def least(typing_context, values, first, one, value, two, second, three, third):
        """Of the uint32 values from `first` on: write `value` at `one`, `second` at `two` and
        `third` at `three`, places counted from `first`, which below 0 or not below `lanes` are
        left out; then the least of all.

        By compares, and by vectors of one size: a narrow write before a wide load would make the
        processor wait. The room is the caller's.
        """

        def generate(context, builder, signature, arguments):
            vector = ir.VectorType(_INDEX, 16)
            start = _start(context, builder, signature.args[0], arguments[0])
            start = builder.gep(start, [arguments[1]])
            splats = [
                (
                    _splat(builder, vector, builder.trunc(at, _INDEX)),
                    _splat(builder, vector, written),
                )
                for at, written in zip(arguments[2::2], arguments[3::2], strict=True)
            ]
            least = None
            for lane in range(0, lanes, 16):
                place = builder.gep(start, [ir.Constant(_WORD, lane)])
                place = builder.bitcast(place, vector.as_pointer())
                load = builder.load(place)
                load.align = 4
                numbers = ir.Constant(
                    vector, [ir.Constant(_INDEX, number) for number in range(lane, lane + 16)]
                )
                for at, written in splats:
                    load = builder.select(builder.icmp_unsigned("==", numbers, at), written, load)
                builder.store(load, place).align = 4
                if least is None:
                    least = load
                else:
                    least = builder.select(builder.icmp_unsigned("<", load, least), load, least)
            kind = ir.FunctionType(_INDEX, [vector])
            name = "llvm.vector.reduce.umin.v16i32"
            reduce = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.call(reduce, [least])

        writes = (types.int64, types.uint32) * 3
        return types.uint32(values, types.int64, *writes), generate

    return least


least_of_16, least_of_32, least_of_64 = _least(16), _least(32), _least(64)
NOTHING = np.uint32(0xFFFFFFFF)
