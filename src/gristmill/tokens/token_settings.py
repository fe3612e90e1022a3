"""The recipe's `[tokens]`: the tokenizer, token shards, repeats and partitions."""

import math
import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

COPIES = "copies"
MOST_TIMES = 100.0
LABEL = "[A-Za-z0-9][A-Za-z0-9._-]{0,31}"  # of a partition; at most four are in a folder's name
MEASURE = r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z0-9_.]+"


class Repeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a document is in the training tokens."""

    # What decides: `copies` (the document and those dropped as its copies), or a measure,
    # `step.measure`.
    by: str
    # From each value on, how often: 2.5 is twice for one half of the documents and three times for
    # the other, 0 leaves a document out. At most 100.
    table: dict[str, float]
    # How often a document is in the tokens that has no value, or one below the table's.
    otherwise: float = 1.0

    def __post_init__(self) -> None:
        if self.by != COPIES and not re.fullmatch(MEASURE, self.by):
            raise ValueError(
                f'by = {self.by!r}: expected "{COPIES}" or a measure such as ensemble.bucket'
            )
        if not self.table:
            raise ValueError("table is empty: it says from which value on how many times")
        values = [_number(key) for key in self.table]
        if len(set(values)) < len(values):
            raise ValueError("table has a value twice")
        for times in (*self.table.values(), self.otherwise):
            if not 0.0 <= times <= MOST_TIMES:
                raise ValueError(f"{times:g} times: expected 0 to {MOST_TIMES:g}")

    def steps(self) -> list[tuple[float, float]]:
        """Return (from this value on, this number of times), ascending."""
        return sorted((_number(key), times) for key, times in self.table.items())


class Partition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token shards by label: `web` with the label `news` has tokens/web~news/."""

    # The measures whose values are the labels, as `step.measure`: strings or whole numbers.
    by: Annotated[list[str], Meta(min_length=1, max_length=4)]
    # What a label is called in the folder's name, where it is called otherwise.
    names: dict[str, str] = {}
    otherwise: str = "none"  # The name for documents without a label.
    most: Annotated[int, Meta(ge=1, le=1000)] = 100  # The most partitions that a source may have.

    def __post_init__(self) -> None:
        for name in self.by:
            if not re.fullmatch(MEASURE, name):
                raise ValueError(f"by: {name!r} is no measure such as scores.topic")
        if len(set(self.by)) < len(self.by):
            raise ValueError("by names a measure twice")
        for name in (*self.names.values(), self.otherwise):
            if not re.fullmatch(LABEL, name):
                raise ValueError(f"{name!r} is part of a folder's name: {LABEL_RULE}")


LABEL_RULE = "use letters, digits, '.', '_' and '-', at most 32 of them, first a letter or digit"


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How kept documents become token shards."""

    # A name such as `gpt2`, `cl100k_base` or `o200k_base`, or the path or URL of a tokenizer file.
    tokenizer: str
    # The token after each document. Unset: the special token that the tokenizer's file and the
    # configurations beside it name.
    end_of_text: str | None = None
    # A special token before each document, such as `<bos>`. Unset: there is none.
    begin_of_text: str | None = None
    tokens_per_shard: int = 100_000_000  # Tokens of a full token shard.
    # The share of documents that go to validation, from 0 to 1. Equal texts are in one split.
    validation: float = 0.0005
    # `shuffled` is a seeded order that changes when the corpus grows; with `append` a written shard
    # never changes.
    order: Literal["shuffled", "append"] = "shuffled"
    # How often a document is in the training tokens. Without the table: once.
    repeat: Repeat | None = None
    # Token shards by label, in folders of their own. Without the table: by source alone.
    partition: Partition | None = None

    def __post_init__(self) -> None:
        if self.tokens_per_shard < 1:
            raise ValueError("tokens_per_shard must be at least 1")
        if not 0.0 <= self.validation <= 1.0:
            raise ValueError("validation is a share of documents, from 0 to 1")
        if self.order == "append":
            for name in ("repeat", "partition"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f'{name} needs order = "shuffled": with "append" a written shard never '
                        "changes, and the documents to come may change how often earlier ones are "
                        "repeated and which bucket they are in"
                    )

    def reads(self) -> list[str]:
        """Return the measures that repeats and partitions are made by."""
        repeated = [self.repeat.by] if self.repeat is not None else []
        names = [*repeated, *(self.partition.by if self.partition is not None else [])]
        return [name for name in dict.fromkeys(names) if name != COPIES]


def _number(key: str) -> float:
    try:
        value = float(key)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"table: {key!r} is no number")
    return value
