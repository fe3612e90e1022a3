"""Recall and precision on 20,000 real documents, against all pairs: an exact similarity join by
prefixes, which shares nothing with bands.

A pair of similarity t or more shares one of the |A| - ceil(t |A|) + 1 rarest shingles of each
(Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007).
"""

import gzip
import json
import math
import random
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gristmill.dedup.duplicates import deduplicate
from gristmill.dedup.settings import Deduplicate, Near
from gristmill.engine.relations import duckdb_with
from gristmill.tables import schema
from tests.support import naive, naive_folding
from tests.support.duplicates import tables
from tests.support.skips import missing

COUNT, THRESHOLD, SHARD = 20_000, 0.8, 5_000


def debian_pages(data: Path, folder: Path) -> Iterator[str]:
    """The plain text of manuals, of which many are versions or translations of each other."""
    from resiliparse.extract.html2text import extract_plain_text

    archive = folder / "html.tar"
    packed = data / "J_debian_docs/html.tar.zst"
    if subprocess.run(["zstd", "-qdf", str(packed), "-o", str(archive)], check=False).returncode:
        missing("zstd", "the manuals cannot be unpacked")
    with tarfile.open(archive) as members:
        for member in members:
            file = (
                members.extractfile(member)
                if member.isfile() and member.name.endswith(".html")
                else None
            )
            if file is not None:
                yield extract_plain_text(file.read().decode("utf-8", "replace"))


def real_documents(data: Path, folder: Path) -> list[str]:
    """Manuals, pages of a government's site, two versions of a manual, and pieces of novels up to
    the number that is wanted.
    """
    texts = [text for text in debian_pages(data, folder) if len(text.split()) > 20]
    for path in sorted((data / "C_neardup").rglob("docs.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            texts += [
                text
                for text in (json.loads(line)["text"] for line in lines)
                if len(text.split()) > 20
            ]
    pick = random.Random(1)
    for path in sorted((data / "I_prose").rglob("*.txt")):
        words = path.read_text("utf-8", "replace").split(" ")
        bounds = [0]
        while bounds[-1] < len(words):
            bounds.append(bounds[-1] + int(pick.triangular(60, 900, 200)))
        texts += [" ".join(words[start:stop]) for start, stop in pairwise(bounds)]
    pick.shuffle(texts)
    return texts[:COUNT]


def similar(sets: dict[int, frozenset[int]]) -> dict[tuple[int, int], float]:
    """All pairs (later, earlier) of similarity THRESHOLD or more."""
    often = Counter(shingle for members in sets.values() for shingle in members)
    holders: dict[int, list[int]] = {}
    found = {}
    for number, members in sets.items():
        rarest = sorted(members, key=lambda shingle: (often[shingle], shingle))
        prefix = rarest[: len(members) - math.ceil(THRESHOLD * len(members)) + 1]
        for other in {other for shingle in prefix for other in holders.get(shingle, ())}:
            similarity = naive.jaccard(members, sets[other])
            if similarity >= THRESHOLD:
                found[number, other] = similarity
        for shingle in prefix:
            holders.setdefault(shingle, []).append(number)
    return found


@pytest.mark.soak
def test_recall_and_precision_on_20000_real_documents(data: Path, tmp_path: Path) -> None:
    texts = real_documents(data, tmp_path)
    assert len(texts) == COUNT
    shards = [texts[start : start + SHARD] for start in range(0, COUNT, SHARD)]
    settings = Deduplicate(near=Near())
    deduplicated = deduplicate(
        tables(tmp_path, shards, settings),
        settings,
        tmp_path / "work",
        opener=duckdb_with(2, 400),
        on_progress=lambda _: None,
    )
    numbers = [schema.first_document(place // SHARD) + place % SHARD for place in range(COUNT)]
    plain = [naive_folding.signed_words(text) for text in texts]
    same = [naive_folding.folded(text) for text in texts]
    firsts: dict[str, int] = {}
    for number, text in zip(numbers, same, strict=True):
        firsts.setdefault(text, number)
    sets = {
        number: frozenset(naive.distinct_shingles(words, width=5))
        for number, words, text in zip(numbers, plain, same, strict=True)
        if firsts[text] == number
    }
    truth = similar({number: members for number, members in sets.items() if members})
    copies = {
        number: firsts[text]
        for number, text in zip(numbers, same, strict=True)
        if firsts[text] != number
    }
    drops = {row["document"]: row for row in deduplicated.drops.to_pylist()}
    stored = {
        (row["document"], row["candidate"]): row["similarity"]
        for row in pq.read_table(deduplicated.pairs).to_pylist()
    }
    # Every drop is right: an earlier document, kept, at the similarity that is said.
    for number, drop in drops.items():
        assert drop["keeper"] < number and drop["keeper"] not in drops
        of = sets[copies.get(number, number)]
        assert (
            abs(drop["similarity"] - naive.jaccard(of, sets[drop["keeper"]])) < 1e-12
            and drop["similarity"] >= THRESHOLD
        )
    kept: set[int] = set()
    wanted: set[int] = set()
    of_later: dict[int, list[int]] = {}
    for later, earlier in truth:
        of_later.setdefault(later, []).append(earlier)
    for number in sets:
        (wanted if any(other in kept for other in of_later.get(number, ())) else kept).add(number)
    near = {number for number, drop in drops.items() if number in sets}
    of_pairs = sum(pair in stored for pair in truth) / len(truth)
    of_drops = len(near & wanted) / len(wanted)
    print(
        f"\n{len(copies)} exact copies, {len(truth)} pairs at {THRESHOLD} or more: "
        f"{of_pairs:.4%} found; {len(wanted)} documents to drop: "
        f"{of_drops:.4%} dropped; {len(near - wanted)} dropped besides; {len(stored)} pairs "
        "compared"
    )
    assert set(copies) <= drops.keys()
    assert all(
        stored[pair] == pytest.approx(similarity, abs=1e-12)
        for pair, similarity in truth.items()
        if pair in stored
    )
    assert of_drops >= 0.99 and of_pairs >= 0.99
