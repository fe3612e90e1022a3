"""The report of a corpus of ten million documents: its tables are made here, its texts are few."""

import hashlib
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import schema
from gristmill.report_page.report import report
from gristmill.store.manifest import LOCK, MANIFEST, Manifest, RawShard, content_of, encode, lock_of
from gristmill.store.parts import Part

SHARDS = 100
REASONS = [None, "gopher.short_doc", "gopher.long_doc", "language.other", "repetition.top_2_gram"]
RATIOS = [f"repetition.top_{n}" for n in (2, 3, 4)] + [
    f"repetition.repeated_{n}" for n in range(5, 11)
]


def made(folder: Path, rows: int) -> Path:
    """A corpus of SHARDS * rows documents: verdicts, measures, duplicates, samples."""
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

    for shard in range(SHARDS):
        name = f"{schema.shard_name(shard)}.parquet"
        documents = pa.array(schema.first_document(shard) + np.arange(rows))
        codes = pick.choice(5, rows, p=[0.5, 0.2, 0.05, 0.15, 0.1])
        reason = pa.array(REASONS, pa.string()).take(pa.array(codes))
        for code, word in enumerate(REASONS):
            if word:
                dropped[word] += int((codes == code).sum())
        hosts = pick.zipf(1.3, rows) % 1_000_000
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
    total = SHARDS * rows
    left = total - sum(dropped.values())
    recipe = {
        "seed": 1,
        "source": [{"name": f"crawl{n}"} for n in range(3)],
        "step": [
            {"use": "language", "keep": ["en"], "min_score": 0.65},
            {"use": "gopher", "rules": "datatrove-0.10"},
            {"use": "repetition", "rules": "datatrove-0.10"},
        ],
    }
    funnel = {
        "documents": total,
        "kept": left,
        "steps": [{"step": "all", "dropped": total - left, "left": left, "reasons": dropped}],
    }
    manifest = Manifest(
        content=content_of(parts), versions={}, recipe_sha256="0" * 64, recipe=recipe, inputs={},
        raw_shards=shards, funnel=funnel, parts=sorted(parts, key=lambda part: part.path),
    )  # fmt: skip
    data = encode(manifest)
    (folder / MANIFEST).write_bytes(data)
    (folder / LOCK).write_bytes(lock_of(data))
    return folder


@pytest.mark.soak
def test_ten_million_documents_in_seconds(tmp_path: Path) -> None:
    corpus = made(tmp_path / "corpus", 100_000)
    start, cpu = time.monotonic(), time.process_time()
    written = report(
        corpus,
        out=tmp_path / "page.html",
        on_line=lambda line: print(line, time.monotonic() - start),
    )
    took, used = time.monotonic() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform == "linux" else 1 << 20
    )
    size = sum(path.stat().st_size for path in corpus.rglob("*.parquet"))
    print(
        f"{took:.1f} s, {used:.1f} s of processor time on {os.cpu_count()}, {peak:,.0f} MB, "
        f"{size / 1e6:,.0f} MB of tables, page {written['bytes']:,} bytes"
    )
    assert written["bytes"] < 5_000_000
    assert used < 120


def test_a_corpus_of_tables_alone(tmp_path: Path) -> None:
    """The same shape, small: what is not stored is said."""
    corpus = made(tmp_path / "corpus", 20)
    written = report(corpus, out=tmp_path / "page.html")
    page = Path(written["file"]).read_text("utf-8")
    assert "gopher.short_doc" in page
    assert "its text is not stored" in page
