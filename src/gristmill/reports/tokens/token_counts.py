"""Token counts of a corpus, read once from its shards: by token, source, split and language; and
the lengths of documents.

Each core counts its own blocks of the memory-mapped shards. In memory are a row of counts for each
language and core, and the distinct lengths of documents, whatever the size of the corpus.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from gristmill.corpus.token_corpus import Split, TokenCorpus, TokenStream
from gristmill.errors import VerificationError
from gristmill.progress.counted_work import counted

BLOCK = 1 << 24  # tokens that are counted at a time
COUNTERS = 1 << 25  # of all cores together: 256 MB
MOST_GROUPS = 250
NOWHERE = 1 << 60  # a place behind every shard
SPLITS: tuple[Split, ...] = ("train", "val")

# documents (n,) int64 -> their groups (n,) uint8
GroupOf = Callable[[np.ndarray], np.ndarray]


class Lengths(NamedTuple):
    """How many documents have how many tokens."""

    tokens: np.ndarray  # (n,) int64, distinct, sorted
    documents: np.ndarray  # (n,) int64

    def plus(self, lengths: np.ndarray) -> "Lengths":
        """With the documents of these lengths (m,) too."""
        values, counts = np.unique(lengths, return_counts=True)
        return self.joined(Lengths(values.astype(np.int64), counts.astype(np.int64)))

    def joined(self, others: "Lengths") -> "Lengths":
        """With the documents of others."""
        tokens, places = np.unique(np.append(self.tokens, others.tokens), return_inverse=True)
        documents = np.zeros(len(tokens), np.int64)
        np.add.at(documents, places, np.append(self.documents, others.documents))
        return Lengths(tokens, documents)

    def quantile(self, share: float) -> int:
        """Return the least length that this share of the documents does not exceed; of no documents
        0.
        """
        if not len(self.tokens):
            return 0
        ends = np.cumsum(self.documents)
        rank = min(max(int(np.ceil(share * int(ends[-1]))), 1), int(ends[-1]))
        return int(self.tokens[np.searchsorted(ends, rank)])


NO_LENGTHS = Lengths(np.empty(0, np.int64), np.empty(0, np.int64))


class StreamCounts(NamedTuple):
    """The counts of one source and split."""

    source: str
    split: Split
    counts: np.ndarray  # (groups, vocabulary) int64
    lengths: Lengths
    led: np.ndarray  # (groups,) int64: documents that begin with a space that is no text


def count_streams(
    corpus: TokenCorpus,
    groups: int = 1,
    group_of: GroupOf | None = None,
    on_documents: Callable[[np.ndarray, np.ndarray], None] | None = None,
    leads: np.ndarray | None = None,
) -> Iterator[StreamCounts]:
    """Yield the counts of each source and split of a corpus, sources in their order.

    `group_of` puts documents into `groups` groups; without it there is one. `on_documents` gets
    documents (n,) int64 with their numbers of tokens (n,) int64; a document that goes on in another
    shard comes with a part of its tokens from each. `leads` (vocabulary,) bool: tokens that begin
    with a space that is no text, where they are a document's first. Raises VerificationError for
    tokens that are not in the vocabulary, and for damaged shards.
    """
    for source in dict.fromkeys(source for split in SPLITS for source in corpus.sources(split)):
        for split in SPLITS:
            if source in corpus.sources(split):
                stream = corpus.stream(source, split)
                counts = _counts(corpus, stream, groups, group_of)
                led = np.zeros(groups, np.int64)
                if leads is not None and leads.any():
                    led = _count_leads(corpus, stream, groups, group_of, leads)
                lengths = _lengths(corpus, stream, on_documents)
                yield StreamCounts(source, split, counts, lengths, led)


def most_groups(vocabulary: int) -> int:
    """Return how many groups may be counted: their counters are bounded."""
    return max(2, min(MOST_GROUPS, COUNTERS // 2 // vocabulary))


def _shard(corpus: TokenCorpus, stream: TokenStream, number: int) -> TokenStream:
    """Return one shard by itself: pages that were read count as memory while they are mapped."""
    shards = [stream.shards[number]]
    return TokenStream(corpus.root, stream.source, stream.split, corpus.dtype, shards)


def _counts(
    corpus: TokenCorpus, stream: TokenStream, groups: int, group_of: GroupOf | None
) -> np.ndarray:
    from gristmill.kernels.tokens.counts import add_counts

    size = corpus.format.vocabulary
    blocks = [
        (number, start)
        for number, part in enumerate(stream.shards)
        for start in range(0, part.counts["tokens"], BLOCK)
    ]
    cores = min(os.cpu_count() or 1, len(blocks), max(1, COUNTERS // (groups * size)))

    def work(core: int) -> np.ndarray:
        counts = np.zeros((groups, size + 1), np.int64)
        for number, start in blocks[core::cores]:
            shard = _shard(corpus, stream, number)
            tokens = shard.shard(0)[start : start + BLOCK]
            count.add(len(tokens))
            if group_of is None:
                add_counts(tokens, counts[0])
            else:
                documents, stops = shard.boundaries(0)
                ends = stops.astype(np.int64)
                first = int(np.searchsorted(ends, start, "right"))
                last = int(np.searchsorted(ends, start + len(tokens), "left")) + 1
                ends = np.minimum(ends[first:last] - start, len(tokens))
                _in_groups(shard, tokens, ends, group_of(documents[first:last]), counts)
            if counts[:, size].any():
                raise VerificationError(
                    f"{corpus.root / stream.shards[number].path}: a token that is not below "
                    f"{size:,}, the size of the vocabulary. Run `gristmill verify {corpus.root}`"
                )
        return counts

    with (
        counted(f"count {stream.source}", stream.tokens, "tokens") as count,
        ThreadPoolExecutor(max(cores, 1)) as threads,
    ):
        results = list(threads.map(work, range(cores)))
    total = sum(results, np.zeros((groups, size + 1), np.int64))
    return np.asarray(total[:, :size])


def _in_groups(
    shard: TokenStream, tokens: np.ndarray, ends: np.ndarray, groups: np.ndarray, counts: np.ndarray
) -> None:
    from gristmill.kernels.tokens.counts import add_counts_by_group

    try:
        if not len(ends) or ends[-1] < len(tokens):
            raise IndexError(f"{len(tokens) - int(ends.max(initial=0)):,} tokens of no document")
        add_counts_by_group(tokens, ends, groups, counts)
    except IndexError as error:
        path = shard.shards[0].path.removesuffix(".bin") + ".docs"
        raise VerificationError(
            f"{path}: not as it was written: {error}. Run `gristmill verify` on the corpus"
        ) from error


def _lengths(
    corpus: TokenCorpus,
    stream: TokenStream,
    on_documents: Callable[[np.ndarray, np.ndarray], None] | None,
) -> Lengths:
    lengths = NO_LENGTHS
    last, begun = -1, 0  # the last document so far, and its tokens
    for number in range(len(stream.shards)):
        documents, stops = _shard(corpus, stream, number).boundaries(0)
        if not len(documents):
            continue
        documents = np.where(documents < 0, ~documents, documents)  # withdrawn
        sizes = np.diff(stops.astype(np.int64), prepend=0)
        if on_documents is not None:
            on_documents(documents, sizes)
        if documents[0] == last:
            sizes[0] += begun
        elif last >= 0:
            sizes = np.append(begun, sizes)
        lengths = lengths.plus(sizes[:-1])
        last, begun = int(documents[-1]), int(sizes[-1])
    return lengths.plus(np.array([begun], np.int64)) if last >= 0 else lengths


def _count_leads(
    corpus: TokenCorpus,
    stream: TokenStream,
    groups: int,
    group_of: GroupOf | None,
    leads: np.ndarray,
) -> np.ndarray:
    """Return (groups,) int64: the documents of each group whose first token of text leads."""
    skipped = int(isinstance(corpus.format.begin_of_text, int))
    led = np.zeros(groups, np.int64)
    # The last document so far, and how far behind its shard's end its first token of text is.
    last, ahead = -1, NOWHERE
    for number in range(len(stream.shards)):
        shard = _shard(corpus, stream, number)
        documents, stops = shard.boundaries(0)
        if not len(documents):
            continue
        ends = stops.astype(np.int64)
        places = np.concatenate([[0], ends[:-1]]) + skipped
        if documents[0] == last:
            places[0] = ahead
        here = places < ends
        first = leads[shard.shard(0)[places[here]]]
        of = np.zeros(int(here.sum()), np.uint8)
        if group_of is not None:
            of = group_of(documents[here])
        led += np.bincount(of[first], minlength=groups)
        last, ahead = int(documents[-1]), int(places[-1] - ends[-1])
        if ahead < 0 or ahead > skipped:
            ahead = NOWHERE
    return led
