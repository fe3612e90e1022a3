"""Blocks of batches made ahead by one thread, at most a few of them."""

import os
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from gristmill.loader.batch import Batch


class Block(NamedTuple):
    """The batches of whole steps, in order."""

    end: int  # the window of the stream behind the last step
    batches: list[Batch]
    consumed: list[int]  # windows that the whole job has consumed after each, in whole steps


Make = Callable[[int], Block]


class Prefetch:
    """A thread that makes blocks from a window on and keeps at most `depth` of them waiting.

    It holds no reference to the loader, so that a loader that nobody uses ends its thread.
    """

    def __init__(self, make: Make, window: int, depth: int) -> None:
        """The thread starts at once; `close` ends it."""
        self.process = os.getpid()  # a fork has no thread: the loader starts another
        self._blocks: queue.Queue[Block | BaseException] = queue.Queue(depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_work,
            args=(make, window, self._blocks, self._stop),
            name="gristmill-prefetch",
            daemon=True,
        )
        self._thread.start()

    def next(self) -> Block:
        """Return the next block; waits for it. Raises what the thread raised."""
        result = self._blocks.get()
        if isinstance(result, BaseException):
            self._stop.set()
            raise result
        return result

    def close(self) -> None:
        """End the thread, and wait until it has ended."""
        if self.process != os.getpid():
            return
        self._stop.set()
        while self._thread.is_alive():
            try:  # it may be waiting for room
                self._blocks.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)


def _work(
    make: Make, window: int, blocks: "queue.Queue[Block | BaseException]", stop: threading.Event
) -> None:
    result: Block | BaseException
    while not stop.is_set():
        try:
            result = make(window)
            window = result.end
        except BaseException as error:  # noqa: BLE001 - the next call of `next` raises it
            result = error
        while not stop.is_set():
            try:
                blocks.put(result, timeout=0.5)
                break
            except queue.Full:
                continue
        if isinstance(result, BaseException):
            return
