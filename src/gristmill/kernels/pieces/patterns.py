"""Where pieces start, for every pattern that our encoder knows.

offsets, data -> masks of 64 bytes -> a bitmap of the bytes at which a piece starts
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from gristmill.kernels.pieces import blocks_cl100k, blocks_deepseek, blocks_gpt2, blocks_o200k
from gristmill.kernels.pieces.pattern_names import Pattern

_MARK: dict[Pattern, Callable[[np.ndarray, np.ndarray, np.ndarray], None]] = {
    Pattern.GPT2: blocks_gpt2.mark,
    Pattern.GPT2_SINGLE_NUMBERS: partial(blocks_gpt2.mark, single_numbers=True),
    Pattern.CL100K: partial(blocks_cl100k.mark, whole_tail=True),
    Pattern.LLAMA3: blocks_cl100k.mark,
    Pattern.QWEN2: partial(blocks_cl100k.mark, digits=1),
    Pattern.QWEN35: partial(blocks_cl100k.mark, digits=1, marks=True),
    Pattern.O200K: blocks_o200k.mark,
    Pattern.TEKKEN: partial(blocks_o200k.mark, contractions=False, digits=1),
    Pattern.DEEPSEEK: blocks_deepseek.mark,
    Pattern.NANOCHAT: partial(blocks_cl100k.mark, digits=2),
}


def mark(pattern: Pattern, offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Where the pieces of n texts in UTF-8 start: a bitmap (ceil(offsets[-1] / 64) + 1,) uint64.

    offsets (n + 1,) int32 into data (bytes,) uint8. Bit i of word w is 1 where a piece starts at
    byte 64 * w + i of data. The first byte of every text is a start, and the byte after the last
    text: so a piece ends where the next one starts. Bytes before the first text have no bits.
    """
    starts = np.zeros(-(-int(offsets[-1]) // 64) + 1, np.uint64)
    _MARK[pattern](offsets, data, starts)
    return starts
