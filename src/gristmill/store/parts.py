"""Writing parts: a temporary name in the same folder, flushed, fsynced, renamed.

What has its name is whole.

A part's digest and size are taken while it is written, from the same bytes.
"""

import errno
import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import NO_JSON, MachineError, VerificationError
from gristmill.store.joined_texts import JoinedTexts

TEMPORARY = ".writing"  # the end of a name that is not whole; a later run removes it
UNFINISHED = re.compile(r".+\.[0-9a-f]{8}" + re.escape(TEMPORARY))
BLOCK = 1 << 20
BATCH_BYTES = 2 << 20  # decoded at a time, about
READ_BUFFER = 1 << 18  # bytes of a file that are read at once, of each column


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of the corpus: its path from the corpus' root, and what proves it."""

    path: str
    size: int  # bytes
    sha256: str
    counts: dict[str, int] = {}  # rows, tokens, documents


class HashingFile(io.RawIOBase):
    """A file that hashes what is written to it. Only appends."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0
        self.mode = "wb"

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._digest.update(view)
        self._file.write(view)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def writable(self) -> bool:
        return True

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


@contextmanager
def machine_errors(path: Path, *, every: bool = False) -> Iterator[None]:
    """Turn a full disk and a refused folder into messages that a user can act on; with `every`, any
    other error of the system too.
    """
    try:
        yield
    except OSError as error:
        # Of a rename the second name is the one that a user knows.
        name = error.filename2 or error.filename
        path = Path(name) if isinstance(name, str) else path
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MachineError(
                f"{path}: no space left on the disk. Nothing that was written before is lost: "
                "free some space and run the same command again"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise MachineError(
                f"{path}: cannot be written ({error.strerror}). Choose another output folder"
            ) from error
        if error.errno == errno.EISDIR:
            raise MachineError(
                f"{path}: a folder stands where a file should be. Name a file in it, or another"
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise MachineError(
                f"{path}: a file stands where a folder should be ({error.strerror}). Choose another"
            ) from error
        if every:
            said = error.strerror or error  # libraries raise some without a number
            raise MachineError(f"{path}: {said}. Choose another output folder") from error
        raise


@contextmanager
def writing(root: Path, path: str) -> Iterator[HashingFile]:
    """Write one part of the corpus at `root`; it gets its name if the block has no error."""
    target = root / path
    # Two that write one part at a time may be of two machines: a task that Spark gave up for lost,
    # and its successor.
    temporary = temporary_path(target)
    with machine_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb", buffering=BLOCK) as raw:
                file = HashingFile(raw)
                yield file
                raw.flush()
                os.fsync(raw.fileno())
            temporary.rename(target)
            sync_folder(target.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def temporary_path(target: Path) -> Path:
    """Return a name beside a file, of this writer alone, for what is not whole."""
    return target.with_name(f"{target.name}.{secrets.token_hex(4)}{TEMPORARY}")


def is_temporary(name: str) -> bool:
    """Return whether a writer gives such names, to files that are not whole."""
    return UNFINISHED.fullmatch(name) is not None


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder durable through a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(root: Path, path: str, data: bytes, **counts: int) -> Part:
    """Write a small part whole."""
    with writing(root, path) as file:
        file.write(data)
    return Part(path, file.size, file.hexdigest(), counts)


def write_json(root: Path, path: str, value: Any) -> Part:
    """Write a small part as JSON, keys in the order given."""
    return write_bytes(root, path, to_json(value))


def to_json(value: Any) -> bytes:
    """JSON for people and machines: indented, UTF-8, one byte form for one value."""
    table = msgspec.to_builtins(value)
    # json indents in Python, and writes without it in C.
    data = json.dumps(table, ensure_ascii=False).encode()
    try:
        return msgspec.json.format(data, indent=1) + b"\n"
    except NO_JSON:  # NaN or Infinity, which are no JSON
        return json.dumps(table, indent=1, ensure_ascii=False).encode() + b"\n"


TEXT = "text"  # the column of texts
ROW_BYTES = 64  # what a row counts for besides its strings


class TableWriter:
    """Writes batches of one schema as a Parquet part.

    Equal rows give equal bytes, however they are cut into batches.

    A row group ends with the row that brings it to `group_bytes`: the lengths of its strings, and
    ROW_BYTES a row.
    """

    def __init__(
        self,
        file: HashingFile,
        schema: pa.Schema,
        *,
        group_bytes: int = 16 << 20,
        plain: bool = False,
        give_back: Callable[[], None] = lambda: None,
    ) -> None:
        """Compress with zstd, or not at all (`plain`, for what is random). `give_back` is called
        before a row group is put together and after: the most memory is taken between.
        """
        # pyarrow asks nothing of the file but write, tell and close.
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression="none" if plain else "zstd",
            compression_level=None if plain else 1,
            use_dictionary=[]
            if plain
            else [name for name in schema.names if name in ("reason", "declared_language")],
            write_statistics=["document"],
            store_schema=False,
        )
        if schema.metadata:
            self._writer.add_key_value_metadata(schema.metadata)
        self._schema = schema
        self._group_bytes, self._give_back = group_bytes, give_back
        # Nearly all bytes of a row group.
        has_texts = TEXT in schema.names and schema.field(TEXT).type == pa.string()
        self._texts = JoinedTexts(group_bytes + BLOCK) if has_texts and len(schema) > 1 else None
        self._without_text = (
            schema if self._texts is None else schema.remove(schema.get_field_index(TEXT))
        )
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        batch = batch.select(self._schema.names).cast(self._schema)
        self.rows += len(batch)
        sizes = np.cumsum(_row_sizes(batch))
        start = 0
        while start < len(batch):
            before = int(sizes[start - 1]) if start else 0
            stop = int(np.searchsorted(sizes, self._group_bytes - self._bytes + before)) + 1
            rows = batch.slice(start, stop - start)
            if self._texts is not None:
                self._texts.add(rows[TEXT])
                rows = rows.select(self._without_text.names)
            self._waiting.append(rows)
            if stop > len(batch):
                self._bytes += int(sizes[-1]) - before
                return
            self._flush()
            start = stop

    def _flush(self) -> None:
        self._give_back()
        # In one piece: where pages end depends on it.
        table = pa.Table.from_batches(self._waiting, self._without_text).combine_chunks()
        if self._texts is not None:
            place = self._schema.get_field_index(TEXT)
            table = table.add_column(place, self._schema.field(place), self._texts.take())
        self._waiting, self._bytes = [], 0  # before writing: one copy in memory is enough
        self._writer.write_table(table, row_group_size=max(len(table), 1))
        del table
        self._give_back()

    def abandon(self) -> None:
        """Close the writer while its file is open; what it still writes goes into a file that is
        removed.
        """
        with suppress(Exception):
            self._writer.close()

    def close(self) -> None:
        if self._waiting or self.rows == 0:
            self._flush()
        self._writer.close()


def _row_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Return what each row counts for, (n,) int64."""
    sizes = np.full(len(batch), ROW_BYTES, np.int64)
    for column in batch.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        elif pa.types.is_fixed_size_binary(column.type):
            sizes += column.type.byte_width
        elif pa.types.is_list(column.type) and pa.types.is_primitive(column.type.value_type):
            width = column.type.value_type.byte_width
            sizes += width * pc.fill_null(pc.list_value_length(column), 0).to_numpy(
                zero_copy_only=False
            )
        elif pa.types.is_nested(column.type):
            # A mean: only exports have such columns, and they always cut batches in one way.
            sizes += column.nbytes // max(len(batch), 1)
    return sizes


@contextmanager
def writing_table(
    root: Path,
    path: str,
    schema: pa.Schema,
    *,
    plain: bool = False,
    give_back: Callable[[], None] = lambda: None,
) -> Iterator[tuple[TableWriter, list[Part]]]:
    """Write a Parquet part (TableWriter); the list holds the part once the block has ended."""
    part: list[Part] = []
    with writing(root, path) as file:
        table = TableWriter(file, schema, plain=plain, give_back=give_back)
        try:
            yield table, part
            table.close()
        except BaseException:
            table.abandon()
            raise
    part.append(Part(path, file.size, file.hexdigest(), {"rows": table.rows}))


@contextmanager
def table_errors(path: Path) -> Iterator[None]:
    """Turn what Arrow says of a damaged table into a VerificationError that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system
        raise VerificationError(
            f"{path}: not a table as it was written ({str(error)[:200]}): `gristmill verify` shows "
            "all damage; run the recipe again, or fetch it again"
        ) from error


def read_rows(path: Path, **options: Any) -> pa.Table:
    """Read a Parquet part as `pq.read_table` does. Raises VerificationError if it is damaged."""
    with table_errors(path):
        return pq.read_table(path, **options)


def open_table(path: Path) -> pq.ParquetFile:
    """Open a Parquet part for reading its row groups one after another: a buffer of each column's
    pages is in memory at once, not all of the row group's.
    """
    return pq.ParquetFile(path, pre_buffer=False, memory_map=False, buffer_size=READ_BUFFER)


def read_batches(path: Path, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Read a Parquet part in batches of about BATCH_BYTES, none of two row groups. Decoding a whole
    row group takes twice the memory. Raises VerificationError if it is damaged.
    """
    with table_errors(path), open_table(path) as file:
        for group in range(file.num_row_groups):
            for batch in group_batches(file, group, columns):
                if len(batch):
                    yield batch


def group_batches(
    file: pq.ParquetFile, group: int, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield a row group in batches of about BATCH_BYTES."""
    sizes = file.metadata.row_group(group)
    most = max(1, sizes.num_rows * BATCH_BYTES // max(sizes.total_byte_size, 1))
    yield from file.iter_batches(most, row_groups=[group], columns=columns, use_threads=False)


def has_size(path: Path, size: int) -> bool:
    """Return whether there is a file of this size, in bytes."""
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def hash_file(path: Path) -> tuple[int, str]:
    """Return (bytes, sha256) of a file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()
