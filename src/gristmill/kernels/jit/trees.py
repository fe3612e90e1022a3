"""Decision trees over 256 rows at a time, as numba intrinsics: what each node asks is a mask of
rows, and rows go down a tree as bits of masks.

LLVM lowers the vectors that are written here to whatever the processor has (AVX-512, AVX2, NEON).
The result is the same everywhere.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WORDS = 4  # of 64 rows each
LANES = 64 * WORDS
_BIT, _BYTE, _INDEX, _WORD = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_MASKS = ir.VectorType(_WORD, WORDS)


def _at(context, builder, signature, arguments, place, at, kind):
    """Return the address of an element of an array, as one of `kind`."""
    array = context.make_array(signature.args[place])(context, builder, arguments[place])
    return builder.bitcast(builder.gep(array.data, [at]), kind.as_pointer())


def _load(builder, place, align):
    load = builder.load(place)
    load.align = align
    return load


@intrinsic
def mask_above(typing_context, values, at, bound):
    """Of the 64 float32 at an index, which are above a bound: bit j is value j. The room is the
    caller's.
    """

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(ir.FloatType(), 64)
        place = _at(context, builder, signature, arguments, 0, arguments[1], vector)
        nothing = ir.Constant(vector, ir.Undefined)
        bound = builder.insert_element(nothing, arguments[2], ir.Constant(_INDEX, 0))
        zeros = ir.Constant(ir.VectorType(_INDEX, 64), [0] * 64)
        bounds = builder.shuffle_vector(bound, nothing, zeros)
        return builder.bitcast(builder.fcmp_ordered(">", _load(builder, place, 4), bounds), _WORD)

    return types.uint64(values, types.int64, types.float32), generate


@intrinsic
def split_level(typing_context, reach, count, masks, asked, first, planes, level):
    """Move all rows of 256 from one level of a perfect tree to the next.

    `reach` holds the masks of the rows that reach each node, the root's first; the level has
    `count` nodes, and those below get theirs. asked[first + k] is the place in `masks` of what
    node k of the tree asks. `planes` gets at `level` the rows that go to a second child. Each mask
    is WORDS uint64.
    """

    def generate(context, builder, signature, arguments):
        one, words = ir.Constant(_WORD, 1), ir.Constant(_WORD, WORDS)

        def mask_at(place, at):
            at = builder.mul(at, words)
            return _at(context, builder, signature, arguments, place, at, _MASKS)

        above = builder.sub(arguments[1], one)  # as many nodes are above a level
        second = cgutils.alloca_once_value(builder, ir.Constant(_MASKS, [0] * WORDS))
        with cgutils.for_range(builder, arguments[1]) as loop:
            node = builder.add(above, loop.index)
            place = builder.add(arguments[4], node)
            asked_at = _at(context, builder, signature, arguments, 3, place, _INDEX)
            number = builder.zext(_load(builder, asked_at, 4), _WORD)
            rows = _load(builder, mask_at(0, node), 8)
            right = builder.and_(rows, _load(builder, mask_at(2, number), 8))
            child = builder.add(builder.add(node, node), one)
            builder.store(builder.xor(rows, right), mask_at(0, child)).align = 8
            builder.store(right, mask_at(0, builder.add(child, one))).align = 8
            builder.store(builder.or_(builder.load(second), right), second)
        builder.store(builder.load(second), mask_at(5, arguments[6])).align = 8
        return context.get_dummy_value()

    masks_and_nodes = (reach, types.int64, masks, asked, types.int64, planes, types.int64)
    return types.void(*masks_and_nodes), generate


@intrinsic
def write_leaves(typing_context, planes, depth, word, leaves):
    """Write the numbers of the leaves, from the left, that the rows 64 * word .. 64 * word + 64
    reach, a byte each: bit depth - 1 - k of a number is a row's bit in `planes` at level k. depth
    is at most 8.
    """

    def generate(context, builder, signature, arguments):
        bits, numbers = ir.VectorType(_BIT, 64), ir.VectorType(_BYTE, 64)
        number = cgutils.alloca_once_value(builder, ir.Constant(numbers, [0] * 64))
        with cgutils.for_range(builder, arguments[1]) as loop:
            at = builder.add(builder.mul(loop.index, ir.Constant(_WORD, WORDS)), arguments[2])
            plane = _load(builder, _at(context, builder, signature, arguments, 0, at, _WORD), 8)
            bit = builder.zext(builder.bitcast(plane, bits), numbers)
            twice = builder.add(builder.load(number), builder.load(number))
            builder.store(builder.or_(twice, bit), number)
        at = builder.mul(arguments[2], ir.Constant(_WORD, 64))
        place = _at(context, builder, signature, arguments, 3, at, numbers)
        builder.store(builder.load(number), place).align = 1
        return context.get_dummy_value()

    return types.void(planes, types.int64, types.int64, leaves), generate
