"""Documents with known copies, as Parquet: `python dedup_corpus.py OUTDIR --documents 100000 --seed
1`.

    original    77 %   English paragraphs of real texts, drawn at random, 8 % of the words replaced,
                       about 3 KB
    exact        3 %   an earlier original, byte for byte
    near        15 %   an earlier original with words changed: word-5-gram Jaccard 0.83 to 0.99
    apart        5 %   the same with more words changed: 0.55 to 0.72, so no near duplicates

No two documents lie near a similarity of 0.8, where two ways to cut words would differ. One copy in
ten is of one of the first 64 originals. Beside the shards, `truth.npz`: of each document the group
that it belongs to, and its similarity to the group's first.
"""

import argparse
import multiprocessing
import os
from pathlib import Path
from typing import NamedTuple

import make_corpus
import numpy as np

SHARDS = 8
BATCH = 2000
ORIGINAL, EXACT, NEAR, APART = range(4)
BOUNDS = np.cumsum([0.77, 0.03, 0.15, 0.05])
SIMILARITIES = {NEAR: (0.83, 0.99), APART: (0.55, 0.72)}
POPULAR = 64
MEDIAN_BYTES, SIGMA, LEAST_BYTES, MOST_BYTES = 2900.0, 0.25, 1800, 5000
DRAWN = 160  # paragraphs drawn for a document: more than it can need


class Made(NamedTuple):
    """A document before it is text."""

    words: np.ndarray
    paragraphs: np.ndarray  # how many words each has
    group: int  # the number of the original
    similarity: float  # to the original


class Maker:
    """Makes any document by its number."""

    def __init__(self, pool: make_corpus.Pool, seed: int) -> None:
        self._pool = pool
        self._seed = seed

    def make(self, number: int) -> Made:
        """The document of a number."""
        random, kind = self._begin(number)
        source = number if kind == ORIGINAL else self._source(random, number)
        if source == number:
            return Made(*self._original(random), number, 1.0)
        words, paragraphs = self._original(self._begin(source)[0])
        if kind == EXACT:
            return Made(words, paragraphs, source, 1.0)
        wanted, shingles = random.uniform(*SIMILARITIES[kind]), len(words) - 4
        places = len(words) // 5 - 1
        changed = min(max(1, round(shingles * (1 - wanted) / (1 + wanted) / 5)), places)
        # Changed words stand at least five apart: each changes five shingles of its own.
        at = 5 * random.choice(places, changed, replace=False) + 4
        words[at] = self._pool.stream[random.integers(len(self._pool.stream), size=changed)]
        return Made(words, paragraphs, source, (shingles - 5 * changed) / (shingles + 5 * changed))

    def _begin(self, number: int) -> tuple[np.random.Generator, int]:
        random = np.random.Generator(np.random.Philox(key=[self._seed, number]))
        return random, int(np.searchsorted(BOUNDS[:-1], random.random(), "right"))

    def _source(self, random: np.random.Generator, number: int) -> int:
        """An earlier original; the document itself if none is found."""
        for _ in range(20):
            popular = random.random() < 0.1
            source = (
                int(random.integers(min(POPULAR, number) if popular else number)) if number else 0
            )
            if number and self._begin(source)[1] == ORIGINAL:
                return source
        return number

    def _original(self, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        pool = self._pool
        size = np.clip(np.exp(random.normal(np.log(MEDIAN_BYTES), SIGMA)), LEAST_BYTES, MOST_BYTES)
        wanted = int(size / pool.mean)
        chosen = random.integers(len(pool.lengths), size=DRAWN)
        ends = np.cumsum(pool.lengths[chosen])
        count = int(np.searchsorted(ends, wanted)) + 1
        words = np.concatenate(
            [pool.stream[pool.starts[place] : pool.starts[place + 1]] for place in chosen[:count]]
        )
        words = words[:wanted]
        replaced = np.flatnonzero(random.random(len(words)) < make_corpus.REPLACED)
        words[replaced] = pool.stream[random.integers(len(pool.stream), size=len(replaced))]
        return words, np.diff(np.minimum(ends[:count], wanted), prepend=0)


_pool: list[make_corpus.Pool] = []  # filled before the workers are forked, which share it


def _write_shard(task: tuple[str, int, int, int, int]) -> tuple[list[int], list[float], int]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder, shard, seed, start, stop = task
    maker, spelled = Maker(_pool[0], seed), pa.array([word.decode() for word in _pool[0].words])
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    groups, similarities, size = [], [], 0

    def joined(values: pa.Array, counts: list[int], separator: str) -> pa.Array:
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        return pc.binary_join(pa.ListArray.from_arrays(offsets, values), separator)

    with pq.ParquetWriter(Path(folder, f"{shard:05d}.parquet"), schema) as writer:
        for begin in range(start, stop, BATCH):
            numbers = range(begin, min(begin + BATCH, stop))
            made = [maker.make(number) for number in numbers]
            words = spelled.take(pa.array(np.concatenate([one.words for one in made])))
            paragraphs = joined(words, np.concatenate([one.paragraphs for one in made]), " ")
            texts = joined(paragraphs, [len(one.paragraphs) for one in made], "\n")
            writer.write_table(pa.table([pa.array(map(str, numbers)), texts], schema=schema))
            groups += [one.group for one in made]
            similarities += [one.similarity for one in made]
            size += pc.sum(pc.binary_length(texts)).as_py()
    return groups, similarities, size


def write(folder: Path, *, documents: int, seed: int, workers: int) -> None:
    """Write the shards and the truth, which comes last."""
    shards = folder / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    if not _pool:
        _pool.append(
            make_corpus.make_pool("eng", make_corpus.english_paragraphs(make_corpus.data_folder()))
        )
    bounds = [documents * shard // SHARDS for shard in range(SHARDS + 1)]
    tasks = [(str(shards), shard, seed, *bounds[shard : shard + 2]) for shard in range(SHARDS)]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        found = pool.map(_write_shard, tasks, chunksize=1)
    np.savez_compressed(
        folder / "truth.npz",
        group=np.concatenate([np.array(groups, np.int32) for groups, _, _ in found]),
        similarity=np.concatenate(
            [np.array(similarities, np.float32) for _, similarities, _ in found]
        ),
        bytes=sum(size for *_, size in found),
    )


def main() -> None:
    """Make documents from the command line."""
    parser = argparse.ArgumentParser(description="Make documents with known copies.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    write(asked.folder, documents=asked.documents, seed=asked.seed, workers=os.cpu_count() or 1)


if __name__ == "__main__":
    main()
