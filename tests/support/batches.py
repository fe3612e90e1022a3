"""Batches of given windows, made position by position: what masks and attention are tested with."""

import numpy as np

from gristmill import TokenCorpus
from gristmill.loader.batch import Batch
from gristmill.loader.packing import AlignedWindows, BestFitWindows, PackedSource
from gristmill.loader.token_reader import TokenReader
from gristmill.loader.windows import ConcatWindows, Windows

PACKINGS = ("concat", "best_fit", "aligned")


def windows_of(corpus: TokenCorpus, packing: str, length: int, seed: int = 1) -> Windows:
    """The windows of the source `web`."""
    of = PackedSource(corpus=corpus, source="web", split="train", sequence_length=length)
    if packing == "best_fit":
        return BestFitWindows(of, seed)
    if packing == "aligned":
        return AlignedWindows(of)
    return ConcatWindows(corpus.digest, seed, "web", of.stream.tokens, length)


def batch_of(corpus: TokenCorpus, windows: Windows, numbers: list[int], length: int) -> Batch:
    """The batch that has these windows of epoch 0."""
    stream = corpus.stream("web")
    rows = np.array(numbers, np.int64)
    runs = windows.runs(0, rows)
    tokens = np.full((len(rows), length + 1), corpus.format.end_of_text, corpus.dtype)
    used = np.zeros(len(rows), np.int64)
    for row, column, position, size in np.stack(runs, axis=1).tolist():
        tokens[row, column : column + size] = stream.read(position, position + size)
        behind = (position + size) % stream.tokens
        tokens[row, column + size] = stream.read(behind, behind + 1)[0]
        used[row] += size
    for row in np.flatnonzero(used < length):
        tokens[row, used[row] :] = corpus.format.end_of_text
    segments = TokenReader([stream]).segments(runs)
    return Batch(tokens, segments, np.zeros(len(rows), np.int64), rows, length - used)
