"""The hash of each document's text as it is compared, and its MinHash signature: duplicates are
found by them.
"""

import hashlib
import itertools

import numpy as np
import pyarrow as pa

from gristmill.dedup.settings import Deduplicate
from gristmill.tables import schema
from gristmill.tables.columns import fixed_binary, utf8_buffers

HASH_BYTES = 16
FEW = 4  # texts up to here are hashed faster one by one
SEED = 1  # of the permutations, the same for all corpora: their signatures can be compared


def text_hashes(
    offsets: np.ndarray,
    data: np.ndarray,
    texts: pa.Array,
    *,
    key: bytes = b"",
    size: int = HASH_BYTES,
) -> bytes:
    """Return BLAKE2b (RFC 7693) of n texts as they are compared: n * size bytes.

    offsets (n + 1,) and data are the compared texts, `texts` the original ones. A text whose
    form is empty is hashed as it is, with a personalisation of its own: `!!!` and `???` are
    not equal.
    """
    if len(texts) < FEW:
        view = np.ascontiguousarray(data).data
        bounds = itertools.pairwise(offsets.tolist())
        digests = [
            hashlib.blake2b(view[start:stop], digest_size=size, key=key).digest()
            for start, stop in bounds
        ]
        hashes = np.frombuffer(bytearray().join(digests), np.uint8).reshape(-1, size)
    else:
        from gristmill.kernels.hashing.blake2b import hash_texts

        hashes = hash_texts(offsets, data, size=size, key=key)
    for row in np.flatnonzero(offsets[:-1] == offsets[1:]).tolist():
        raw = texts[row].as_py().encode()
        digest = hashlib.blake2b(raw, digest_size=size, key=key, person=b"not normalised").digest()
        hashes[row] = np.frombuffer(digest, np.uint8)
    return hashes.tobytes()


def permutation_count(settings: Deduplicate) -> int:
    """Return numbers in a signature; 1 without near duplicates (the column is null then)."""
    return settings.near.numbers if settings.near else 1


def sign(
    batch: pa.RecordBatch, settings: Deduplicate, labels: pa.Array | None = None
) -> pa.RecordBatch:
    """Return the signatures of a batch of n documents, in the form of schema.signatures.

    `labels` (n,) string are what documents are compared within (null: nothing): a text has another
    hash and other minima under each.
    """
    from gristmill.kernels.folding.compared import compared
    from gristmill.kernels.hashing import minhash

    texts = batch["text"]
    raw = utf8_buffers(texts)
    offsets, data = compared(*raw, settings.form, arabic_marks=settings.arabic_marks)
    hashes = np.frombuffer(text_hashes(offsets, data, texts), np.uint8).reshape(-1, HASH_BYTES)
    masks = None if labels is None else _masks(labels)
    if masks is not None:
        hashes = hashes ^ masks
    near = settings.near
    count = permutation_count(settings)
    if near is None:
        signature = pa.nulls(len(batch), pa.binary(4))
    else:
        offsets, data = compared(*raw, near.form, arabic_marks=near.arabic_marks)
        multipliers, addends = minhash.permutations(count, SEED)
        values, shingles = minhash.sign(
            offsets,
            data,
            width=near.shingle,
            multipliers=multipliers,
            addends=addends,
            characters=near.unit == "characters",
        )
        if masks is not None:
            # Equal minima stay equal under one label, and differ under two.
            values = values ^ masks.view("<u4")[:, :1]
        signature = fixed_binary(values.astype("<u4", copy=False))
        if (shingles == 0).any():
            signature = signature.take(pa.array(np.arange(len(batch)), mask=shingles == 0))
    columns = [batch["document"], fixed_binary(hashes), signature]
    return pa.RecordBatch.from_arrays(columns, schema=schema.signatures(count))


def _masks(labels: pa.Array) -> np.ndarray:
    """Return BLAKE2b of n labels, of none zeros: (n, 16) uint8."""
    codes = labels.dictionary_encode()
    words = [label.encode() for label in codes.dictionary.to_pylist()]
    known = [hashlib.blake2b(word, digest_size=HASH_BYTES).digest() for word in words]
    table = np.frombuffer(b"".join([*known, bytes(HASH_BYTES)]), np.uint8).reshape(-1, HASH_BYTES)
    return np.asarray(table[codes.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)])
