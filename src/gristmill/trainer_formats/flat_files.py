"""Files of tokens alone, one number after another: written from blocks, and read back as documents
that an end-of-text token divides.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from gristmill.errors import RecipeError, VerificationError
from gristmill.trainer_formats.token_blocks import BLOCK, Side

# Tokens of the longest document that import takes: it is in memory as a whole, and without an end
# of text in more tokens than these the tokenizer, the side or the type is another.
LONGEST = 1 << 28


def listed(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder that match, sorted by name. Raises RecipeError for one that is no file,
    or a link.
    """
    found = sorted(folder.glob(pattern))
    for path in found:
        if path.is_symlink() or not path.is_file():
            raise RecipeError(f"{path}: not a regular file: import reads files, and no links")
    return found


def beside(path: Path) -> Path | None:
    """A file that may stand beside another; None: there is none. Raises RecipeError for a link, or
    what is no file.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RecipeError(f"{path}: not a regular file: import reads files, and no links")
    return path if path.exists() else None


def mapped(path: Path, dtype: str, start: int = 0) -> np.ndarray:
    """The numbers of a file from byte `start` on, memory-mapped.

    Raises VerificationError if its size is not that of whole numbers.
    """
    kind = np.dtype(dtype)
    size = os.stat(path).st_size - start
    if size < 0 or size % kind.itemsize:
        raise VerificationError(
            f"{path}: {size:,} bytes of tokens, which is no multiple of {kind.itemsize} ({dtype}): "
            "the file is cut short, or of another type. Fetch it again, or see --dtype"
        )
    if not size:
        return np.empty(0, kind)
    return np.asarray(np.memmap(path, kind, "r", offset=start)).view(np.ndarray)


def divided(
    files: Iterable[tuple[Path, np.ndarray]], end_of_text: int, side: Side
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The documents in consecutive files, which the end of text divides: blocks of (tokens,
    lengths, the file in which each begins).

    A document goes on from file to file. Raises VerificationError where a document is longer than
    LONGEST, or where the files do not begin with the end of text and `side` is before.
    """
    if side == "none":
        raise RecipeError(
            "--end-of-text-side none: in files of tokens alone only an end of text shows where "
            "documents end. Choose after or before"
        )
    held: list[np.ndarray] = []  # of the document that is not complete
    held_file = size = 0
    first = True
    for number, (path, tokens) in enumerate(files):
        for start in range(0, len(tokens), BLOCK):
            block = tokens[start : start + BLOCK]
            cuts = np.flatnonzero(block == end_of_text)
            if first and side == "before" and (not len(cuts) or cuts[0] != 0):
                raise VerificationError(
                    f"{path}: begins with token {int(block[0])}, not with the end of text "
                    f"{end_of_text}, which is before each document in this format. Choose "
                    "--end-of-text-side after, or the tokenizer of these files"
                )
            cuts = cuts + 1 if side == "after" else cuts[cuts > 0] if first else cuts
            first = False
            if not len(cuts):
                held_file = held_file if held else number
                held.append(block)
                size += len(block)
                if size > LONGEST:
                    raise VerificationError(
                        f"{path}: no end of text {end_of_text} in {size:,} tokens: the tokenizer "
                        "or the type of the tokens is another"
                    )
                continue
            lengths = np.diff(cuts, prepend=0).astype(np.int64)
            lengths[0] += size
            of_file = np.full(len(cuts), number, np.int64)
            of_file[0] = held_file if held else number
            keep = lengths > 0  # before: a block that begins with the end of a held document
            yield np.concatenate([*held, block[: cuts[-1]]]), lengths[keep], of_file[keep]
            rest = block[cuts[-1] :]
            held, size, held_file = ([rest] if len(rest) else []), len(rest), number
    if held:
        yield np.concatenate(held), np.array([size], np.int64), np.array([held_file], np.int64)
