r"""Perplexity: how little a language model expected a text.

Low is usual or repetitive text, high is noise or another language.

    low         the perplexity is below min_perplexity
    high        the perplexity is above max_perplexity

A line (between `\n`) is a sentence, as in cc_net (Wenzek 2020: arXiv 1911.00359), from its
beginning to its end; lines without a word are left out. With words and ends of n lines together,
perplexity is exp(-(sum of ln p of them all) / (words + n)). A text without a word has none, and
stays.

`model` is a path or URL; its first bytes show what it is. A file of `gristmill model
train-perplexity` (kernels.models.ngram_model); or a KenLM model, ARPA or binary, which needs
gristmill[kenlm]. Words are those of normalised lines (kernels.unicode.normalised: lower case, no
punctuation), as train-perplexity sees them; `words = "plain"` gives KenLM the lines as they are,
cut at ASCII white space. A model of SentencePiece's pieces, such as cc_net's own, scores neither.

`drop_lowest` and `drop_highest` are shares of the corpus, which `ranks` hands on.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from gristmill.errors import RecipeError
from gristmill.filters.api.step import (
    Input,
    Inputs,
    Measured,
    Rank,
    Rule,
    Step,
    decide_by,
    measured,
    refuse_nan,
)
from gristmill.filters.models import model_file
from gristmill.filters.models.library_trials import try_file
from gristmill.tables.columns import utf8_buffers, view_strings

Share = Annotated[float, Meta(gt=0.0, lt=1.0)]
LN_10 = 2.302585092994046
KENLM_BINARY, ARPA = b"mmap lm http://kheafield.com/code", b"\\data\\"


class Perplexity(Step, frozen=True, kw_only=True):
    """Judge documents by their perplexity. A null limit is not checked.

    The n-gram model is ours or KenLM's (docs/models.md). Origin: cc_net (Wenzek 2020).
    """

    name: ClassVar[str] = "perplexity"
    version: ClassVar[int] = 1
    thresholds: ClassVar[frozenset[str]] = frozenset({"drop_highest", "drop_lowest"})
    example: ClassVar[str] = 'model = "wiki.model"\ndrop_highest = 0.2'
    checks: ClassVar[tuple[Rule, ...]] = decide_by(
        "perplexity < min_perplexity -> low: The perplexity is below `min_perplexity`: usual or "
        "repetitive text.",
        "perplexity > max_perplexity -> high: The perplexity is above `max_perplexity`: noise, "
        "or another language.",
    )
    reasons: ClassVar[Mapping[str, str]] = {
        "lowest": "The perplexity is among the lowest of the corpus, the share `drop_lowest`.",
        "highest": "The perplexity is among the highest of the corpus, the share `drop_highest`.",
    }
    measures: ClassVar[Mapping[str, str]] = {
        "perplexity": "The perplexity of a word; null: the text has no word."
    }

    # The model, by path or URL: of `gristmill model train-perplexity`, or KenLM's
    # (`gristmill[kenlm]`).
    model: str
    # `normalised` is lower case without punctuation; `plain` gives KenLM the words as they are.
    words: Literal["normalised", "plain"] = "normalised"
    min_perplexity: float | None = None  # The least perplexity. Unset: not checked.
    max_perplexity: float | None = None  # The greatest perplexity. Unset: not checked.
    # The share of the corpus with the lowest perplexity that is dropped.
    drop_lowest: Share | None = None
    # The share of the corpus with the highest perplexity that is dropped.
    drop_highest: Share | None = None

    def __post_init__(self) -> None:
        refuse_nan(msgspec.structs.astuple(self))
        if (self.drop_lowest or 0.0) + (self.drop_highest or 0.0) >= 1.0:
            raise ValueError("drop_lowest and drop_highest together drop all")

    @property
    def ranks(self) -> list[Rank]:
        lowest, highest = self.drop_lowest, self.drop_highest
        ranks = [Rank("perplexity", "lowest", lowest)] if lowest is not None else []
        return ranks + ([Rank("perplexity", "highest", highest)] if highest is not None else [])

    def inputs(self) -> dict[str, str]:
        return {"perplexity.model": self.model}

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        score = _scorer(inputs[self.model], self.words)

        def measure(batch: pa.RecordBatch) -> Measured:
            return Measured(measured({"perplexity": score(batch["text"])}))

        return measure


def split(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    r"""Return texts cut at `\n`: (the lines of all, (n + 1,) int64 where each text's begin)."""
    lines = pc.split_pattern(texts, "\n")
    return lines.flatten(), np.asarray(lines.offsets).astype(np.int64) - lines.offsets[
        0
    ].as_py() if len(lines) else np.zeros(1, np.int64)


@cache
def _scorer(file: Input, words: str) -> Callable[[pa.Array], np.ndarray]:
    """Return what gives the perplexity of n texts, (n,) float64, NaN for one without a word."""
    from gristmill.filters.models import ngram_file

    where = f"perplexity.model: {file.name}"
    try:
        with open(file.path, "rb") as opened:
            head = opened.read(64)
            if not model_file.is_ours(head):
                return _by_kenlm(where, file, head, words)
            opened.seek(0)
            model = ngram_file.load(model_file.read(opened, ngram_file.KIND, ngram_file.VERSION))
    except OSError as error:
        raise RecipeError(f"{where}: {error.strerror}") from error
    except ValueError as error:
        raise RecipeError(
            f"{where} is no n-gram model: {error}. `gristmill model train-perplexity` writes "
            "one, KenLM's lmplz another"
        ) from error
    if words != "normalised":
        raise RecipeError(
            f"{where} is a model of normalised words: words = {words!r} is for KenLM's models"
        )
    return lambda texts: _by_kernel(texts, model)


def _by_kernel(texts: pa.Array, model: Any) -> np.ndarray:
    from gristmill.kernels.models import ngram_model
    from gristmill.kernels.unicode.normalised import normalise

    lines, offsets = split(texts)
    totals, tokens = ngram_model.score(*normalise(*utf8_buffers(lines)), model)
    return ngram_model.perplexity(_sums(totals, offsets), _sums(tokens, offsets))


def _sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return sums of the runs values[offsets[i]:offsets[i + 1]]."""
    return np.diff(np.concatenate((np.zeros(1, values.dtype), np.cumsum(values)))[offsets])


def _by_kenlm(where: str, file: Input, head: bytes, words: str) -> Callable[[pa.Array], np.ndarray]:
    if not head.startswith(KENLM_BINARY) and not head.lstrip().startswith(ARPA):
        raise ValueError(
            f"expected {model_file.NOT_OURS}, or a file that starts with {ARPA!r} or "
            f"{KENLM_BINARY!r}, got {model_file.describe(head)}"
        )
    if not head.startswith(KENLM_BINARY):
        _check_arpa(file.path)
    try:
        import kenlm
    except ImportError as error:
        raise RecipeError(
            f"{where} is KenLM's, and kenlm is not installed: pip install 'gristmill[kenlm]'"
        ) from error
    try_file("load_kenlm", file.path, where)
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        model = kenlm.Model(file.path, config)
    except (OSError, RuntimeError) as error:
        raise ValueError(str(error).strip()) from error

    def score(texts: pa.Array) -> np.ndarray:
        lines, offsets = split(texts)
        if words == "normalised":
            from gristmill.kernels.unicode.normalised import normalise

            bounds, data = normalise(*utf8_buffers(lines))
            lines = view_strings(bounds.astype(np.int32), data)
        totals, tokens = np.zeros(len(lines)), np.zeros(len(lines), np.int64)
        for row, line in enumerate(lines.to_pylist()):
            if count := len(line.encode().split()):
                totals[row], tokens[row] = model.score(line), count + 1
        return _perplexity(totals, tokens, offsets)

    return score


def _check_arpa(path: str) -> None:
    """Hold an ARPA file to its own counts: KenLM makes tables of the sizes that they say.
    ValueError. An n-gram takes a line of four bytes or more.
    """
    stated, size = 0, os.stat(path).st_size
    with open(path, "rb") as opened:
        for line in opened.read(1 << 16).split(b"\n"):
            if match := re.fullmatch(rb"ngram\s+\d{1,3}\s*=\s*(\d+)\s*", line):
                stated += int(match[1][:20])
    if 4 * stated > size:
        raise ValueError(f"it says that it has {stated:,} n-grams, and has {size:,} bytes")


def _perplexity(totals: np.ndarray, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Of lines' log10 probabilities and words, by text; NaN without a word."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    sums = np.bincount(rows, totals, len(offsets) - 1)
    words = _sums(tokens, offsets)
    return np.where(
        words > 0, np.exp(np.minimum(-sums * LN_10 / np.maximum(words, 1), 700.0)), np.nan
    )
