"""Tokens by label: what of a source has one label is a partition of it, with token shards and a
folder of its own.

    tokens/web~science/train_00000.bin      the source `web`, the label `science`

`~` is in no source's name and in no label, so that a folder's name is read in one way only.
"""

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from gristmill.tokens.shards import TokenizedShard, in_order

SEPARATOR = "~"


def partition_name(source: str, label: str) -> str:
    """The folder of a partition below tokens/; without a label it is the source's."""
    return f"{source}{SEPARATOR}{label}" if label else source


def source_of(name: str) -> str:
    """The source of a partition, by its folder's name."""
    return name.partition(SEPARATOR)[0]


def belongs_to(name: str, other: str) -> bool:
    """Whether a folder is that of another name or of a partition of it: web~news~3 belongs to web
    and to web~news.
    """
    return name == other or name.startswith(f"{other}{SEPARATOR}")


def by_label(
    tokenized: list[TokenizedShard], labels: list[np.ndarray], count: int, dtype: np.dtype, at: Path
) -> list[TokenizedShard]:
    """The documents of each of `count` labels, as one file of tokens in `at`; `labels` (n,) int64
    are those of each raw shard's documents. One pass over the tokens.
    """
    from gristmill.kernels.hashing import shuffle

    at.mkdir(parents=True, exist_ok=True)
    names = [at / f"label_{number:05d}" for number in range(count)]
    with ExitStack() as stack:
        files = [stack.enter_context(open(name, "wb", buffering=1 << 16)) for name in names]
        for shard, of_shard in zip(tokenized, labels, strict=True):
            first = 0
            for tokens, documents, lengths in in_order([shard], dtype):
                block = of_shard[first : first + len(documents)]
                first += len(documents)
                stops = np.cumsum(lengths)
                for number in np.unique(block).tolist():
                    members = np.flatnonzero(block == number)
                    own = shuffle.gather(tokens, stops - lengths, stops, members)
                    files[number].write(own.data)
    return [_labelled(names[number], tokenized, labels, number) for number in range(count)]


def _labelled(
    path: Path, tokenized: list[TokenizedShard], labels: list[np.ndarray], number: int
) -> TokenizedShard:
    def joined(columns: list[np.ndarray]) -> np.ndarray:
        own = [column[of == number] for column, of in zip(columns, labels, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *own])

    return TokenizedShard(
        path,
        joined([shard.documents for shard in tokenized]),
        joined([shard.lengths for shard in tokenized]),
        repeats=joined([shard.times for shard in tokenized]),
    )
