"""Drop documents that were withdrawn, by a list: `gristmill release withdraw` writes it.

listed    the document is on the list

A line is `shard:row`, the number of a document, and its URL if it has one. The number alone would
drop another document where the plan of raw shards is another: if the URL at that number differs,
the run stops. A line may also be a URL alone; then all documents with it are dropped. Lines that
start with `#` are comments.

The step drops documents before any other step, so that no text of them is stored: neither in
documents/ nor in samples/.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import RecipeError
from gristmill.filters.api.step import Decision, Inputs, Measured, Step
from gristmill.tables.schema import MOST_ROWS, MOST_SHARDS, document_name, first_document

REASON = "withdrawn.listed"


class Withdrawn(Step, frozen=True, kw_only=True):
    """Drop the documents on a list of withdrawn ones.

    They are dropped before any other step (docs/withdrawal.md). Origin: this project.
    """

    name: ClassVar[str] = "withdrawn"
    version: ClassVar[int] = 1
    example: ClassVar[str] = 'list = "withdrawn.txt"'
    reasons: ClassVar[Mapping[str, str]] = {"listed": "The document is in `list`."}
    measures: ClassVar[Mapping[str, str]] = {"listed": "1: the document is in `list`."}

    # The list of withdrawn documents, as `gristmill release withdraw` writes it: a path or URL.
    list_: str = msgspec.field(name="list")

    def inputs(self) -> dict[str, str]:
        return {"withdrawn.list": self.list_}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        path = inputs[self.list_].path
        listed = read_list(Path(path).read_bytes(), self.list_)
        numbers = np.array(sorted(listed.urls), np.int64)
        alone = pa.array(sorted(listed.alone), pa.string())

        def measure(batch: pa.RecordBatch) -> Measured:
            documents = batch["document"].to_numpy()
            mask = np.isin(documents, numbers)
            for row in np.flatnonzero(mask).tolist():
                wanted, url = listed.urls[int(documents[row])], batch["url"][row].as_py()
                if wanted not in (None, url):
                    raise RecipeError(
                        f"{self.list_}: document {document_name(int(documents[row]))} is "
                        f"{wanted!r} there, and {url!r} here: the list is of another plan of raw "
                        "shards. Run with the plan of the corpus that the list is of (--plan)"
                    )
            by_url = pc.is_in(batch["url"], alone).to_numpy(zero_copy_only=False)
            return Measured({"listed": pa.array((mask | by_url).astype(np.int8))})

        return measure

    def decide(self, measures: Mapping[str, pa.Array]) -> Decision:
        listed = pc.equal(measures["listed"], 1)
        nothing = pa.nulls(len(listed), pa.float64())
        return Decision(pc.if_else(listed, "listed", None).cast(pa.string()), nothing, nothing)


class WithdrawnList(NamedTuple):
    """The entries of a list."""

    urls: dict[int, str | None]  # of documents by number; null: the line has no URL
    alone: set[str]  # URLs without a number


def read_list(data: bytes, name: str) -> WithdrawnList:
    """Read a list. Raises RecipeError for a line that is neither a document nor a URL."""
    entries = WithdrawnList({}, set())
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{name}: not UTF-8: {error}") from error
    for place, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        first, _, url = line.rstrip("\r").partition(" ")
        shard, colon, row = first.partition(":")
        if colon and shard.isdecimal() and row.isdecimal():
            if int(shard) >= MOST_SHARDS or int(row) >= MOST_ROWS:
                raise RecipeError(f"{name}, line {place}: {first} is the number of no document")
            entries.urls[first_document(int(shard)) + int(row)] = url or None
        elif "://" in first and not url:
            entries.alone.add(first)
        else:
            raise RecipeError(f"{name}, line {place}: expected shard:row and its URL, or a URL")
    return entries


def write_list(urls: Mapping[int, str | None], alone: Collection[str] = ()) -> bytes:
    """Return the bytes of a list of documents, by number, and of URLs without one. A URL that would
    break a line is left out beside its number.
    """
    lines = ["# Documents that were withdrawn: `gristmill release withdraw` wrote this list."]
    for number, url in sorted(urls.items()):
        plain = url is not None and url.isprintable()
        lines.append(f"{document_name(number)} {url}" if plain else document_name(number))
    return "".join(f"{line}\n" for line in [*lines, *sorted(alone)]).encode()
