"""The report of a corpus of ten million documents: its tables are made here, its texts are few."""

import os
import resource
import sys
import time
from pathlib import Path

import pytest

from gristmill.reports.page.report import report
from tests.support.table_corpora import table_corpus


@pytest.mark.soak
def test_ten_million_documents_in_seconds(tmp_path: Path) -> None:
    corpus = table_corpus(tmp_path / "corpus", 100_000)
    start, cpu = time.monotonic(), time.process_time()
    written = report(
        corpus,
        out=tmp_path / "page.html",
        on_line=lambda line: print(line, time.monotonic() - start),
    )
    took, used = time.monotonic() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform == "linux" else 1 << 20
    )
    size = sum(path.stat().st_size for path in corpus.rglob("*.parquet"))
    print(
        f"{took:.1f} s, {used:.1f} s of processor time on {os.cpu_count()}, {peak:,.0f} MB, "
        f"{size / 1e6:,.0f} MB of tables, page {written['bytes']:,} bytes"
    )
    assert written["bytes"] < 5_000_000
    assert used < 120


def test_a_corpus_of_tables_alone(tmp_path: Path) -> None:
    """The same shape, small: what is not stored is said."""
    corpus = table_corpus(tmp_path / "corpus", 200, shards_made=3)
    written = report(corpus, out=tmp_path / "page.html")
    page = Path(written["file"]).read_text("utf-8")
    assert "gopher.short_doc" in page
    assert "its text is not stored" in page
