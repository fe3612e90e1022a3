"""The ledger: which documents a step sees, when a document is seen, and what a range of steps has
covered. Answered from a corpus and a plan alone, by the pure function that the loader reads by.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.kernels.loading.runs import Runs
from gristmill.loader.order import SegmentOrder
from gristmill.loader.plan import LoaderPlan, opened
from gristmill.schema import document_name

BLOCK_TOKENS = 1 << 24  # looked up together
MOST_TOKENS = 1 << 40  # that are counted in one answer: hours
EPOCHS = 16  # of a source in which a document is looked for


def seen(
    corpus: TokenCorpus | Path | str,
    plan: LoaderPlan | Path | str,
    *,
    step: int | None = None,
    document: str | int | None = None,
    steps: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """The documents of a `step`; or the steps that see a `document` (shard:row, or its number); or
    what `steps` (first, and the one behind the last) have covered.

    Raises RecipeError if there is no such document or step, VerificationError if the plan or the
    corpus is damaged.
    """
    if sum(given is not None for given in (step, document, steps)) != 1:
        raise RecipeError("ask for one of: a step, a document, a range of steps")
    ledger = Ledger(opened(corpus), plan if isinstance(plan, LoaderPlan) else LoaderPlan.load(plan))
    if step is not None:
        return ledger.step(step)
    if document is not None:
        return ledger.document(document)
    assert steps is not None
    return ledger.coverage(*steps)


class Ledger:
    """Questions about one plan over one corpus."""

    def __init__(self, corpus: TokenCorpus, plan: LoaderPlan) -> None:
        """Opens no shard yet."""
        self.corpus, self.plan = corpus, plan
        self._orders: dict[int, SegmentOrder] = {}

    def _order(self, number: int) -> SegmentOrder:
        if number not in self._orders:
            segment = self.plan.segments[number]
            if segment.corpus != self.corpus.digest:
                raise RecipeError(
                    f"{self.corpus.root}: the plan reads the windows from "
                    f"{segment.from_window:,} on from the corpus with the manifest "
                    f"{segment.corpus[:12]}..., not from this one: ask that corpus"
                )
            self._orders[number] = SegmentOrder(self.corpus, segment)
        return self._orders[number]

    def step(self, step: int) -> dict[str, Any]:
        """The windows of a step, and of each the documents in order with their tokens."""
        first = self._first(step)
        number = self.plan.segment_at(first)
        order, segment = self._order(number), self.plan.segments[number]
        windows = first + np.arange(segment.batch_size)
        _, runs = order.runs(windows)
        sources, epochs, places = order.place(windows)
        found = order.reader.segments(runs)
        rows = [
            {
                "window": int(window),
                "source": order.names[source],
                "epoch": int(epoch),
                "number_in_epoch": int(order.permutation(source, epoch).forward(place[None])[0]),
                "documents": [],
            }
            for window, source, epoch, place in zip(
                windows, sources.tolist(), epochs.tolist(), places, strict=True
            )
        ]
        for row, start, length, document, begins in zip(
            *(field.tolist() for field in found[:5]), strict=True
        ):
            rows[row]["documents"].append(
                {
                    "document": document_name(document),
                    "first_column": start,
                    "tokens": length,
                    "from_its_start": begins,
                }
            )
        return {"step": step, "sequence_length": segment.sequence_length, "windows": rows}

    def document(self, document: str | int) -> dict[str, Any]:
        """Where a document is in its source, and the steps that see it, in the order of the run.

        Looks at the first EPOCHS epochs of each segment of the plan. Steps behind the end of a
        segment that another follows are none.
        """
        number = _number(document)
        found = []
        place: tuple[str, int, int] | None = None
        for at, segment in enumerate(self.plan.segments):
            if segment.corpus != self.corpus.digest:
                continue
            order, end = self._order(at), self.plan.end_of(at)
            for source, (name, stream) in enumerate(zip(order.names, order.streams, strict=True)):
                bounds = _bounds(stream.every_document(), number)
                if bounds is None:
                    continue
                place = (name, *bounds)
                windows = order.windows[source]
                if windows is None:
                    continue
                first = segment.sources[source].epoch
                for epoch in range(first, first + EPOCHS):
                    numbers = windows.locate(epoch, *bounds)
                    places = order.permutation(source, epoch).inverse(numbers)
                    for window in (order.window_of(source, epoch, p) for p in places.tolist()):
                        if window is not None and (end is None or window < end):
                            found.append((window, epoch))
        if place is None:
            raise RecipeError(
                f"document {document_name(number)}: the corpus has no "
                f"{self.plan.segments[-1].split} tokens of it"
            )
        return {
            "document": document_name(number),
            "source": place[0],
            "tokens": place[2] - place[1],
            "seen": [
                {"step": self.plan.step_of(window), "window": window, "epoch": epoch}
                for window, epoch in sorted(found)
            ],
            "epochs_looked_at": EPOCHS,
        }

    def coverage(self, first: int, stop: int) -> dict[str, Any]:
        """What steps first to stop - 1 cover: of each source windows, tokens, epochs, and how many
        documents were seen whole how many times; and a digest of every token's place.

        Memory: 4 bytes for each token of the sources.
        """
        if stop <= first:
            raise RecipeError(f"steps {first} to {stop}: the second is behind the last, and later")
        low, high = self._first(first), self._first(stop)
        length = max(segment.sequence_length for segment in self.plan.segments)
        if (high - low) * length > MOST_TOKENS:
            raise RecipeError(
                f"steps {first:,} to {stop:,} are {high - low:,} windows, too many to count one by "
                f"one: ask for ranges of at most {MOST_TOKENS // length:,} windows"
            )
        digest = hashlib.sha256()
        sources: dict[str, dict[str, Any]] = {}
        for at in range(self.plan.segment_at(low), self.plan.segment_at(high - 1) + 1):
            segment, end = self.plan.segments[at], self.plan.end_of(at)
            start, until = max(low, segment.from_window), high if end is None else min(high, end)
            self._count(self._order(at), start, until, digest, sources)
        order = self._order(self.plan.segment_at(high - 1))
        for source, (name, stream) in enumerate(zip(order.names, order.streams, strict=True)):
            entry = sources.get(name)
            if entry is None:
                continue
            times = np.cumsum(entry.pop("changes"))[:-1]
            entry["tokens_seen_times"] = _histogram(times)
            entry["documents_seen_times"] = _histogram(_least(stream.every_document(), times))
            entry["epochs"] = round(entry["tokens"] / order.segment.sources[source].tokens, 6)
        return {
            "steps": [first, stop],
            "windows": high - low,
            "sources": sources,
            "digest": digest.hexdigest(),
        }

    def _count(
        self,
        order: SegmentOrder,
        start: int,
        until: int,
        digest: Any,
        sources: dict[str, dict[str, Any]],
    ) -> None:
        """Add windows start to until of a segment to `sources`, and their tokens to the digest."""
        for name, stream in zip(order.names, order.streams, strict=True):
            empty = {"windows": 0, "tokens": 0, "changes": np.zeros(stream.tokens + 1, np.int32)}
            sources.setdefault(name, empty)
        step = max(1, BLOCK_TOKENS // order.segment.sequence_length)
        for at in range(start, until, step):
            windows = np.arange(at, min(until, at + step))
            of, runs = order.runs(windows)
            for field in Runs(runs.rows + at, *runs[1:]):
                digest.update(field.astype("<i8").data)
            for source, name in enumerate(order.names):
                mine = of[runs.rows] == source
                positions = runs.positions[mine] - order.reader.base[source]
                lengths = runs.lengths[mine]
                entry = sources[name]
                entry["windows"] += int((of == source).sum())
                entry["tokens"] += int(lengths.sum())
                np.add.at(entry["changes"], positions, 1)
                np.add.at(entry["changes"], positions + lengths, -1)

    def _first(self, step: int) -> int:
        if step < 0:
            raise RecipeError(f"step {step}: steps are counted from 0")
        return self.plan.window_of(step)


def _number(document: str | int) -> int:
    """A document's number. Raises RecipeError."""
    if isinstance(document, int):
        return document
    shard, colon, row = document.partition(":")
    if not (colon and shard.isdecimal() and row.isdecimal()) and not document.isdecimal():
        raise RecipeError(f"document {document!r}: name it as shard:row, or by its number")
    return (int(shard) << 32) + int(row) if colon else int(document)


def _bounds(shards: Iterator[tuple[np.ndarray, np.ndarray]], number: int) -> tuple[int, int] | None:
    """The tokens of a document in its stream, from and to; None if it has none there."""
    start: int | None = None
    end, before = 0, 0
    for documents, ends in shards:
        for place in np.flatnonzero(documents == number).tolist():
            first = before if place == 0 else int(ends[place - 1])
            start, end = first if start is None else start, int(ends[place])
        before = int(ends[-1]) if len(ends) else before
    return None if start is None or end == start else (start, end)


def _histogram(times: np.ndarray) -> dict[str, int]:
    """How many are 0, 1, 2 ..., by their number as text."""
    counts = np.bincount(times)
    return {str(time): int(count) for time, count in enumerate(counts) if count}


def _least(shards: Iterator[tuple[np.ndarray, np.ndarray]], times: np.ndarray) -> np.ndarray:
    """Of every document how many times all its tokens were seen: the least of its tokens."""
    found: list[int] = []
    last, before = None, 0
    for documents, ends in shards:
        starts = np.concatenate([[before], ends[:-1]]) if len(ends) else ends
        before = int(ends[-1]) if len(ends) else before
        some = np.flatnonzero(ends > starts)
        if not len(some):
            continue
        least = np.minimum.reduceat(times[: int(ends[-1])], starts[some])
        names, counts = documents[some].tolist(), least.tolist()
        if names[0] == last:
            found[-1] = min(found[-1], counts.pop(0))
        found += counts
        last = names[-1]
    return np.array(found, np.int64)


def lines(result: dict[str, Any]) -> list[str]:
    """A result of `seen` for people."""
    if "step" in result:
        found = [f"step {result['step']:,}: {len(result['windows'])} windows"]
        for row in result["windows"]:
            found.append(f"window {row['window']:,}  {row['source']}, epoch {row['epoch']}")
            found += [
                f"  {one['document']}  {one['tokens']:,} tokens"
                + ("" if one["from_its_start"] else ", not from its start")
                for one in row["documents"]
            ]
        return found
    if "document" in result:
        found = [
            f"{result['document']}: {result['tokens']:,} tokens of {result['source']}; seen in"
        ]
        found[0] += f" the first {result['epochs_looked_at']} epochs:"
        return [
            *found,
            *(
                f"  step {one['step']:,}, window {one['window']:,}, epoch {one['epoch']}"
                for one in result["seen"]
            ),
        ]
    found = [f"steps {result['steps'][0]:,} to {result['steps'][1] - 1:,}: {result['windows']:,}"]
    found[0] += " windows"
    for name, entry in result["sources"].items():
        found.append(
            f"{name}: {entry['windows']:,} windows, {entry['tokens']:,} tokens, "
            f"{entry['epochs']:.3f} epochs"
        )
        for time, count in entry["documents_seen_times"].items():
            found.append(f"  seen whole {time} times: {count:,} documents")
    return [*found, f"digest {result['digest']}"]
