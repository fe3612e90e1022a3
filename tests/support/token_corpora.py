"""Corpora of given tokens: what a loader, an export or statistics read, without a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from gristmill.reports.tokens.token_texts import TokenTexts
from gristmill.store import manifest as manifests
from gristmill.store.parts import write_bytes
from gristmill.tokens.shards import ShardWriter
from gristmill.tokens.token_bytes import TokenBytes

Documents = Sequence[Sequence[int] | np.ndarray]


def token_corpus(
    root: Path,
    train: Mapping[str, Documents],
    val: Mapping[str, Documents] | None = None,
    *,
    vocabulary: int = 1000,
    end_of_text: int = 0,
    tokens_per_shard: int = 1 << 20,
    tokenizer: bytes = b"a tokenizer",
) -> Path:
    """Write a finished corpus whose documents have these tokens (their end of text included), by
    source; returns its root.

    Document numbers are those of raw shard s for source s. It has no raw shards, recipe or verdicts
    that `verify` could check.
    """
    dtype = np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")
    part = write_bytes(root, "tokenizer/tokenizer.json", tokenizer)
    parts = [part]
    for split, sources in (("train", train), ("val", val or {})):
        for number, (source, documents) in enumerate(sources.items()):
            prefix = f"tokens/{source}/{split}"
            with ShardWriter(root, prefix, dtype, tokens_per_shard) as writer:
                lengths = np.array([len(document) for document in documents], np.int64)
                first = (number << 32) + (0 if split == "train" else 1 << 20)
                tokens = np.concatenate([np.asarray(document, dtype) for document in documents])
                writer.write(tokens, first + np.arange(len(documents)), lengths)
            parts += writer.parts
    parts.sort(key=lambda one: one.path)
    manifest = manifests.Manifest(
        content=manifests.content_digest(parts),
        versions={},
        recipe_sha256="0" * 64,
        recipe={"source": [{"name": source} for source in train]},
        inputs={},
        raw_shards=[],
        funnel={},
        tokens=manifests.TokenFormat(
            tokenizer=part.sha256,
            vocabulary=vocabulary,
            dtype="uint16" if dtype.itemsize == 2 else "uint32",
            end_of_text=end_of_text,
        ),
        parts=parts,
    )
    data = manifests.encode(manifest)
    write_bytes(root, manifests.MANIFEST, data)
    write_bytes(root, manifests.LOCK, manifests.make_lock(data))
    write_bytes(root, manifests.SUMS, manifests.sums(parts))
    return root


def texts_of_sizes(sizes: Sequence[int]) -> TokenTexts:
    """The texts of a vocabulary whose tokens stand for so many bytes; token 0 ends documents."""
    words = [b"x" * size for size in sizes]
    never = np.zeros(len(words), np.bool_)
    return TokenTexts(TokenBytes(words, words, never, never, words=False), marks=[0])
