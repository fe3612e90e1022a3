"""Documents between form feeds: whole, damaged, hostile."""

import gzip
from pathlib import Path

import pytest

from gristmill.errors import SourceError
from gristmill.recipe import parse
from gristmill.source.read import ShardReader

DATA = b"\fThe first page.\n\fThe second page.\n\f" + b"A third page. " * 9000


def rows(path: Path) -> list[tuple[str | None, str | None]]:
    batches = list(ShardReader(path, 0))
    return [(row["text"], row["reason"]) for batch in batches for row in batch.to_pylist()]


def test_a_document_is_behind_each_form_feed(tmp_path: Path) -> None:
    (tmp_path / "manual").write_bytes(DATA)
    found = rows(tmp_path / "manual")
    assert [text and text[:8] for text, _ in found] == ["The firs", "The seco", "A third "]
    assert parse('[[source]]\nname = "a"\nfiles = ["a"]\nkind = "form_feeds"\n', "recipe")


@pytest.mark.parametrize("kept", [20, 60, 150])
def test_a_damaged_file_is_a_failed_row_or_refused(tmp_path: Path, kept: int) -> None:
    (tmp_path / "manual.gz").write_bytes(gzip.compress(DATA, 9, mtime=0)[:kept])
    try:
        found = rows(tmp_path / "manual.gz")
    except SourceError:
        return
    assert all(reason for _, reason in found)


def test_form_feeds_alone_are_empty_documents(tmp_path: Path) -> None:
    (tmp_path / "manual").write_bytes(b"\f" * 50)
    assert rows(tmp_path / "manual") == [("", None)] * 50
