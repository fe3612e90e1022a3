"""Full token shards that stay: with `order = "append"` a source is assembled from where its last
full shard ended, and nothing before that is read.

    records of the last time -> the full shards of each split, and the raw shards behind which they
                                end (LastFull)

They are used only where the tokens of the raw shards in them are those of the last time, by their
digests, and the shards themselves are as they were written.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from gristmill.corpus.corpus import Corpus, Record
from gristmill.store.parts import Part


class LastFull(msgspec.Struct, frozen=True, kw_only=True):
    """Where the full shards of a split end."""

    shards: int  # raw shards that lie in them as a whole
    tokens: int  # of these
    documents: int  # of these
    digest: str  # of all that is in the full shards: see `shard_digest`


class FullShards(msgspec.Struct, frozen=True, kw_only=True):
    """The full shards of a split that are not written again."""

    parts: list[Part] = []  # each shard and its .docs
    at: LastFull = LastFull(shards=0, tokens=0, documents=0, digest="")

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.parts) // 2


def shard_digest(inputs: Sequence[Sequence[str]], dtype: str, tokens_per_shard: int) -> str:
    """Return the digest of raw shards' tokens (a list of sha256 for each), and of how they are
    cut.
    """
    data = msgspec.json.encode([dtype, tokens_per_shard, inputs])
    return hashlib.sha256(data).hexdigest()


def checkpoint(
    lengths: Sequence[tuple[int, int]],
    before: LastFull,
    full_tokens: int,
    inputs: Sequence[Sequence[str]],
    settings: tuple[str, int],
) -> LastFull:
    """Return where full shards of `full_tokens` tokens end.

    `lengths` are (tokens, documents) of the raw shards behind those of `before`; `inputs` of all;
    `settings` are the type of a token, and tokens_per_shard.
    """
    shards, tokens, documents = before.shards, before.tokens, before.documents
    for more, count in lengths:
        if tokens + more > full_tokens:
            break
        shards, tokens, documents = shards + 1, tokens + more, documents + count
    used = shards + (tokens < full_tokens)
    digest = shard_digest(inputs[:used], *settings)
    return LastFull(shards=shards, tokens=tokens, documents=documents, digest=digest)


def still_full(
    corpus: Corpus,
    last: Record[Any],
    prefix: str,
    at: LastFull,
    inputs: Sequence[Sequence[str]],
    settings: tuple[str, int],
) -> FullShards:
    """Return the full shards of a split (`prefix` begins their names) that can stay; none where
    anything in them is another.
    """
    parts = [part for part in last.parts if part.path.startswith(prefix)]
    full = [part.path for part in parts if part.counts.get("tokens") == settings[1]]
    names = {name.removesuffix(".bin") for name in full}
    kept = [part for part in parts if part.path.rpartition(".")[0] in names]
    used = at.shards + (at.tokens < len(full) * settings[1])
    if not full or used > len(inputs) or shard_digest(inputs[:used], *settings) != at.digest:
        return FullShards()
    if corpus.damage(Record(key=last.key, parts=kept)):
        return FullShards()
    return FullShards(parts=kept, at=at)
