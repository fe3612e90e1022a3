"""Texts without some of their bytes: the bounds of what is cut go to whole characters, words or
lines.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from gristmill.kernels.jit.compile import BYTES, OFFSETS, helper, kernel
from gristmill.kernels.jit.groups import Bytes, Int64s, ReadInt64s, read_only
from gristmill.kernels.unicode.tables import (
    CLASSES,
    LINE_BREAK,
    PYTHON_SPACE,
    UNSPACED,
    PointBits,
    code_point,
    lead_width,
    unicode_bits,
)

BOUNDARIES = ("characters", "words", "lines")
WORDS, LINES = np.int64(1), np.int64(2)


class CutSpans(NamedTuple):
    """Stretches of bytes of n texts, ascending within each, none touching the next."""

    offsets: ReadInt64s  # (n + 1,): text i has spans offsets[i] up to offsets[i + 1]
    starts: ReadInt64s  # (spans,) bytes from the text's start
    stops: ReadInt64s  # (spans,)


class BytesCut(NamedTuple):
    """What was cut out of each text."""

    spans: Int64s  # (n,)
    bytes: Int64s  # (n,)


@helper
def _character_before(data, at):
    """Return where the character before a boundary between characters starts."""
    at -= 1
    while data[at] & 0xC0 == 0x80:
        at -= 1
    return at


@helper
def _is_bound(data, start, at, stop, boundary, classes):
    """Return whether a text may be cut here."""
    if at == start or at == stop:
        return True
    if data[at] & 0xC0 == 0x80:
        return False
    if boundary == 0:
        return True
    before = _character_before(data, at)
    bits = unicode_bits(code_point(data, before, lead_width(data[before])), classes)
    if boundary == LINES:
        return bits & LINE_BREAK != 0 and not (data[before] == 0x0D and data[at] == 0x0A)
    if bits & (PYTHON_SPACE | UNSPACED):
        return True
    bits = unicode_bits(code_point(data, at, lead_width(data[at])), classes)
    return bits & UNSPACED != 0


@helper
def _is_blank(data, at, stop, classes):
    """Return whether there is nothing but white space."""
    while at < stop:
        width = lead_width(data[at])
        if not unicode_bits(code_point(data, at, width), classes) & PYTHON_SPACE:
            return False
        at += width
    return True


@kernel(OFFSETS, BYTES, CutSpans, types.int64, PointBits, Bytes, types.int32[::1], BytesCut)
def _cut(offsets, data, spans, boundary, classes, out, out_offsets, removed):
    to = np.int64(0)
    for i in range(len(offsets) - 1):
        out_offsets[i] = to
        start = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        removed.spans[i] = 0
        kept_from = start
        begun = to
        for span in range(spans.offsets[i], spans.offsets[i + 1]):
            low = start + spans.starts[span]
            high = start + spans.stops[span]
            while low < high and not _is_bound(data, start, low, end, boundary, classes):
                low += 1
            while high > low and not _is_bound(data, start, high, end, boundary, classes):
                high -= 1
            if low == high:
                continue
            for at in range(kept_from, low):
                out[to] = data[at]
                to += 1
            kept_from = high
            removed.spans[i] += 1
        for at in range(kept_from, end):
            out[to] = data[at]
            to += 1
        if removed.spans[i] and _is_blank(out, begun, to, classes):
            to = begun
        removed.bytes[i] = end - start - (to - begun)
    out_offsets[len(offsets) - 1] = to


def cut(
    offsets: np.ndarray, data: np.ndarray, spans: CutSpans, *, boundary: str
) -> tuple[np.ndarray, np.ndarray, BytesCut]:
    """Cut spans out of n texts: offsets (n + 1,) int32 into data (bytes,) uint8.

    A span's bounds go inward to whole characters; or to where a word starts or the text ends; or to
    where a line starts or the text ends. In scripts written without spaces each character is a
    word. Lines are those of str.splitlines(). A text that loses something and keeps nothing but
    white space becomes empty. Returns the new texts' (offsets, data), and what was cut.
    """
    count = len(offsets) - 1
    out = np.empty(int(offsets[-1]) - int(offsets[0]), np.uint8)
    out_offsets = np.empty(count + 1, np.int32)
    removed = BytesCut(np.empty(count, np.int64), np.empty(count, np.int64))
    place = BOUNDARIES.index(boundary)
    _cut(offsets, data, read_only(spans), place, CLASSES, out, out_offsets, removed)
    return out_offsets, out[: out_offsets[-1]], removed
