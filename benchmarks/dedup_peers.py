"""A peer's whole near-deduplication, in an environment of its own: `PYTHON dedup_peers.py TOOL
SHARDS OUT CORES`.

Each peer reads the Parquet shards and writes the documents that it keeps below OUT/kept, as its
authors' examples do. All use 14 bands of 8 numbers over shingles of 5 words, datatrove's default,
if they have such settings. They need the packages of peers.py. text-dedup pins old versions of
other packages, so it needs an environment of its own:

    pip install --no-deps text-dedup
    pip install "click<9" "click-option-group<0.6" datasets ftfy numpy regex "rich<14" scipy tqdm
    pip install xxhash psutil setuptools
"""

import argparse
import sys
from pathlib import Path
from typing import Any

BANDS, ROWS, WIDTH, THRESHOLD, SEED = 14, 8, 5, 0.8, 42


def datatrove(shards: Path, out: Path, cores: int) -> None:
    """The four stages of its examples/minhash_deduplication.py, a task a shard, as many workers as
    cores; its defaults.
    """
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import (
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter

    config = MinhashConfig(num_buckets=BANDS, hashes_per_bucket=ROWS, n_grams=WIDTH)
    tasks = len(list(shards.glob("*.parquet")))
    signatures, buckets, remove = (str(out / name) for name in ("signatures", "buckets", "remove"))
    last = [
        ParquetReader(str(shards)),
        MinhashDedupFilter(remove, exclusion_writer=JsonlWriter(str(out / "removed"))),
        JsonlWriter(str(out / "kept")),
    ]
    stages: list[tuple[str, list[Any], int]] = [
        (
            "signatures",
            [ParquetReader(str(shards)), MinhashDedupSignature(signatures, config=config)],
            tasks,
        ),
        ("buckets", [MinhashDedupBuckets(signatures, buckets, config=config)], BANDS),
        ("cluster", [MinhashDedupCluster(buckets, remove, config=config)], 1),
        ("filter", last, tasks),
    ]
    for name, pipeline, count in stages:
        LocalPipelineExecutor(
            pipeline, tasks=count, workers=min(cores, count), logging_dir=str(out / "logs" / name)
        ).run()


def text_dedup(shards: Path, out: Path, cores: int) -> None:
    """Its command `python -m text_dedup.minhash`."""
    from text_dedup import minhash

    settings = {
        "path": "parquet",
        "data_files": str(shards / "*.parquet"),
        "split": "train",
        "cache_dir": str(out / "cache"),
        "output": str(out / "kept"),
        "column": "text",
        "batch_size": 10000,
        "num_perm": BANDS * ROWS,
        "b": BANDS,
        "r": ROWS,
        "ngram": WIDTH,
        "threshold": THRESHOLD,
        "num_proc": cores,
    }
    minhash.main([part for name, value in settings.items() for part in (f"--{name}", str(value))])


def _rensa(shards: Path, out: Path, *, permutations: int, bands: int | None, width: int) -> None:
    """RMinHashDeduplicator.add_pairs, as its README has it, a batch of documents a call."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from rensa import RMinHashDeduplicator

    def tokens(text: str) -> list[str]:
        words = text.split()
        if width == 1:
            return words
        return [" ".join(words[i : i + width]) for i in range(max(1, len(words) - width + 1))]

    made = RMinHashDeduplicator(
        threshold=THRESHOLD, num_perm=permutations, use_lsh=True, num_bands=bands, seed=SEED
    )
    (out / "kept").mkdir(parents=True)
    for path in sorted(shards.glob("*.parquet")):
        with (
            pq.ParquetFile(path) as file,
            pq.ParquetWriter(out / "kept" / path.name, file.schema_arrow) as writer,
        ):
            for batch in file.iter_batches(1000):
                pairs = zip(
                    batch["id"].to_pylist(), map(tokens, batch["text"].to_pylist()), strict=True
                )
                writer.write_batch(batch.filter(pa.array(made.add_pairs(pairs))))


def rensa(shards: Path, out: Path, cores: int) -> None:
    """With shingles and bands as the others'."""
    _rensa(shards, out, permutations=BANDS * ROWS, bands=BANDS, width=WIDTH)


def rensa_readme(shards: Path, out: Path, cores: int) -> None:
    """As its README has it, word for word: single words, 128 numbers, its own bands."""
    _rensa(shards, out, permutations=128, bands=None, width=1)


def daft(shards: Path, out: Path, cores: int) -> None:
    """The script of its guide (docs/examples/minhash-dedupe.md): normalise, minhash, bands, groups,
    large and small stars, labels, joins.
    """
    import daft
    from daft import col
    from daft.functions import monotonically_increasing_id

    frame = daft.read_parquet(str(shards / "*.parquet")).select("id", "text")
    text = col("text").normalize(
        remove_punct=True, lowercase=True, nfd_unicode=True, white_space=True
    )
    numbers = text.minhash(
        num_hashes=BANDS * ROWS, ngram_size=WIDTH, seed=SEED, hash_function="xxhash"
    )
    signed = (
        frame.with_column("min_hashes", numbers)
        .with_column("node_id", monotonically_increasing_id())
        .select("id", "node_id", "min_hashes")
        .collect()
    )
    names = signed.select("id", "node_id")

    @daft.func()
    def places(band: list[int]) -> list[int]:
        return list(range(min(len(band), BANDS)))

    bands = signed.with_column("bands", col("min_hashes").chunk(ROWS))
    groups = (
        bands.with_column("band_idx", places(col("bands")))
        .explode("bands", "band_idx")
        .groupby("band_idx", "bands")
        .agg(col("node_id").list_agg().alias("nodes"))
    )
    edges = (
        groups.with_column("u", col("nodes").list_min())
        .explode("nodes")
        .select(col("u"), col("nodes").alias("v"))
        .where(col("u") != col("v"))
        .distinct()
        .collect()
    )
    found = _labels(edges).select(col("u").alias("node_id"), col("rep"))
    dropped = names.join(found, on="node_id").where(col("node_id") != col("rep"))
    frame.join(dropped.select("id"), on="id", how="anti").write_parquet(str(out / "kept"))


def _labels(edges: Any) -> Any:
    """Of each node of a graph the least one of its component: its guide's alternating stars, then
    labels handed on until none changes.
    """
    from daft import col
    from daft.functions import columns_max, columns_min

    least, greatest = columns_min("u", "v"), columns_max("u", "v")

    def both(some: Any) -> Any:
        return (
            some.select("u", "v")
            .union_all(some.select(col("v").alias("u"), col("u").alias("v")))
            .collect()
        )

    def ordered(some: Any) -> Any:
        return some.select(least.alias("u"), greatest.alias("v")).distinct()

    def star(some: Any, *, large: bool) -> Any:
        near = some.groupby("u").agg(col("v").list_agg().alias("nbrs"))
        near = near.with_column("m", columns_min(col("u"), col("nbrs").list_min())).explode("nbrs")
        near = near.where(col("nbrs") > col("u")) if large else near
        return (
            near.select(col("nbrs").alias("u"), col("m").alias("v"))
            .where(col("u") != col("v"))
            .distinct()
            .collect()
        )

    def as_set(some: Any) -> set[tuple[int, int]]:
        table = ordered(some).collect().to_pydict()
        return set(zip(table["u"], table["v"], strict=True))

    while True:
        after = star(ordered(star(both(edges), large=True)), large=False)
        if as_set(edges) == as_set(after):
            break
        edges = after
    every = both(after)
    labels = (
        every.groupby("u")
        .agg(col("v").min().alias("m"))
        .select(col("u"), columns_min("u", "m").alias("rep"))
    )
    labels = labels.collect()
    while True:
        heard = (
            every.join(labels, left_on="v", right_on="u")
            .groupby("u")
            .agg(col("rep").min().alias("heard"))
        )
        lower = labels.join(heard, on="u", how="left").select(
            col("u"), columns_min("heard", "rep").alias("rep")
        )
        lower = lower.collect()
        if lower.join(labels, on=["u", "rep"], how="anti").count_rows() == 0:
            return lower
        labels = lower


TOOLS = {
    "datatrove": datatrove,
    "text-dedup": text_dedup,
    "rensa": rensa,
    "rensa-readme": rensa_readme,
    "daft": daft,
}


def main() -> None:
    """Run one tool."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tool", choices=sorted(TOOLS))
    parser.add_argument("shards", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("cores", type=int)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    TOOLS[asked.tool](asked.shards, asked.out, asked.cores)


if __name__ == "__main__":
    sys.exit(main())
