"""llm.c and modded-nanogpt: shards with a header of 256 int32, the end of text before each
document, documents that go on in the next shard.

    header[0]   20240520 (uint16 tokens), or 20240801 (uint32: llm.c's writer for Llama 3)
    header[1]   version: 1, or 7
    header[2]   tokens in the shard, below 2^31
    the rest    0

Source: llm.c's dev/data/data_common.py, dev/data/fineweb.py and llmc/dataloader.h; modded-nanogpt's
train_gpt.py. llm.c's C loader and modded-nanogpt read the first kind alone.
"""

from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np

from gristmill.errors import RecipeError, VerificationError
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.flat_files import divided, listed, mapped
from gristmill.trainer_formats.token_format import (
    Counter,
    ImportFormat,
    Opened,
    OpenedFolder,
    ReadOptions,
    Stream,
    TrainerFormat,
    Written,
    pieces,
    unsigned,
)

MOST = (1 << 31) - 1
HEADER = 256  # int32
KINDS = {20240520: (1, "uint16"), 20240801: (7, "uint32")}


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write `NAME_val_000000.bin`, `NAME_train_000001.bin` and the following."""
    if not 0 < tokens_per_file <= MOST:
        raise RecipeError(f"--tokens-per-file {tokens_per_file}: llm.c's shards have below 2^31")
    counter, kind = Counter(stream), LLMC.dtype(stream.tokens.vocabulary)
    magic = next(magic for magic, (_, held) in KINDS.items() if held == kind)
    first = 0 if stream.split == "val" else 1  # llm.c keeps shard 0 for validation
    files: list[str] = []
    cut = pieces(counter.blocks(), tokens_per_file, cut=True)
    for _, group in groupby(cut, key=lambda pair: pair[0]):
        files.append(f"{stream.name}_{stream.split}_{first + len(files):06d}.bin")
        if folder.kept(files[-1]) is not None:
            for _ in group:
                pass
            continue
        # The header has the number of tokens: they wait until it is known.
        waiting = folder.spool("<u2" if kind == "uint16" else "<u4")
        for _, piece in group:
            waiting.append(piece.tokens)
        header = np.zeros(HEADER, "<i4")
        header[:3] = magic, KINDS[magic][0], waiting.count
        with folder.file(files[-1]) as file:
            file.write(header)
            for tokens in waiting.blocks():
                file.write(tokens)
        waiting.close()
    return counter.written(files)


def read(folder: Path, reading: ReadOptions) -> OpenedFolder:
    """Open the shards whose names have `train` or `val` before their number."""
    side = reading.side or LLMC.side
    streams = []
    for split in ("train", "val"):
        files = listed(folder, f"*{split}_[0-9]*.bin")
        names = {path.name.rpartition(f"{split}_")[0] for path in files}
        if len(names) > 1:
            raise RecipeError(
                f"{folder}: {split} shards of {len(names)} data sets ({', '.join(sorted(names))}). "
                "Import each from a folder of its own"
            )
        if files:
            opened = [(path, shard(path)) for path in files]
            blocks = divided(opened, reading.tokenizer.end_of_text, side)
            streams.append(Opened(split, files, blocks))
    return OpenedFolder(streams, "end-of-text", side)


def shard(path: Path) -> np.ndarray:
    """Return the tokens of a shard, memory-mapped. Raises VerificationError for a header of another
    kind, or a size that it does not give.
    """
    with open(path, "rb") as file:
        data = file.read(4 * HEADER)
    if len(data) < 4 * HEADER:
        raise VerificationError(f"{path}: {len(data):,} bytes, shorter than a header of 1,024")
    header = np.frombuffer(data, "<i4")
    if int(header[0]) not in KINDS:
        raise VerificationError(
            f"{path}: begins with {int(header[0])}, and a shard of llm.c with "
            f"{' or '.join(map(str, KINDS))}. It is of another format"
        )
    version, kind = KINDS[int(header[0])]
    if header[1] != version:
        raise VerificationError(f"{path}: version {int(header[1])}, expected {version}")
    tokens = mapped(path, "<u2" if kind == "uint16" else "<u4", 4 * HEADER)
    if header[2] <= 0 or len(tokens) != header[2]:
        raise VerificationError(
            f"{path}: {len(tokens):,} tokens, and its header says {int(header[2]):,}: it is cut "
            "short or damaged. Fetch it again"
        )
    return tokens


LLMC = TrainerFormat(
    name="llmc",
    files="`NAME_val_000000.bin`, `NAME_train_000001.bin` ...",
    holds="uint16; uint32 over 65,536",
    checked="llm.c f1e2ace (2025-05-10): its C loader; modded-nanogpt f411b3d "
    "(2026-08-01): `_load_data_shard`",
    side="before",
    one_stream=True,
    ends_by_token=True,
    tokens_per_file=100_000_000,  # as in llm.c's fineweb.py
    most_files=1_000_000,  # numbers of six digits: readers sort names
    dtype=partial(unsigned, smallest=2),
    write=write,
)
LLMC_IMPORT = ImportFormat(
    name="llmc",
    files="`*train_*.bin`, `*val_*.bin`",
    boundaries="the end of text",
    end_of_text="before",
    read=read,
)
