"""nanoGPT: `train.bin` and `val.bin`, uint16 tokens without a header, the end of text after each
document; `meta.pkl` for a tokenizer that is not GPT-2's.

Source: nanoGPT's data/openwebtext/prepare.py, train.py (get_batch, meta_vocab_size), sample.py.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import RecipeError
from gristmill.tokens.tokenizer import Tokenizer
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.flat_files import check_type, divided, listed, mapped
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
)

BLOCK_SIZE = 1024  # the default of train.py


def dtype(vocabulary: int) -> str:
    """Return uint16. Raises RecipeError for a vocabulary that needs more."""
    if vocabulary > 1 << 16:
        raise RecipeError(
            f"--to nanogpt: a vocabulary of {vocabulary:,} tokens, and nanoGPT reads uint16 (at "
            "most 65,536). Choose another format, such as torchtitan or megatron"
        )
    return "uint16"


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write train.bin or val.bin."""
    counter, name = Counter(stream), f"{stream.split}.bin"
    with folder.file(name) as file:
        for block in counter.blocks():
            file.write(np.ascontiguousarray(block.tokens, "<u2"))
    return counter.written([name])


def finish(folder: ExportFolder, made: Finished) -> list[str]:
    """Write meta.pkl where it is needed; returns what a user should know."""
    if not is_gpt2(made.tokenizer):
        folder.write("meta.pkl", meta(made.tokenizer))
    notes = []
    for split in ("train", "val"):
        tokens = sum(result.tokens for stream, result in made.streams if stream.split == split)
        if tokens <= BLOCK_SIZE:
            notes.append(
                f"{split}.bin has {tokens:,} tokens: train.py needs more than its "
                f"block_size ({BLOCK_SIZE} by default) in both files"
            )
    return notes


def is_gpt2(tokenizer: Tokenizer) -> bool:
    """Return whether nanoGPT's defaults (tiktoken's gpt2, 50,304 outputs) are right without
    meta.pkl.
    """
    return tokenizer.file_name == "vocab.bpe" or (
        tokenizer.file_name == "tokenizer.tiktoken" and tokenizer.vocabulary == 50257
    )


def meta(tokenizer: Tokenizer) -> bytes:
    """meta.pkl: plain dictionaries, numbers and strings. train.py takes `vocab_size`; sample.py
    encodes a prompt by single characters with `stoi` and decodes tokens with `itos`.
    """
    itos = {token: tokenizer.token_text(token) for token in range(tokenizer.vocabulary)}
    known = tokenizer.token_bytes
    stoi: dict[str, int] = {}
    # The last one is taken: a token that begins a word before one within, a piece before a byte.
    for token in sorted(itos, key=lambda token: known.shown[token].startswith(b" ")):
        text = known.text[token].decode("utf-8", "replace")
        if len(text) == 1 and text != "�":
            stoi[text] = token
    values: dict[str, Any] = {"vocab_size": tokenizer.vocabulary, "itos": itos, "stoi": stoi}
    return pickle.dumps(values, protocol=4)


def read(folder: Path, reading: ReadOptions) -> OpenedFolder:
    """Open train.bin and val.bin; meta.pkl is not read: a pickle can run code."""
    side = reading.side or NANOGPT.side
    kind, vocabulary = reading.dtype or "uint16", reading.tokenizer.vocabulary
    streams = []
    for split in ("train", "val"):
        files = listed(folder, f"{split}.bin")
        if files:
            for path in files:
                check_type(path, kind, vocabulary, stated=reading.dtype is not None)
            opened = [(path, mapped(path, f"<{np.dtype(kind).str[1:]}")) for path in files]
            blocks = divided(opened, reading.tokenizer.end_of_text, side)
            streams.append(Opened(split, files, blocks))
    return OpenedFolder(streams, "end-of-text", side)


NANOGPT = TrainerFormat(
    name="nanogpt",
    files="`train.bin`, `val.bin`, `meta.pkl`",
    holds="uint16",
    checked="nanoGPT 3adf61e (2025-11-12): `train.py` and `sample.py` run on the folder",
    side="after",
    one_stream=True,
    ends_by_token=True,
    dtype=dtype,
    write=write,
    finish=finish,
)
NANOGPT_IMPORT = ImportFormat(
    name="nanogpt",
    files="`train.bin`, `val.bin`",
    boundaries="the end of text",
    end_of_text="after",
    read=read,
)
