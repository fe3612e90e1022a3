"""The recipe's `[tokens]`."""

from typing import Literal

import msgspec


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How kept documents become token shards."""

    tokenizer: str  # "gpt2", "cl100k_base" or another name, or a path or URL
    end_of_text: str | None = None  # the token after each document; null: the tokenizer's own
    tokens_per_shard: int = 100_000_000
    validation: float = 0.0005  # share of documents
    order: Literal["shuffled", "append"] = "shuffled"

    def __post_init__(self) -> None:
        if self.tokens_per_shard < 1:
            raise ValueError("tokens_per_shard must be at least 1")
        if not 0.0 <= self.validation <= 1.0:
            raise ValueError("validation is a share of documents, from 0 to 1")
