"""HDF5: `SPLIT.h5` with the data sets `tokens` (of the corpus' type), `document_offsets` (int64,
where each document begins, and the end of the last), `documents` (int64 numbers) and `sources`
(int32, places in the attribute `sources`).

Written by h5py, in chunks of 1 MiB, without times: equal corpora give equal bytes with one version
of the library.
"""

import json
from functools import partial
from typing import Any

import numpy as np

from gristmill.errors import RecipeError
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.token_format import Counter, Stream, TrainerFormat, Written, unsigned

_CHUNK = 1 << 20  # bytes


def library() -> Any:
    """h5py. Raises RecipeError where it is not installed."""
    try:
        import h5py
    except ImportError as error:
        raise RecipeError(
            "--to hdf5 needs the package h5py: pip install 'gristmill[hdf5]'"
        ) from error
    return h5py


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write the file of a split."""
    h5py = library()
    counter, name = Counter(stream), f"{stream.split}.h5"
    if folder.kept(name) is not None:
        counter.pass_by()
        return counter.written([name])
    with folder.path(name) as path, h5py.File(path, "w", libver=("v110", "v110")) as file:
        _fill(file, counter, HDF5.dtype(stream.tokens.vocabulary))
        file.attrs["sources"] = json.dumps(stream.sources)
        file.attrs["end_of_text"] = stream.tokens.end_of_text
        file.attrs["end_of_text_side"] = HDF5.side
        file.attrs["vocabulary"] = stream.tokens.vocabulary
        file.attrs["tokenizer"] = stream.tokens.tokenizer
    return counter.written([name])


def _fill(file: Any, counter: Counter, kind: str) -> None:
    columns = {}
    for name, column in (
        ("tokens", kind),
        ("document_offsets", "int64"),
        ("documents", "int64"),
        ("sources", "int32"),
    ):
        stored = np.dtype(column).newbyteorder("<")
        columns[name] = file.create_dataset(
            name, (0,), stored, maxshape=(None,), chunks=(_CHUNK // stored.itemsize,)
        )
    _append(columns["document_offsets"], np.zeros(1, np.int64))
    at = 0
    for block in counter.blocks():
        ended = block.ended()
        ends = at + np.cumsum(block.lengths)
        at = int(ends[-1])
        _append(columns["tokens"], block.tokens)
        _append(columns["document_offsets"], ends[ended])
        _append(columns["documents"], block.documents[ended])
        _append(columns["sources"], block.sources[ended])


def _append(column: Any, values: np.ndarray) -> None:
    start = column.shape[0]
    column.resize((start + len(values),))
    column[start:] = values


HDF5 = TrainerFormat(
    name="hdf5",
    files="`SPLIT.h5`",
    holds="uint16; uint32 over 65,536; beside the source",
    checked="h5py 3.16.0",
    side="after",
    one_stream=True,
    dtype=partial(unsigned, smallest=2),
    write=write,
)
