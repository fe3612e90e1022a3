"""Counts the pieces of texts, on all processors: each thread has a table of its own, which is added
to one for all when it is full and at the end, so that the counts depend on the texts alone.

Memory: a few batches of text, FULL pieces a thread, and 64 to 128 bytes for each different piece.
Texts with more than MOST_PIECES different pieces, or MOST_BYTES bytes of them, are too many: merges
are chosen in memory, in about 32 bytes for each of these bytes.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

from gristmill.engine.engine import worker_count
from gristmill.errors import MachineError, RecipeError
from gristmill.kernels.bpe_training.pieces import CountedPieces, PieceCounter
from gristmill.kernels.jit.build import processors
from gristmill.kernels.pieces.pattern_names import Pattern
from gristmill.kernels.pieces.patterns import mark
from gristmill.system.memory_use import free_memory
from gristmill.tables.columns import utf8_buffers
from gristmill.training.texts import Amount, thinned

MOST_PIECES = 1 << 24  # different pieces, in one table: 1 to 2 GB
MOST_BYTES = 1 << 28  # of different pieces: 8 GB for choosing merges
NODE_BYTES = 32  # of memory that choosing merges takes for a byte of the pieces
FULL = 1 << 20  # different pieces of a thread: 64 MB


class TooManyPieces(RecipeError):
    """The texts have more different pieces than are counted."""

    def __init__(self, counter: PieceCounter, documents: int) -> None:
        """`documents`: how many had been given out when the limit was passed."""
        few = max(documents // 2, 1)
        super().__init__(
            f"the texts have {len(counter):,} different pieces of {counter.bytes:,} bytes in the "
            f"first {documents:,} documents; the limits are {MOST_PIECES:,} pieces and "
            f"{MOST_BYTES:,} bytes, beyond which merging does not fit into memory. Train on a "
            f"sample: --sample {few} fits, if documents are alike"
        )


class PieceCounts(NamedTuple):
    """What was counted."""

    pieces: CountedPieces
    amount: Amount
    halvings: int  # of 2^halvings documents one was counted


def check_memory(counted: list[CountedPieces]) -> None:
    """Refuse what the machine's memory does not hold, where the system says how much is free (on
    Linux): a process that takes more is ended without a word. `counted` are held together, and
    merges are chosen for one after another. Raises MachineError.
    """
    sizes = [len(pieces.blob) + len(pieces.counts) for pieces in counted]
    needed = NODE_BYTES * max(sizes, default=0)
    free = free_memory()
    if free is not None and needed > free:
        raise MachineError(
            f"choosing merges among {max(sizes):,} bytes of different pieces needs about "
            f"{needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free. Train on a sample "
            "(--sample N), or on a machine with more"
        )


def count_pieces_that_fit(
    batches: Callable[[], Iterable[pa.RecordBatch]], pattern: Pattern, workers: int | None = None
) -> PieceCounts:
    """Return the pieces and their counts; where there are too many of them, of half of the
    documents, of a quarter, and so on, chosen by a hash of their texts: the first that fits.
    `batches` is called for each.

    Raises TooManyPieces if a single document has too many.
    """
    for halvings in range(64):
        try:
            pieces, amount = count_pieces(thinned(batches(), halvings), pattern, workers)
        except TooManyPieces as error:
            most = error
            continue
        if not amount.documents and halvings:
            raise most
        return PieceCounts(pieces, amount, halvings)
    raise most


def count_pieces(
    batches: Iterable[pa.RecordBatch], pattern: Pattern, workers: int | None = None
) -> tuple[CountedPieces, Amount]:
    """Return the pieces of batches of texts (`text`, without nulls), their counts, and what was
    read.

    Raises TooManyPieces.
    """
    threads = worker_count(workers or processors())
    whole, adding = PieceCounter(), Lock()
    counters: SimpleQueue[PieceCounter] = SimpleQueue()
    for _ in range(threads):
        counters.put(PieceCounter())
    documents = size = 0

    def add(counter: PieceCounter) -> None:
        with adding:
            whole.add(counter)
            if len(whole) > MOST_PIECES or whole.bytes > MOST_BYTES:
                raise TooManyPieces(whole, documents)

    def count(column: pa.Array) -> None:
        offsets, data = utf8_buffers(column)
        counter = counters.get()
        try:
            counter.count(mark(pattern, offsets, data), data)
            if len(counter) > FULL or counter.bytes > MOST_BYTES // 8:
                full, counter = counter, PieceCounter()
                add(full)
        finally:
            counters.put(counter)

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
    for _ in range(threads):
        add(counters.get())
    return whole.pieces(), Amount(documents, size)
