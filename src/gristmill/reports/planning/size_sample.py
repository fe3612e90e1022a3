"""A sample of a recipe's raw shards: the first bytes of several shards of each source."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from gristmill.phases.inputs.fetch import Row
from gristmill.phases.inputs.packs import MANY
from gristmill.phases.inputs.plan import PlannedShard
from gristmill.recipe import Recipe
from gristmill.store.codecs import Damage, DecodedPieces

HERE, REMOTE = 4, 2  # large shards of a source: of those on this machine, of those to fetch
LEAST = 1 << 18  # bytes of a shard: with less, the first document may not be complete
ARROW = (b"ARRO", b"\xff\xff\xff\xff")  # the first bytes of tables that are not cut
ROWS = 256  # of Parquet, copied at a time


class SampledShard(NamedTuple):
    """The first bytes of a raw shard, or all of it."""

    source: str
    path: Path
    size: int  # bytes of the whole raw shard
    raw: float  # how many of them these are


def choose(recipe: Recipe, rows: list[Row], size: int) -> list[tuple[Row, int]]:
    """Return raw shards, and how many bytes of each: together about `size`, of each source in
    proportion to its own. Shards on this machine come first, in a seeded order. `rows` is the plan
    as a dry run lists it.
    """

    def order(row: Row) -> tuple[bool, bytes]:
        place = f"size {recipe.seed} {row.shard.url}".encode()
        return row.state != "here", hashlib.sha256(place).digest()

    chosen: list[tuple[Row, int]] = []
    total = sum(row.size or 1 for row in rows)
    for source in recipe.source:
        own = [row for row in rows if row.shard.source == source.name and row.state != "absent"]
        left = budget = size * sum(row.size or 1 for row in own) / total
        for row in sorted(own, key=order):
            most = max(budget / (HERE if row.state == "here" else REMOTE), LEAST)
            length = min(most, row.size or most)
            chosen.append((row, int(length)))
            if (left := left - length) < 1:
                break
    return chosen


def take_packed(shard: PlannedShard, folder: Path, length: int) -> list[SampledShard]:
    """Return files of a pack with about `length` bytes together, and enough of them to be packed
    again.
    """
    taken: list[SampledShard] = []
    for file in shard.files:
        if length <= 0 and len(taken) > MANY:
            break
        path = folder / file.url
        size = path.stat().st_size
        taken.append(SampledShard(shard.source, path.resolve(), size, size))
        length -= size
    return taken


def cut(shard: SampledShard, size: int, target: Path) -> SampledShard:
    """About the first `size` bytes of a shard, as a file whose name begins as `target`; the shard
    itself if it has no more, or cannot be cut: a table of Arrow, a compressed table.
    """
    target = target.with_name(target.name + "".join(shard.path.suffixes[-2:]))
    with open(shard.path, "rb") as file:
        pieces = DecodedPieces(file)
        head = next((piece for piece in pieces if not isinstance(piece, Damage)), b"")[:4]
        is_packed = pieces.codec != "none"
        if shard.size <= size or head in ARROW or (head == b"PAR1" and is_packed):
            return shard
        if head != b"PAR1":
            file.seek(0)
            data = file.read(size)
            if not is_packed:
                data = data[: data.rfind(b"\n") + 1] or data  # no half line
            target.write_bytes(data)
            return shard._replace(path=target, raw=len(data))
    with pq.ParquetFile(shard.path, pre_buffer=False) as table:
        rows = table.metadata.num_rows
        left = wanted = max(int(rows * size / shard.size), 1)
        with pq.ParquetWriter(target, table.schema_arrow, compression="zstd") as writer:
            for batch in table.iter_batches(batch_size=ROWS, use_threads=False):
                writer.write_batch(batch[:left])
                if (left := left - len(batch)) <= 0:
                    break
    return shard._replace(path=target, raw=shard.size * wanted / max(rows, 1))
