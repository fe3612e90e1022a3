"""What a step is, and what it says of a batch."""

from typing import Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa


class Judgement(NamedTuple):
    """What a filter says of the n rows of a batch. It drops nothing: engine.judge does."""

    reason: pa.Array  # (n,) string, without the step's name; null keeps the row
    value: pa.Array  # (n,) float64: the measured value that the reason is about
    threshold: pa.Array  # (n,) float64: what it was compared with
    measures: dict[str, pa.Array]  # by name, each (n,): all measured values, exact


class Step(Protocol):
    """A frozen value with parameters (a msgspec Struct), called on a batch.

    `name` is the recipe's word, `version` changes whenever the same parameters may judge otherwise.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    sources: list[str] | None

    def __call__(self, batch: pa.RecordBatch) -> Judgement:
        """Judge a batch of DOCUMENTS."""
        ...

    def inputs(self) -> dict[str, Any]:
        """What the step reads besides documents: name -> {"sha256", ...}."""
        ...
