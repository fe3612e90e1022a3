"""Parquet for Hugging Face `datasets`: `data/SPLIT-00000.parquet`, a row for each document:
`input_ids` (list of int32, without nulls), `document` (int64, its number in the corpus), `source`.

Source: the columns that `datasets` and trainers on top of it call tokenized text; its file patterns
(`data/train-*`). A document is in memory as a whole.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import RecipeError, SourceError, VerificationError
from gristmill.source.tables import parquet_pages
from gristmill.store.parts import TableWriter
from gristmill.trainer_formats.export_folder import ExportFolder
from gristmill.trainer_formats.flat_files import LONGEST, listed
from gristmill.trainer_formats.token_blocks import BLOCK, TokenBlock, whole
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
)

SCHEMA = pa.schema(
    [
        pa.field("input_ids", pa.list_(pa.field("element", pa.int32(), False)), nullable=False),
        pa.field("document", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
    ]
)
MOST_VALUES = 1 << 31  # tokens of a row group that import reads
GROUP_BYTES = 64 << 20  # decoded together


def dtype(vocabulary: int) -> str:
    """Return int32, as the tokenizers of `transformers` give."""
    return "int32"


def write(folder: ExportFolder, stream: Stream, tokens_per_file: int) -> Written:
    """Write the files of a split; each ends with the document that brings it to
    `tokens_per_file`.
    """
    counter = Counter(stream)
    files: list[str] = []
    names = pa.array(stream.sources, pa.string())
    cut = pieces(whole(counter.blocks()), tokens_per_file, cut=False)
    for number, group in groupby(cut, key=lambda pair: pair[0]):
        files.append(f"data/{stream.split}-{number:05d}.parquet")
        if folder.kept(files[-1]) is not None:
            for _ in group:
                pass
            continue
        with folder.file(files[-1]) as file:
            table = TableWriter(file, SCHEMA)
            try:
                for _, block in group:
                    table.write(_rows(block, names))
                table.close()
            except BaseException:
                table.abandon()
                raise
    return counter.written(files)


def _rows(block: TokenBlock, names: pa.Array) -> pa.RecordBatch:
    if len(block.tokens) >= 1 << 31:
        raise RecipeError("--to hf-parquet: a document of 2^31 tokens or more fits in no list")
    offsets = np.zeros(len(block.lengths) + 1, np.int32)
    np.cumsum(block.lengths, out=offsets[1:])
    lists = pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(block.tokens.astype(np.int32)), type=SCHEMA.field(0).type
    )
    sources = names.take(pa.array(block.sources))
    return pa.RecordBatch.from_arrays([lists, pa.array(block.documents), sources], schema=SCHEMA)


def read(folder: Path, reading: ReadOptions) -> OpenedFolder:
    """Open all Parquet files below a folder. A name that begins with `val`, `valid` or `validation`
    and a mark is validation; one that begins with `test` is refused.
    """
    by_split: dict[str, list[Path]] = {}
    for path in listed(folder, "**/*.parquet"):
        word = path.stem.replace("_", "-").partition("-")[0]
        if word == "test":
            raise RecipeError(f"{path}: a corpus has train and val alone. Take this file away")
        split = "val" if word in ("val", "valid", "validation") else "train"
        by_split.setdefault(split, []).append(path)
    streams = [Opened(split, files, _documents(files)) for split, files in by_split.items()]
    return OpenedFolder(streams, "index", reading.side)


def _documents(files: list[Path]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for number, path in enumerate(files):
        try:
            with pq.ParquetFile(path, pre_buffer=False, memory_map=False) as file:
                _check_schema(path, file.schema_arrow)
                counts = parquet_pages.count_rows(str(path), file.metadata, 4096, GROUP_BYTES)
                for group, most in enumerate(counts):
                    rows = _rows_at_once(path, file.metadata.row_group(group), group, most)
                    for batch in file.iter_batches(
                        rows, row_groups=[group], columns=["input_ids"], use_threads=False
                    ):
                        yield _lists(path, batch["input_ids"], number)
        except SourceError as error:
            raise VerificationError(f"{path}: {error}") from error
        except (pa.ArrowException, OSError) as error:
            raise VerificationError(f"{path}: cannot be read as Parquet: {error}") from error


def _rows_at_once(path: Path, group: Any, number: int, most: int) -> int:
    """Return how many rows of a row group are decoded together, at most `most`; a few bytes may
    stand for many values.
    """
    columns = [group.column(place) for place in range(group.num_columns)]
    values: int = max(
        column.num_values for column in columns if column.path_in_schema.startswith("input_ids")
    )
    if values > MOST_VALUES:
        raise VerificationError(
            f"{path}: row group {number} has {values:,} tokens; import reads up to {MOST_VALUES:,}"
        )
    fit = int(group.num_rows) * BLOCK // max(values, 1)
    return max(1, min(most, fit))


def _check_schema(path: Path, schema: pa.Schema) -> None:
    if "input_ids" not in schema.names:
        raise RecipeError(
            f"{path}: no column input_ids; it has {', '.join(schema.names[:10])}. Text is not "
            "imported: name the file in a recipe (files = [...])"
        )
    if schema.names.count("input_ids") > 1:
        raise VerificationError(f"{path}: several columns input_ids")
    kind = schema.field("input_ids").type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not lists or not pa.types.is_integer(kind.value_type):
        raise RecipeError(f"{path}: input_ids is {kind}, expected a list of integers")


def _lists(path: Path, column: pa.Array, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if column.null_count:
        raise VerificationError(f"{path}: input_ids is null in {column.null_count:,} rows")
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    values = column.flatten()
    if values.null_count:
        raise VerificationError(f"{path}: {values.null_count:,} tokens in input_ids are null")
    if len(lengths) and lengths.max() > LONGEST:
        raise VerificationError(f"{path}: a document of {int(lengths.max()):,} tokens")
    return (values.to_numpy(zero_copy_only=False), lengths, np.full(len(lengths), number, np.int64))


HF_PARQUET = TrainerFormat(
    name="hf-parquet",
    files="`data/SPLIT-00000.parquet`",
    holds="int32 lists, beside the source",
    checked="datasets 5.2.0: `load_dataset`",
    side="after",
    one_stream=True,
    tokens_per_file=1 << 27,
    most_files=100_000,  # numbers of five digits: readers sort names
    dtype=dtype,
    write=write,
)
HF_PARQUET_IMPORT = ImportFormat(
    name="hf-parquet",
    files="every `.parquet` with `input_ids`; `val...` is validation",
    boundaries="rows",
    end_of_text="seen",
    read=read,
)
