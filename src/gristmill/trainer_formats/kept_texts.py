"""The kept documents of a corpus as text, and what a format of text is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from gristmill.errors import RecipeError
from gristmill.phases.output.corpus_texts import corpus_texts
from gristmill.store.manifest import Manifest
from gristmill.trainer_formats.export_folder import ExportFolder


class KeptTexts:
    """The kept documents of a finished corpus, by raw shard."""

    def __init__(self, root: Path, manifest: Manifest, sources: list[str]) -> None:
        """`sources`: those to read; none: all. Raises RecipeError for one that there is not, or a
        corpus that was imported.
        """
        if not manifest.raw_shards:
            raise RecipeError(
                f"{root}: it has no texts: its tokens were imported. Choose a format of tokens"
            )
        known = [table["name"] for table in manifest.recipe["source"]]
        for name in sources:
            if name not in known:
                raise RecipeError(f"--source {name}: no such source; there are {', '.join(known)}")
        self.root, self.manifest = root, manifest
        self.on_documents: Callable[[int], None] = lambda _: None  # of each batch that is read
        self.sources = [name for name in known if not sources or name in sources]

    def shards(self) -> list[tuple[int, str]]:
        """Return (number, source) of each raw shard."""
        return [
            (shard.number, shard.source)
            for shard in self.manifest.raw_shards
            if shard.missing is None and shard.source in self.sources
        ]

    def fields(self, source: str) -> tuple[str, str]:
        """Return the original names of text and URL."""
        table = next(table for table in self.manifest.recipe["source"] if table["name"] == source)
        return table["text"], table["url"]

    def batches(self, source: str, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the kept documents of a raw shard: batches of schema.TEXT."""
        for batch in corpus_texts(self.root, self.manifest, source, number):
            self.on_documents(len(batch))
            yield batch


class TextFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A format of text."""

    name: str  # for `--to`
    files: str  # what they are called, for docs/trainer-formats.md
    fields: str  # what they hold, for the same page
    write: Callable[[KeptTexts, ExportFolder], int]  # returns the number of documents

    @property
    def meaning(self) -> str:
        """Return what it is, for `explain`."""
        return f"Text: {self.files}, with {self.fields}."
