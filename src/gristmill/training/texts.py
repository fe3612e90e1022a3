"""The texts that a tokenizer is trained on or shown with: of files in any format that a recipe
reads, or the kept documents of a corpus; all of them, or a sample.

A sample of n documents is the n whose texts have the least BLAKE2b-64 with a fixed key: it depends
on the texts alone, not on files, their order, or workers. It costs a second reading: the first
finds the hash of the last document that belongs to it, in 8 bytes a document of the sample.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.corpus.corpus import Corpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.phases.output.corpus_texts import corpus_texts
from gristmill.progress.counted_work import counted
from gristmill.source.files_read import counted_files, error_names
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields
from gristmill.store.manifest import MANIFEST, Manifest
from gristmill.store.parts import read_rows
from gristmill.tables.columns import utf8_buffers
from gristmill.tables.schema import shard_name

LANGUAGE = "language.label"  # the measure of the step `language`
KEY = b"gristmill tokenizer sample"
SHOWN = 3  # files that a message names


Read = Callable[[], Iterator[pa.RecordBatch]]


class TextSource(NamedTuple):
    """Texts of one origin, which can be read more than once."""

    name: str
    # Batches with the columns `text`, without nulls and empty texts, and `language`, null if the
    # corpus has no step `language`.
    read: Read
    where: str = ""  # its files and corpora, for messages


class Amount(NamedTuple):
    """What was read of a source."""

    documents: int
    bytes: int
    sha256: str | None = None  # of a sample: sha256 over the sorted BLAKE2b-64 of its texts


def name_sources(
    inputs: Iterable[Path | str],
    *,
    text: str = "text",
    limit: int | None = None,
    on_skipped: Callable[[int], None] = lambda _: None,
) -> list[TextSource]:
    """Return the sources of files and corpora: all files are one source, `files`; a corpus has its
    own.

    `text` and `limit` (documents of each file) are for files; `on_skipped` gets numbers of their
    documents that could not be read or are too large, at each reading. Raises RecipeError for a
    path that is neither; VerificationError for a corpus that is not finished.
    """
    files: list[Path] = []
    readers: dict[str, list[Read]] = {}
    where: dict[str, list[Path]] = {}
    for path in map(Path, inputs):
        if path.is_dir():
            for source in _corpus_sources(path):
                readers.setdefault(source.name, []).append(source.read)
                where.setdefault(source.name, []).append(path)
        elif path.is_file():
            files.append(path)
        else:
            raise RecipeError(f"{path}: no such file")
    if files:
        readers.setdefault("files", []).append(lambda: _file_texts(files, text, limit, on_skipped))
        where.setdefault("files", []).extend(files)
    return [
        TextSource(name, _chained(reads), listed(where[name])) for name, reads in readers.items()
    ]


def listed(names: Sequence[Path | str]) -> str:
    """Return the first of some names, for a message."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(map(str, names[:SHOWN])) + more


def _chained(reads: list[Read]) -> Read:
    def read() -> Iterator[pa.RecordBatch]:
        for reader in reads:
            yield from (batch for batch in reader() if len(batch))

    return read


def _file_texts(
    files: list[Path], text: str, limit: int | None, on_skipped: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    with counted_files("read", files) as read:
        for number, file in enumerate(files):
            with error_names(file):
                for batch in ShardReader(file, number, fields=Fields(text), limit=limit):
                    if failed := len(batch) - batch["reason"].null_count:
                        on_skipped(failed)
                    read.text(number, batch["text"].nbytes)
                    yield _not_empty(batch["text"], None)


def finished(root: Path) -> Manifest:
    """Return the manifest of a corpus. Raises VerificationError if it is not finished."""
    pair = Corpus(root).finished()
    if pair is None:
        raise VerificationError(
            f"{root}: no {MANIFEST}: not a corpus, or not finished. Name files, or run the recipe "
            "again to finish it"
        )
    return pair[0]


def _corpus_sources(root: Path) -> list[TextSource]:
    manifest = finished(root)

    def reader(source: str) -> Read:
        def read() -> Iterator[pa.RecordBatch]:
            shards = [
                shard
                for shard in manifest.raw_shards
                if shard.source == source and shard.missing is None
            ]
            documents = sum(shard.unique_documents or 0 for shard in shards)
            with counted(f"read {source}", documents, "documents") as count:
                for shard in shards:
                    labels = _ShardLanguages(root / f"measures/{shard_name(shard.number)}.parquet")
                    for batch in corpus_texts(root, manifest, source, shard.number):
                        count.add(len(batch))
                        yield _not_empty(batch["text"], labels.of(batch["document"]))

        return read

    names = dict.fromkeys(shard.source for shard in manifest.raw_shards)
    return [TextSource(name, reader(name)) for name in names]


class _ShardLanguages:
    """The languages of a shard's documents, if there are any."""

    def __init__(self, measures: Path) -> None:
        self._table: pa.Table | None = None
        if measures.exists() and LANGUAGE in pq.read_schema(measures).names:
            self._table = read_rows(measures, columns=["document", LANGUAGE])

    def of(self, documents: pa.Array) -> pa.Array | None:
        """Return the label of each document; None: there are none."""
        if self._table is None:
            return None
        places = pc.index_in(documents, self._table["document"].combine_chunks())
        return self._table[LANGUAGE].combine_chunks().take(places).cast(pa.string())


def _not_empty(column: pa.Array, languages: pa.Array | None) -> pa.RecordBatch:
    if languages is None:
        languages = pa.nulls(len(column), pa.string())
    batch = pa.RecordBatch.from_arrays([column, languages], names=["text", "language"])
    return batch.filter(pc.fill_null(pc.greater(pc.binary_length(column), 0), False))


def thinned(batches: Iterable[pa.RecordBatch], halvings: int) -> Iterator[pa.RecordBatch]:
    """About one document of 2^`halvings`, those of the least hashes: more halvings leave a part of
    what fewer leave.
    """
    for batch in batches:
        if not halvings:
            yield batch
            continue
        chosen = _hashes(batch["text"]) >> np.uint64(64 - halvings) == 0
        if chosen.any():
            yield batch.filter(pa.array(chosen))


def sampled(
    source: TextSource, count: int
) -> tuple[Iterator[pa.RecordBatch], Callable[[], Amount]]:
    """Return a sample of at most `count` documents of a source, and what it holds, known when it
    has been read.
    """
    least = np.empty(0, np.uint64)
    for batch in source.read():
        least = np.concatenate([least, _hashes(batch["text"])])
        if len(least) > 4 * count:
            least = np.partition(least, count - 1)[:count]
    least = np.sort(least)[:count]
    last = int(least[-1]) if len(least) else 0
    # Equal texts have equal hashes: of the last one as many are taken as there is room for.
    of_last = int((least == last).sum())
    taken = {"bytes": 0, "last": 0}

    def read() -> Iterator[pa.RecordBatch]:
        for batch in source.read():
            hashes = _hashes(batch["text"])
            chosen = hashes < last
            for place in np.flatnonzero(hashes == last):
                if taken["last"] < of_last:
                    chosen[place] = True
                    taken["last"] += 1
            if chosen.any():
                part = batch.filter(pa.array(chosen))
                taken["bytes"] += pc.sum(pc.binary_length(part["text"])).as_py()
                yield part

    digest = hashlib.sha256(least.astype(">u8").tobytes()).hexdigest()
    return read(), lambda: Amount(len(least), taken["bytes"], digest)


def _hashes(column: pa.Array) -> np.ndarray:
    """Return (n,) uint64 of n texts."""
    offsets, data = utf8_buffers(column)
    view, bounds = data.data, offsets.tolist()
    hashes = [
        hashlib.blake2b(view[bounds[i] : bounds[i + 1]], digest_size=8, key=KEY).digest()
        for i in range(len(column))
    ]
    return np.frombuffer(b"".join(hashes), ">u8").astype(np.uint64)
