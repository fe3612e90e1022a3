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

    by: str  # "copies": it and the documents dropped as its copies; or a measure, `step.measure`
    # From this value on, this number of times: 2.5 is 2 for one half of the documents and 3 for
    # the other, 0 leaves a document out.
    table: dict[str, float]
    otherwise: float = 1.0  # of a document without a value, or with one below the table's

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
        """(from this value on, this number of times), ascending."""
        return sorted((_number(key), times) for key, times in self.table.items())


class Partition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token shards by label: `web` with the label `news` has tokens/web~news/."""

    # measures, `step.measure`, of labels or whole numbers
    by: Annotated[list[str], Meta(min_length=1, max_length=4)]
    names: dict[str, str] = {}  # of labels: what stands for them in the folder's name
    otherwise: str = "none"  # of a document without a label
    most: Annotated[int, Meta(ge=1, le=1000)] = 100  # partitions of a source

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

    tokenizer: str  # "gpt2", "cl100k_base" or another name, or a path or URL
    end_of_text: str | None = None  # the token after each document; null: the tokenizer's own
    tokens_per_shard: int = 100_000_000
    validation: float = 0.0005  # share of documents
    order: Literal["shuffled", "append"] = "shuffled"
    repeat: Repeat | None = None  # null: every document once
    partition: Partition | None = None  # null: shards by source alone

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
        """The measures that repeats and partitions are made by."""
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
