"""Sums of a matrix's rows, and dot products of two vectors with 64 at a time, as numba intrinsics:
float32, each sum in the order of its terms, so that vectors change no bit.

The matrix of `add_rows` is the bytes of a file that is mapped, at whatever address it begins.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

AHEAD = 16  # rows that are prefetched before they are added
LINE = 64  # bytes
_BYTE, _INDEX, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_FLOAT = ir.FloatType()
_LANES = ir.VectorType(_FLOAT, 16)


def _array(context, builder, signature, arguments, place):
    """Return the address of an array's first byte."""
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


def _add(context, builder, signature, arguments, columns):
    matrix = _array(context, builder, signature, arguments, 0)
    listed = _array(context, builder, signature, arguments, 2)
    sums = _array(context, builder, signature, arguments, 5)
    pitch, count, column = arguments[1], arguments[3], arguments[4]
    kind = ir.VectorType(_FLOAT, min(columns, 16))
    first = builder.mul(column, _word(4))
    places = [builder.add(first, _word(4 * k)) for k in range(0, columns, kind.count)]
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
        # A row that does not begin where a line does ends in one more.
        for part in (*range(0, 4 * columns, LINE), 4 * columns - 1):
            line = builder.gep(matrix, [builder.add(builder.add(soon, first), _word(part))])
            # a read (0), of data (1), to be kept in the second cache (2): rows that are ahead
            # would push one another out of the first
            builder.call(prefetch, [line, *(ir.Constant(_INDEX, value) for value in (0, 2, 1))])
        row = row_of(loop.index)
        for total, place in zip(totals, places, strict=True):
            some = _load(builder, matrix, builder.add(row, place), kind, 1)
            builder.store(builder.fadd(builder.load(total), some), total)
    for total, place in zip(totals, places, strict=True):
        _store(builder, builder.load(total), sums, place)
    return context.get_dummy_value()


def _adder(columns):
    """Return an intrinsic over `columns` columns."""

    @intrinsic
    def add(typing_context, matrix, pitch, listed, count, column, sums):
        """Add columns from `column` on of the first `count` of the rows that `listed` (int32)
        numbers to `sums` (float32), one row after another: the sums stay in registers.

        matrix: uint8, rows of `pitch` bytes of float32. `listed` has AHEAD more numbers, of any
        value: these rows are on their way before their turn.
        """

        def generate(context, builder, signature, arguments):
            return _add(context, builder, signature, arguments, columns)

        kinds = (matrix, types.int64, listed, types.int64, types.int64, sums)
        return types.void(*kinds), generate

    return add


add_128_columns, add_64_columns, add_32_columns, add_16_columns = map(_adder, (128, 64, 32, 16))
add_8_columns, add_4_columns, add_2_columns, add_1_column = map(_adder, (8, 4, 2, 1))


@intrinsic
def dots_of_64(typing_context, columns, at, vectors, first, out):
    """Dot products of two rows of `vectors` (float32, two dimensions), `first` and the next, with
    64 vectors, which lie in the row `at` of `columns` (float32, two dimensions): 64 first numbers,
    64 second ones, ...; to the same two rows of `out` from 64 * at on. A product is rounded before
    it is added.
    """

    def generate(context, builder, signature, arguments):
        start, numbers, results = (
            _array(context, builder, signature, arguments, place) for place in (0, 2, 4)
        )
        count, size = (
            builder.extract_value(
                context.make_array(signature.args[place])(context, builder, arguments[place]).shape,
                1,
            )
            for place in (2, 4)
        )
        begin = builder.mul(builder.mul(arguments[1], count), _word(4 * 64))
        zero = ir.Constant(_LANES, [ir.Constant(_FLOAT, 0.0)] * 16)
        totals = [[cgutils.alloca_once_value(builder, zero) for _ in range(4)] for _ in range(2)]
        rows = [builder.mul(builder.add(arguments[3], _word(k)), count) for k in range(2)]
        nothing = ir.Constant(_LANES, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(_INDEX, 16), [0] * 16)
        with cgutils.for_range(builder, count) as loop:
            line = builder.add(begin, builder.mul(loop.index, _word(256)))
            parts = [
                _load(builder, start, builder.add(line, _word(64 * part)), _LANES, 4)
                for part in range(4)
            ]
            for row, sums in zip(rows, totals, strict=True):
                place = builder.mul(builder.add(row, loop.index), _word(4))
                one = _load(builder, numbers, place, _FLOAT, 4)
                only = builder.insert_element(nothing, one, ir.Constant(_INDEX, 0))
                every = builder.shuffle_vector(only, nothing, everywhere)
                for part, total in zip(parts, sums, strict=True):
                    more = builder.fmul(part, every)
                    builder.store(builder.fadd(builder.load(total), more), total)
        for k, sums in enumerate(totals):
            row = builder.mul(builder.add(arguments[3], _word(k)), size)
            end = builder.mul(builder.add(row, builder.mul(arguments[1], _word(64))), _word(4))
            for part, total in enumerate(sums):
                place = builder.add(end, _word(64 * part))
                _store(builder, builder.load(total), results, place)
        return context.get_dummy_value()

    return types.void(columns, types.int64, vectors, types.int64, out), generate
