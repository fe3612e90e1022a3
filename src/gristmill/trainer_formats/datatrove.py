"""datatrove and nanotron: `NAME/SPLIT/00000.ds`, tokens without a header (uint16 or uint32), the
end of text after each document; `.ds.index`, uint64 ends of documents in tokens; `.ds.metadata`,
three lines: `tokenizer|bytes of a token`, tokens, tokens for people.

Source: datatrove's pipeline/tokens/tokenizer.py (TokenizedFile) and utils/dataset.py. Each folder
is for one DatatroveFolderDataset, which takes all `.ds` files below it.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from gristmill.errors import RecipeError, VerificationError
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.flat_files import LONGEST, beside, listed, mapped
from gristmill.trainer_formats.token_blocks import BLOCK
from gristmill.trainer_formats.token_format import (
    Counter,
    ImportFormat,
    Opened,
    OpenedFolder,
    ReadOptions,
    Stream,
    TrainerFormat,
    Written,
    unsigned,
    whole_files,
)


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write the files of a stream; each ends with the document that brings it to
    `tokens_per_file`.
    """
    counter = Counter(stream)
    kind = np.dtype(DATATROVE.dtype(stream.tokens.vocabulary)).newbyteorder("<")
    files: list[str] = []
    for number, blocks in whole_files(counter, tokens_per_file):
        name, at = f"{stream.name}/{stream.split}/{number:05d}.ds", 0
        with folder.file(name) as file, folder.file(f"{name}.index") as index:
            for block, ends in blocks:
                file.write(np.ascontiguousarray(block.tokens, kind))
                index.write(ends[block.ended()].astype("<u8"))
                at = int(ends[-1])
        lines = [f"tokenizer.json|{kind.itemsize}", str(at), f"{at / 1e6:.3f} M"]
        folder.write(f"{name}.metadata", "\n".join(lines).encode())
        files += [name, f"{name}.index", f"{name}.metadata"]
    return counter.written(files)


def read(folder: Path, reading: ReadOptions) -> OpenedFolder:
    """Open all `.ds` below a folder, with the `.ds.index` beside each. One in a folder `val` is
    validation.
    """
    by_split: dict[str, list[Path]] = {}
    for path in listed(folder, "**/*.ds"):
        parents = path.relative_to(folder).parts[:-1]
        by_split.setdefault("val" if "val" in parents else "train", []).append(path)
    streams = []
    for split, files in by_split.items():
        for path in files:
            if beside(path.with_name(f"{path.name}.index")) is None:
                raise RecipeError(f"{path}: without {path.name}.index beside it")
        indices = [path.with_name(f"{path.name}.index") for path in files]
        streams.append(Opened(split, [*files, *indices], _documents(files, reading)))
    return OpenedFolder(streams, "index", reading.side)


def _documents(
    files: list[Path], reading: ReadOptions
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for number, path in enumerate(files):
        kind = f"<{np.dtype(_token_dtype(path, reading)).str[1:]}"
        tokens, index = mapped(path, kind), mapped(path.with_name(f"{path.name}.index"), "<u8")
        if (int(index[-1]) if len(index) else 0) != len(tokens):
            raise VerificationError(
                f"{path}: {len(tokens):,} tokens, and its index ends at "
                f"{int(index[-1]) if len(index) else 0:,}: one of them is cut short, or tokens are "
                "of another size. See --dtype"
            )
        at = first = 0
        while first < len(index):
            ends = index[first : first + (BLOCK >> 6)].astype(np.int64)
            lengths = np.diff(ends, prepend=at)
            if (lengths < 0).any() or ends[-1] > len(tokens):
                raise VerificationError(f"{path}.index: its ends do not ascend: damaged")
            count = max(1, int(np.searchsorted(ends, at + BLOCK, "right")))
            if lengths[0] > LONGEST:
                raise VerificationError(f"{path}: a document of {int(lengths[0]):,} tokens")
            stop = int(ends[count - 1])
            yield tokens[at:stop], lengths[:count], np.full(count, number, np.int64)
            at, first = stop, first + count


def _token_dtype(path: Path, reading: ReadOptions) -> str:
    """Return the type of a file's tokens: as the caller says, as `.ds.metadata` says, or by the
    tokenizer.
    """
    if reading.dtype is not None:
        return reading.dtype
    metadata = beside(path.with_name(f"{path.name}.metadata"))
    if metadata is not None:
        with open(metadata, "rb") as file:
            first = file.read(1 << 16).partition(b"\n")[0]
        name = {b"2": "uint16", b"4": "uint32"}.get(first.rpartition(b"|")[2])
        if name is not None:
            return name
    return DATATROVE.dtype(reading.tokenizer.vocabulary)


DATATROVE = TrainerFormat(
    name="datatrove",
    files="`NAME/SPLIT/00000.ds`, `.index`, `.metadata`",
    holds="uint16; uint32 over 65,536",
    checked="datatrove 0.10.1: `DatatroveFolderDataset`",
    side="after",
    tokens_per_file=1 << 30,
    most_files=100_000,  # numbers of five digits: readers sort names
    dtype=partial(unsigned, smallest=2),
    write=write,
)
DATATROVE_IMPORT = ImportFormat(
    name="datatrove",
    files="every `.ds` with its `.ds.index`; below a folder `val` is validation",
    boundaries="the index",
    end_of_text="seen",
    read=read,
)
