"""plain-int32: `SPLIT.i32`, int32 tokens without a header, the end of text after each document."""

import numpy as np

from gristmill.errors import RecipeError
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.token_format import Counter, Stream, TrainerFormat, Written


def dtype(vocabulary: int) -> str:
    """Return int32. Raises RecipeError for a vocabulary that needs more."""
    if vocabulary > 1 << 31:
        raise RecipeError("--to plain-int32: the vocabulary is larger than int32")
    return "int32"


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write the file of a split."""
    counter, name = Counter(stream), f"{stream.split}.i32"
    with folder.file(name) as file:
        for block in counter.blocks():
            file.write(np.ascontiguousarray(block.tokens, "<i4"))
    return counter.written([name])


PLAIN_INT32 = TrainerFormat(
    name="plain-int32",
    files="`SPLIT.i32`",
    holds="int32",
    side="after",
    one_stream=True,
    ends_by_token=True,
    dtype=dtype,
    write=write,
)
