"""The files that `gristmill model train-...` writes: safetensors, with one entry of metadata.

No code is in such a file, and none runs when it is read. Any safetensors library opens it:

    8 bytes        bytes of the header, uint64, little-endian
    the header     JSON: {"__metadata__": {"gristmill": DESCRIPTION}, tensor: dtype, shape, offsets}
    the tensors    little-endian

DESCRIPTION is `Description` as JSON in a string: the kind and its version, the parameters of the
training, the sha256 of the training files by role (sorted), counts, and a sha256 of all this and
of every tensor's name, type, shape and bytes. Equal trainings give equal bytes: no clock, path or
name is in a file. More than one entry of metadata would be written in a random order.
https://huggingface.co/docs/safetensors; why this format: docs/adr/0015.
"""

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from gristmill.errors import NO_JSON
from gristmill.store.parts import write_bytes

FORMAT = 2  # 1: a layout of our own, until 0.1
START = b'{"__metadata__":{"gristmill":'  # of the header of every file
HEAD = 8 + len(START)  # bytes that `is_ours` needs
MAGIC_1 = b"gristmill model\n"  # of files of format 1
LONGEST_HEADER = 4 << 20  # bytes
# Bytes of a file. Every worker reads it whole, and holds it twice for a moment.
LARGEST = 384 << 20
TYPES: dict[str, np.dtype[Any]] = {
    "I16": np.dtype("<i2"),
    "U8": np.dtype("u1"),
    "U16": np.dtype("<u2"),
    "U64": np.dtype("<u8"),
    "F64": np.dtype("<f8"),
}
NOT_OURS = "a model of gristmill (safetensors with `gristmill` in its metadata)"


class LoadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model in memory."""

    kind: str
    version: int  # of the kind: what its arrays mean
    parameters: dict[str, Any]  # of the training
    inputs: dict[str, list[str]]  # role -> sha256 of each training file, sorted
    counts: dict[str, int]
    arrays: dict[str, np.ndarray]


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file says of itself; the fields of Model, less the arrays."""

    format: int
    kind: str
    version: int
    parameters: dict[str, Any]
    inputs: dict[str, list[str]]
    counts: dict[str, int]
    sha256: str  # of the description without this field, and of the arrays: `_digest`


def encode(model: LoadedModel) -> bytes:
    """Return a model as the bytes of its file. Raises ValueError where these are more than
    LARGEST.
    """
    from safetensors.numpy import save

    arrays = {
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        for name, array in sorted(model.arrays.items())
    }
    description = Description(
        format=FORMAT,
        kind=model.kind,
        version=model.version,
        parameters=model.parameters,
        inputs={role: sorted(digests) for role, digests in model.inputs.items()},
        counts=model.counts,
        sha256="",
    )
    description = msgspec.structs.replace(description, sha256=_digest(description, arrays))
    metadata = {"gristmill": msgspec.json.encode(description, order="sorted").decode()}
    data = bytes(save(arrays, metadata=metadata))
    if len(data) > LARGEST:
        raise ValueError(f"the model has {len(data):,} bytes: expected {LARGEST:,} at most")
    return data


def write(path: Path, model: LoadedModel) -> str:
    """Write a model's file, whole or not at all; its sha256."""
    data = encode(model)
    write_bytes(path.parent, path.name, data)
    return hashlib.sha256(data).hexdigest()


def is_ours(head: bytes) -> bool:
    """Return whether a file that starts with these bytes (HEAD are enough) is one of ours, of any
    format.
    """
    return head.startswith(START, 8) or head.startswith(MAGIC_1)


def describe(data: bytes) -> str:
    """Return what a file starts as, in a word, and none of its bytes: a recipe may name any
    file.
    """
    start = data[:HEAD].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page"
    if start.startswith(b"version https://git-lfs"):
        return "a pointer of Git LFS: fetch the file itself"
    return "text" if start.isascii() and b"\0" not in start else "other bytes"


def read(file: BinaryIO, kind: str | None = None, version: int | None = None) -> LoadedModel:
    """Read an open file as `decode` does, unless it is too large to be one."""
    size = os.fstat(file.fileno()).st_size
    if size > LARGEST:
        raise ValueError(f"it has {size:,} bytes: expected {LARGEST:,} at most")
    return decode(file.read(), kind, version)


def decode(data: bytes, kind: str | None = None, version: int | None = None) -> LoadedModel:
    """Read a file's bytes, of a kind and its version where they are given.

    Raises ValueError, which says what is wrong with the file.
    """
    from safetensors import SafetensorError, deserialize

    if data.startswith(MAGIC_1):
        raise ValueError(f"expected format {FORMAT}, got 1: train it again")
    if not is_ours(data):
        raise ValueError(f"expected {NOT_OURS}, got {describe(data)}")
    size = int.from_bytes(data[:8], "little")
    if size > min(LONGEST_HEADER, len(data) - 8):
        raise ValueError("it is cut short, or its header's size is wrong")
    try:
        metadata = msgspec.json.decode(data[8 : 8 + size], type=_Header).metadata
        description = msgspec.json.decode(metadata.gristmill, type=Description)
    except NO_JSON as error:
        raise ValueError(f"its header is damaged: {error}") from error
    _check(description, kind, version)
    try:
        tensors: Any = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(f"it is damaged: {error}") from error
    arrays = {name: _array(name, tensor) for name, tensor in tensors}
    digest = _digest(description, arrays)
    if digest != description.sha256:
        raise ValueError(f"it is damaged: expected sha256 {description.sha256}, got {digest}")
    return LoadedModel(
        kind=description.kind,
        version=description.version,
        parameters=description.parameters,
        inputs=description.inputs,
        counts=description.counts,
        arrays=arrays,
    )


class _Metadata(msgspec.Struct, frozen=True):
    gristmill: str


class _Header(msgspec.Struct, frozen=True):
    metadata: _Metadata = msgspec.field(name="__metadata__")


def _check(description: Description, kind: str | None, version: int | None) -> None:
    if description.format != FORMAT:
        raise ValueError(f"expected format {FORMAT}, got {description.format}")
    if kind is not None and description.kind != kind:
        raise ValueError(f"expected a model of kind {kind!r}, got {description.kind!r}")
    if version is not None and description.version != version:
        raise ValueError(
            f"expected version {version} of {kind!r}, got {description.version}: train it again"
        )


def _array(name: str, tensor: Any) -> np.ndarray:
    """Return a tensor that safetensors has read, and whose bytes fit its shape."""
    kind, shape = tensor["dtype"], tensor["shape"]
    if kind not in TYPES or len(shape) > 2:
        raise ValueError(f"its array {name!r} has the type {kind!r} and {len(shape)} dimensions")
    data: bytes = tensor["data"]
    return np.frombuffer(data, TYPES[kind]).reshape(shape)


def _digest(description: Description, arrays: dict[str, np.ndarray]) -> str:
    """Return the sha256 of a description and of its arrays, by name."""
    parts = msgspec.structs.replace(description, sha256="")
    digest = hashlib.sha256(msgspec.json.encode(parts, order="sorted"))
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(msgspec.json.encode([name, array.dtype.str, list(array.shape)]))
        digest.update(array.data)
    return digest.hexdigest()
