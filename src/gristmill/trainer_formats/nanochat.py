"""nanochat: `shard_00000.parquet` and the following with the column `text`; the last shard is
validation.

Source: nanochat's nanochat/dataset.py and dev/repackage_data_reference.py: shards of about 250
million characters, row groups of 1,024 documents, zstd level 3, no dictionary, no statistics. Row
groups are smaller where there are few documents: nanochat deals row groups out to its processes,
and one that gets none from any shard waits forever.

Validation documents are those of the corpus' own validation shards; in a corpus without tokens
those that a hash of the document's number picks.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.store.parts import HashingFile
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.kept_texts import KeptTexts, TextFormat

CHARACTERS = 250_000_000  # of a shard
ROW_GROUP = 1024  # documents
PROCESSES = 8  # that should each find a row group
SHARE, LEAST = 0.0005, 100  # of validation in a corpus without tokens; documents
SCHEMA = pa.schema([pa.field("text", pa.string())])


class _NanochatShard:
    """A shard that is being written."""

    def __init__(self, file: HashingFile, rows: int) -> None:
        self._rows = rows
        self._waiting: list[pa.Array] = []
        self._count = 0
        self.characters = 0
        self.writer = pq.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            compression_level=3,
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        )

    def write(self, texts: pa.Array) -> None:
        """Add the texts of at most a row group's rest."""
        self._waiting.append(texts)
        self._count += len(texts)
        self.characters += int(pc.sum(pc.utf8_length(texts)).as_py() or 0)
        if self._count == self._rows:
            self.flush()

    @property
    def room(self) -> int:
        """Return documents that the open row group takes."""
        return self._rows - self._count

    def flush(self) -> None:
        """End the row group."""
        if self._count:
            table = pa.table({"text": pa.concat_arrays(self._waiting)}, schema=SCHEMA)
            self.writer.write_table(table, row_group_size=self._count)
        self._waiting, self._count = [], 0


def write(texts: KeptTexts, folder: ExportFolder) -> int:
    """Write the shards; returns the number of documents. Raises RecipeError if no document is
    validation, or none training.
    """
    chosen = _Validation(texts)
    train, val = chosen.counts(texts)
    if not train or not val:
        raise RecipeError(
            f"--to nanochat: {train:,} documents of training and {val:,} of validation; nanochat "
            "needs both. Use more documents, or a recipe with tokens.validation"
        )
    shards = _write(texts, folder, chosen, False, 0, train)
    _write(texts, folder, chosen, True, shards, val)
    folder.describe(details={"train_shards": shards, "train": train, "validation": val})
    return train + val


def _write(
    texts: KeptTexts, folder: ExportFolder, chosen: "_Validation", wanted: bool, first: int, n: int
) -> int:
    """Write the shards of one split, numbered from `first`; validation is one shard."""
    rows = max(1, min(ROW_GROUP, n // PROCESSES))
    stream = _slices(texts, chosen, wanted)
    number = first
    pending = next(stream, None)
    while pending is not None:
        with folder.file(f"shard_{number:05d}.parquet") as file:
            shard = _NanochatShard(file, rows)
            try:
                while pending is not None:
                    size = min(shard.room, len(pending))
                    shard.write(pending.slice(0, size))
                    pending = pending.slice(size) if size < len(pending) else next(stream, None)
                    # A shard ends with a whole row group.
                    if not wanted and shard.characters >= CHARACTERS and shard.room == rows:
                        break
                shard.flush()
            finally:
                shard.writer.close()
        number += 1
    return number - first


def _slices(texts: KeptTexts, chosen: "_Validation", wanted: bool) -> Iterator[pa.Array]:
    """Yield the texts of a split, in the order of the corpus."""
    for number, source in texts.shards():
        for batch in texts.batches(source, number):
            mask = chosen.of(batch["document"].to_numpy())
            column = batch["text"].filter(pa.array(mask if wanted else ~mask))
            if len(column):
                yield column


class _Validation:
    """Which documents are validation."""

    def __init__(self, texts: KeptTexts) -> None:
        self._documents: np.ndarray | None = None
        if texts.manifest.tokens is not None:
            corpus = TokenCorpus.open(Path(texts.root))
            numbers = [
                documents
                for source in corpus.sources("val")
                for documents, _ in corpus.stream(source, "val").every_document()
            ]
            self._documents = np.unique(np.concatenate([*numbers, np.empty(0, np.int64)]))
        kept = sum(shard.unique_documents for shard in texts.manifest.raw_shards)
        self._share = min(0.1, max(SHARE, LEAST / max(kept, 1)))

    def of(self, documents: np.ndarray) -> np.ndarray:
        """Return (n,) bool."""
        if self._documents is not None:
            return np.isin(documents, self._documents)
        from gristmill.kernels.hashing.shuffle import order_keys

        key = int.from_bytes(b"nanochat", "little")
        return order_keys(documents, key).astype(np.float64) < self._share * 2.0**64

    def counts(self, texts: KeptTexts) -> tuple[int, int]:
        """Return documents of training and of validation."""
        train = val = 0
        for number, source in texts.shards():
            for batch in texts.batches(source, number):
                count = int(self.of(batch["document"].to_numpy()).sum())
                val += count
                train += len(batch) - count
        return train, val


NANOCHAT = TextFormat(
    name="nanochat",
    files="`shard_00000.parquet` ...; the last is validation",
    fields="`text`",
    write=write,
)
