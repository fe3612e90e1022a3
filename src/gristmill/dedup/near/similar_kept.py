"""Kept documents with a near-duplicate among the kept ones: pairs that were compared and are as
similar as the floor, but not as the threshold, or that a run with `scope = "source"` keeps.

None of them is taken for validation, so that training has no near-duplicate of it.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.dedup.disk_arrays import in_sorted
from gristmill.store.parts import read_batches

SIMILAR = pa.schema([pa.field("document", pa.int64(), nullable=False)])
HELD = 1 << 20  # numbers that wait to be sorted


def similar_kept(pairs: Iterable[pa.RecordBatch], dropped: np.ndarray, floor: float) -> np.ndarray:
    """Return the documents of pairs of this corpus with a similarity of at least `floor`, neither
    of which is among the sorted `dropped`: (n,) int64, sorted.

    `pairs` are batches of PAIRS_FOUND (near_stage.py).
    """
    parts, waiting = [np.empty(0, np.int64)], 0
    for batch in pairs:
        near = pc.greater_equal(batch["similarity"], floor)
        batch = batch.filter(pc.and_(pc.is_null(batch["candidate_corpus"]), near))
        ends = [batch[name].to_numpy() for name in ("document", "candidate")]
        kept = ~(in_sorted(ends[0], dropped) | in_sorted(ends[1], dropped))
        parts += [end[kept] for end in ends]
        waiting += 2 * int(kept.sum())
        if waiting > max(HELD, len(parts[0])):
            parts, waiting = [np.unique(np.concatenate(parts))], 0
    return np.unique(np.concatenate(parts))


def with_equal_texts(
    documents: np.ndarray, signatures: list[Path], dropped: np.ndarray
) -> np.ndarray:
    """Return the sorted documents, and all documents not among the sorted `dropped` whose
    normalised text is that of one of them: (n,) int64, sorted.

    Texts are compared by 64 bits of the hash in the tables of signatures.
    """
    hashes = [np.empty(0, np.uint64)]
    for numbers, text_hashes in _hashes(signatures):
        hashes.append(text_hashes[in_sorted(numbers, documents)])
    wanted = np.unique(np.concatenate(hashes))
    equal = [documents]
    for numbers, text_hashes in _hashes(signatures):
        numbers = numbers[in_sorted(text_hashes, wanted)]
        equal.append(numbers[~in_sorted(numbers, dropped)])
    return np.unique(np.concatenate(equal))


def _hashes(signatures: list[Path]) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Yield documents (n,) int64, and the first 8 bytes of their texts' hashes (n,) uint64."""
    for path in signatures:
        for batch in read_batches(path, ["document", "text_hash"]):
            column = batch["text_hash"]
            words = np.frombuffer(column.buffers()[1], "<u8")
            start = 2 * column.offset
            yield batch["document"].to_numpy(), words[start : start + 2 * len(column) : 2]
