"""Counts the pieces of texts, on all processors: each thread has a table of its own, and the tables
are added at the end, so that the counts depend on the texts alone.

Memory: a few batches of text, and 64 to 128 bytes for each different piece in each thread's table.
Texts with more than MOST_PIECES different pieces, or MOST_BYTES bytes of them, are refused.
"""

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import SimpleQueue

import pyarrow as pa

from gristmill.columns import utf8_buffers
from gristmill.errors import RecipeError
from gristmill.kernels.bpe_training.pieces import CountedPieces, PieceCounter
from gristmill.kernels.jit.compile import processors
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.kernels.pieces.patterns import mark
from gristmill.training.texts import Amount

MOST_PIECES = 1 << 24  # different pieces, in one table: 1 to 2 GB
MOST_BYTES = 1 << 28  # of different pieces; choosing merges takes 32 times as much


def count_pieces(
    batches: Iterable[pa.RecordBatch], pattern: Pattern, workers: int | None = None
) -> tuple[CountedPieces, Amount]:
    """The pieces of batches of texts (`text`, without nulls), their counts, and what was read.

    Raises RecipeError if there are too many different pieces.
    """
    threads = max(1, workers or processors())
    counters: SimpleQueue[PieceCounter] = SimpleQueue()
    for _ in range(threads):
        counters.put(PieceCounter())

    def count(column: pa.Array) -> None:
        offsets, data = utf8_buffers(column)
        counter = counters.get()
        try:
            counter.count(mark(pattern, offsets, data), data)
            _check_size(counter)
        finally:
            counters.put(counter)

    documents = size = 0
    running: set[Future[None]] = set()
    with ThreadPoolExecutor(threads) as pool:
        for batch in batches:
            column = batch["text"]
            documents += len(column)
            offsets, _ = utf8_buffers(column)
            size += int(offsets[-1]) - int(offsets[0])
            running.add(pool.submit(count, column))
            if len(running) > 2 * threads:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        for future in running:
            future.result()
    whole = counters.get()
    for _ in range(threads - 1):
        whole.add(counters.get())
        _check_size(whole)
    return whole.pieces(), Amount(documents, size)


def _check_size(counter: PieceCounter) -> None:
    if len(counter) > MOST_PIECES or counter.bytes > MOST_BYTES:
        raise RecipeError(
            f"the texts have {len(counter):,} different pieces of {counter.bytes:,} bytes so far; "
            f"the limits are {MOST_PIECES:,} pieces and {MOST_BYTES:,} bytes, beyond which memory "
            "would not be bounded: train on a sample, with --sample N"
        )
