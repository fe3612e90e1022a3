"""Finish: what is left of a shard, as a stream. Dropped rows go out here, and frequent lines; tokenizing, `text/` and `export` all read it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.dedup.lines import Cutter
from gristmill.store.parts import read_batches

SLICE = 4 << 20  # bytes of text given at a time


def finish(documents: Path, verdicts: Path, cutter: Cutter | None = None) -> Iterator[pa.RecordBatch]:
    """The documents of a shard that are kept, in document order: DOCUMENTS, in batches of a few MB.

    `cutter` cuts frequent lines out of them; a document of which nothing is left stays, empty.
    """
    gone = []
    for batch in read_batches(verdicts, ["document", "reason"]):
        gone.append(batch["document"].filter(pc.is_valid(batch["reason"])).to_numpy())
    dropped = np.concatenate([*gone, np.empty(0, np.int64)])
    for batch in read_batches(documents):
        stays = np.isin(batch["document"].to_numpy(), dropped, assume_unique=True, invert=True)
        if not stays.all():
            batch = batch.filter(pa.array(stays))
        step = max(1, len(batch) * SLICE // max(batch["text"].nbytes, 1))
        for start in range(0, len(batch), step):
            part = batch.slice(start, step)
            yield part if cutter is None else cutter.cut(part)
