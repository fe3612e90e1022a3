r"""Megatron-LM's indexed data set: `PREFIX.bin` with tokens alone and `PREFIX.idx`.

    .idx   9 bytes  MMIDIDX\0\0
           uint64   version 1
           uint8    type of a token: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16
           uint64   S, sequences
           uint64   D, entries of the document index: documents + 1
           int32[S] tokens of each sequence
           int64[S] the byte in .bin at which each begins
           int64[D] the first sequence of each document, and at last S

Source: megatron/core/datasets/indexed_dataset.py of Megatron-LM. A document is one sequence here;
its length is an int32. There is no code for uint32: vocabularies of 65,500 and more are int32.
"""

import struct
from collections.abc import Iterator
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
)

MAGIC = b"MMIDIDX\0\0"
HEAD = struct.Struct("<9sQBQQ")
CODES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
LIMIT = 65500  # Megatron's optimal_dtype: from this vocabulary on int32
MOST_SEQUENCES = 1 << 40


def dtype(vocabulary: int) -> str:
    """Return uint16 below 65,500 tokens, otherwise int32, as Megatron chooses."""
    return "uint16" if vocabulary < LIMIT else "int32"


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write `NAME_SPLIT_text_document.bin` and `.idx`."""
    counter, kind = Counter(stream), np.dtype(dtype(stream.tokens.vocabulary)).newbyteorder("<")
    prefix = f"{stream.name}_{stream.split}_text_document"
    lengths = folder.spool("<i8")
    open_length = 0
    with folder.file(f"{prefix}.bin") as file:
        for block in counter.blocks():
            file.write(np.ascontiguousarray(block.tokens, kind))
            sizes = block.lengths.copy()
            sizes[0] += open_length
            open_length = 0 if block.ends else int(sizes[-1])
            sizes = sizes if block.ends else sizes[:-1]
            if len(sizes) and sizes.max() >= 1 << 31:
                raise RecipeError(
                    "--to megatron: a document of 2^31 tokens or more; the format has 32 bits for "
                    "a length"
                )
            lengths.append(sizes)
    with folder.file(f"{prefix}.idx") as file:
        code = next(code for code, name in CODES.items() if np.dtype(name) == kind)
        file.write(HEAD.pack(MAGIC, 1, code, lengths.count, lengths.count + 1))
        for block_lengths in lengths.blocks():
            file.write(block_lengths.astype("<i4"))
        at = 0
        for block_lengths in lengths.blocks():
            ends = at + np.cumsum(block_lengths) * kind.itemsize
            file.write((ends - block_lengths * kind.itemsize).astype("<i8"))
            at = int(ends[-1])
        for start in range(0, lengths.count + 1, BLOCK):
            file.write(np.arange(start, min(start + BLOCK, lengths.count + 1), dtype="<i8"))
    lengths.close()
    return counter.written([f"{prefix}.bin", f"{prefix}.idx"])


class MegatronIndex:
    """A .idx that was checked against its .bin."""

    def __init__(self, path: Path) -> None:
        """Raise VerificationError for what is no index, is cut short, or points outside."""
        with open(path, "rb") as file:
            head = file.read(HEAD.size)
        if len(head) < HEAD.size or not head.startswith(MAGIC):
            raise VerificationError(f"{path}: does not begin with MMIDIDX: no index of Megatron")
        _, version, code, sequences, entries = HEAD.unpack(head)
        if version != 1:
            raise VerificationError(f"{path}: version {version}, expected 1")
        if code not in CODES:
            raise VerificationError(
                f"{path}: type {code}, expected one of {', '.join(map(str, CODES))}: no tokens"
            )
        size = path.stat().st_size
        needed = HEAD.size + 12 * sequences + 8 * entries
        if (
            sequences > MOST_SEQUENCES
            or entries > MOST_SEQUENCES
            or size
            not in (
                needed,
                needed + sequences,  # with modes, of multimodal data
            )
        ):
            raise VerificationError(
                f"{path}: {size:,} bytes, and {sequences:,} sequences and {entries:,} entries of "
                f"documents need {needed:,}: it is cut short or damaged. Fetch it again"
            )
        if size != needed:
            raise VerificationError(f"{path}: has modes of sequences: multimodal data, not text")
        self.path, self.dtype = path, np.dtype(CODES[code]).newbyteorder("<")
        start = HEAD.size
        self.lengths = _column(path, "<i4", start, sequences)
        self.pointers = _column(path, "<i8", start + 4 * sequences, sequences)
        self.documents = _column(path, "<i8", start + 12 * sequences, entries)

    def check(self, bin_size: int) -> None:
        """Raise VerificationError where the index points outside its .bin."""
        size = self.dtype.itemsize
        before = 0
        if len(self.documents) == 0 or self.documents[0] != 0:
            raise VerificationError(f"{self.path}: its documents do not begin with sequence 0")
        if self.documents[-1] != len(self.lengths):
            raise VerificationError(
                f"{self.path}: its documents end with sequence {int(self.documents[-1]):,}, and "
                f"it has {len(self.lengths):,} sequences"
            )
        for start in range(0, len(self.documents), BLOCK):
            if (np.diff(self.documents[start : start + BLOCK + 1]) < 0).any():
                raise VerificationError(f"{self.path}: its documents are not in order")
        for start in range(0, len(self.lengths), BLOCK):
            lengths = self.lengths[start : start + BLOCK].astype(np.int64)
            pointers = self.pointers[start : start + BLOCK]
            if (lengths < 0).any():
                where = start + int(np.flatnonzero(lengths < 0)[0])
                raise VerificationError(
                    f"{self.path}: sequence {where:,} has {int(self.lengths[where]):,} tokens"
                )
            # Sequences follow each other without a gap: what Megatron's writers write.
            expected = before + (np.cumsum(lengths) - lengths) * size
            if (pointers != expected).any():
                where = start + int(np.flatnonzero(pointers != expected)[0])
                raise VerificationError(
                    f"{self.path}: sequence {where:,} begins at byte "
                    f"{int(self.pointers[where]):,}, and those before it end at "
                    f"{int(expected[where - start]):,}: damaged, or not in order"
                )
            before = int(expected[-1] + lengths[-1] * size)
        if before != bin_size:
            raise VerificationError(
                f"{self.path}: its sequences have {before:,} bytes, and {self.path.stem}.bin has "
                f"{bin_size:,}: one of them is cut short or of another data set"
            )


def _column(path: Path, dtype: str, start: int, count: int) -> np.ndarray:
    if not count:
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype, "r", offset=start, shape=(count,))).view(np.ndarray)


def read(folder: Path, reading: ReadOptions) -> OpenedFolder:
    """Open all pairs of a folder. Those with `val` or `valid` in their names, between marks of
    punctuation, are validation.
    """
    by_split: dict[str, list[Path]] = {}
    for path in listed(folder, "*.idx"):
        words = path.stem.replace("-", "_").replace(".", "_").split("_")
        split = "val" if {"val", "valid", "validation"} & set(words) else "train"
        by_split.setdefault(split, []).append(path)
    streams = []
    for split, paths in by_split.items():
        files = [path.with_suffix(".bin") for path in paths]
        for path, tokens in zip(paths, files, strict=True):
            if beside(tokens) is None:
                raise RecipeError(f"{path}: without {tokens.name} beside it")
        both = [file for pair in zip(files, paths, strict=True) for file in pair]
        streams.append(Opened(split, both, _documents(paths)))
    return OpenedFolder(streams, "index", reading.side)


def _documents(paths: list[Path]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for place, path in enumerate(paths):
        index = MegatronIndex(path)
        file = path.with_suffix(".bin")
        index.check(file.stat().st_size)
        tokens = mapped(file, index.dtype.str)
        at = first = 0
        while first + 1 < len(index.documents):
            stop = min(first + (BLOCK >> 6), len(index.documents) - 1)
            bounds = index.documents[first : stop + 1]
            lengths = np.add.reduceat(
                np.append(index.lengths[bounds[0] : bounds[-1]].astype(np.int64), 0),
                np.minimum(bounds[:-1], bounds[-1]) - bounds[0],
            )
            lengths[np.diff(bounds) == 0] = 0  # a document without a sequence
            ends = np.cumsum(lengths)
            # no more than a block of tokens, but one document at least
            count = max(1, int(np.searchsorted(ends, BLOCK, "right")))
            if lengths[0] > LONGEST:
                raise VerificationError(f"{path}: a document of {int(lengths[0]):,} tokens")
            size = int(ends[count - 1])
            yield tokens[at : at + size], lengths[:count], np.full(count, 2 * place, np.int64)
            at, first = at + size, first + count


MEGATRON = TrainerFormat(
    name="megatron",
    files="`NAME_SPLIT_text_document.bin`, `.idx`",
    holds="uint16 below 65,500, otherwise int32",
    checked="megatron-core 0.16.1: `IndexedDataset`",
    side="after",
    dtype=dtype,
    write=write,
)
MEGATRON_IMPORT = ImportFormat(
    name="megatron",
    files="every `.idx` with its `.bin`; `val` or `valid` in the name is validation",
    boundaries="the index",
    end_of_text="seen",
    read=read,
)
