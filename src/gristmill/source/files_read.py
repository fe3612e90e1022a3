"""About how much of some files is read, for people: by their sizes and the text that came."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gristmill.errors import SourceError
from gristmill.progress.counted_work import Count, counted

PACKED = (".gz", ".zst", ".xz", ".bz2", ".lz4", ".parquet")
PACKED_TO = 3  # bytes of text for each byte of a packed file: 2.6 of WET, 3 and more of JSONL


def text_size(path: Path | str, name: str) -> int:
    """About how many bytes of text a file has, by its size and its name; at least 1."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return 1  # who reads it says what is wrong
    return max(size * (PACKED_TO if name.endswith(PACKED) else 1), 1)


class FilesRead:
    """Counts text as parts of the files that it comes from, read one after another."""

    def __init__(self, files: Sequence[Path | str], count: Count) -> None:
        """Use `counted_files`."""
        self._sizes = [text_size(path, str(path)) for path in files]
        self._count = count
        self._place = self._text = 0

    def text(self, place: int, size: int) -> None:
        """Count `size` bytes of text of the file at a place in the list."""
        if place != self._place:
            self._place, self._text = place, 0
        self._text += size
        self._count.at(sum(self._sizes[:place]) + min(self._text, self._sizes[place]))


@contextmanager
def counted_files(what: str, files: Sequence[Path | str]) -> Iterator[FilesRead]:
    """Files that are read one after another, as work that is counted in about the bytes of their
    text.
    """
    with counted(what, sum(text_size(path, str(path)) for path in files), "bytes") as count:
        yield FilesRead(files, count)


@contextmanager
def error_names(path: Path | str) -> Iterator[None]:
    """Put a file's name before the message of a SourceError: a reader knows it by its number."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"{path}: {error}", error.reason) from error
