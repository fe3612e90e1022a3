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
from gristmill.loader.coverage import TimesRead
from gristmill.loader.order import Orders, SegmentOrder
from gristmill.loader.parameters import whole_number
from gristmill.loader.plan import LoaderPlan
from gristmill.loader.plan_segments import opened
from gristmill.tables.schema import document_name

BLOCK_TOKENS = 1 << 24  # looked up together
MOST_TOKENS = 1 << 40  # that are counted in one answer: hours
EPOCHS = 16  # of a source in which a document is looked for, if no range of steps is given
MOST_EPOCHS = 1 << 16  # in a range of steps


def seen(
    corpus: TokenCorpus | Path | str,
    plan: LoaderPlan | Path | str,
    *,
    step: int | None = None,
    document: str | int | None = None,
    steps: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Return the documents of a `step`; or the steps that see a `document` (shard:row, or its
    number), among `steps` (first, and the one behind the last) or in its source's first EPOCHS
    epochs; or what `steps` have covered.

    Raises RecipeError if there is no such document or step, VerificationError if the plan or the
    corpus is damaged.
    """
    if (step is not None) + (document is not None or steps is not None) != 1:
        raise RecipeError(
            "ask for one of: a step, a document (if you like in a range of steps), a range of steps"
        )
    ledger = Ledger(opened(corpus), plan if isinstance(plan, LoaderPlan) else LoaderPlan.load(plan))
    if step is not None:
        return ledger.step(step)
    if document is not None:
        return ledger.document(document, steps)
    assert steps is not None
    return ledger.coverage(*steps)


class Ledger:
    """Questions about one plan over one corpus."""

    def __init__(self, corpus: TokenCorpus, plan: LoaderPlan) -> None:
        """Open no shard yet."""
        self.corpus, self.plan = corpus, plan
        self._orders = Orders(corpus, plan)

    def step(self, step: int) -> dict[str, Any]:
        """Return the windows of a step, and of each the documents in order with their tokens."""
        first = self._first(step)
        number = self.plan.segment_at(first)
        order, segment = self._orders[number], self.plan.segments[number]
        windows = first + np.arange(segment.batch_size)
        _, runs = order.runs(windows)
        sources, epochs, places = order.place(windows)
        segments = order.reader.segments(runs)
        before = segment.sequence_length - segment.text_positions
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
            *(field.tolist() for field in segments[:5]), strict=True
        ):
            rows[row]["documents"].append(
                {
                    "document": document_name(document),
                    "first_column": start + before,
                    "tokens": length,
                    "from_its_start": begins,
                }
            )
        return {"step": step, "sequence_length": segment.sequence_length, "windows": rows}

    def document(self, document: str | int, steps: tuple[int, int] | None = None) -> dict[str, Any]:
        """Return where a document is in its source, and the steps that see it, in the order of the
        run.

        Looks at a range of `steps`; without one, at the first EPOCHS epochs of each segment of the
        plan. Steps behind the end of a segment that another follows are none.
        """
        number = _number(document)
        low, high = (0, None) if steps is None else self._range(*steps)
        sightings: list[tuple[int, int]] = []
        place: tuple[str, int, int] | None = None
        for at, segment in enumerate(self.plan.segments):
            if segment.corpus != self.corpus.digest:
                continue
            order = self._orders[at]
            ends = [end for end in (self.plan.end_of(at), high) if end is not None]
            first, end = max(low, segment.from_window), min(ends, default=None)
            for source, (name, stream) in enumerate(zip(order.names, order.streams, strict=True)):
                bounds = _bounds(stream.every_document(), number)
                if bounds is None:
                    continue
                place = (name, *bounds)
                sightings += _seen_in(order, source, bounds, first, end, bounded=steps is not None)
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
                for window, epoch in sorted(sightings)
            ],
            "epochs_looked_at": EPOCHS if steps is None else None,
            "steps_looked_at": None if steps is None else list(steps),
        }

    def coverage(self, first: int, stop: int) -> dict[str, Any]:
        """Return what steps first to stop - 1 cover: of each source windows, tokens, epochs, and
        how many documents were seen whole how many times; and a digest of every token's place.

        Memory grows with the windows of the sources (coverage.py), not with their tokens.
        """
        low, high = self._range(first, stop)
        length = max(segment.sequence_length for segment in self.plan.segments)
        if (high - low) * length > MOST_TOKENS:
            raise RecipeError(
                f"steps {first:,} to {stop:,} are {high - low:,} windows, too many to count one by "
                f"one: ask for ranges of at most {MOST_TOKENS // length:,} windows"
            )
        digest = hashlib.sha256()
        read: dict[str, TimesRead] = {}
        for at in range(self.plan.segment_at(low), self.plan.segment_at(high - 1) + 1):
            segment, end = self.plan.segments[at], self.plan.end_of(at)
            start, until = max(low, segment.from_window), high if end is None else min(high, end)
            self._count(self._orders[at], start, until, digest, read)
        order = self._orders.at(high - 1)
        sources = {}
        for name, stream in zip(order.names, order.streams, strict=True):
            times = read[name]
            sources[name] = {
                "windows": times.windows,
                "tokens": times.read,
                "tokens_seen_times": times.tokens_by_times(),
                "documents_seen_times": times.documents_by_times(stream.every_document()),
                "epochs": round(times.read / times.tokens, 6) if times.tokens else 0.0,
            }
        return {
            "steps": [first, stop],
            "windows": high - low,
            "sources": sources,
            "digest": digest.hexdigest(),
        }

    def _count(
        self, order: SegmentOrder, start: int, until: int, digest: Any, read: dict[str, TimesRead]
    ) -> None:
        """Add windows start to until of a segment to `read`, and their tokens to the digest."""
        for name, stream in zip(order.names, order.streams, strict=True):
            read.setdefault(name, TimesRead(stream.tokens))
        step = max(1, BLOCK_TOKENS // order.segment.sequence_length)
        for at in range(start, until, step):
            windows = np.arange(at, min(until, at + step))
            of, runs = order.runs(windows)
            for field in Runs(runs.rows + at, *runs[1:]):
                digest.update(field.astype("<i8").data)
            for source, name in enumerate(order.names):
                mine = of[runs.rows] == source
                read[name].windows += int((of == source).sum())
                read[name].add(runs.positions[mine] - order.reader.base[source], runs.lengths[mine])

    def _range(self, first: int, stop: int) -> tuple[int, int]:
        """Return the windows of a range of steps. Raises RecipeError."""
        first, stop = whole_number("step", first), whole_number("step", stop)
        if stop <= first:
            raise RecipeError(f"steps {first} to {stop}: the second is behind the last, and later")
        return self._first(first), self._first(stop)

    def _first(self, step: int) -> int:
        step = whole_number("step", step)
        if step < 0:
            raise RecipeError(f"step {step}: steps are counted from 0")
        return self.plan.window_of(step)


def _seen_in(
    order: SegmentOrder,
    source: int,
    bounds: tuple[int, int],
    first: int,
    end: int | None,
    *,
    bounded: bool,
) -> list[tuple[int, int]]:
    """Return the windows of a segment's stream, from `first` to before `end`, that have any of a
    source's tokens within `bounds`, each with its epoch; of EPOCHS epochs if the range is not
    `bounded`.
    """
    windows, segment = order.windows[source], order.segment
    if windows is None or (end is not None and end <= first):
        return []
    of = segment.sources[source]
    epochs = range(of.epoch, of.epoch + EPOCHS)
    if bounded:
        assert end is not None
        read = [int(order.mixture.before(w - segment.from_window)[source]) for w in (first, end)]
        least, most = (of.epoch + (of.rank + count) // windows.count for count in read)
        epochs = range(least, most + 1)
        if len(epochs) > MOST_EPOCHS:
            raise RecipeError(
                f"the steps are {len(epochs):,} epochs of source {of.name!r}, too many to look at "
                f"one by one: ask for a shorter range, of at most {MOST_EPOCHS:,}"
            )
    sightings = []
    for epoch in epochs:
        numbers = windows.locate(epoch, *bounds)
        places = order.permutation(source, epoch).inverse(numbers)
        for window in (order.window_of(source, epoch, place) for place in places.tolist()):
            if window is not None and first <= window and (end is None or window < end):
                sightings.append((window, epoch))
    return sightings


def _number(document: str | int) -> int:
    """Return a document's number. Raises RecipeError."""
    if isinstance(document, str):
        shard, colon, row = document.partition(":")
        parts = [shard, row] if colon else [shard]
        if all(part.isdecimal() and len(part) < 20 for part in parts):
            document = (int(shard) << 32) + int(row) if colon else int(shard)
    if isinstance(document, bool | str) or not 0 <= document < 1 << 63:
        raise RecipeError(f"document {document!r}: name it as shard:row, or by its number")
    return int(document)


def _bounds(shards: Iterator[tuple[np.ndarray, np.ndarray]], number: int) -> tuple[int, int] | None:
    """Return the tokens of a document in its stream, from and to; None if it has none there."""
    start: int | None = None
    end, before = 0, 0
    for documents, ends in shards:
        for place in np.flatnonzero((documents == number) | (documents == ~number)).tolist():
            first = before if place == 0 else int(ends[place - 1])
            start, end = first if start is None else start, int(ends[place])
        before = int(ends[-1]) if len(ends) else before
    return None if start is None or end == start else (start, end)


def lines(result: dict[str, Any]) -> list[str]:
    """Return a result of `seen` for people."""
    if "step" in result:
        output = [f"step {result['step']:,}: {len(result['windows'])} windows"]
        for row in result["windows"]:
            output.append(f"window {row['window']:,}  {row['source']}, epoch {row['epoch']}")
            output += [
                f"  {record['document']}  {record['tokens']:,} tokens"
                + ("" if record["from_its_start"] else ", not from its start")
                for record in row["documents"]
            ]
        return output
    if "document" in result:
        output = [
            f"{result['document']}: {result['tokens']:,} tokens of {result['source']}; seen in"
        ]
        if (steps := result["steps_looked_at"]) is not None:
            output[0] += f" steps {steps[0]:,} to {steps[1] - 1:,}:"
        else:
            output[0] += f" the first {result['epochs_looked_at']} epochs:"
        return [
            *output,
            *(
                f"  step {record['step']:,}, window {record['window']:,}, epoch {record['epoch']}"
                for record in result["seen"]
            ),
        ]
    output = [f"steps {result['steps'][0]:,} to {result['steps'][1] - 1:,}: {result['windows']:,}"]
    output[0] += " windows"
    for name, entry in result["sources"].items():
        output.append(
            f"{name}: {entry['windows']:,} windows, {entry['tokens']:,} tokens, "
            f"{entry['epochs']:.3f} epochs"
        )
        for time, count in entry["documents_seen_times"].items():
            output.append(f"  seen whole {time} times: {count:,} documents")
    return [*output, f"digest {result['digest']}"]
