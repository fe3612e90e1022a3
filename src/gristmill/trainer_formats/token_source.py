"""The documents of a corpus by their place, without a copy: for grain, torchtitan, and all that
takes objects with a length and items.

    TokenDocuments("corpus")                  grain.MapDataset.source(...) takes it
    TokenDocumentsConfig(corpus="corpus")     torchtitan's SingleDatasetConfig(source=...) takes it

Nothing but numpy is imported. Items are read from memory-mapped shards; the object can be pickled
to other processes, and each opens the shards itself.

Source: grain's RandomAccessDataSource (a protocol: __len__ and __getitem__), torchtitan's
SourceConfig (a protocol: build) in torchtitan/components/data/sources.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.corpus.layout import WITHDRAWN
from gristmill.corpus.token_corpus import Split, TokenCorpus, TokenStream
from gristmill.user_input import one_or_more


class TokenDocuments:
    """The documents of one or several sources, one source after another, in the order of their
    shards. An item is an array of tokens (n,) of `dtype`, its end of text included. Documents that
    were withdrawn (docs/withdrawal.md) are left out.
    """

    @one_or_more("sources")
    def __init__(
        self,
        corpus: Path | str,
        *,
        sources: Sequence[str] = (),
        split: Split = "train",
        dtype: str = "int64",
    ) -> None:
        """`sources`: their names; none: all. Raises VerificationError if the corpus is not as its
        manifest says, RecipeError for a source without tokens.
        """
        self._root, self._split = Path(corpus).absolute(), split
        self._dtype = np.dtype(dtype)
        opened = TokenCorpus.open(self._root)
        self._digest = opened.digest
        self._names = list(sources) or opened.sources(split)
        self._open(opened)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the tokens of document `index`; raises IndexError."""
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"document {index} of {len(self)}")
        shard = int(np.searchsorted(self._firsts, place, "right")) - 1
        stream, number = self._shards[shard]
        numbers, ends = stream.boundaries(number)
        # A document that goes on from the shard before is counted there.
        row = place - int(self._firsts[shard])
        row += int(np.searchsorted(self._withdrawn[shard], row, "right"))
        row += int(self._continued[shard])
        base = int(stream.starts[number])
        start = base + (int(ends[row - 1]) if row else 0)
        stop = base + int(ends[row])
        following = number + 1
        while row == len(numbers) - 1 and following < len(stream.shards):
            others, stops = stream.boundaries(following)
            if others[0] != numbers[row]:
                break
            stop = int(stream.starts[following]) + int(stops[0])
            if len(others) > 1:
                break
            following += 1
        return stream.read(start, stop).astype(self._dtype)

    def __repr__(self) -> str:
        """Return what it is, for grain's checkpoints: equal for equal documents, on any machine."""
        names = ", ".join(self._names)
        return f"TokenDocuments({self._digest[:16]}, {self._split}, {names}, {self._dtype})"

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_root", "_split", "_dtype", "_digest", "_names")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open(TokenCorpus.open(self._root))

    def _open(self, corpus: TokenCorpus) -> None:
        self._shards: list[tuple[TokenStream, int]] = []
        # By shard, how many documents of those that begin in it come before each withdrawn one.
        self._withdrawn: list[np.ndarray] = []
        begins: list[int] = []
        continued: list[bool] = []
        none = np.empty(0, np.int64)
        withdrawn = any(part.path == WITHDRAWN for part in corpus.manifest.parts)
        for name in self._names:
            stream = corpus.stream(name, self._split)
            last = None
            for number in range(len(stream.shards)):
                numbers = stream.boundaries(number)[0]
                continued.append(bool(numbers[0] == last))
                gone = np.flatnonzero(numbers[int(continued[-1]) :] < 0) if withdrawn else none
                self._withdrawn.append(gone - np.arange(len(gone)))
                begins.append(len(numbers) - continued[-1] - len(gone))
                self._shards.append((stream, number))
                last = numbers[-1]
        self._continued = continued
        self._firsts = np.concatenate([[0], np.cumsum(begins, dtype=np.int64)]).astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenDocumentsConfig:
    """What torchtitan builds a source from."""

    corpus: str
    sources: tuple[str, ...] = ()
    split: Split = "train"

    def build(self, *, dataset_iteration_policy: object) -> TokenDocuments:
        """Return the source; the policy (order, repeats, ranks) is applied by torchtitan, around
        it.
        """
        return TokenDocuments(self.corpus, sources=self.sources, split=self.split)
