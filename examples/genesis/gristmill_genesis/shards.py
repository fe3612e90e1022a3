"""Genesis (NeuroShard): `shard_0.pt` and the following, a torch tensor of int64 with 2,500,000
tokens each, of one source; the last shard of a source is shorter. Validation is in `val/`. Beside
them `manifest.json`, `tokenizer.json` and `checkpoints.json` (index.py).

Source: NeuroShard's docs-site/architecture/genesis-data.md and
src/neuroshard/core/training/distributed.py, which reads with `weights_only=True`.

A `.pt` file is a zip archive with a pickle. Import reads it with `torch.load(weights_only=True)`,
which runs no code of the file, and refuses it where it holds anything but one tensor.
"""

import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import RecipeError, VerificationError
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.flat_files import divided, listed
from gristmill.trainer_formats.token_blocks import Side
from gristmill.trainer_formats.token_format import (
    Counter,
    Finished,
    ImportFormat,
    Opened,
    OpenedFolder,
    ReadOptions,
    Stream,
    TrainerFormat,
    Written,
    pieces,
)
from gristmill_genesis import index

MOST_BYTES = 1 << 30  # of a file that import reads: it is in memory as a whole


def dtype(vocabulary: int) -> str:
    """Return int64, for any vocabulary."""
    return "int64"


def library() -> Any:
    """Return the package torch. Raises RecipeError where it is not installed."""
    try:
        import torch
    except ImportError as error:
        raise RecipeError(
            "the format genesis needs the package torch: pip install 'gristmill[torch]'"
        ) from error
    return torch


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write the shards of a source; their numbers go on behind those of the source before."""
    torch = library()
    counter, place = Counter(stream), "" if stream.split == "train" else "val/"
    first = sum(
        part.path.startswith(f"{place}shard_") and part.path.endswith(".pt")
        for part in folder.parts
    )
    files: list[str] = []
    held: list[np.ndarray] = []
    at = 0

    def close() -> None:
        nonlocal held
        files.append(f"{place}shard_{first + len(files)}.pt")
        buffer = io.BytesIO()
        torch.save(torch.from_numpy(np.concatenate(held)), buffer)
        folder.write(files[-1], buffer.getvalue())
        held = []

    for number, piece in pieces(counter.blocks(), tokens_per_file, cut=True):
        if number != at:
            close()
            at = number
        held.append(piece.tokens.astype(np.int64))
    if held:
        close()
    return counter.written(files)


def finish(folder: ExportFolder, made: Finished) -> list[str]:
    """Write manifest.json, tokenizer.json and checkpoints.json; returns what a user should know."""
    notes = index.write_tokenizer(folder, made.tokenizer)
    index.write_tables(folder, made, lambda name: shard(folder.root / name).tolist())
    return notes


def read(folder: Path, reading: ReadOptions) -> OpenedFolder:
    """Open `shard_N.pt` in the order of their numbers, and those of `val/`. manifest.json is not
    read.
    """
    library()
    side = reading.side or GENESIS.side
    streams = []
    for split, below in (("train", folder), ("val", folder / "val")):
        files = listed(below, "shard_*.pt")
        numbers = [re.fullmatch(r"shard_(\d{1,9})\.pt", path.name) for path in files]
        found = sorted(
            (int(number[1]), path)
            for number, path in zip(numbers, files, strict=True)
            if number is not None
        )
        if [number for number, _ in found] != list(range(len(files))):
            raise RecipeError(
                f"{below}: shards of other numbers than 0 to {len(files) - 1}: some are missing"
            )
        if found:
            paths = [path for _, path in found]
            blocks = _chained(paths, reading.tokenizer.end_of_text, side)
            streams.append(Opened(split, paths, blocks))
    return OpenedFolder(streams, "end-of-text", side)


def _chained(
    paths: list[Path], end_of_text: int, side: Side
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    return divided(((path, shard(path)) for path in paths), end_of_text, side)


def shard(path: Path) -> np.ndarray:
    """Return the tokens of a shard, (n,) int64. Raises VerificationError for a file with anything
    but one tensor of int64 in one dimension; no code of the file is run.
    """
    torch = library()
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise VerificationError(f"{path}: {size:,} bytes; import reads up to {MOST_BYTES:,}")
    _check_archive(path, size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of protocols of pickle
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise VerificationError(
            f"{path}: not a tensor that torch loads without running code "
            f"({type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}). "
            "Do not load it in another way: a .pt file can run any program"
        ) from error
    if (
        not isinstance(found, torch.Tensor)
        or found.dtype != torch.int64
        or found.dim() != 1
        or found.layout != torch.strided
        or found.numel() * 8 > size  # a view that repeats a small storage
    ):
        raise VerificationError(f"{path}: not one tensor of int64 in one dimension")
    tokens: np.ndarray = found.detach().numpy()
    return tokens


def _check_archive(path: Path, size: int) -> None:
    """Raise VerificationError for what is no archive of torch's, or unpacks to more than it is."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise VerificationError(
            f"{path}: not a zip archive, as torch writes tensors ({error}). Plain pickles are not "
            "loaded: they can run any program"
        ) from error
    packed = [entry for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    if packed or sum(entry.file_size for entry in entries) > size:
        raise VerificationError(f"{path}: an archive with packed entries, and torch packs none")


GENESIS = TrainerFormat(
    name="genesis",
    files="`shard_0.pt` ..., `manifest.json`, `tokenizer.json`, `checkpoints.json`",
    holds="int64",
    checked="torch 2.13.0: `torch.load(weights_only=True)`; a node's loader over HTTP",
    side="after",
    ends_by_token=True,
    tokens_per_file=2_500_000,
    most_files=1_000_000,
    tokenizer_names={"tokenizer.json": "hf_tokenizer.json"},  # tokenizer.json is Genesis' own
    dtype=dtype,
    write=write,
    finish=finish,
)
GENESIS_IMPORT = ImportFormat(
    name="genesis",
    files="`shard_N.pt`, `val/shard_N.pt`",
    boundaries="the end of text",
    end_of_text="after",
    read=read,
)
