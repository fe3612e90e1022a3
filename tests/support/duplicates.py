"""Texts that are nearly alike, and the relations of their corpus."""

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill import Near
from gristmill.dedup.duplicates import deduplicate
from gristmill.dedup.near import candidates, jaccard, keeper_rounds, key_partitions, signature_rows
from gristmill.dedup.settings import Deduplicate
from gristmill.dedup.shard_tables import ShardTables
from gristmill.dedup.signatures import sign
from gristmill.engine.relations import duckdb_with
from gristmill.tables import schema
from tests.support.corpora import article


def tables(
    folder: Path, shards: list[list[str]], settings: Deduplicate, scopes: list[int] | None = None
) -> list[ShardTables]:
    """Texts laid out as process leaves them."""
    out = []
    for number, texts in enumerate(shards):
        first = schema.first_document(number)
        rows = [{"document": first + row, "text": text} for row, text in enumerate(texts)]
        batch = pa.RecordBatch.from_pylist(rows, schema.DOCUMENTS)
        documents, signatures = folder / f"d{number}.parquet", folder / f"s{number}.parquet"
        pq.write_table(pa.Table.from_batches([batch]), documents, row_group_size=100)
        signed = sign(batch, settings)
        pq.write_table(pa.Table.from_batches([signed]), signatures, row_group_size=100)
        out.append(ShardTables(signatures, documents, scopes[number] if scopes else 0))
    return out


def find(
    folder: Path, shards: list[list[str]], settings: Deduplicate, scopes: list[int] | None = None
) -> dict[int, dict]:
    folder.mkdir(parents=True, exist_ok=True)
    deduplicated = deduplicate(
        tables(folder, shards, settings, scopes),
        settings,
        folder / "work",
        opener=duckdb_with(2, 500),
        on_progress=lambda _: None,
    )
    drops = deduplicated.drops.drop_columns("keeper_corpus")  # no other is there
    return {row["document"]: row for row in drops.to_pylist()}


def real_documents(data: Path) -> list[str]:
    texts = []
    for name in ("govuk_cc_wet_2024a", "postgresql_doc_13_15"):
        with gzip.open(data / "C_neardup" / name / "docs.jsonl.gz") as file:
            texts += [json.loads(line)["text"] for line in file]
    return texts


def edited(text: str, share: float, pick: random.Random) -> str:
    words = text.split(" ")
    for _ in range(int(len(words) * share)):
        words[pick.randrange(len(words))] = f"edit{pick.randrange(10**6)}"
    return " ".join(words)


def templated(count: int, pick: random.Random) -> list[str]:
    """Pages of few templates, with more or less of their own; copies; chains; texts shorter than a
    shingle.
    """
    frames = [article(f"frame {number}", 14) for number in range(4)]
    texts = ["", "!!!", "short one", "short one", "Short, one!"]
    while len(texts) < count:
        way = pick.random()
        if way < 0.5:
            texts.append(
                edited(pick.choice(frames), pick.choice([0.0, 0.005, 0.02, 0.06, 0.1]), pick)
            )
        elif way < 0.8:
            texts.append(edited(pick.choice(texts), pick.choice([0.0, 0.01, 0.03]), pick))
        else:
            texts.append(article(pick.random(), 10))
    pick.shuffle(texts)
    return texts


def in_small_pieces(monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    """Cuts of so many keys, and small chunks of keys, pairs and shingles."""
    monkeypatch.setattr(signature_rows, "KEYS", keys)
    monkeypatch.setattr(key_partitions, "CHUNK", 100)
    monkeypatch.setattr(key_partitions, "SORTED", 30)
    monkeypatch.setattr(key_partitions, "HELD", 20)
    monkeypatch.setattr(keeper_rounds, "ENTRIES", 40)
    monkeypatch.setattr(keeper_rounds, "FEW", 100)
    monkeypatch.setattr(candidates, "PAIRS", 50)
    monkeypatch.setattr(jaccard, "SHINGLES", 3000)


SMALL = Near(bands=8, rows=2, shingle=2, threshold=0.5, candidates=2)


def chained(count: int, seed: int) -> list[str]:
    """Pages, versions of versions of pages, and copies."""
    pick = random.Random(seed)
    texts = [article(f"index {seed} {number}", 16) for number in range(count // 5)]
    while len(texts) < count:
        kind = pick.random()
        original = texts[-1] if kind < 0.5 else pick.choice(texts)
        texts.append(
            original.upper()
            if kind > 0.9
            else edited(original, pick.choice([0.004, 0.01, 0.03]), pick)
        )
    return texts
