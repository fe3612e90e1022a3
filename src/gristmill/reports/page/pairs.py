"""Near duplicates side by side: the words that differ are marked.

Texts are compared from their beginnings, redacted as all texts of the page.
"""

import re
from difflib import SequenceMatcher
from typing import NamedTuple

from gristmill.corpus.clusters import Cluster
from gristmill.dedup.drops import NEAR
from gristmill.reports.page.samples import READ, read_beginnings, redacted
from gristmill.reports.page.tables import CorpusTables

SHOWN = 900  # characters of each text
PAIRS = 6
BEFORE = 12  # words that are shown before the first difference
PIECES = re.compile(r"\s+|[^\s]+")

Marked = list[tuple[bool, str]]  # (whether the other text lacks it, a piece of text)


class Pair(NamedTuple):
    """A dropped document and the kept one that it is like."""

    document: int
    keeper: int
    similarity: float
    threshold: float | None
    dropped: Marked
    kept: Marked


class ShownCluster(NamedTuple):
    """A large cluster, with the beginning of its keeper's text."""

    keeper: int
    documents: int
    url: str | None
    text: str | None


def pairs(tables: CorpusTables) -> list[Pair]:
    """Return near duplicates to look at: half are those that are the least alike, half the first by
    a hash of their numbers.
    """
    if not tables.has("verdicts") or not tables.has("copies"):
        return []
    near = (
        "select document, keeper, similarity, threshold from verdicts where reason = ? and "
        "keeper is not null and keeper_corpus is null"
    )
    half = PAIRS // 2
    rows = tables.rows(f"{near} order by similarity, document limit {half}", NEAR)
    rows += tables.rows(
        f"{near} and similarity < 1 order by sample_key(document), document limit {PAIRS}", NEAR
    )
    rows = list(dict.fromkeys(rows))[:PAIRS]
    texts = read_beginnings(tables, [document for row in rows for document in row[:2]], READ)
    whole = [row for row in rows if row[0] in texts and row[1] in texts]
    clean = redacted([texts[document] for row in whole for document in row[:2]])
    results = []
    for row, document, other in zip(whole, clean[::2], clean[1::2], strict=True):
        left, right = difference(document or "", other or "")
        results.append(Pair(row[0], row[1], row[2], row[3], left, right))
    return results


def difference(one: str, other: str) -> tuple[Marked, Marked]:
    """Return two texts in pieces, those marked that the other lacks; from a little before the first
    difference, SHOWN characters of each.
    """
    a, b = PIECES.findall(one), PIECES.findall(other)
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    start = max(0, same - 2 * BEFORE) if sum(map(len, a[:same])) > SHOWN // 3 else 0
    a, b = _cut(a[start:]), _cut(b[start:])
    left: Marked = [(False, "... ")] if start else []
    right = list(left)
    for kind, a1, a2, b1, b2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if a2 > a1:
            left.append((kind != "equal", "".join(a[a1:a2])))
        if b2 > b1:
            right.append((kind != "equal", "".join(b[b1:b2])))
    return left, right


def _cut(pieces: list[str]) -> list[str]:
    parts, length = [], 0
    for piece in pieces:
        if length >= SHOWN:
            break
        parts.append(piece[: SHOWN - length])
        length += len(piece)
    return parts


def largest(tables: CorpusTables, clusters: list[Cluster]) -> list[ShownCluster]:
    """Return the largest clusters with the texts of their keepers."""
    keepers = [cluster.keeper for cluster in clusters]
    if not keepers:
        return []
    texts = read_beginnings(tables, keepers, READ)
    clean = redacted([texts.get(keeper) for keeper in keepers])
    numbers = ", ".join(map(str, keepers))
    paths = tables.of_shards("verdicts", keepers)
    rows = tables.rows(
        f"select document, url from {tables.files(paths)} where document in ({numbers})"
    )
    known = dict(rows)
    urls = redacted([known.get(keeper) for keeper in keepers])
    return [
        ShownCluster(cluster.keeper, cluster.documents, url, None if text is None else text[:600])
        for cluster, text, url in zip(clusters, clean, urls, strict=True)
    ]
