"""Files of tokens alone, one number after another: written from blocks, and read back as documents
that an end-of-text token divides.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from gristmill.errors import RecipeError, VerificationError
from gristmill.store.mapped_file import map_file
from gristmill.trainer_formats.token_blocks import BLOCK, Side

# Tokens of the longest document that import takes: it is in memory as a whole, and without an end
# of text in more tokens than these the tokenizer, the side or the type is another.
LONGEST = 1 << 28
WIDTHS = {"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8}  # bytes of a token
LOOKED, PIECES = 1 << 16, 64  # bytes of a piece, and pieces, in which a type is looked for
HEADERS = {  # what other formats begin with
    "NumPy": b"\x93NUMPY",
    "llm.c": (20240520).to_bytes(4, "little"),
    "llm.c (uint32)": (20240801).to_bytes(4, "little"),
}


def listed(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder that match, sorted by name. Raises RecipeError for one that is
    no file, or a link.
    """
    paths = sorted(folder.glob(pattern))
    for path in paths:
        if path.is_symlink() or not path.is_file():
            raise RecipeError(f"{path}: not a regular file: import reads files, and no links")
    return paths


def beside(path: Path) -> Path | None:
    """Return a file that may stand beside another; None: there is none. Raises RecipeError for a
    link, or what is no file.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RecipeError(f"{path}: not a regular file: import reads files, and no links")
    return path if path.exists() else None


def mapped(path: Path, dtype: str, start: int = 0) -> np.ndarray:
    """Return the numbers of a file from byte `start` on, memory-mapped.

    Raises VerificationError if its size is not that of whole numbers.
    """
    kind = np.dtype(dtype)
    size = os.stat(path).st_size - start
    if size < 0 or size % kind.itemsize:
        raise VerificationError(
            f"{path}: {size:,} bytes of tokens, which is no multiple of {kind.itemsize} ({dtype}): "
            "the file is cut short, or of another type. Fetch it again, or see --dtype"
        )
    return map_file(path, kind, start)


def check_type(path: Path, assumed: str, vocabulary: int, *, stated: bool) -> None:
    """Check that a file has no header; and, where the type of its tokens is not `stated`, that it
    may be the one that is assumed: look at numbers all over the file, as each type would have them.

    Raises VerificationError for a header, and RecipeError, with both readings, where another type
    is likelier: where all that was looked at is also of a wider one, as every second number is 0
    (two of three, ...), or where it is of another one alone.
    """
    size = os.stat(path).st_size
    whole = map_file(path, "u1")
    for name, begin in HEADERS.items():
        if whole[: len(begin)].tobytes() == begin:
            raise VerificationError(
                f"{path}: begins with the header of {name}, and a file of this format is tokens "
                "alone. Choose another --from, or write its tokens without the header"
            )
    if stated:
        return
    places = np.linspace(0, max(size - LOOKED, 0), PIECES).astype(np.int64) // 8 * 8
    pieces = [whole[place : place + LOOKED] for place in np.unique(places).tolist()]
    fits = {
        kind: _largest(pieces, kind) < vocabulary
        for kind in WIDTHS
        if size
        and size % WIDTHS[kind] == 0
        # Any byte fits a vocabulary of 256: that is no sign.
        and (kind != "uint8" or vocabulary <= 256)
    }
    if size % WIDTHS[assumed]:
        return  # `mapped` refuses it
    wider = [kind for kind in fits if WIDTHS[kind] > WIDTHS[assumed] and fits[kind]]
    others = [kind for kind in fits if kind != assumed and fits[kind]]
    likely = wider or ([] if fits.get(assumed, True) else others)
    if not likely:
        return
    other = likely[-1]
    why = (
        "all numbers that were looked at are also of the wider type: the upper part of each is 0"
        if wider
        else f"there are numbers that the tokenizer's {vocabulary:,} tokens do not have"
    )
    raise RecipeError(
        f"{path}: read as {assumed}, it is {size // WIDTHS[assumed]:,} tokens, and {why}; read as "
        f"{other}, it is {size // WIDTHS[other]:,} tokens, which the tokenizer has. Say which: "
        f"--dtype {other}, or --dtype {assumed}"
    )


def _largest(pieces: list[np.ndarray], kind: str) -> int:
    """Return the largest number in pieces of bytes, read as a type; what is left over is left
    out.
    """
    width = WIDTHS[kind]
    cut = (piece[: len(piece) // width * width].view(f"<u{width}") for piece in pieces)
    return max((int(numbers.max(initial=0)) for numbers in cut), default=0)


def divided(
    files: Iterable[tuple[Path, np.ndarray]], end_of_text: int, side: Side
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the documents in consecutive files, which the end of text divides: blocks of (tokens,
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
