"""Corpora of tables alone: no run has made them, and their texts are not there."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.store.manifest import (
    LOCK,
    MANIFEST,
    Manifest,
    RawShard,
    content_digest,
    encode,
    make_lock,
)
from gristmill.store.parts import Part
from gristmill.tables import schema

SHARDS = 100
REASONS = [None, "gopher.short_doc", "gopher.long_doc", "language.other", "repetition.top_2_gram"]
RATIOS = [f"repetition.top_{n}" for n in (2, 3, 4)] + [
    f"repetition.repeated_{n}" for n in range(5, 11)
]


def table_corpus(
    folder: Path,
    rows: int,
    *,
    shards_made: int = SHARDS,
    shares: tuple[float, ...] = (0.5, 0.2, 0.05, 0.15, 0.1),
    hosts_made: int = 1_000_000,
    copies: tuple[int, ...] = (),
    **funnel_more: Any,
) -> Path:
    """A corpus of verdicts, measures, copies and samples: of each reason a share of the documents,
    of each number in `copies` a cluster with that number of documents.
    """
    parts, shards = [], []
    pick = np.random.default_rng(7)
    dropped = dict.fromkeys(filter(None, REASONS), 0)

    def put(path: str, table: pa.Table) -> None:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, compression="zstd")
        data = target.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        parts.append(Part(path, len(data), digest, {"rows": len(table)}))

    for shard in range(shards_made):
        name = f"{schema.shard_name(shard)}.parquet"
        documents = pa.array(schema.first_document(shard) + np.arange(rows))
        codes = pick.choice(5, rows, p=shares)
        reason = pa.array(REASONS, pa.string()).take(pa.array(codes))
        for code, word in enumerate(REASONS):
            if word:
                dropped[word] += int((codes == code).sum())
        hosts = pick.zipf(1.3, rows) % hosts_made
        urls = [f"https://host{host}.example/{place}" for place, host in enumerate(hosts.tolist())]
        nothing = pa.nulls(rows, pa.float64())
        values = pa.array(pick.random(rows))
        keeper, none = pa.nulls(rows, pa.int64()), pa.nulls(rows, pa.string())
        columns = [documents, pa.array(urls), reason, values, nothing, keeper, nothing, none]
        put(f"verdicts/{name}", pa.Table.from_arrays(columns, schema=schema.VERDICTS))
        words = np.maximum(1, pick.lognormal(6, 1.2, rows)).astype(np.int64)
        measures = {
            "document": documents,
            "language.label": pa.array(["en", "de", "fr", None]).take(
                pa.array(pick.choice(4, rows, p=[0.8, 0.1, 0.05, 0.05]))
            ),
            "language.score": pa.array(pick.beta(8, 2, rows)),
            "gopher.words": pa.array(words),
            "gopher.word_length": pa.array(pick.normal(5, 0.6, rows)),
            "gopher.letter_words": pa.array(pick.beta(20, 3, rows)),
            **{one: pa.array(np.maximum(0, pick.normal(0.02, 0.05, rows))) for one in RATIOS},
        }
        put(f"measures/{name}", pa.table(measures))
        for folder_of, table in (("samples", schema.SAMPLES), ("documents", schema.DOCUMENTS)):
            put(f"{folder_of}/{name}", table.empty_table())
        kept = int((codes == 0).sum())
        shards.append(
            RawShard(
                number=shard,
                source=f"crawl{shard % 3}",
                url=f"{shard}.gz",
                sha256="0" * 64,
                documents=rows,
                unique_documents=kept,
            )
        )
    if copies:
        keepers = pa.array(np.arange(len(copies)))
        others = pa.nulls(len(copies), pa.string())
        named = {"keeper": keepers, "keeper_corpus": others, "copies": pa.array(copies)}
        put("duplicates/copies.parquet", pa.table(named))
    total = shards_made * rows
    left = total - sum(dropped.values())
    recipe = {
        "seed": 1,
        "source": [{"name": f"crawl{n}"} for n in range(3)],
        "step": [
            {"use": "language", "keep": ["en"], "min_score": 0.65},
            {"use": "gopher", "rules": "datatrove-0.10"},
            {"use": "repetition", "rules": "datatrove-0.10"},
        ],
        "deduplicate": {"near": {"threshold": 0.8}},
    }
    funnel = {"documents": total, "kept": left, "steps": _steps(total, dropped), **funnel_more}
    manifest = Manifest(
        content=content_digest(parts), versions={}, recipe_sha256="0" * 64, recipe=recipe,
        inputs={},
        raw_shards=shards, funnel=funnel, parts=sorted(parts, key=lambda part: part.path),
    )  # fmt: skip
    data = encode(manifest)
    (folder / MANIFEST).write_bytes(data)
    (folder / LOCK).write_bytes(make_lock(data))
    return folder


def _steps(total: int, dropped: dict[str, int]) -> list[dict[str, Any]]:
    """The funnel's steps."""
    found, left = [], total
    for step in ("language", "gopher", "repetition", "deduplicate"):
        reasons = {name: count for name, count in dropped.items() if name.startswith(f"{step}.")}
        left -= sum(reasons.values())
        lost = sum(reasons.values())
        found.append({"step": step, "dropped": lost, "left": left, "reasons": reasons})
    return found
