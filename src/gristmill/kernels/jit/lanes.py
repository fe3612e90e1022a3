"""Hashes of eight words at a time and minima of sixteen numbers at a time, as numba intrinsics.

numba writes no vectors of 512 bits by itself; LLVM lowers those that are written here to whatever
the processor has (AVX-512, AVX2, NEON). The result is the same everywhere.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
SOON = 24  # rows that are prefetched before they are added
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
def fnv1a_of_16(typing_context, hashes, letters, at):
    """Return one step of FNV-1a of sixteen hashes (uint32): each with the byte at its place from an
    index of `letters` (uint8) on, sign-extended.
    """

    def generate(context, builder, signature, arguments):
        start, bytes_of = (
            _array(context, builder, signature, arguments, place) for place in (0, 1)
        )
        zero = ir.Constant(_WORD, 0)
        before = _load(builder, start, zero, _NUMBERS, 4)
        some = _load(builder, bytes_of, arguments[2], ir.VectorType(_BYTE, 16), 1)
        mixed = builder.xor(before, builder.sext(some, _NUMBERS))
        _store(builder, builder.mul(mixed, _every(_NUMBERS, 16777619)), start, zero, 4)
        return context.get_dummy_value()

    return types.void(hashes, letters, types.int64), generate


def _remainders(builder, start, divisor, inverse):
    wide = ir.VectorType(_WORD, 16)
    values = _load(builder, start, ir.Constant(_WORD, 0), _NUMBERS, 4)
    by, modulus = (_splat(builder, _NUMBERS, value) for value in (inverse, divisor))
    product = builder.mul(builder.zext(values, wide), builder.zext(by, wide))
    quotient = builder.trunc(builder.lshr(product, _every(wide, 32)), _NUMBERS)
    left = builder.sub(values, builder.mul(quotient, modulus))  # the quotient may be one low
    less = builder.sub(left, modulus)
    return builder.select(builder.icmp_unsigned("<", left, modulus), left, less)


@intrinsic
def remainders_of_16(typing_context, hashes, divisor, inverse, out, at):
    """As buckets_of_16, without a bitmap."""

    def generate(context, builder, signature, arguments):
        start, out_of = (_array(context, builder, signature, arguments, place) for place in (0, 3))
        left = _remainders(builder, start, arguments[1], arguments[2])
        _store(builder, left, out_of, arguments[4], 4)
        return context.get_dummy_value()

    return types.void(hashes, types.uint32, types.uint32, out, types.int64), generate


@intrinsic
def buckets_of_16(typing_context, hashes, divisor, inverse, bits, out, at):
    """Of sixteen hashes (uint32) the remainders by a divisor: out[at:at + 16] (int32); and which of
    them are set in a bitmap (uint32): bit k of the result is that of hash k.

    `inverse` (uint32) is 2^32 over the divisor, rounded down, at most 2^32 - 1.
    """

    def generate(context, builder, signature, arguments):
        start, map_of, out_of = (
            _array(context, builder, signature, arguments, place) for place in (0, 3, 4)
        )
        left = _remainders(builder, start, arguments[1], arguments[2])
        _store(builder, left, out_of, arguments[5], 4)
        places = builder.lshr(left, _every(_NUMBERS, 5))
        some = ir.Constant(_NUMBERS, ir.Undefined)
        for lane in range(16):
            number = ir.Constant(_INDEX, lane)
            place = builder.zext(builder.extract_element(places, number), _WORD)
            one = builder.load(builder.gep(map_of, [place]))
            some = builder.insert_element(some, one, number)
        shifted = builder.lshr(some, builder.and_(left, _every(_NUMBERS, 31)))
        found = builder.trunc(shifted, ir.VectorType(ir.IntType(1), 16))
        return builder.zext(builder.bitcast(found, ir.IntType(16)), _WORD)

    signature = types.uint64(hashes, types.uint32, types.uint32, bits, out, types.int64)
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


@intrinsic
def add_rows_of_16(typing_context, rows, listed, count, sums):
    """Add the first `count` of the rows (float32, 16 columns) that `listed` (int32) numbers to
    `sums` (float32), one after another: the sums stay in a register.

    `listed` has SOON more numbers, of any value: these rows are on their way before their turn.
    """

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(ir.FloatType(), 16)
        start, numbers, totals = (
            _array(context, builder, signature, arguments, place) for place in (0, 1, 3)
        )
        kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INDEX, _INDEX, _INDEX])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")

        def place_of(index):
            row = builder.sext(builder.load(builder.gep(numbers, [index])), _WORD)
            return builder.mul(row, ir.Constant(_WORD, 16))

        zero = ir.Constant(_WORD, 0)
        total = cgutils.alloca_once_value(builder, _load(builder, totals, zero, vector, 4))
        with cgutils.for_range(builder, arguments[2]) as loop:
            soon = place_of(builder.add(loop.index, ir.Constant(_WORD, SOON)))
            line = builder.bitcast(builder.gep(start, [soon]), _BYTE.as_pointer())
            # a read (0), to be kept in all caches (3), of data (1)
            builder.call(call, [line, *(ir.Constant(_INDEX, value) for value in (0, 3, 1))])
            row = _load(builder, start, place_of(loop.index), vector, 4)
            builder.store(builder.fadd(builder.load(total), row), total)
        _store(builder, builder.load(total), totals, zero, 4)
        return context.get_dummy_value()

    return types.void(rows, listed, types.int64, sums), generate
