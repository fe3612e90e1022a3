"""Hashes of eight words at a time and minima of sixteen numbers at a time, as numba intrinsics.

numba writes no vectors of 512 bits by itself; LLVM lowers those that are written here to whatever
the processor has (AVX-512, AVX2, NEON). The result is the same everywhere.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
_BYTE, _INDEX, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_WORDS = ir.VectorType(_WORD, LANES)
_NUMBERS = ir.VectorType(_INDEX, 16)


def _every(kind, value):
    """Return a vector of one constant."""
    return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)


def _splat(builder, kind, value):
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
    zeros = ir.Constant(ir.VectorType(_INDEX, kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, nothing, zeros)


def _array(context, builder, signature, arguments, place):
    """Return the address of an array's first element."""
    return context.make_array(signature.args[place])(context, builder, arguments[place]).data


def _load(builder, start, at, kind, align):
    load = builder.load(builder.bitcast(builder.gep(start, [at]), kind.as_pointer()))
    load.align = align
    return load


def _store(builder, value, start, at, align):
    place = builder.bitcast(builder.gep(start, [at]), value.type.as_pointer())
    builder.store(value, place).align = align


def _mixed(builder, value):
    """primitives.mix of each lane."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = builder.xor(value, builder.lshr(value, _every(_WORDS, 33)))
        value = builder.mul(value, _every(_WORDS, factor))
    return builder.xor(value, builder.lshr(value, _every(_WORDS, 33)))


def _joined(builder, values):
    """Return a vector of eight numbers."""
    vector = ir.Constant(_WORDS, ir.Undefined)
    for lane, value in enumerate(values):
        vector = builder.insert_element(vector, value, ir.Constant(_INDEX, lane))
    return vector


def _lanes(builder, vector):
    return [builder.extract_element(vector, ir.Constant(_INDEX, lane)) for lane in range(LANES)]


def _fnv_steps(builder, state, some, left):
    """FNV-1a's state after up to 8 bytes more of each lane, as many as are left there."""
    for byte in range(8):
        one = builder.and_(builder.lshr(some, _every(_WORDS, 8 * byte)), _every(_WORDS, 0xFF))
        stepped = builder.mul(builder.xor(state, one), _every(_WORDS, 0x100000001B3))
        state = builder.select(builder.icmp_signed(">", left, _every(_WORDS, byte)), stepped, state)
    return state


@intrinsic
def fnv_of_8_words(typing_context, data, stops, at, out):
    """FNV-1a of the first 8 bytes of eight words, mixed where a word has no more.

    Word j starts one byte behind stops[at + j] (int64) and ends at stops[at + j + 1]. out[at + j]
    (uint64) gets its hash, and if the word is longer the state, not mixed: bit j of the result.
    Loads reach 8 bytes from each start on.
    """

    def generate(context, builder, signature, arguments):
        bytes_of, stops_of, out_of = (
            _array(context, builder, signature, arguments, place) for place in (0, 1, 3)
        )
        at = arguments[2]
        after = builder.add(at, ir.Constant(_WORD, 1))
        before = _load(builder, stops_of, at, _WORDS, 8)
        left = builder.sub(_load(builder, stops_of, after, _WORDS, 8), before)
        left = builder.sub(left, _every(_WORDS, 1))
        # Read one by one: taking a vector apart costs more.
        first = builder.gep(bytes_of, [ir.Constant(_WORD, 1)])
        stops_at = builder.gep(stops_of, [at])
        places = [
            builder.load(builder.gep(stops_at, [ir.Constant(_WORD, lane)])) for lane in range(LANES)
        ]
        some = _joined(builder, [_load(builder, first, place, _WORD, 1) for place in places])
        state = _fnv_steps(builder, _every(_WORDS, 0xCBF29CE484222325), some, left)
        longer = builder.icmp_signed(">", left, _every(_WORDS, 8))
        _store(builder, builder.select(longer, state, _mixed(builder, state)), out_of, at, 8)
        return builder.zext(builder.bitcast(longer, _BYTE), _WORD)

    return types.uint64(data, stops, types.int64, out), generate


@intrinsic
def fnv_of_8_longer(typing_context, data, stops, listed, at, out):
    """FNV-1a, mixed, of the eight words that listed[at:at + 8] (int64) numbers, from their states
    after 8 bytes in `out`. Loads reach 8 bytes from the start of each word on, and from each eighth
    byte of it on.
    """

    def generate(context, builder, signature, arguments):
        bytes_of, stops_of, listed_of, out_of = (
            _array(context, builder, signature, arguments, place) for place in (0, 1, 2, 4)
        )
        words = _load(builder, listed_of, arguments[3], _WORDS, 8)
        numbers = _lanes(builder, words)

        def gathered(start, places, align):
            return _joined(
                builder, [_load(builder, start, place, _WORD, align) for place in places]
            )

        before = gathered(stops_of, numbers, 8)
        ends = gathered(stops_of, [builder.add(at, ir.Constant(_WORD, 1)) for at in numbers], 8)
        state = gathered(out_of, numbers, 8)
        starts = builder.add(before, _every(_WORDS, 1))
        shared = cgutils.alloca_once_value(builder, state)
        reached = cgutils.alloca_once_value(builder, builder.add(starts, _every(_WORDS, 8)))
        test, body, end = (builder.append_basic_block(name) for name in ("test", "body", "end"))
        builder.branch(test)
        builder.position_at_end(test)
        left = builder.sub(ends, builder.load(reached))
        some = builder.bitcast(builder.icmp_signed(">", left, _every(_WORDS, 0)), _BYTE)
        builder.cbranch(builder.icmp_unsigned("!=", some, ir.Constant(_BYTE, 0)), body, end)
        builder.position_at_end(body)
        places = builder.load(reached)
        left = builder.sub(ends, places)
        inside = builder.icmp_signed(">", left, _every(_WORDS, 0))
        some = gathered(bytes_of, _lanes(builder, builder.select(inside, places, starts)), 1)
        builder.store(_fnv_steps(builder, builder.load(shared), some, left), shared)
        builder.store(builder.add(places, _every(_WORDS, 8)), reached)
        builder.branch(test)
        builder.position_at_end(end)
        hashed = _mixed(builder, builder.load(shared))
        for one, number in zip(_lanes(builder, hashed), numbers, strict=True):
            _store(builder, one, out_of, number, 8)
        return context.get_dummy_value()

    return types.void(data, stops, listed, types.int64, out), generate


@intrinsic
def shingle_of_8(typing_context, values, at, width, base):
    """Return eight hashes of `width` values each, in the place of the first of each: Horner's rule
    by `base`, plus the width, mixed. Loads reach values[at + width + 7].
    """

    def generate(context, builder, signature, arguments):
        start = _array(context, builder, signature, arguments, 0)
        at, width = arguments[1:3]
        factor = _splat(builder, _WORDS, arguments[3])
        sums = cgutils.alloca_once_value(builder, _load(builder, start, at, _WORDS, 8))
        with cgutils.for_range(builder, builder.sub(width, ir.Constant(_WORD, 1))) as loop:
            place = builder.add(builder.add(at, loop.index), ir.Constant(_WORD, 1))
            shifted = builder.mul(builder.load(sums), factor)
            builder.store(builder.add(shifted, _load(builder, start, place, _WORDS, 8)), sums)
        whole = builder.add(builder.load(sums), _splat(builder, _WORDS, width))
        _store(builder, _mixed(builder, whole), start, at, 8)
        return context.get_dummy_value()

    return types.void(values, types.int64, types.int64, types.uint64), generate


@intrinsic
def minima_of_16(typing_context, values, fours, multipliers, addends, at, out):
    """Return the minima of a * x + b mod 2^32 over the upper halves x of the first 4 * `fours` of
    `values` (uint64): out[at:at + 16] (uint32), for a and b at the same places of `multipliers` and
    `addends`.
    """

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(_INDEX, 16)
        start, a_of, b_of, out_of = (
            _array(context, builder, signature, arguments, place) for place in (0, 2, 3, 5)
        )
        factor, term = (_load(builder, of, arguments[4], vector, 4) for of in (a_of, b_of))
        least = cgutils.alloca_once_value(builder, _every(vector, 0xFFFFFFFF))
        with cgutils.for_range(builder, arguments[1]) as loop:
            first = builder.mul(loop.index, ir.Constant(_WORD, 4))
            best = builder.load(least)
            for number in range(4):
                place = builder.add(first, ir.Constant(_WORD, number))
                value = builder.load(builder.gep(start, [place]))
                upper = builder.trunc(builder.lshr(value, ir.Constant(_WORD, 32)), _INDEX)
                one = builder.add(builder.mul(factor, _splat(builder, vector, upper)), term)
                best = builder.select(builder.icmp_unsigned("<", one, best), one, best)
            builder.store(best, least)
        _store(builder, builder.load(least), out_of, arguments[4], 4)
        return context.get_dummy_value()

    signature = types.void(values, types.int64, multipliers, addends, types.int64, out)
    return signature, generate


@intrinsic
def copy_8_words(typing_context, words, at, out, place):
    """Copy eight numbers of `words` (uint64) from an index on to the bytes of `out` (int32) at an
    index: sixteen of its numbers.
    """

    def generate(context, builder, signature, arguments):
        start, end = (_array(context, builder, signature, arguments, place) for place in (0, 2))
        some = _load(builder, start, arguments[1], _WORDS, 8)
        _store(builder, some, end, arguments[3], 4)
        return context.get_dummy_value()

    return types.void(words, types.int64, out, types.int64), generate
