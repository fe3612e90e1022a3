"""OLMo-core and Dolma: `NAME/SPLIT_00000.npy`, tokens without a header (in spite of the suffix),
the end of text after each document, and `.csv.gz` beside it with `start,end,id` of each document.

Source: OLMo-core's docs/guides/data_loading.rst and src/olmo_core/data/utils.py
(iter_document_indices). A token is of the smallest unsigned type that holds the vocabulary, as
NumpyDatasetConfig chooses it. No document goes on in another file; OLMo-core counts a file's tokens
in uint32.
"""

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from gristmill.errors import RecipeError, VerificationError
from gristmill.tables.schema import document_name
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.flat_files import (
    LONGEST,
    beside,
    check_type,
    divided,
    listed,
    mapped,
)
from gristmill.trainer_formats.token_blocks import BLOCK, Side
from gristmill.trainer_formats.token_format import (
    Counter,
    ImportFormat,
    Opened,
    OpenedFolder,
    ReadOptions,
    Stream,
    TrainerFormat,
    Written,
    whole_files,
)

MOST = (1 << 32) - 1  # tokens of a file: OLMo-core's indices are uint32
MOST_LINE = 1 << 12  # characters of a line of .csv.gz


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write the files of a stream; each ends with the document that brings it to
    `tokens_per_file`.
    """
    counter = Counter(stream)
    kind = np.dtype(OLMO.dtype(stream.tokens.vocabulary)).newbyteorder("<")
    files: list[str] = []
    for number, blocks in whole_files(counter, tokens_per_file):
        name = f"{stream.name}/{stream.split}_{number:05d}"
        with folder.file(f"{name}.npy") as file, folder.file(f"{name}.csv.gz") as beside:
            rows = gzip.GzipFile(filename="", mode="wb", fileobj=cast("BinaryIO", beside), mtime=0)
            at = begin = 0
            for block, ends in blocks:
                file.write(np.ascontiguousarray(block.tokens, kind))
                lines = []
                for document, end, ended in zip(
                    block.documents.tolist(), ends.tolist(), block.ended().tolist(), strict=True
                ):
                    if ended:
                        lines.append(f"{begin},{end},{document_name(document)}\n")
                        begin = end
                rows.write("".join(lines).encode())
                at = int(ends[-1])
            rows.close()
        if at > MOST:
            raise RecipeError(
                f"--to olmo: {name}.npy has {at:,} tokens, and OLMo-core counts in 32 bits. Use a "
                "smaller --tokens-per-file"
            )
        files += [f"{name}.npy", f"{name}.csv.gz"]
    return counter.written(files)


def read(folder: Path, reading: ReadOptions) -> OpenedFolder:
    """Open all `.npy` below a folder; a name that begins with `val` is validation.

    Boundaries are those of `.csv.gz` where every file has one, otherwise those of the end of text.
    """
    kind = np.dtype(reading.dtype or OLMO.dtype(reading.tokenizer.vocabulary)).newbyteorder("<")
    by_split: dict[str, list[Path]] = {}
    for path in listed(folder, "**/*.npy"):
        by_split.setdefault("val" if path.name.startswith("val") else "train", []).append(path)
    streams, indexed = [], True
    for files in by_split.values():
        indices = [beside(path.with_suffix(".csv.gz")) for path in files]
        indexed = indexed and None not in indices
    for split, files in by_split.items():
        for path in files:
            stated = reading.dtype is not None
            check_type(path, kind.name, reading.tokenizer.vocabulary, stated=stated)
        opened = [(path, mapped(path, kind.str)) for path in files]
        blocks = (
            _index(opened)
            if indexed
            else _apart(opened, reading.tokenizer.end_of_text, reading.side or OLMO.side)
        )
        lists = [path.with_suffix(".csv.gz") for path in files] if indexed else []
        streams.append(Opened(split, [*files, *lists], blocks))
    boundaries = "index" if indexed else "end-of-text"
    return OpenedFolder(streams, boundaries, reading.side if indexed else reading.side or OLMO.side)


def _apart(
    opened: list[tuple[Path, np.ndarray]], end_of_text: int, side: Side
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield files one by one: no document goes on in the next."""
    for number, file in enumerate(opened):
        for tokens, lengths, _ in divided([file], end_of_text, side):
            yield tokens, lengths, np.full(len(lengths), number, np.int64)


def _index(
    opened: list[tuple[Path, np.ndarray]],
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for number, (path, tokens) in enumerate(opened):
        begin = at = 0
        lengths: list[int] = []
        index = path.with_suffix(".csv.gz")
        for start, end in _rows(index, len(tokens) + 1):
            if start != at or end < start or end > len(tokens):
                raise VerificationError(
                    f"{index}: a document of tokens {start:,} to {end:,}, after one that ends at "
                    f"{at:,}, in {len(tokens):,} tokens: damaged, or of another file"
                )
            lengths.append(end - start)
            at = end
            if at - begin > LONGEST:
                raise VerificationError(f"{index}: a document of {at - begin:,} tokens")
            if at - begin >= BLOCK:
                yield tokens[begin:at], np.array(lengths, np.int64), _full(lengths, number)
                begin, lengths = at, []
        if lengths:
            yield tokens[begin:at], np.array(lengths, np.int64), _full(lengths, number)
        if at != len(tokens):
            raise VerificationError(
                f"{index}: its documents end at token {at:,} of {len(tokens):,}: cut short, or of "
                "another file"
            )


def _full(lengths: list[int], number: int) -> np.ndarray:
    return np.full(len(lengths), number, np.int64)


def _rows(path: Path, most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each line, of at most `most`: a few packed bytes can stand for
    billions. Raises VerificationError.
    """
    place = 0
    try:
        with gzip.open(path, "rb") as packed:
            lines = io.TextIOWrapper(packed, "utf-8", newline="")
            while line := lines.readline(MOST_LINE):
                place += 1
                if place > most:
                    raise ValueError("more documents than the file has tokens")
                row = next(csv.reader([line]))
                if len(row) < 2 or len(line) == MOST_LINE:
                    raise ValueError(f"{line[:50]!r} is not start,end and a few more words")
                start, end = row[0], row[1]
                both = start + end
                if not (both.isascii() and both.isdecimal()) or len(both) > 40:
                    raise ValueError(f"{start[:50]!r} and {end[:50]!r} are no places of tokens")
                yield int(start), int(end)
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise VerificationError(f"{path}: line {place}: {error}") from error


OLMO = TrainerFormat(
    name="olmo",
    files="`NAME/SPLIT_00000.npy`, `.csv.gz`",
    holds="smallest unsigned type",
    checked="ai2-olmo-core 3.0.0: `iter_document_indices`, `NumpyFSLDataset`",
    side="after",
    ends_by_token=True,
    tokens_per_file=1 << 29,
    most_files=100_000,  # numbers of five digits: readers sort names
    write=write,
)
OLMO_IMPORT = ImportFormat(
    name="olmo",
    files="every `.npy`; `val...` is validation",
    boundaries="`.csv.gz` where every file has one, otherwise the end of text",
    end_of_text="seen; after",
    read=read,
)
