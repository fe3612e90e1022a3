"""Rows of several sources at once, beside TokenStream's own reading."""

import re
from pathlib import Path

import numpy as np
import pytest

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import VerificationError
from gristmill.kernels.loading.runs import Runs
from gristmill.loader.token_reader import TokenReader
from tests.support.token_corpora import token_corpus


def documents(seed: int, count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [
        np.append(generator.integers(1, 1000, generator.integers(0, 40)), 0) for _ in range(count)
    ]


@pytest.mark.parametrize("vocabulary", [1000, 100_000])
def test_what_it_reads_is_what_the_streams_have(tmp_path: Path, vocabulary: int) -> None:
    root = token_corpus(
        tmp_path,
        {"web": documents(1, 90), "books": documents(2, 60)},
        vocabulary=vocabulary,
        tokens_per_shard=100,
    )
    corpus = TokenCorpus.open(root)
    streams = [corpus.stream(source) for source in corpus.sources()]
    assert min(len(stream.shards) for stream in streams) > 5
    reader = TokenReader(streams)
    generator = np.random.default_rng(3)
    for _ in range(30):
        of = generator.integers(0, 2, 8)
        starts = np.array([generator.integers(0, streams[s].tokens - 300) for s in of])
        runs = Runs(np.arange(8), np.zeros(8, np.int64), reader.base[of] + starts, np.full(8, 300))
        rows = np.empty((8, 300), corpus.dtype)
        reader.gather(runs, rows)
        segments = reader.segments(runs)
        for row in range(8):
            stream, start = streams[of[row]], int(starts[row])
            assert np.array_equal(rows[row], stream.read(start, start + 300))
            spans = stream.documents(start, start + 300)
            mine = segments.rows == row
            assert np.array_equal(segments.documents[mine], spans.documents)
            assert np.array_equal(segments.starts[mine], spans.starts - start)
            assert np.array_equal(segments.lengths[mine], spans.ends - spans.starts)
            assert np.array_equal(segments.continues[mine], spans.continues)


def test_only_the_shards_that_are_read_are_opened(tmp_path: Path) -> None:
    root = token_corpus(tmp_path, {"web": documents(1, 200)}, tokens_per_shard=500)
    stream = TokenCorpus.open(root).stream("web")
    reader = TokenReader([stream])
    one = Runs(*(np.array([value]) for value in (0, 0, 600, 100)))
    reader.gather(one, np.empty((1, 100), stream.dtype))
    assert list(stream._maps) == [1]


def test_a_shard_cut_short_is_refused(tmp_path: Path) -> None:
    root = token_corpus(tmp_path, {"web": documents(1, 200)}, tokens_per_shard=500)
    path = root / "tokens/web/train_00001.bin"
    path.write_bytes(path.read_bytes()[:-2])
    reader = TokenReader([TokenCorpus.open(root).stream("web")])
    run = Runs(*(np.array([value]) for value in (0, 0, 600, 100)))
    said = re.escape(
        "train_00001.bin: not as it was written: 998 bytes, expected 1,000. Fetch it again"
    )
    with pytest.raises(VerificationError, match=said):
        reader.gather(run, np.empty((1, 100), "<u2"))
