"""Best fit and aligned windows of real shards: every token once, documents whole, epochs that
differ.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.kernels.loading.runs import Runs
from gristmill.loader.packing import AlignedWindows, BestFitWindows, PackedSource
from gristmill.loader.window_kinds import parse_packing
from tests.support import naive_packing, strategies
from tests.support.token_corpora import token_corpus


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test."""
    folder = tmp_path_factory.mktemp("packing")
    monkeypatch.setenv("GRISTMILL_PACKING", str(folder))
    return folder


def corpus_of(root: Path, lengths: list[int], tokens_per_shard: int = 1 << 20) -> TokenCorpus:
    """A corpus of one source, whose documents have these lengths and count up."""
    ends = np.cumsum(lengths)
    documents = [
        np.arange(end - n, end) % 60_000 for n, end in zip(lengths, ends.tolist(), strict=True)
    ]
    return TokenCorpus.open(
        token_corpus(root, {"web": documents}, vocabulary=60_000, tokens_per_shard=tokens_per_shard)
    )


def source_of(corpus: TokenCorpus, length: int) -> PackedSource:
    return PackedSource(corpus=corpus, source="web", split="train", sequence_length=length)


def rows_of(runs: Runs, count: int) -> list[list[tuple[int, int]]]:
    """(position, length) of every row's runs, which follow one another from column 0 on."""
    rows: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for row, column, position, length in np.stack(runs, axis=1).tolist():
        assert column == sum(n for _, n in rows[row])
        rows[row].append((position, length))
    return rows


def pieces_of(lengths: list[int], limit: int) -> list[tuple[int, int]]:
    """(position, length) of the pieces of documents."""
    position, found = 0, []
    for length in naive_packing.cut(lengths, limit):
        found.append((position, length))
        position += length
    return found


LENGTHS = st.lists(st.integers(1, 70), min_size=1, max_size=60)


@strategies.fuzz(60)
@given(LENGTHS, st.integers(1, 40), st.sampled_from((7, 64, 1 << 20)), st.integers(0, 5))
def test_best_fit_has_every_piece_once_in_every_epoch(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    limit: int,
    tokens_per_shard: int,
    epoch: int,
) -> None:
    corpus = corpus_of(tmp_path_factory.mktemp("corpus"), lengths, tokens_per_shard)
    windows = BestFitWindows(source_of(corpus, limit), seed=epoch)
    pieces = pieces_of(lengths, limit)
    counts = [sum(n == length for _, n in pieces) for length in range(limit + 1)]
    packed = naive_packing.pack(counts)
    rows = rows_of(windows.runs(epoch, np.arange(windows.count)), windows.count)
    assert sorted(piece for row in rows for piece in row) == pieces
    assert sorted(tuple(sorted((n for _, n in row), reverse=True)) for row in rows) == sorted(
        packed.elements()
    )
    assert windows.tokens == sum(lengths)
    # Some windows alone, in another order, are the same ones.
    some = np.arange(windows.count)[::-2]
    assert rows_of(windows.runs(epoch, some), len(some)) == [rows[w] for w in some.tolist()]
    for start, stop in ((0, 1), (0, sum(lengths)), (sum(lengths) // 2, sum(lengths) // 2 + 3)):
        inside = [
            number
            for number, row in enumerate(rows)
            if any(position < stop and position + n > start for position, n in row)
        ]
        assert windows.locate(epoch, start, stop).tolist() == inside


def test_best_fit_mixes_documents_anew_in_each_epoch(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 200, 3000).tolist()
    corpus = corpus_of(tmp_path / "corpus", lengths)
    windows = BestFitWindows(source_of(corpus, 256), seed=1)
    every = np.arange(windows.count)

    def contents(seed: int, epoch: int) -> set[tuple[int, ...]]:
        runs = BestFitWindows(source_of(corpus, 256), seed).runs(epoch, every)
        return {tuple(sorted(p for p, _ in row)) for row in rows_of(runs, windows.count)}

    first = contents(1, 0)
    assert contents(1, 0) == first
    for other in (contents(1, 1), contents(2, 0)):
        assert len(first & other) < 0.1 * len(first)
    assert windows.count * 256 * 0.99 < sum(lengths)
    # The longest piece of a window is not always its first.
    rows = rows_of(windows.runs(0, every), windows.count)
    longest_first = np.mean([row[0][1] == max(n for _, n in row) for row in rows if len(row) > 2])
    assert 0.1 < longest_first < 0.6


@strategies.fuzz(60)
@given(LENGTHS, st.integers(1, 40), st.sampled_from((7, 64, 1 << 20)), st.booleans())
def test_aligned_windows_begin_with_documents(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    limit: int,
    tokens_per_shard: int,
    keep_rest: bool,
) -> None:
    corpus = corpus_of(tmp_path_factory.mktemp("corpus"), lengths, tokens_per_shard)
    starts = naive_packing.starts(lengths, limit, keep_rest=keep_rest)
    starts = [start for start in starts if start + limit <= sum(lengths)]
    if not starts:
        with pytest.raises(RecipeError, match="fewer than a window"):
            AlignedWindows(source_of(corpus, limit), keep_rest=keep_rest)
        return
    windows = AlignedWindows(source_of(corpus, limit), keep_rest=keep_rest)
    assert (windows.count, windows.unused) == (len(starts), sum(lengths) - limit * len(starts))
    rows = rows_of(windows.runs(5, np.arange(windows.count)), windows.count)
    assert rows == [[(start, limit)] for start in starts]
    for at in range(0, sum(lengths), max(1, sum(lengths) // 9)):
        inside = [n for n, start in enumerate(starts) if start <= at < start + limit]
        assert windows.locate(0, at, at + 1).tolist() == inside


def test_what_cannot_be_packed(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus", [5, 9])
    for length in (0, (1 << 20) + 1):
        with pytest.raises(RecipeError, match="a packed window has 1 to 1,048,576 positions"):
            BestFitWindows(source_of(corpus, length), 0)
    with pytest.raises(RecipeError, match="split_at = 'word': it is one of none, paragraph, sent"):
        parse_packing({"kind": "best_fit", "split_at": "word"})
    with pytest.raises(RecipeError, match="keep_rest = 1: it is one of false, true"):
        parse_packing({"kind": "aligned", "keep_rest": 1})
    with pytest.raises(RecipeError, match="fewer than a window of 15"):
        AlignedWindows(source_of(corpus, 15))
    with pytest.raises(RecipeError, match="not a tokenizer|neither a tokenizer"):
        BestFitWindows(source_of(corpus, 4), 0, "sentence")
