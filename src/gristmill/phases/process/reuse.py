"""Process again after thresholds changed: measures are used again, and only documents that they
cannot judge are read.

    old measures, verdicts -> rejudge.redecide -> new verdicts; measures of steps that are no longer
    reached become null
    old documents, signatures                  -> less what is dropped now
    old rows that a step found                 -> of documents that still get to it
    the raw shard                              -> what gets farther than it was measured, and texts
                                               for samples/, through all steps

The result is a fresh run's, byte for byte. Where nothing must be read the raw shard is not opened.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus, Record
from gristmill.dedup.settings import Deduplicate
from gristmill.dedup.signatures import permutation_count
from gristmill.filters.api.judge import Judged
from gristmill.filters.api.step import Step
from gristmill.phases.process.redecide import redecide
from gristmill.phases.process.samples import Sampler
from gristmill.store.parts import read_batches
from gristmill.store.proof import damage
from gristmill.tables import schema


def usable(corpus: Corpus, record: Record[Any], measuring: str) -> bool:
    """Return whether the last processing of a shard measured the same, and all that it wrote is
    there, byte for byte.
    """
    if record.counts.measuring != measuring or not record.work:
        return False
    return all(damage(path, part.sha256, part.size) is None for path, part in corpus.files(record))


class Old:
    """The tables of a shard that was processed under other thresholds."""

    def __init__(
        self,
        corpus: Corpus,
        name: str,
        last: Record[Any],
        verdicts: Path,
        deduplicate: Deduplicate | None,
        tables: Mapping[str, str],
    ) -> None:
        self._tables = tables  # by step the folder of its own table
        self._parts = {part.path for part in last.parts}
        self._corpus = corpus
        self._name = name
        self._verdicts = verdicts
        self._signatures = (
            None if deduplicate is None else schema.signatures(permutation_count(deduplicate))
        )

    def _find(self, folder: str) -> Path:
        return self._corpus.find(f"{folder}/{self._name}.parquet")

    def judged_again(
        self,
        steps: Sequence[Step],
        sampler: Sampler,
        read: Callable[[np.ndarray], Iterator[Judged]],
        *,
        everything: bool,
    ) -> Iterator[Judged]:
        """Yield the shard's rows as the steps decide now.

        `read` judges documents of the raw shard (sorted int64) anew.
        """
        samples = pa.Table.from_batches(list(read_batches(self._find("samples"))), schema.SAMPLES)
        reasons = samples["reason"].to_pylist()
        stored = dict(zip(samples["document"].to_pylist(), reasons, strict=True))
        unread, wanted = [], []
        for measures, verdicts in self._rows():
            said = redecide(measures, verdicts, steps, everything=everything)
            unread.append(verdicts["document"].to_numpy()[said.unread | said.anew])
            for document, reason in zip(
                verdicts["document"].to_pylist(), said.reason.to_pylist(), strict=True
            ):
                if reason is not None:
                    sampler.offer(document, reason)
        for document, reason in sampler.offered():
            # Its text is in samples/ as that step got it, or must be had from the raw
            # shard.
            if stored.get(document, "").partition(".")[0] != reason.partition(".")[0]:
                wanted.append(document)
        again = np.union1d(
            np.concatenate([*unread, np.empty(0, np.int64)]), np.array(wanted, np.int64)
        )
        fresh = _gather(list(read(again)) if len(again) else [])
        documents = _SortedBatches(read_batches(self._find("documents")), schema.DOCUMENTS)
        signatures = self._signatures and _SortedBatches(
            read_batches(self._find("signatures")), self._signatures
        )
        batches = self._found()
        for measures, verdicts in self._rows():
            said = redecide(measures, verdicts, steps, everything=everything)
            part = self._stretch(
                measures, verdicts, said, fresh, steps, samples, documents, signatures, everything
            )
            left = {step: [self._left(step, rows, part, fresh)] for step, rows in batches.items()}
            yield part._replace(found=left)

    def _found(self) -> "dict[str, _SortedBatches]":
        """By step what its own table holds."""
        batches = {}
        for step, folder in self._tables.items():
            if f"{folder}/{self._name}.parquet" in self._parts:  # else it is of another recipe
                path = self._find(folder)
                batches[step] = _SortedBatches(read_batches(path), pq.read_schema(path))
        return batches

    def _left(
        self, step: str, found: "_SortedBatches", judged: Judged, fresh: Judged | None
    ) -> pa.RecordBatch:
        """Return rows that a step found, of documents whose measures of it are there; those of
        documents judged anew in place of old ones.
        """
        numbers = judged.measures["document"].to_numpy()
        rows = found.upto(int(numbers[-1]))
        column = next(name for name in judged.measures.schema.names if name.startswith(f"{step}."))
        there = judged.measures["document"].filter(pc.is_valid(judged.measures[column]))
        if fresh is not None:
            part = _between(fresh, int(numbers[0]), int(numbers[-1]))
            old = rows.filter(pc.invert(pc.is_in(rows["document"], part.verdicts["document"])))
            rows = merged(old, part.found[step][0]) if step in part.found else old
        return rows.filter(pc.is_in(rows["document"], there))

    def _rows(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Measures and verdicts of the same rows."""
        path = self._find("measures")
        measures = _SortedBatches(read_batches(path), pq.read_schema(path))
        for verdicts in read_batches(self._verdicts):
            yield measures.upto(int(verdicts["document"][-1].as_py())), verdicts

    def _stretch(
        self,
        measures: pa.RecordBatch,
        verdicts: pa.RecordBatch,
        said: Any,
        fresh: Judged | None,
        steps: Sequence[Step],
        samples: pa.Table,
        documents: "_SortedBatches",
        signatures: "_SortedBatches | None",
        everything: bool,
    ) -> Judged:
        numbers = verdicts["document"].to_numpy()
        last = int(numbers[-1])
        if not everything:
            measures = _less(measures, said.reached, steps)
        columns = [said.reason, said.value, said.threshold]
        names = ["reason", "value", "threshold"]
        new = verdicts
        for name, column in zip(names, columns, strict=True):
            new = new.set_column(
                schema.VERDICTS.names.index(name), schema.VERDICTS.field(name), column
            )
        kept_before = pa.array(numbers[(said.reached == len(steps)) & ~said.unread])
        kept = documents.upto(last)
        kept = kept.filter(pc.is_in(kept["document"], kept_before))
        signed = None
        if signatures is not None:
            signed = signatures.upto(last)
            signed = signed.filter(pc.is_in(signed["document"], kept_before))
        dropped = [_select_samples(samples, new)]
        anew = kept.slice(0, 0)
        if fresh is not None:
            part = _between(fresh, int(numbers[0]), last)
            new, measures = (
                _replace_rows(new, part.verdicts),
                _replace_rows(measures, part.measures),
            )
            anew = part.kept
            kept = merged(kept, anew)
            dropped += part.dropped
        return Judged(kept, new, measures, dropped, {}, signed, anew)


class _SortedBatches:
    """Batches sorted by document, taken up to a document at a time."""

    def __init__(self, batches: Iterator[pa.RecordBatch], kind: pa.Schema) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None
        self._kind = kind

    def upto(self, last: int) -> pa.RecordBatch:
        """Return the rows not yet taken, up to a document."""
        taken: list[pa.RecordBatch] = []
        while True:
            if self._rest is None:
                self._rest = next(self._batches, None)
            if self._rest is None:
                break
            stop = int(np.searchsorted(self._rest["document"].to_numpy(), last, "right"))
            taken.append(self._rest.slice(0, stop))
            if stop < len(self._rest):
                self._rest = self._rest.slice(stop)
                break
            self._rest = None
        return _joined([pa.RecordBatch.from_pylist([], self._kind), *taken])


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema as one."""
    table = pa.Table.from_batches(
        [batch.cast(batches[0].schema) for batch in batches]
    ).combine_chunks()
    return table.to_batches()[0] if len(table) else batches[0].slice(0, 0)


def merged(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    """Return two batches sorted by document as one."""
    if not len(other):
        return one
    both = _joined([one, other])
    return both.take(pa.array(np.argsort(both["document"].to_numpy(), kind="stable")))


def _between(judged: Judged, first: int, last: int) -> Judged:
    """Return the rows from one document to another."""

    def cut(batch: pa.RecordBatch) -> pa.RecordBatch:
        start, stop = np.searchsorted(batch["document"].to_numpy(), [first, last + 1])
        return batch.slice(start, stop - start)

    return Judged(
        cut(judged.kept),
        cut(judged.verdicts),
        cut(judged.measures),
        [cut(rows) for rows in judged.dropped],
        {step: [cut(rows) for rows in batches] for step, batches in judged.found.items()},
    )


def _gather(judged: list[Judged]) -> Judged | None:
    """Return what was judged as one."""
    if not judged:
        return None

    dropped = [batch for part in judged for batch in part.dropped]
    kept, verdicts, measures = (
        _joined([getattr(part, name) for part in judged])
        for name in ("kept", "verdicts", "measures")
    )
    tables: dict[str, list[pa.RecordBatch]] = {}
    for part in judged:
        for step, batches in part.found.items():
            tables.setdefault(step, []).extend(batches)
    joined = {step: [_joined(batches)] for step, batches in tables.items()}
    return Judged(kept, verdicts, measures, dropped, joined)


def _replace_rows(rows: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with some of them replaced; both sorted by document."""
    if not len(new):
        return rows
    order = np.arange(len(rows))
    order[np.searchsorted(rows["document"].to_numpy(), new["document"].to_numpy())] = len(
        rows
    ) + np.arange(len(new))
    return _joined([rows, new]).take(pa.array(order))


def _less(measures: pa.RecordBatch, reached: np.ndarray, steps: Sequence[Step]) -> pa.RecordBatch:
    """Measures without those of steps that a document does not reach."""
    columns = []
    places = {step.name: place for place, step in enumerate(steps)}
    for name in measures.schema.names:
        place = places.get(name.partition(".")[0])
        column = measures[name]
        if place is not None and (beyond := reached < place).any():
            column = pc.if_else(pa.array(beyond), None, column).cast(column.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=measures.schema)


def _select_samples(samples: pa.Table, verdicts: pa.RecordBatch) -> pa.RecordBatch:
    """Return the stored samples among some rows, with the reasons and values that they have now, if
    their step is the same.
    """
    numbers = verdicts["document"].to_numpy()
    held = samples["document"].to_numpy()
    some = samples.filter(pa.array((held >= numbers[0]) & (held <= numbers[-1]))).combine_chunks()
    rows = pa.array(np.searchsorted(numbers, some["document"].to_numpy()))
    reason = verdicts["reason"].take(rows)
    old = (
        some["reason"].combine_chunks() if some["reason"].num_chunks else pa.array([], pa.string())
    )
    prefix = [
        (now or "").partition(".")[0] == was.partition(".")[0]
        for now, was in zip(reason.to_pylist(), old.to_pylist(), strict=True)
    ]
    some = some.set_column(2, schema.SAMPLES.field("reason"), reason)
    some = some.set_column(3, schema.SAMPLES.field("value"), verdicts["value"].take(rows))
    kept = some.filter(pa.array(prefix, pa.bool_())).combine_chunks()
    return kept.to_batches()[0] if len(kept) else pa.RecordBatch.from_pylist([], kept.schema)
