"""One way to read a raw shard: `PYTHON reading_ways.py WAY FILE 0`, a measured process (rounds.py).

Each way gives every document's text, its URL where there is one, and nothing else is asked of it.
Standard library only at its start: it also runs in the environment of the peers, which needs:

    pip install "datatrove[io]" warcio fastwarc faust-cchardet python-magic orjson
"""

import gc
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Sizes = Iterable[tuple[int, int]]  # documents, and bytes (or characters) of their texts


def ours(path: Path) -> Sizes:
    """gristmill's reader: sha256 of the file, all columns, Arrow batches."""
    from gristmill.source.read import ShardReader
    from gristmill.source.rows import Fields

    for batch in ShardReader(path, 0, fields=Fields(pages=path.name.endswith(".warc.gz"))):
        yield batch["reason"].null_count, batch["text"].nbytes


def ours_isal(path: Path) -> Sizes:
    """The same where there is no libdeflate."""
    from gristmill.source import libdeflate

    libdeflate.library = lambda: None  # type: ignore[assignment]
    yield from ours(path)


def fastwarc(path: Path) -> Sizes:
    """fastwarc's iterator, with the URL and the body of each record of a document."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    wanted = WarcRecordType.conversion | WarcRecordType.response
    for record in ArchiveIterator(str(path), record_types=wanted):
        record.headers.get("WARC-Target-URI")
        yield 1, len(record.reader.read())


def warcio(path: Path) -> Sizes:
    """warcio's iterator, the same."""
    from warcio.archiveiterator import ArchiveIterator

    with path.open("rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type in ("conversion", "response"):
                record.rec_headers.get_header("WARC-Target-URI")
                yield 1, len(record.content_stream().read())


def _datatrove(path: Path, name: str) -> Sizes:
    from datatrove.pipeline import readers

    reader = getattr(readers, name)(str(path.parent), glob_pattern=path.name)
    return ((1, len(document.text)) for document in reader.run())


def pyarrow(path: Path) -> Sizes:
    """pyarrow's batches alone."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(1024, use_threads=False):
            yield len(batch), batch["text"].nbytes


def pyarrow_hashed(path: Path) -> Sizes:
    """The same, and the sha256 of the file: what a reader of pinned shards cannot go below."""
    import hashlib

    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    yield from pyarrow(path)


def msgspec(path: Path) -> Sizes:
    """zstd and msgspec on split lines, both alone."""
    import msgspec as library
    from backports import zstd

    decode = library.json.Decoder(dict[str, Any]).decode
    decoder, data, rest = zstd.ZstdDecompressor(), path.read_bytes(), b""
    while not decoder.eof:
        *lines, rest = (rest + decoder.decompress(data, 1 << 20)).split(b"\n")
        data = b""
        for line in lines:
            yield 1, len(decode(line)["text"])


def libdeflate(path: Path) -> Sizes:
    """libdeflate by ctypes and sha256, both alone: what a reader of members cannot go below."""
    import ctypes
    import hashlib

    from gristmill.source import libdeflate as found

    data = path.read_bytes()
    hashlib.sha256(data).digest()
    library = found.library()
    assert library is not None
    inflater = found.MemberInflater(library)
    decompressor = inflater.addresses[1]
    call = library.libdeflate_gzip_decompress_ex
    out = ctypes.create_string_buffer(16 << 20)
    read, written = ctypes.c_size_t(), ctypes.c_size_t()
    start = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
    assert start is not None
    at = 0
    while at < len(data):
        code = call(
            ctypes.c_void_p(decompressor),
            ctypes.c_void_p(start + at),
            ctypes.c_size_t(len(data) - at),
            out,
            ctypes.c_size_t(len(out)),
            ctypes.byref(read),
            ctypes.byref(written),
        )
        assert code == 0
        at += read.value
        yield 1, written.value


WAYS: dict[str, tuple[Callable[[Path], Sizes], tuple[str, ...]]] = {
    "gristmill": (ours, ("pyarrow", "deflate", "msgspec")),
    "gristmill, isal alone": (ours_isal, ("isal",)),
    "libdeflate and sha256 alone": (libdeflate, ("deflate",)),
    "pyarrow alone": (pyarrow, ("pyarrow",)),
    "pyarrow and sha256 alone": (pyarrow_hashed, ("pyarrow",)),
    "zstd and msgspec alone": (msgspec, ("msgspec", "backports.zstd")),
    "fastwarc": (fastwarc, ("fastwarc",)),
    "warcio": (warcio, ("warcio",)),
    **{
        f"datatrove {name}": (lambda path, name=name: _datatrove(path, name), ("datatrove",))
        for name in ("WarcReader", "JsonlReader", "ParquetReader")
    },
}


def _total(sizes: Sizes) -> dict[str, int]:
    documents = size = 0
    for count, length in sizes:
        documents += count
        size += length
    return {"documents": documents, "size": size}


def main() -> None:
    """Be a measured process."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    core = os.environ.get("GRISTMILL_BENCH_CORE")
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    way, packages = WAYS[sys.argv[1]]
    path = Path(sys.argv[2])

    def answer(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    told = _total(way(path))  # imports, compiled kernels, the file in the system's cache
    answer({**told, "versions": {name: importlib.metadata.version(name) for name in packages}})
    for _ in sys.stdin:
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        _total(way(path))
        answer({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall})


if __name__ == "__main__":
    main()
