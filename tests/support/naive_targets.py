"""Targets of sources by their definition, document after document: the slow twin of the cut."""

from typing import NamedTuple


class Source(NamedTuple):
    """A source: its shards, each a list of texts (None: a row without one), and its target in each
    generation (None: it has none).
    """

    shards: list[list[str | None]]
    targets: list[int | None]


class Corpus:
    """The verdicts of a corpus that grows: every generation reads what its targets allow."""

    def __init__(self, sources: list[Source], lengths: dict[str, int]) -> None:
        """`lengths` are the tokens of each text, its end included."""
        self.sources, self.lengths = sources, lengths
        self.verdicts: dict[tuple[int, int], tuple[str | None, float | None, float | None]] = {}
        self.tokens = [0] * len(sources)  # of kept documents
        self.kept: list[list[tuple[int, int]]] = [[] for _ in sources]
        self.absent: set[int] = set()  # numbers of shards that were not read
        self._seen: set[str] = set()  # texts that are kept
        # Of each source what is not read: shards, each with its first row.
        self._left = [[(place, 0) for place in range(len(one.shards))] for one in sources]
        self._behind: list[list[tuple[int, int]]] = [[] for _ in sources]  # documents behind a cut
        self._reached: list[int | None] = [None] * len(sources)  # the tokens at its cut
        self._number = 0

    def grow(self, generation: int) -> None:
        """Read one generation."""
        numbered = []
        for place, source in enumerate(self.sources):
            target, reached = source.targets[generation], self._reached[place]
            if reached is not None and target is not None and target <= reached:
                for at in self._behind[place]:  # the same cut, of another target
                    self.verdicts[at] = ("target.reached", float(reached), float(target))
                continue
            self._behind[place] = []
            self._reached[place] = None
            for shard, start in self._left[place]:
                numbered.append((place, shard, start, self._number))
                self._number += 1
            self._left[place] = []
        for place, shard, start, number in numbered:
            self._read(place, shard, start, number, self.sources[place].targets[generation])

    def _read(self, place: int, shard: int, start: int, number: int, target: int | None) -> None:
        if self._reached[place] is not None:
            self.absent.add(number)
            self._left[place].append((shard, start))
            return
        for row, text in enumerate(self.sources[place].shards[shard]):
            if row < start:
                continue
            verdict: tuple[str | None, float | None, float | None] = (None, None, None)
            if text is None:
                verdict = ("read.no_text", None, None)
            elif self._reached[place] is not None:
                verdict = ("target.reached", float(self.tokens[place]), float(target or 0))
                self._behind[place].append((number, row))
            elif text in self._seen:
                verdict = ("deduplicate.exact_duplicate", None, None)
            else:
                self._seen.add(text)
                self.tokens[place] += self.lengths[text]
                self.kept[place].append((number, row))
                if target is not None and self.tokens[place] >= target:
                    self._reached[place] = self.tokens[place]
                    self._left[place].append((shard, row + 1))
            self.verdicts[number, row] = verdict
