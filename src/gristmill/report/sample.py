"""A sample of a recipe's raw shards: a few of each source in a seeded order, the last of them cut
once there is enough.

Shards that are on this machine come first; others are fetched into the cache, as many as the sample
needs. A whole shard is read in its place, and so are packed Parquet and Arrow, which cannot be cut.
Of a larger shard the first bytes are copied, of Parquet the first rows.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import SourceError
from gristmill.phases.inputs.fetch import Asked, Fetch, Row
from gristmill.phases.inputs.plan import Plan, Planned, Sources
from gristmill.phases.running.progress import Progress
from gristmill.recipe import Loaded, Recipe, Source
from gristmill.schema import shard_name
from gristmill.store.codecs import Damage, Pieces
from gristmill.store.transfer import Transfer

ROWS = 256  # of Parquet, taken at a time
WHOLE = (b"PAR1", b"ARRO", b"\xff\xff\xff\xff")  # the first bytes of tables that cannot be cut
LEAST_SHARE = 1 / 16  # of the sample, for a source however small


class Piece(NamedTuple):
    """A sampled shard, or the start of one."""

    source: str
    path: Path
    raw: float  # bytes of the raw shard that it stands for
    size: int  # bytes of the whole raw shard


class Download(NamedTuple):
    """What fetching the sample took."""

    bytes: int
    seconds: float


class Taker:
    """Takes samples of a plan."""

    def __init__(
        self, loaded: Loaded, rows: list[Row], sources: Sources, transfer: Transfer, temporary: Path
    ) -> None:
        """`rows` is the plan as a dry run lists it; copies go to `temporary`, which the caller
        removes.
        """
        self._loaded, self._rows, self._sources, self._transfer = loaded, rows, sources, transfer
        self._temporary = temporary
        self._shares = _shares(loaded.recipe, rows)
        self.download = Download(0, 0.0)

    def take(self, size: int, shards: int | None) -> list[Piece]:
        """Pieces of every source: together about `size` decoded bytes, or `shards` whole shards of
        each. Raises SourceError.
        """
        pieces = []
        for source in self._loaded.recipe.source:
            budget = max(1, int(size * self._shares[source.name]))
            for count, (shard, path) in enumerate(self._paths(source), 1):
                whole = path.stat().st_size
                if shards is not None:
                    pieces.append(Piece(source.name, path, whole, whole))
                    if count == shards:
                        break
                    continue
                target = (
                    self._temporary
                    / f"sample-{shard_name(shard.number)}{''.join(path.suffixes[-2:])}"
                )
                piece, took = start_of(Piece(source.name, path, whole, whole), target, budget)
                pieces.append(piece)
                budget -= took
                if budget <= 0:
                    break
        return pieces

    def _paths(self, source: Source) -> Iterator[tuple[Planned, Path]]:
        """A source's shards in the order of the sample, with their paths; shards that cannot be
        fetched are left out.
        """
        rows = [
            row for row in self._rows if row.shard.source == source.name and row.state != "absent"
        ]
        rows.sort(
            key=lambda row: (row.state != "here", _place(self._loaded.recipe.seed, row.shard.url))
        )
        failed, had = "all of its shards are absent", False
        for row in rows:
            shard = msgspec.structs.replace(row.shard, number=0)
            plan = Plan(shards=[shard])
            fetching = Fetch(
                plan, self._sources, self._loaded.folder, self._transfer, Asked(allow_missing=True)
            )
            if (
                self._sources.remote(shard) is None
                and (path := self._loaded.folder / shard.url).is_file()
            ):
                had = True
                yield row.shard, path
                continue
            progress = Progress(None)
            got = fetching.all(self._temporary, progress, lambda _: None)
            if got.failed:
                failed = "; ".join(map(str, got.failed.values()))
                continue
            if row.state == "to fetch":
                came = self.download.bytes + got.paths[0].stat().st_size
                self.download = Download(came, self.download.seconds + progress.seconds["fetch"])
            had = True
            yield row.shard, got.paths[0]
        if not had:
            raise SourceError(
                f"source {source.name!r}: no raw shard can be had to measure a sample: {failed}"
            )


def sampled(recipe: Recipe, pieces: list[Piece]) -> Recipe:
    """The recipe over a sample."""
    sources = [
        msgspec.structs.replace(
            source,
            files=[str(piece.path) for piece in pieces if piece.source == source.name],
            urls=[],
            commoncrawl=None,
            paths=None,
            sample=None,
            sha256sums=None,
            authorization=None,
        )
        for source in recipe.source
    ]
    # No guard over a sample; and its documents are kept, so that their bytes can be counted.
    settings = recipe.deduplicate and msgspec.structs.replace(
        recipe.deduplicate, largest_cluster=None
    )
    return msgspec.structs.replace(
        recipe, source=sources, deduplicate=settings, keep_documents=True
    )


def _shares(recipe: Recipe, rows: list[Row]) -> dict[str, float]:
    """Each source's share of the sample: that of its bytes, a shard of unknown size counts
    as the mean.
    """
    known = [row.size for row in rows if row.size]
    mean = sum(known) / len(known) if known else 1.0
    sizes = {source.name: 0.0 for source in recipe.source}
    for row in rows:
        sizes[row.shard.source] += row.size or mean
    total = sum(sizes.values())
    return {name: max(size / total, LEAST_SHARE) for name, size in sizes.items()}


def _place(seed: int, url: str) -> bytes:
    return hashlib.sha256(f"size {seed} {url}".encode()).digest()


def start_of(piece: Piece, target: Path, size: int) -> tuple[Piece, int]:
    """(the start of a shard that decodes to about `size` bytes, its decoded bytes); the whole shard
    in its place if it has no more.
    """
    with open(piece.path, "rb") as file:
        pieces = Pieces(file)
        head = b""
        for block in pieces:
            if not isinstance(block, Damage):
                head = head or block[:4]
                if head == b"PAR1" and pieces.codec == "none":
                    return _cut_table(piece, target, size)
            if pieces.decoded_bytes >= size and head not in WHOLE:
                break
        read = min(
            pieces.read_bytes, max(1, int(pieces.read_bytes * size / max(pieces.decoded_bytes, 1)))
        )
        if (
            piece.size <= read
            or (pieces.read_bytes >= piece.size and pieces.decoded_bytes <= size)
            or head in WHOLE
        ):
            return piece, pieces.decoded_bytes
        file.seek(0)
        data = file.read(read)
    if pieces.codec == "none":
        data = data[: data.rfind(b"\n") + 1] or data
    target.write_bytes(data)
    return piece._replace(path=target, raw=len(data)), size


def _cut_table(piece: Piece, target: Path, size: int) -> tuple[Piece, int]:
    """The first rows of a Parquet file."""
    with pq.ParquetFile(piece.path, pre_buffer=False) as file:
        rows = taken = 0
        with pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer:
            for batch in file.iter_batches(batch_size=ROWS, use_threads=False):
                writer.write_table(pa.Table.from_batches([batch]))
                rows, taken = rows + len(batch), taken + batch.nbytes
                if taken >= size:
                    break
        if rows == file.metadata.num_rows:
            target.unlink()
            return piece, taken
        return piece._replace(path=target, raw=piece.size * rows / file.metadata.num_rows), taken
