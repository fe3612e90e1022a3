"""Rows of several sources at once, beside TokenStream's own reading."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gristmill import TokenCorpus
from gristmill.errors import VerificationError
from gristmill.kernels.loading.runs import Runs
from gristmill.loader import token_reader
from gristmill.loader.token_reader import TokenReader
from tests.support.token_corpora import token_corpus


def documents(seed: int, count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [
        np.append(generator.integers(1, 1000, generator.integers(0, 40)), 0) for _ in range(count)
    ]


@pytest.mark.parametrize(("vocabulary", "mapped"), [(1000, 8192), (100_000, 8192), (1000, 2)])
def test_what_it_reads_is_what_the_streams_have(
    tmp_path: Path, vocabulary: int, mapped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where not all shards may be mapped."""
    monkeypatch.setattr(token_reader, "MOST_MAPPED", mapped)
    monkeypatch.setattr(token_reader, "RUNS_TOGETHER", 3)
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
    assert len(reader._kept) == 2 if mapped == 2 else len(reader._kept) > 20


def test_only_the_shards_that_are_read_are_opened(tmp_path: Path) -> None:
    root = token_corpus(tmp_path, {"web": documents(1, 200)}, tokens_per_shard=500)
    stream = TokenCorpus.open(root).stream("web")
    reader = TokenReader([stream])
    one = Runs(*(np.array([value]) for value in (0, 0, 600, 100)))
    reader.gather(one, np.empty((1, 100), stream.dtype))
    assert [number for number in range(len(stream.shards)) if number in stream._maps] == [1]


MANY_SHARDS = """
import os, resource, sys
from gristmill import Loader
from gristmill.loader import token_reader
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

def mappings():
    with open("/proc/self/maps") as file:
        return sum("/tokens/" in line for line in file)

sums = []
for most in (20, 8192):
    token_reader.MOST_MAPPED = most
    loader = Loader(sys.argv[1], sequence_length=16, batch_size=8, packing=sys.argv[2], prefetch=0)
    sums.append([int(next(loader).tokens.sum()) for _ in range(60)])
    if most == 20:
        assert mappings() <= 2 * 20 + 2 * 64 + 4, mappings()
assert mappings() > 400
print(sums[0] == sums[1])
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc")
@pytest.mark.parametrize("packing", ["concat", "best_fit"])
def test_more_shards_than_a_process_may_have_open(tmp_path: Path, packing: str) -> None:
    """300 shards where 64 files may be open: none stays open, and mappings are bounded."""
    root = token_corpus(tmp_path / "corpus", {"web": documents(1, 700)}, tokens_per_shard=45)
    done = subprocess.run(
        [sys.executable, "-c", MANY_SHARDS, root, packing],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


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
