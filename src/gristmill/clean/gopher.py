"""Gopher's quality rules (Rae 2021, appendix A).

`rules = "lab"`: seven rules over `str.split()` words and `str.splitlines()` lines, checked in this order:

    length          words outside min_words..max_words
    word_len        mean word length outside min_word_length..max_word_length, in characters
    symbol_ratio    characters `#` and `…` over all characters > max_symbol_ratio
    too_bulleted    lines that start with `•`, `-` or `*` over all lines > max_bullet_lines
    too_truncated   lines that end in `…` over all lines > max_ellipsis_lines
    repeat_2gram    count of the commonest 2-gram over all 2-grams > max_top_2gram
    repeat_3gram    the same for 3-grams > max_top_3gram

Every value is measured, whatever the verdict; n-grams of documents over max_words are not (null).
"""

import math
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa

from gristmill.clean.step import Judgement
from gristmill.columns import utf8_buffers


class Gopher(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Judge documents by Gopher's quality rules."""

    name: ClassVar[str] = "gopher"
    version: ClassVar[int] = 1

    sources: list[str] | None = None
    rules: Literal["lab"] = "lab"
    min_words: int = 50
    max_words: int = 100_000
    min_word_length: float = 3.0
    max_word_length: float = 10.0
    max_symbol_ratio: float = 0.10
    max_bullet_lines: float = 0.90
    max_ellipsis_lines: float = 0.30
    max_top_2gram: float = 0.20
    max_top_3gram: float = 0.18

    def __post_init__(self) -> None:
        if not (self.min_words <= self.max_words and self.min_word_length <= self.max_word_length):
            raise ValueError("a least that is over its most would drop every document")
        if any(isinstance(value, float) and math.isnan(value) for value in msgspec.structs.astuple(self)):
            raise ValueError("a threshold that is no number decides nothing")

    def inputs(self) -> dict[str, Any]:
        return {}

    def __call__(self, batch: pa.RecordBatch) -> Judgement:
        from gristmill.kernels import gopher, words

        offsets, data = utf8_buffers(batch["text"])
        bounds = words.find(offsets, data)
        counts = gopher.count(data, bounds, most_words=self.max_words)
        n_words = np.diff(bounds.word_offsets)
        n_lines = np.diff(bounds.line_offsets)

        def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
            return np.asarray(part / np.maximum(whole, 1))

        counted = counts.top_2_gram >= 0
        values = {
            "words": n_words,
            "word_length": share(bounds.word_characters, n_words),
            "symbol_ratio": share(bounds.symbols, bounds.characters),
            "bullet_lines": share(counts.bullets, n_lines),
            "ellipsis_lines": share(counts.ellipses, n_lines),
            "top_2gram": np.where(counted, share(counts.top_2_gram, n_words - 1), np.nan),
            "top_3gram": np.where(counted, share(counts.top_3_gram, n_words - 2), np.nan),
        }
        checks = (
            ("length", "words", self.min_words, self.max_words),
            ("word_len", "word_length", self.min_word_length, self.max_word_length),
            ("symbol_ratio", "symbol_ratio", None, self.max_symbol_ratio),
            ("too_bulleted", "bullet_lines", None, self.max_bullet_lines),
            ("too_truncated", "ellipsis_lines", None, self.max_ellipsis_lines),
            ("repeat_2gram", "top_2gram", None, self.max_top_2gram),
            ("repeat_3gram", "top_3gram", None, self.max_top_3gram),
        )
        failed = np.zeros(len(batch), np.int8)  # 0: kept; else the check's place, from 1
        value, threshold = np.zeros(len(batch)), np.zeros(len(batch))
        for place, (_, measure, low, high) in enumerate(checks, 1):
            measured = values[measure]
            for broken, limit in ((measured < low if low is not None else None, low), (measured > high, high)):
                if broken is not None:
                    new = broken & (failed == 0)
                    failed[new], value[new], threshold[new] = place, measured[new], limit
        names = pa.array([None, *(check[0] for check in checks)], pa.string())
        kept = failed == 0
        return Judgement(
            names.take(pa.array(failed)),
            pa.array(value, mask=kept),
            pa.array(threshold, mask=kept),
            {name: pa.array(measured, mask=np.isnan(measured)) for name, measured in values.items()},
        )
