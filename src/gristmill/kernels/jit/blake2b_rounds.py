"""BLAKE2b's compression (RFC 7693, section 3.2) of eight blocks side by side, as a numba intrinsic:
numba writes no vectors of 512 bits by itself.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
BLOCK = 128  # bytes
# the first 64 bits of the fractional parts of the square roots of the first eight primes
INITIAL = (
    *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
    *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
)
# In which order each round takes the words of a block, in hexadecimal.
_ORDERS = (
    *("0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8"),
    *("905724afe1bc683d", "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a"),
    *("6fe9b308c2d714a5", "a2847615fb9e3cd0", "0123456789abcdef", "ea489fd61c02b753"),
)
# What a round mixes: the columns of the state of 4 x 4 words, then its diagonals.
_QUARTERS = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)
_WORD, _INDEX = ir.IntType(64), ir.IntType(32)
_WORDS = ir.VectorType(_WORD, LANES)


def _every(value):
    return ir.Constant(_WORDS, [ir.Constant(_WORD, value)] * LANES)


def _rotated(builder, value, bits):
    """Return each lane rotated right."""
    right = builder.lshr(value, _every(bits))
    return builder.or_(right, builder.shl(value, _every(64 - bits)))


def _mix(builder, state, quarter, one, other):
    """The RFC's function G."""
    a, b, c, d = (state[place] for place in quarter)
    for word, first, second in ((one, 32, 24), (other, 16, 63)):
        a = builder.add(builder.add(a, b), word)
        d = _rotated(builder, builder.xor(d, a), first)
        c = builder.add(c, d)
        b = _rotated(builder, builder.xor(b, c), second)
    for place, value in zip(quarter, (a, b, c, d), strict=True):
        state[place] = value


def _run_rounds(builder, state, words):
    """All rounds, as a loop: written out they would take seconds to compile."""
    digits = [ir.Constant(_INDEX, int(digit, 16)) for order in _ORDERS for digit in order]
    table = ir.GlobalVariable(
        builder.module, ir.ArrayType(_INDEX, len(digits)), builder.module.get_unique_name("orders")
    )
    table.initializer = ir.Constant(table.type.pointee, digits)
    table.global_constant, table.linkage = True, "private"
    block = cgutils.alloca_once(builder, _WORDS, size=len(words))
    for number, word in enumerate(words):
        builder.store(word, builder.gep(block, [ir.Constant(_INDEX, number)]))
    slots = [cgutils.alloca_once_value(builder, value) for value in state]
    with cgutils.for_range(builder, ir.Constant(_INDEX, len(_ORDERS))) as rounds:
        first = builder.mul(rounds.index, ir.Constant(_INDEX, len(words)))
        taken = []
        for number in range(len(words)):
            at = builder.add(first, ir.Constant(_INDEX, number))
            word = builder.load(builder.gep(table, [ir.Constant(_INDEX, 0), at]))
            taken.append(builder.load(builder.gep(block, [word])))
        now = [builder.load(slot) for slot in slots]
        for number, quarter in enumerate(_QUARTERS):
            _mix(builder, now, quarter, taken[2 * number], taken[2 * number + 1])
        for slot, value in zip(slots, now, strict=True):
            builder.store(value, slot)
    state[:] = [builder.load(slot) for slot in slots]


def _transposed(builder, rows):
    """Return eight rows of eight words as columns: pairs of rows exchange words, two, then four at
    a time.
    """
    kind = ir.VectorType(_INDEX, LANES)
    for step in (1, 2, 4):
        masks = [
            ir.Constant(
                kind,
                [
                    (lane & ~step) + upper * step + (LANES if lane & step else 0)
                    for lane in range(LANES)
                ],
            )
            for upper in (0, 1)
        ]
        exchanged = list(rows)
        for row in range(LANES):
            if not row & step:
                pair = rows[row], rows[row + step]
                exchanged[row] = builder.shuffle_vector(*pair, masks[0])
                exchanged[row + step] = builder.shuffle_vector(*pair, masks[1])
        rows = exchanged
    return rows


@intrinsic
def compress(typing_context, state, addresses, hashed, last):
    """Return one step of eight hashes: state (8, LANES) uint64, a column a hash, takes in the 128
    bytes behind each of the addresses (LANES,) int64.

    hashed (LANES,) uint64 are the bytes hashed with these; last (LANES,) uint64 is all ones where
    they are the last ones, else 0.
    """

    def generate(context, builder, signature, arguments):
        starts = [
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args, arguments, strict=True)
        ]

        def place(start, number):
            at = builder.gep(start, [ir.Constant(_WORD, number)])
            return builder.bitcast(at, _WORDS.as_pointer())

        def load(at):
            loaded = builder.load(at)
            loaded.align = 1
            return loaded

        words = []
        blocks = [
            builder.load(builder.gep(starts[1], [ir.Constant(_WORD, lane)]))
            for lane in range(LANES)
        ]
        for half in (0, 64):
            rows = [
                load(
                    builder.inttoptr(
                        builder.add(block, ir.Constant(_WORD, half)), _WORDS.as_pointer()
                    )
                )
                for block in blocks
            ]
            words += _transposed(builder, rows)
        before = [load(place(starts[0], LANES * word)) for word in range(8)]
        now = before + [_every(value) for value in INITIAL]
        now[12] = builder.xor(now[12], load(place(starts[2], 0)))
        now[14] = builder.xor(now[14], load(place(starts[3], 0)))
        _run_rounds(builder, now, words)
        for word in range(8):
            value = builder.xor(before[word], builder.xor(now[word], now[word + 8]))
            builder.store(value, place(starts[0], LANES * word)).align = 8
        return context.get_dummy_value()

    return types.void(state, addresses, hashed, last), generate
