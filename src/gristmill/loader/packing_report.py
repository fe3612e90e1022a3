"""What a packing does to a corpus, by source: windows, padding, documents cut, tokens left out.

`utilisation` is the share of positions that are tokens of the corpus. A document is *cut* if some
of its tokens are in a window, and not all in the same one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gristmill.corpus.token_corpus import Split, TokenCorpus, TokenStream
from gristmill.errors import RecipeError
from gristmill.loader.packing import AlignedWindows, BestFitWindows
from gristmill.loader.packing_pieces import document_lengths
from gristmill.loader.parameters import whole_number
from gristmill.loader.window_kinds import Packing, open_windows, parse_packing, text_positions


class PackedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """One source, or all together."""

    source: str
    windows: int
    positions: int
    tokens: int  # of the source
    padding: int  # positions that are no tokens
    discarded: int  # tokens that are in no window of an epoch
    documents: int
    cut: int  # documents

    def shares(self) -> dict[str, float]:
        """Return shares of positions (utilisation, padding), documents (cut) and tokens
        (discarded).
        """
        return {
            "utilisation": _share(self.positions - self.padding, self.positions),
            "padding": _share(self.padding, self.positions),
            "cut": _share(self.cut, self.documents),
            "discarded": _share(self.discarded, self.tokens),
        }


def packing_report(
    corpus: TokenCorpus | Path | str,
    sequence_length: int,
    packing: Packing = "concat",
    *,
    split: Split = "train",
    seed: int = 0,
) -> dict[str, Any]:
    """Pack every source of a corpus; makes the indexes that a loader needs, and counts.

    Of concat the cut that begins with the first token is counted; an epoch's cut begins at another
    one. A source with fewer tokens than a window is reported with no windows; if no source has
    one, that is a RecipeError. Raises VerificationError, MachineError too.
    """
    corpus = corpus if isinstance(corpus, TokenCorpus) else TokenCorpus.open(Path(corpus))
    asked = parse_packing(packing)
    sequence_length = whole_number("sequence_length", sequence_length, 1)
    if split not in ("train", "val"):
        raise RecipeError(f"split {split!r}: it is train or val")
    if not corpus.sources(split):
        raise RecipeError(f"{corpus.root}: the split {split!r} has no tokens")
    corpus.check_sizes(split)
    counts = [
        _counts(corpus, source, split, sequence_length, asked, seed)
        for source in corpus.sources(split)
    ]
    if not any(one.windows for one in counts):
        most = max(counts, key=lambda one: one.tokens)
        raise RecipeError(
            f"{corpus.root}: no source has a window of {sequence_length:,} positions; "
            f"{most.source} has {most.tokens:,} tokens: use a shorter sequence length"
        )
    total = PackedCounts(
        source="all",
        **{
            name: sum(getattr(one, name) for one in counts)
            for name in PackedCounts.__struct_fields__
            if name != "source"
        },
    )
    return {
        "packing": asked,
        "sequence_length": sequence_length,
        "split": split,
        "sources": [_built(one) for one in counts],
        "all": _built(total),
    }


def lines(result: Mapping[str, Any]) -> list[str]:
    """Return the report for people."""
    packing = dict(result["packing"])
    kind = packing.pop("kind")
    options = ", ".join(
        f"{name} = {value}" for name, value in packing.items() if value not in (None, False)
    )
    head = f"{kind}{f' ({options})' if options else ''}, windows of {result['sequence_length']:,}"
    columns = ("windows", 12), ("tokens", 15), ("used", 8), ("padding", 8), ("cut", 8)
    names = "".join(f" {name:>{width}}" for name, width in (*columns, ("discarded", 10)))
    shown = [f"{head} positions, split {result['split']}", f"{'source':<16}{names}"]
    rows = result["sources"] + ([result["all"]] if len(result["sources"]) > 1 else [])
    for row in rows:
        used, padding, cut, discarded = (100 * share for share in row["shares"].values())
        shown.append(
            f"{row['source']:<16} {row['windows']:>12,} {row['tokens']:>15,} {used:>6.2f} % "
            f"{padding:>6.2f} % {cut:>6.2f} % {discarded:>8.2f} %"
        )
    shown += [
        f"{row['source']} has too few tokens for a window: a loader refuses it, unless its weight "
        "is 0"
        for row in result["sources"]
        if not row["windows"]
    ]
    return shown


def _built(counts: PackedCounts) -> dict[str, Any]:
    return {**msgspec.to_builtins(counts), "shares": counts.shares()}


def _counts(
    corpus: TokenCorpus,
    source: str,
    split: Split,
    length: int,
    packing: Mapping[str, Any],
    seed: int,
) -> PackedCounts:
    stream = corpus.stream(source, split)
    try:
        windows = open_windows(
            corpus, source, split, seed=seed, sequence_length=length, packing=packing
        )
        length = text_positions(length, packing)
    except RecipeError:
        if stream.tokens >= length:
            raise
        documents = sum(int(np.count_nonzero(some)) for some in document_lengths(stream))
        return PackedCounts(
            source=source,
            windows=0,
            positions=0,
            tokens=stream.tokens,
            padding=0,
            discarded=stream.tokens,
            documents=documents,
            cut=0,
        )
    if isinstance(windows, BestFitWindows):
        documents, cut = _longer(stream, length)
    else:
        starts = (
            windows.index.positions
            if isinstance(windows, AlignedWindows)
            else np.arange(windows.count, dtype=np.int64) * length
        )
        documents, cut = _cut(stream, starts, length)
    positions = windows.count * length
    return PackedCounts(
        source=source,
        windows=windows.count,
        positions=positions,
        tokens=stream.tokens,
        padding=positions - (stream.tokens - windows.unused),
        discarded=windows.unused,
        documents=documents,
        cut=cut,
    )


def _longer(stream: TokenStream, length: int) -> tuple[int, int]:
    """Return documents with tokens, and those longer than a window."""
    documents = cut = 0
    for some in document_lengths(stream):
        documents += int(np.count_nonzero(some))
        cut += int(np.count_nonzero(some > length))
    return documents, cut


def _cut(stream: TokenStream, starts: np.ndarray, length: int) -> tuple[int, int]:
    """Return documents with tokens, and those of which a part is in a window, and not all in
    one.
    """
    documents = cut = first = 0
    for some in document_lengths(stream):
        ends = first + np.cumsum(some)
        begins, ends = (ends - some)[some > 0], ends[some > 0]
        # The last window that begins at or before the document, and whether there is a later one.
        at = np.searchsorted(starts, begins, "right") - 1
        stops = np.where(at >= 0, starts[np.maximum(at, 0)] + length, 0)
        behind = np.searchsorted(starts, ends, "left") - 1 > at
        cut += int(np.count_nonzero(((begins < stops) | behind) & (ends > stops)))
        documents += len(begins)
        first += int(some.sum())
    return documents, cut


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
