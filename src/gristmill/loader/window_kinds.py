"""The packings by name: a plan's `packing` to the windows of each source.

{"kind": "concat"}                             windows.py: all tokens, cut every L tokens
{"kind": "concat", "begin": 1}                 the same, token 1 before each L - 1 tokens
{"kind": "best_fit", "split_at": "sentence"}   packing.py: whole documents, then padding
{"kind": "aligned", "keep_rest": true}         packing.py: windows begin with a document
"""

from collections.abc import Mapping
from typing import Any

from gristmill.corpus.token_corpus import Split, TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.parameters import whole_number
from gristmill.loader.windows import ConcatWindows, Windows

Packing = str | Mapping[str, Any]
# The parameters of each, and their values.
KINDS: dict[str, dict[str, tuple[object, ...]]] = {
    "concat": {},
    "best_fit": {"split_at": (None, "paragraph", "sentence"), "longer": ("cut", "refuse")},
    "aligned": {"keep_rest": (False, True)},
}
# And those that are numbers, of 0 or more.
NUMBERS: dict[str, set[str]] = {"concat": {"begin"}, "best_fit": set(), "aligned": set()}


def text_positions(sequence_length: int, packing: Mapping[str, Any]) -> int:
    """Return how many positions of a window are tokens of the corpus: all but that of `begin`."""
    return sequence_length - (packing.get("begin") is not None)


def parse_packing(given: Packing) -> dict[str, Any]:
    """Return a packing as a plan stores it: its kind, and its parameters. Raises RecipeError."""
    if not isinstance(given, str | Mapping):
        raise RecipeError(f"packing = {given!r}: it is a name, or a table with its parameters")
    packing: dict[str, Any] = {"kind": given} if isinstance(given, str) else dict(given)
    kind = packing.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise RecipeError(f"packing {kind!r}: it is one of {', '.join(KINDS)}")
    if unknown := sorted(map(str, packing.keys() - {"kind", *NUMBERS[kind]} - KINDS[kind].keys())):
        raise RecipeError(f"packing {kind}: there is no parameter {unknown[0]!r}")
    for name, values in KINDS[kind].items():
        value = packing.get(name, values[0])
        if not any(type(value) is type(choice) and value == choice for choice in values):
            raise RecipeError(
                f"packing {kind}: {name} = {value!r}: it is one of "
                f"{', '.join(str(choice).lower() for choice in values)}"
            )
    for name in NUMBERS[kind] & packing.keys():
        packing[name] = whole_number(f"packing {kind}: {name}", packing[name], 0)
    return packing


def open_windows(
    corpus: TokenCorpus,
    source: str,
    split: Split,
    *,
    seed: int,
    sequence_length: int,
    packing: Mapping[str, Any],
) -> Windows:
    """Return the windows of a source; makes the index of a packing where it is not in its cache.

    Raises RecipeError if there are none, VerificationError and MachineError.
    """
    if packing["kind"] == "concat":
        length = text_positions(sequence_length, packing)
        if length < sequence_length:
            _check_begin(corpus, packing["begin"], length)
        tokens = corpus.stream(source, split).tokens
        return ConcatWindows(corpus.digest, seed, source, tokens, length)
    from gristmill.loader.packing import AlignedWindows, BestFitWindows, PackedSource

    of = PackedSource(corpus=corpus, source=source, split=split, sequence_length=sequence_length)
    parameters = {name: value for name, value in packing.items() if name != "kind"}
    if packing["kind"] == "best_fit":
        return BestFitWindows(of, seed, **parameters)
    return AlignedWindows(of, **parameters)


def _check_begin(corpus: TokenCorpus, begin: int, length: int) -> None:
    """Raise RecipeError where no window can begin with this token."""
    if begin >= corpus.format.vocabulary:
        raise RecipeError(
            f"packing concat: begin = {begin}: {corpus.root} has a vocabulary of "
            f"{corpus.format.vocabulary:,} tokens"
        )
    if isinstance(corpus.format.begin_of_text, int):
        raise RecipeError(
            f"packing concat: begin: documents of {corpus.root} begin with token "
            f"{corpus.format.begin_of_text} themselves, and a window would have two"
        )
    if length < 1:
        raise RecipeError("packing concat: begin: a window needs two positions or more")
