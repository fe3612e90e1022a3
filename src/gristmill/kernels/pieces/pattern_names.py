"""The patterns that our encoder knows; a module without kernels, for those who only name one."""

from enum import IntEnum


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
