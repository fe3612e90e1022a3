"""Where pieces start, for every pattern that our encoder knows.

offsets, data -> kinds of code points -> a bitmap of the bytes at which a piece starts
"""

from collections.abc import Callable
from enum import IntEnum
from functools import partial

import numpy as np

from gristmill.kernels.pieces import blocks_cl100k, blocks_gpt2
from gristmill.kernels.pieces.deepseek import mark_deepseek
from gristmill.kernels.pieces.gpt2 import mark_gpt2
from gristmill.kernels.pieces.o200k import mark_o200k


class Pattern(IntEnum):
    """How a tokenizer cuts text into pieces (tokens/published_patterns.py has the patterns)."""

    GPT2 = 0  # r50k_base and p50k_base; GPT-NeoX, Pythia, OLMo 1, Phi 1 and 2
    GPT2_SINGLE_NUMBERS = 1  # each number alone, then GPT-2's: StarCoder, SmolLM, Cohere
    CL100K = 2  # tiktoken's cl100k_base
    LLAMA3 = 3  # tiktoken's as HF writes it: Llama 3, OLMo 2, Phi 4
    QWEN2 = 4  # one number in a piece: Qwen 2, 2.5 and 3
    QWEN35 = 5  # and marks are letters: Qwen 3.5
    O200K = 6  # tiktoken's o200k_base; gpt-oss, Llama 4
    TEKKEN = 7  # without contractions, one number in a piece: Mistral NeMo
    DEEPSEEK = 8  # DeepSeek V3 and R1
    NANOCHAT = 9  # Llama 3's with two numbers in a piece


_MARK: dict[Pattern, Callable[[np.ndarray, np.ndarray, np.ndarray], None]] = {
    Pattern.GPT2: blocks_gpt2.mark,
    Pattern.GPT2_SINGLE_NUMBERS: partial(mark_gpt2, single_numbers=True),
    Pattern.CL100K: partial(blocks_cl100k.mark, whole_tail=True),
    Pattern.LLAMA3: blocks_cl100k.mark,
    Pattern.QWEN2: partial(blocks_cl100k.mark, digits=1),
    Pattern.QWEN35: partial(blocks_cl100k.mark, digits=1, marks=True),
    Pattern.O200K: mark_o200k,
    Pattern.TEKKEN: partial(mark_o200k, contractions=False, digits=1),
    Pattern.DEEPSEEK: mark_deepseek,
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
