"""An n-gram model of words: estimated from counts, as a file's arrays, and as the kernel reads it
(kernels.models.ngram_model).

Interpolated Kneser-Ney with three discounts an order (Chen and Goodman 1998: Harvard TR-10-98), the
one that KenLM's lmplz estimates:

    p(w | h)  = (a(hw) - D(c)) / a(h) + g(h) p(w | h')      h' is h without its first word; below
                                                            single words p is 1 / V
    g(h)      = the mass that discounts and n-grams left out have given up, over a(h)

a(hw) is the count of the longest n-grams and of those that start a line; of any other the number of
different words before it. D is D1, D2 or D3+ by that count, from the numbers of n-grams counted
once to four times; where the text is too small for these, 0.5, 1 and 1.5. N-grams of three words
and more that occur fewer than `least` times are left out. A word outside the vocabulary shares the
probability of all such words evenly among as many as there were.
"""

from typing import Any, NamedTuple

import numpy as np

from gristmill.filters.models.model_file import LoadedModel
from gristmill.kernels.models import ngram_model
from gristmill.kernels.models.ngram_model import BEGIN, FIRST, ORDERS

KIND, VERSION = "perplexity", 1
FALLBACK = (0.5, 1.0, 1.5)


class NgramCounts(NamedTuple):
    """Different n-grams, their keys sorted, and how often each occurs."""

    keys: np.ndarray  # (n,) uint64: 16 bits a word, the last lowest
    counts: np.ndarray  # (n,) int64


def count(offsets: np.ndarray, ids: np.ndarray, order: int) -> list[NgramCounts]:
    """Return the n-grams of lines, from single words to `order` words: ids (words,) uint16 by
    offsets (n + 1,) int64, each line with its ends.

    BEGIN starts a line, and is never the last word of a counted n-gram.
    """
    places = np.arange(len(ids)) - np.repeat(offsets[:-1], np.diff(offsets))  # in its line
    keys = ids.astype(np.uint64)
    counts = []
    for size in range(1, order + 1):
        if size > 1:
            keys[size - 1 :] |= ids[: len(ids) - size + 1].astype(np.uint64) << np.uint64(
                16 * (size - 1)
            )
        counts.append(tally(keys[places >= max(size - 1, 1)]))
    return counts


def tally(keys: np.ndarray, counts: np.ndarray | None = None) -> NgramCounts:
    """Return keys (n,) uint64 that may repeat, with counts or once each, as NgramCounts."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = (
        np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        if len(keys)
        else np.empty(0, np.int64)
    )
    if counts is None:
        return NgramCounts(keys[starts], np.diff(np.append(starts, len(keys))))
    return NgramCounts(
        keys[starts],
        np.add.reduceat(counts[order], starts) if len(starts) else np.empty(0, np.int64),
    )


def merge(one: list[NgramCounts], other: list[NgramCounts]) -> list[NgramCounts]:
    """Return the counts of two texts together."""
    return [
        tally(np.concatenate((a.keys, b.keys)), np.concatenate((a.counts, b.counts)))
        for a, b in zip(one, other, strict=True)
    ]


def estimate(grams: list[NgramCounts], vocabulary: int, least: int) -> dict[str, np.ndarray]:
    """Return the arrays of a model from the counts of its n-grams, none empty; `vocabulary` counts
    ids, UNKNOWN, BEGIN and END among them.
    """
    order = len(grams)
    shares = np.full(vocabulary, 1.0 / (vocabulary - 2))  # 0 is no id, and nothing predicts BEGIN
    lower = np.arange(vocabulary, dtype=np.uint64)  # the keys of the order before
    arrays: dict[str, np.ndarray] = {}
    backs: list[np.ndarray] = []
    stored: list[tuple[np.ndarray, np.ndarray]] = []
    for size in range(1, order + 1):
        adjusted = _adjust(grams, size)
        kept = grams[size - 1].counts >= (least if size > 2 else 1)
        keys = grams[size - 1].keys
        contexts = keys >> np.uint64(16)
        discounts = _discounts(adjusted)
        starts = np.flatnonzero(np.concatenate(([True], contexts[1:] != contexts[:-1])))
        of_context = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(keys))))
        whole = np.add.reduceat(adjusted, starts)
        level = np.minimum(adjusted, 3)
        taken = [
            discounts[k] * np.add.reduceat((kept & (level == k + 1)).astype(np.int64), starts)
            for k in range(3)
        ]
        left = (
            whole
            - np.add.reduceat(np.where(kept, adjusted, 0), starts)
            + taken[0]
            + taken[1]
            + taken[2]
        ) / whole
        discount = np.array((0.0, *discounts))[level]
        # Of what is kept the last words are stored as well; of what is left out they need not be.
        shorter = keys[kept] & np.uint64((1 << 16 * (size - 1)) - 1)
        below = shares[np.searchsorted(lower, shorter)]
        share = ((adjusted - discount) / whole[of_context])[kept] + left[of_context[kept]] * below
        if size == 1:
            shares[1:] = left[0] / (vocabulary - 2)
            shares[keys.astype(np.int64)] = share
        else:
            backs.append(_of_contexts(lower, contexts[starts], left))
            shares, lower = share, keys[kept]
        stored.append((lower, shares))
    backs.append(np.ones(len(stored[-1][0])))
    arrays["costs"] = ngram_model.cost(stored[0][1])
    arrays["backs"] = ngram_model.cost(backs[0])
    pairs = stored[1:]
    arrays["keys"] = np.concatenate([np.empty(0, np.uint64), *(keys for keys, _ in pairs)])
    arrays["gram_costs"] = ngram_model.cost(
        np.concatenate([np.empty(0), *(share for _, share in pairs)])
    )
    arrays["gram_backs"] = ngram_model.cost(
        np.concatenate([np.empty(0), *(backs[1:] if pairs else [])])
    )
    return arrays


def _adjust(grams: list[NgramCounts], size: int) -> np.ndarray:
    """Return the counts that Kneser-Ney uses: for n-grams below the longest, the number of
    different words before them.
    """
    keys, counts = grams[size - 1]
    if size == len(grams):
        return counts
    longer = tally(grams[size].keys & np.uint64((1 << 16 * size) - 1))
    adjusted = counts.copy()
    # Nothing stands before a line's beginning; all others of which something does are among the
    # longer.
    first = keys >> np.uint64(16 * (size - 1)) != BEGIN if size > 1 else np.ones(len(keys), bool)
    adjusted[first] = longer.counts[np.searchsorted(longer.keys, keys[first])]
    return adjusted


def _discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """D1, D2 and D3+ of an order."""
    ones, two, three, four = (int((counts == k).sum()) for k in range(1, 5))
    if not (ones and two and three):
        return FALLBACK
    y = ones / (ones + 2 * two)
    discounts = (1 - 2 * y * two / ones, 2 - 3 * y * three / two, 3 - 4 * y * four / three)
    return discounts if all(0 < d <= k for k, d in enumerate(discounts, 1)) else FALLBACK


def _of_contexts(keys: np.ndarray, contexts: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the back-off of each stored n-gram as a context; 1 if it is none."""
    backs = np.ones(len(keys))
    places = np.searchsorted(keys, contexts)
    there = places < len(keys)
    there[there] = keys[places[there]] == contexts[there]
    # A context whose words are all left out gives up everything: it is as if it were not stored.
    backs[places[there]] = left[there]
    return np.asarray(np.maximum(backs, 1e-12))


def load(model: LoadedModel) -> ngram_model.NgramModel:
    """Return a model as the kernel reads it. Raises ValueError if its arrays do not fit
    together.
    """
    arrays = model.arrays
    order, unknown = model.parameters.get("order"), model.counts.get("unknown_words")
    names = ("word_hashes", "costs", "backs", "keys", "gram_costs", "gram_backs")
    if missing := [name for name in names if name not in arrays or arrays[name].ndim != 1]:
        raise ValueError(f"it has no array {', '.join(missing)}")
    sizes = [len(arrays[name]) for name in names]
    types = [arrays[name].dtype.str[1:] for name in names]
    if (
        types != ["u8", "u2", "u2", "u8", "u2", "u2"]
        or sizes[1] != sizes[0] + FIRST
        or sizes[1] != sizes[2]
    ):
        raise ValueError("its arrays have other types or sizes than they should")
    if sizes[3:] != [sizes[3]] * 3 or sizes[1] > 1 << 16:
        raise ValueError("its arrays have other types or sizes than they should")
    if (
        not isinstance(order, int)
        or not 1 <= order <= ORDERS
        or not isinstance(unknown, int)
        or not 0 <= unknown < 1 << 60
    ):
        raise ValueError(f"its order is {order!r}, its unknown words are {unknown!r}")
    if (arrays["keys"][1:] <= arrays["keys"][:-1]).any():
        raise ValueError("its n-grams are not in order, each once")
    native: dict[str, Any] = {
        name: np.ascontiguousarray(arrays[name], arrays[name].dtype.newbyteorder("="))
        for name in names
    }
    return ngram_model.NgramModel(
        ngram_model.list_words(native["word_hashes"]),
        native["costs"],
        native["backs"],
        ngram_model.list_grams(native["keys"], native["gram_costs"], native["gram_backs"]),
        order,
        0 if unknown == 0 else int(ngram_model.cost(np.array([1.0 / unknown]))[0]),
    )
