"""The packings by name: a plan's `packing` to the windows of each source.

{"kind": "concat"}      windows.py
"""

from collections.abc import Mapping
from typing import Any

from gristmill.corpus.token_corpus import Split, TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.windows import ConcatWindows, Windows

Packing = str | Mapping[str, Any]
KINDS = ("concat",)


def packing_of(given: Packing) -> dict[str, Any]:
    """A packing as a plan stores it: its kind, and its parameters. Raises RecipeError."""
    packing = {"kind": given} if isinstance(given, str) else dict(given)
    kind = packing.get("kind")
    if kind not in KINDS:
        raise RecipeError(f"packing {kind!r}: it is one of {', '.join(KINDS)}")
    if unknown := sorted(packing.keys() - {"kind"}):
        raise RecipeError(f"packing {kind}: there is no parameter {unknown[0]!r}")
    return packing


def windows_of(
    corpus: TokenCorpus,
    source: str,
    split: Split,
    *,
    seed: int,
    sequence_length: int,
    packing: Mapping[str, Any],
) -> Windows:
    """The windows of a source. Raises RecipeError if it has none."""
    tokens = corpus.stream(source, split).tokens
    return ConcatWindows(corpus.digest, seed, source, tokens, sequence_length)
