"""Where pieces start, for every pattern that our encoder knows.

offsets, data -> masks of 64 bytes -> a bitmap of the bytes at which a piece starts
"""

import importlib
from typing import Any

import numpy as np

from gristmill.kernels.pieces.pattern_names import Pattern

# The module of each pattern, and how it is called: a run compiles and loads those of its own.
_MARK: dict[Pattern, tuple[str, dict[str, Any]]] = {
    Pattern.GPT2: ("blocks_gpt2", {}),
    Pattern.GPT2_SINGLE_NUMBERS: ("blocks_gpt2", {"single_numbers": True}),
    Pattern.CL100K: ("blocks_cl100k", {"whole_tail": True}),
    Pattern.LLAMA3: ("blocks_cl100k", {}),
    Pattern.QWEN2: ("blocks_cl100k", {"digits": 1}),
    Pattern.QWEN35: ("blocks_cl100k", {"digits": 1, "marks": True}),
    Pattern.O200K: ("blocks_o200k", {}),
    Pattern.TEKKEN: ("blocks_o200k", {"contractions": False, "digits": 1}),
    Pattern.DEEPSEEK: ("blocks_deepseek", {}),
    Pattern.NANOCHAT: ("blocks_cl100k", {"digits": 2}),
}


def mark(pattern: Pattern, offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Return where the pieces of n texts in UTF-8 start: a bitmap (ceil(offsets[-1] / 64) + 1,)
    uint64.

    offsets (n + 1,) int32 into data (bytes,) uint8. Bit i of word w is 1 where a piece starts at
    byte 64 * w + i of data. The first byte of every text is a start, and the byte after the last
    text: so a piece ends where the next one starts. Bytes before the first text have no bits.
    """
    starts = np.zeros(-(-int(offsets[-1]) // 64) + 1, np.uint64)
    module, options = _MARK[pattern]
    blocks = importlib.import_module(f"gristmill.kernels.pieces.{module}")
    blocks.mark(offsets, data, starts, **options)
    return starts
