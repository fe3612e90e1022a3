"""Cuts repeated spans out of the documents of a shard."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.dedup.settings import Substrings
from gristmill.errors import Damaged
from gristmill.tables.columns import utf8_buffers, view_strings
from gristmill.tables.schema import first_document


def shard_spans(path: Path, number: int) -> pa.Table:
    """Return the repeated spans of a raw shard's documents, in document order."""
    low, high = first_document(number), first_document(number + 1)
    within = [("document", ">=", low), ("document", "<", high)]
    return pq.read_table(path, filters=within, use_threads=False).combine_chunks()


class SpanCutter:
    """Cuts repeated spans out of the documents of a shard, and counts what it cut."""

    def __init__(self, path: Path, number: int, settings: Substrings) -> None:
        """`path` is the list of repeated spans."""
        spans = shard_spans(path, number)
        self._documents, self._starts, self._stops = (
            np.ascontiguousarray(spans[name].to_numpy())
            for name in ("document", "first_byte", "end_byte")
        )
        self._settings, self._path = settings, path
        self.counts = {"cut": 0, "characters": 0, "bytes": 0, "documents": 0, "emptied": 0}

    def remove(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without repeated spans; a document whose text becomes empty is kept."""
        from gristmill.kernels.substrings.cut import CutSpans, cut

        if self._settings.action == "count" or not len(self._documents):
            return batch
        documents, texts = batch["document"].to_numpy(), batch["text"]
        firsts = np.searchsorted(self._documents, documents, "left")
        ends = np.searchsorted(self._documents, documents, "right")
        if (firsts == ends).all():
            return batch
        offsets, data = utf8_buffers(texts)
        counts = ends - firsts
        rows = np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        spans = CutSpans(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            self._starts[rows],
            self._stops[rows],
        )
        lengths = np.diff(offsets)
        if (spans.stops > np.repeat(lengths, counts)).any():
            raise Damaged(
                f"{self._path}: a span ends behind its document's text: the documents are not "
                "those that it was written for"
            )
        new_offsets, new_data, removed = cut(offsets, data, spans, boundary=self._settings.boundary)
        new = view_strings(new_offsets, new_data)
        self.counts["cut"] += int(removed.spans.sum())
        self.counts["bytes"] += int(removed.bytes.sum())
        self.counts["documents"] += int(np.count_nonzero(removed.bytes))
        self.counts["emptied"] += int(np.count_nonzero((removed.bytes == lengths) & (lengths > 0)))
        self.counts["characters"] += _characters(texts) - _characters(new)
        return batch.set_column(
            batch.schema.get_field_index("text"), batch.schema.field("text"), new
        )


def _characters(texts: pa.Array) -> int:
    return int(pc.sum(pc.utf8_length(texts)).as_py() or 0)
