"""A share of the documents, drawn by a hash: the same ones in every run, on any machine, in any
order and however the files are split.

    BLAKE2b (RFC 7693) of a document's text, URL or host -> place, in 0 to 1
    place >= share                                       -> `left_out`

datatrove's SamplerFilter and dolma's random_number_v1 draw from a random number generator, and
depend on the order of documents. Here a larger share has all that a smaller one has, so that a
threshold on the stored place is enough to change it. Equal texts are kept or left out together;
so are the pages of a host with `by = "host"`.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from msgspec import Meta

from gristmill.filters.api.step import Inputs, Measured, Rule, Step, decide_by, measured, refuse_nan

BITS = 53  # of a hash that a float64 holds


class HashSample(Step, frozen=True, kw_only=True):
    """Keep a share of the documents, chosen by a hash.

    It is the same in any order and on any machine. Origin: datatrove's SamplerFilter, dolma's
    random_number_v1.
    """

    name: ClassVar[str] = "sample"
    version: ClassVar[int] = 1
    example: ClassVar[str] = 'share = 0.1\nby = "host"'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "missing > most_missing -> missing: The document has no URL to hash, and `missing` says "
        "drop.",
        "place >= share -> left_out: The document's place is not below `share`.",
    )
    measures: ClassVar[Mapping[str, str]] = {
        "place": "The document's place by its hash, from 0 to 1.",
        "missing": "1: there is nothing to hash.",
    }

    share: Annotated[float, Meta(gt=0.0, le=1.0)]  # The share of the documents that is kept.
    seed: Annotated[int, Meta(ge=0, lt=1 << 62)] = 0  # Another seed draws another sample.
    # What is hashed. A document without a URL has no host either.
    by: Literal["text", "url", "host"] = "text"
    # What is done with documents without a URL, where that is hashed.
    missing: Literal["drop", "keep"] = "drop"

    def __post_init__(self) -> None:
        refuse_nan([self.share])

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        return self._measure

    def _measure(self, batch: pa.RecordBatch) -> Measured:
        keys = batch["text" if self.by == "text" else "url"].to_pylist()
        if self.by == "host":
            keys = [None if key is None else lower_host(key) for key in keys]
        places = [np.nan if key is None else self.place(key) for key in keys]
        missing = pa.array([int(key is None) for key in keys], pa.int64())
        return Measured({**measured({"place": np.array(places, np.float64)}), "missing": missing})

    def place(self, key: str) -> float:
        """Return where a text, a URL or a host stands, at 0 or more and below 1."""
        keyed = hashlib.blake2b(
            key.encode("utf-8", "surrogatepass"), digest_size=8, key=self.seed.to_bytes(8, "big")
        )
        return (int.from_bytes(keyed.digest(), "big") >> (64 - BITS)) / (1 << BITS)

    @property
    def most_missing(self) -> int | None:
        """Return 0 if a document without a URL is dropped."""
        return 0 if self.missing == "drop" else None


def lower_host(url: str) -> str | None:
    """Return the host of a URL, in small letters; None: it has none."""
    try:
        return urlsplit(url).hostname or None
    except ValueError:  # half of an address in brackets, and similar
        return None
