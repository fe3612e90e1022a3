"""Sums of a matrix's rows, and dot products with 64 vectors at a time, as numba intrinsics:
float32, each sum in the order of its terms, so that vectors change no bit.

The matrix of `add_rows` is the bytes of a file that is mapped, at whatever address it begins.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

AHEAD = 8  # rows that are prefetched before they are added
COLUMNS = 128  # that are summed in registers
LINE = 64  # bytes
_BYTE, _INDEX, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_FLOAT = ir.FloatType()
_LANES = ir.VectorType(_FLOAT, 16)
_PARTS = COLUMNS // 16


def _array(context, builder, signature, arguments, place):
    """The address of an array's first byte."""
    data = context.make_array(signature.args[place])(context, builder, arguments[place]).data
    return builder.bitcast(data, _BYTE.as_pointer())


def _load(builder, start, at, kind, align):
    load = builder.load(builder.bitcast(builder.gep(start, [at]), kind.as_pointer()))
    load.align = align
    return load


def _store(builder, value, start, at):
    place = builder.bitcast(builder.gep(start, [at]), value.type.as_pointer())
    builder.store(value, place).align = 4


def _word(value):
    return ir.Constant(_WORD, value)


def _add(context, builder, signature, arguments, parts, kind):
    matrix = _array(context, builder, signature, arguments, 0)
    listed = _array(context, builder, signature, arguments, 2)
    sums = _array(context, builder, signature, arguments, 5)
    pitch, count, column = arguments[1], arguments[3], arguments[4]
    size = 4 * getattr(kind, "count", 1)
    first = builder.mul(column, _word(4))
    places = [builder.add(first, _word(size * part)) for part in range(parts)]
    called = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INDEX, _INDEX, _INDEX])
    prefetch = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0")

    def row_of(index):
        number = _load(builder, listed, builder.mul(index, _word(4)), _INDEX, 4)
        return builder.mul(builder.sext(number, _WORD), pitch)

    totals = [
        cgutils.alloca_once_value(builder, _load(builder, sums, place, kind, 4)) for place in places
    ]
    with cgutils.for_range(builder, count) as loop:
        soon = row_of(builder.add(loop.index, _word(AHEAD)))
        for part in range(0, parts * size, LINE):
            line = builder.gep(matrix, [builder.add(builder.add(soon, first), _word(part))])
            # a read (0), to be kept in all caches (3), of data (1)
            builder.call(prefetch, [line, *(ir.Constant(_INDEX, value) for value in (0, 3, 1))])
        row = row_of(loop.index)
        for total, place in zip(totals, places, strict=True):
            some = _load(builder, matrix, builder.add(row, place), kind, 1)
            builder.store(builder.fadd(builder.load(total), some), total)
    for total, place in zip(totals, places, strict=True):
        _store(builder, builder.load(total), sums, place)
    return context.get_dummy_value()


@intrinsic
def add_128_columns(typing_context, matrix, pitch, listed, count, column, sums):
    """Add columns column:column + 128 of the first `count` of the rows that `listed` (int32)
    numbers to `sums` (float32), one row after another: the sums stay in registers.

    matrix: uint8, rows of `pitch` bytes of float32. `listed` has AHEAD more numbers, of any value:
    these rows are on their way before their turn.
    """

    def generate(context, builder, signature, arguments):
        return _add(context, builder, signature, arguments, _PARTS, _LANES)

    kinds = (matrix, types.int64, listed, types.int64, types.int64, sums)
    return types.void(*kinds), generate


@intrinsic
def add_column(typing_context, matrix, pitch, listed, count, column, sums):
    """As `add_128_columns`, of one column."""

    def generate(context, builder, signature, arguments):
        return _add(context, builder, signature, arguments, 1, _FLOAT)

    kinds = (matrix, types.int64, listed, types.int64, types.int64, sums)
    return types.void(*kinds), generate


@intrinsic
def add_16_columns(typing_context, matrix, pitch, listed, count, column, sums):
    """As `add_128_columns`, of 16 columns."""

    def generate(context, builder, signature, arguments):
        return _add(context, builder, signature, arguments, 1, _LANES)

    kinds = (matrix, types.int64, listed, types.int64, types.int64, sums)
    return types.void(*kinds), generate


@intrinsic
def dots_of_64(typing_context, columns, at, vector, count, out, place):
    """Dot products of `vector` (float32, its first `count`) with 64 vectors, which lie in `columns`
    (float32) from an index on, 64 first numbers, 64 second ones, ...: 64 numbers of `out` from
    `place` on. A product is rounded before it is added.
    """

    def generate(context, builder, signature, arguments):
        start, numbers, results = (
            _array(context, builder, signature, arguments, place) for place in (0, 2, 4)
        )
        begin = builder.mul(arguments[1], _word(4))
        zero = ir.Constant(_LANES, [ir.Constant(_FLOAT, 0.0)] * 16)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in range(4)]
        nothing = ir.Constant(_LANES, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(_INDEX, 16), [0] * 16)
        with cgutils.for_range(builder, arguments[3]) as loop:
            one = _load(builder, numbers, builder.mul(loop.index, _word(4)), _FLOAT, 4)
            first = builder.insert_element(nothing, one, ir.Constant(_INDEX, 0))
            every = builder.shuffle_vector(first, nothing, everywhere)
            line = builder.add(begin, builder.mul(loop.index, _word(256)))
            for part, total in enumerate(totals):
                some = _load(builder, start, builder.add(line, _word(64 * part)), _LANES, 4)
                builder.store(builder.fadd(builder.load(total), builder.fmul(some, every)), total)
        end = builder.mul(arguments[5], _word(4))
        for part, total in enumerate(totals):
            _store(builder, builder.load(total), results, builder.add(end, _word(64 * part)))
        return context.get_dummy_value()

    kinds = (columns, types.int64, vector, types.int64, out, types.int64)
    return types.void(*kinds), generate
