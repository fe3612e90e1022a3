"""A sample of what was dropped: for each reason the documents with the least keyed hash, which no order of work changes."""

import hashlib
from typing import Any

import pyarrow as pa

from gristmill import schema

SAMPLE_CHARACTERS = 20_000


class Sampler:
    """Of each reason the documents with the least keyed hash: a sample that no order of work changes.

    A text is cut at SAMPLE_CHARACTERS.
    """

    def __init__(self, seed: int, most: int) -> None:
        self._key = f"sample {seed}".encode()
        self._most = most
        self._rows: dict[str, list[tuple[bytes, dict[str, Any]]]] = {}

    def _rank(self, document: int) -> bytes:
        return hashlib.blake2b(document.to_bytes(8, "big"), digest_size=8, key=self._key).digest()

    def offer(self, document: int, reason: str) -> bool:
        """Whether a document is among its reason's least so far; one without text, for `offered`."""
        held = self._rows.setdefault(reason, [])
        rank = self._rank(document)
        if len(held) >= self._most and (not held or rank >= held[-1][0]):
            return False
        held.append((rank, {"document": document}))
        held.sort(key=lambda entry: entry[0])
        del held[self._most :]
        return True

    def offered(self) -> list[tuple[int, str]]:
        """Document and reason of all that is held."""
        return [(values["document"], reason) for reason, held in self._rows.items() for _, values in held]

    def add(self, dropped: pa.RecordBatch) -> None:
        documents = dropped["document"].to_pylist()
        reasons = dropped["reason"].to_pylist()
        for row, (document, reason) in enumerate(zip(documents, reasons, strict=True)):
            held = self._rows.setdefault(reason, [])
            rank = self._rank(document)
            if len(held) >= self._most and (not held or rank >= held[-1][0]):
                continue
            values = {name: dropped[name][row].as_py() for name in schema.SAMPLES.names}
            values["text"] = values["text"][:SAMPLE_CHARACTERS]
            held.append((rank, values))
            held.sort(key=lambda entry: entry[0])
            del held[self._most :]

    def batches(self) -> list[pa.RecordBatch]:
        rows = [values for held in self._rows.values() for _, values in held]
        rows.sort(key=lambda values: values["document"])
        return [pa.RecordBatch.from_pylist(rows, schema.SAMPLES)] if rows else []
