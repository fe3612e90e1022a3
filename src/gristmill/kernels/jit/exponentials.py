"""Exponentials of sixteen float32 at a time, as numba intrinsics: the float32 next to that of the C
library's double, or the word that it is not known.

A double that both sides compute with an error of a few units in its last place rounds to the same
float32, unless it lies that near the middle of two float32. Of such lanes, one of many millions,
the caller asks the C library.
"""

import math

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_INDEX, _WORD = ir.IntType(32), ir.IntType(64)
_FLOATS = ir.VectorType(ir.FloatType(), 16)
_DOUBLES = ir.VectorType(ir.DoubleType(), 16)
_WORDS = ir.VectorType(_WORD, 16)
# ln 2 in two parts: the first has zeros at its end, so that its product with a small whole number
# is exact
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_ROUNDER = 1.5 * 2**52  # a double's sum with it has the nearest whole number in its last bits
_TERMS = 13  # of the Taylor series: what is left out is 3e-18 of the sum at |r| = ln(2) / 2
_NEAR = 128  # units in a double's last place that are near to the middle of two float32
_LEAST_NORMAL, _LEAST = -87.0, -104.0  # below the first a float32 has fewer bits; the last: 0


def _every(kind, value):
    """Return a vector of one constant."""
    return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)


def _splat(builder, value):
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
    zeros = ir.Constant(ir.VectorType(_INDEX, 16), [0] * 16)
    return builder.shuffle_vector(one, nothing, zeros)


def _place(context, builder, signature, arguments, place, at):
    """Return the address of sixteen numbers of an array."""
    start = context.make_array(signature.args[place])(context, builder, arguments[place]).data
    return builder.bitcast(builder.gep(start, [at]), _FLOATS.as_pointer())


def _exponential(builder, value):
    """Of doubles of -87 to 0: 2^k times the series of what is left."""
    turned = builder.fadd(
        builder.fmul(value, _every(_DOUBLES, 1 / math.log(2))), _every(_DOUBLES, _ROUNDER)
    )
    whole = builder.fsub(turned, _every(_DOUBLES, _ROUNDER))
    left = builder.fsub(value, builder.fmul(whole, _every(_DOUBLES, _LN2_HIGH)))
    left = builder.fsub(left, builder.fmul(whole, _every(_DOUBLES, _LN2_LOW)))
    total = _every(_DOUBLES, 1 / math.factorial(_TERMS))
    for term in range(_TERMS - 1, -1, -1):
        more = _every(_DOUBLES, 1 / math.factorial(term))
        total = builder.fadd(builder.fmul(total, left), more)
    power = builder.shl(builder.bitcast(turned, _WORDS), _every(_WORDS, 52))
    return builder.bitcast(builder.add(builder.bitcast(total, _WORDS), power), _DOUBLES)


@intrinsic
def exponentials_of_16(typing_context, values, at, most, out):
    """out[at:at + 16] gets the exponentials of values[at:at + 16] - most, at most 0, all float32;
    those that are not known are set in the result, bit k for at + k.
    """

    def generate(context, builder, signature, arguments):
        at = arguments[1]
        load = builder.load(_place(context, builder, signature, arguments, 0, at))
        load.align = 4
        below = builder.fsub(load, _splat(builder, arguments[2]))
        nothing = builder.fcmp_ordered("<", below, _every(_FLOATS, _LEAST))
        few = builder.fcmp_unordered("<", below, _every(_FLOATS, _LEAST_NORMAL))
        some = builder.select(few, _every(_FLOATS, 0.0), below)
        found = _exponential(builder, builder.fpext(some, _DOUBLES))
        bits = builder.and_(builder.bitcast(found, _WORDS), _every(_WORDS, (1 << 29) - 1))
        apart = builder.sub(bits, _every(_WORDS, (1 << 28) - _NEAR))
        near = builder.icmp_unsigned("<", apart, _every(_WORDS, 2 * _NEAR))
        result = builder.select(nothing, _every(_FLOATS, 0.0), builder.fptrunc(found, _FLOATS))
        place = _place(context, builder, signature, arguments, 3, at)
        builder.store(result, place).align = 4
        unknown = builder.or_(builder.and_(few, builder.not_(nothing)), near)
        return builder.zext(builder.bitcast(unknown, ir.IntType(16)), _WORD)

    return types.uint64(values, types.int64, types.float32, out), generate


@intrinsic
def largest(typing_context, values, count):
    """Return the largest of the first `count` float32, a multiple of 16 and not 0."""

    def generate(context, builder, signature, arguments):
        most = cgutils.alloca_once_value(builder, _every(_FLOATS, float("-inf")))
        with cgutils.for_range(builder, builder.udiv(arguments[1], ir.Constant(_WORD, 16))) as loop:
            at = builder.mul(loop.index, ir.Constant(_WORD, 16))
            load = builder.load(_place(context, builder, signature, arguments, 0, at))
            load.align = 4
            before = builder.load(most)
            more = builder.fcmp_ordered(">", load, before)
            builder.store(builder.select(more, load, before), most)
        kind = ir.FunctionType(ir.FloatType(), [_FLOATS])
        name = "llvm.vector.reduce.fmax.v16f32"
        reduce = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(reduce, [builder.load(most)])

    return types.float32(values, types.int64), generate
