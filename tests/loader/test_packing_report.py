"""What a packing does to a corpus: counted document by document."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.packing_report import lines, packing_report
from tests.support import naive_packing, strategies
from tests.support.command import command_line
from tests.support.token_corpora import token_corpus


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRISTMILL_PACKING", str(tmp_path_factory.mktemp("packing")))


def corpus_of(root: Path, *sources: list[int]) -> Path:
    documents = {
        f"s{number}": [np.ones(length, np.int64) for length in lengths]
        for number, lengths in enumerate(sources)
    }
    return token_corpus(root, documents, tokens_per_shard=100)


def windows_of(kind: str, lengths: list[int], limit: int) -> list[list[int]]:
    """The positions in each window of a packing; of best fit those of one piece each."""
    total = sum(lengths)
    if kind == "concat":
        starts = list(range(0, total - limit + 1, limit))
    elif kind == "aligned":
        starts = naive_packing.starts(lengths, limit, keep_rest=False)
        starts = [start for start in starts if start + limit <= total]
    else:
        sizes = naive_packing.cut(lengths, limit)
        ends = np.cumsum(sizes).tolist()
        return [list(range(end - n, end)) for n, end in zip(sizes, ends, strict=True)]
    return [list(range(start, start + limit)) for start in starts]


@strategies.fuzz(60)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=30),
    st.integers(1, 30),
    st.sampled_from(("concat", "best_fit", "aligned")),
)
def test_every_figure_is_counted(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], limit: int, kind: str
) -> None:
    root = corpus_of(tmp_path_factory.mktemp("corpus"), lengths)
    if not windows_of(kind, lengths, limit):
        with pytest.raises(RecipeError, match="no source has a window"):
            packing_report(TokenCorpus.open(root), limit, kind)
        return
    row = packing_report(TokenCorpus.open(root), limit, kind)["sources"][0]
    window_of = {
        position: number
        for number, window in enumerate(windows_of(kind, lengths, limit))
        for position in window
    }
    cut, start = 0, 0
    for length in lengths:
        found = [window_of.get(position) for position in range(start, start + length)]
        cut += len(set(found)) > 1
        start += length
    assert (row["documents"], row["cut"], row["tokens"]) == (len(lengths), cut, start)
    assert row["discarded"] == start - len(window_of)
    assert row["positions"] == row["windows"] * limit
    assert row["padding"] == row["positions"] - len(window_of)
    if kind != "best_fit":
        assert row["padding"] == 0
    used = round(len(window_of) / row["positions"], 6)
    assert row["shares"]["utilisation"] == used


def run(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command_line(*words), capture_output=True, text=True, check=False)


def test_the_verb(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    root = corpus_of(tmp_path / "corpus", rng.integers(1, 90, 400).tolist(), [5, 6])
    done = run("pack", root, "--sequence-length", 64)
    assert done.returncode == 0, done.stderr
    out = done.stdout.splitlines()
    assert out[0] == "best_fit, windows of 64 positions, split train"
    assert [line.split()[0] for line in out[1:]] == ["source", "s0", "s1", "all"]
    used = float(out[2].split()[3])
    assert 97 < used <= 100
    report = packing_report(TokenCorpus.open(root), 64, "best_fit")
    assert lines(report) == out
    asked = ("--packing", "aligned", "--keep-rest", "--json")
    done = run("pack", root, "--sequence-length", 64, *asked)
    assert '"kind": "aligned", "keep_rest": true' in done.stdout
    for options, said in (
        (("--packing", "tight"), "packing 'tight'"),
        (("--packing", "concat", "--split-at", "sentence"), "no parameter 'split_at'"),
        (("--split", "test"), "split 'test'"),
    ):
        done = run("pack", root, *options)
        assert done.returncode == 2
        assert said in done.stderr


def test_a_source_without_a_window(tmp_path: Path) -> None:
    corpus = TokenCorpus.open(corpus_of(tmp_path / "corpus", [5, 6], [100]))
    for kind in ("concat", "aligned"):
        report = packing_report(corpus, 50, kind)
        row = report["sources"][0]
        assert lines(report)[-1].startswith("s0 has too few tokens for a window")
        assert (row["windows"], row["discarded"], row["documents"]) == (0, 11, 2)
    with pytest.raises(RecipeError, match="split_at"):
        packing_report(corpus, 50, {"kind": "best_fit", "split_at": "page"})
