"""Which documents are validation: by a keyed hash of their words, never of their number,
so equal texts are in one split; and none that has a near-duplicate among the kept documents.

Near-duplicates are those that deduplication compared and kept: of a similarity from the floor to
the threshold. With `order = "append"` the hash alone decides, because a new document must not move
an old one, of which full shards are already written.
"""

import numpy as np
import pyarrow as pa

from gristmill.dedup.signatures import text_hashes
from gristmill.recipe import Recipe
from gristmill.tables.columns import utf8_buffers


def has_hash_of_validation(texts: pa.Array, *, share: float, seed: int) -> np.ndarray:
    """Return which of n texts would be validation, (n,) bool: 64 bits of a keyed hash of the words
    of the text below share * 2^64.
    """
    if share <= 0.0:
        return np.zeros(len(texts), np.bool_)
    from gristmill.kernels.folding.compared import compared

    offsets, data = compared(*utf8_buffers(texts), "words")
    hashes = text_hashes(offsets, data, texts, key=f"validation {seed}".encode(), size=8)
    return np.frombuffer(hashes, "<u8").astype(np.float64) < share * 2.0**64


def moves_similar(recipe: Recipe) -> bool:
    """Return whether documents with a near-duplicate among the kept ones are moved from
    validation.
    """
    tokens, settings = recipe.tokens, recipe.deduplicate
    asked = tokens is not None and tokens.validation > 0.0 and tokens.order == "shuffled"
    return asked and settings is not None and settings.near is not None


def caveat(recipe: Recipe) -> str | None:
    """Return a line for people where validation may have near-duplicates in training, and how to
    change it; None: the recipe has no validation, or none that it could find.
    """
    tokens, settings = recipe.tokens, recipe.deduplicate
    if tokens is None or tokens.validation <= 0.0:
        return None
    prefix = "validation may have near-duplicates in training: "
    if settings is None or settings.near is None:
        return prefix + "the recipe does not look for any. [deduplicate] near = {} does"
    if tokens.order == "append":
        return prefix + (
            'with order = "append" documents never move between shards that are written. '
            'order = "shuffled" keeps them in training'
        )
    if settings.scope == "source" and len(recipe.source) > 1:
        return prefix + (
            'with scope = "source" documents of different sources are not compared. '
            'scope = "corpus" compares all'
        )
    alone = [
        label
        for label, entry in (settings.by_language or {}).items()
        if entry is False or entry.near is False
    ]
    if alone:
        more = f" and {len(alone) - 3} more" if len(alone) > 3 else ""
        return prefix + (f"deduplicate.by_language looks for none in {', '.join(alone[:3])}{more}")
    return None
