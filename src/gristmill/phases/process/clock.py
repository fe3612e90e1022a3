"""Seconds and text bytes of each step, for the rates that `run` prints.

They go to run.json and into no part.
"""

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from gristmill.filters.api.texts import BatchTexts


class Clock:
    """Counts what each step took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.bytes: dict[str, int] = {}

    def of(self, name: str) -> "_Span":
        """Time what is done in a `with`."""
        return _Span(self, name)

    def around(
        self, name: str, call: Callable[[pa.RecordBatch, BatchTexts], Any]
    ) -> Callable[[pa.RecordBatch, BatchTexts], Any]:
        def timed(batch: pa.RecordBatch, texts: BatchTexts) -> Any:
            self.bytes[name] = self.bytes.get(name, 0) + batch["text"].nbytes
            with self.of(name):
                return call(batch, texts)

        return timed

    def through(self, name: str, batches: Any) -> Any:
        iterator = iter(batches)
        while True:
            with self.of(name):
                batch = next(iterator, None)
            if batch is None:
                return
            self.bytes[name] = self.bytes.get(name, 0) + batch["text"].nbytes
            yield batch
            del batch  # it need not be there while the next is read


class _Span:
    def __init__(self, clock: Clock, name: str) -> None:
        self._clock, self._name = clock, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        took = time.perf_counter() - self._start
        self._clock.seconds[self._name] = self._clock.seconds.get(self._name, 0.0) + took
