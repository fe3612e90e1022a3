"""Texts with something else in the place of spans (kernels/pii/redact.py)."""

from typing import NamedTuple

import numpy as np

from gristmill.kernels.jit.compile import BYTES, INT32S, OFFSETS, kernel
from gristmill.kernels.jit.groups import Bytes, Int32s
from gristmill.kernels.pii.redact import PiiSpans


class Texts(NamedTuple):
    """n texts in UTF-8, or what is put into them."""

    offsets: Int32s  # (n + 1,) into data
    data: Bytes


@kernel(OFFSETS, BYTES, PiiSpans, INT32S, Texts, Texts)
def _rewrite(offsets, data, spans, chosen, words, texts):
    span_offsets, starts, stops = spans.offsets, spans.starts, spans.stops
    word_offsets, out_offsets, out = words.offsets, texts.offsets, texts.data
    end = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = end
        at = np.int64(offsets[i])
        for j in range(span_offsets[i], span_offsets[i + 1] + 1):
            stop = np.int64(starts[j]) if j < span_offsets[i + 1] else np.int64(offsets[i + 1])
            size = np.uint64(stop - at)
            source = np.uint64(at)
            target = np.uint64(end)
            for k in range(size):
                out[target + k] = data[source + k]
            end += stop - at
            if j < span_offsets[i + 1]:
                for k in range(word_offsets[chosen[j]], word_offsets[chosen[j] + 1]):
                    out[end] = words.data[k]
                    end += 1
                at = np.int64(stops[j])
    out_offsets[len(offsets) - 1] = end


def rewrite(
    offsets: np.ndarray, data: np.ndarray, spans: PiiSpans, chosen: np.ndarray, words: list[bytes]
) -> tuple[np.ndarray, np.ndarray]:
    """N texts with words[chosen[i]] in place of span i: (offsets (n + 1,) int32, data (bytes,)
    uint8).

    Raises OverflowError where they are more than 2 GiB together.
    """
    word_offsets = np.cumsum([0, *map(len, words)], dtype=np.int32)
    grown = int(np.diff(word_offsets)[chosen].sum()) - int(
        (spans.stops - spans.starts).sum(dtype=np.int64)
    )
    size = int(offsets[-1]) - int(offsets[0]) + grown
    if size >= 1 << 31:
        raise OverflowError("the texts of a batch grow beyond 2 GiB")
    texts = Texts(np.empty(len(offsets), np.int32), np.empty(size, np.uint8))
    put = Texts(word_offsets, np.array(list(b"".join(words)), np.uint8))
    _rewrite(offsets, data, spans, chosen.astype(np.int32), put, texts)
    return texts.offsets, texts.data
