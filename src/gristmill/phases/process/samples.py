"""A sample of what was dropped: for each reason the documents with the least keyed hash, which no
order of work changes.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from gristmill.tables import schema

SAMPLE_CHARACTERS = 20_000


class Sampler:
    """Of each reason the documents with the least keyed hash: a sample that no order of work
    changes.

    A text is cut at SAMPLE_CHARACTERS.
    """

    def __init__(self, seed: int, most: int) -> None:
        self._key = f"sample {seed}".encode()
        self._most = most
        self._rows: dict[str, list[tuple[bytes, dict[str, Any]]]] = {}

    def _hold(self, document: int, reason: str, row: Callable[[], dict[str, Any]]) -> None:
        """Hold a document if it is among its reason's least so far."""
        held = self._rows.setdefault(reason, [])
        rank = hashlib.blake2b(document.to_bytes(8, "big"), digest_size=8, key=self._key).digest()
        if len(held) >= self._most and (not held or rank >= held[-1][0]):
            return
        held.append((rank, row()))
        held.sort(key=lambda entry: entry[0])
        del held[self._most :]

    def offer(self, document: int, reason: str) -> None:
        """A document without its text, for `offered`."""
        self._hold(document, reason, lambda: {"document": document})

    def offered(self) -> list[tuple[int, str]]:
        """Document and reason of all that is held."""
        return [
            (values["document"], reason)
            for reason, held in self._rows.items()
            for _, values in held
        ]

    def add(self, dropped: pa.RecordBatch) -> None:
        documents = dropped["document"].to_pylist()
        reasons = dropped["reason"].to_pylist()
        for row, (document, reason) in enumerate(zip(documents, reasons, strict=True)):
            self._hold(document, reason, partial(_sample, dropped, row))

    def batches(self) -> list[pa.RecordBatch]:
        rows = [values for held in self._rows.values() for _, values in held]
        rows.sort(key=lambda values: values["document"])
        return [pa.RecordBatch.from_pylist(rows, schema.SAMPLES)] if rows else []


def _sample(dropped: pa.RecordBatch, row: int) -> dict[str, Any]:
    values = {name: dropped[name][row].as_py() for name in schema.SAMPLES.names}
    values["text"] = values["text"][:SAMPLE_CHARACTERS]
    return values
