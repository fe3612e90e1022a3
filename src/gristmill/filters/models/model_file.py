r"""Model files of our own: one for every kind that `gristmill model` trains. No code is ever in
one, and none runs when it is read.

    bytes          what
    0              `gristmill model\n`, 16 bytes
    16             format version, uint32; bytes of the header, uint32
    24             the header: JSON, keys sorted
                   zeros up to a multiple of 64 the arrays that the header names, in its order, each
                   followed by zeros up to a multiple of 64

All numbers are little-endian. The header says the kind, its own version, the parameters of the
training, the sha256 of the training files by role (sorted), counts, the arrays' types and shapes,
and the sha256 of all that stands behind it. Equal trainings give equal bytes: no clock, path or
name is in a file.
"""

import hashlib
import math
import os
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from gristmill.store.parts import write_bytes

MAGIC = b"gristmill model\n"
VERSION = 1
ALIGNMENT = 64
LONGEST_HEADER = 4 << 20
LARGEST = 512 << 20  # bytes of a file: it is read whole, by every worker
TYPES: dict[str, np.dtype[Any]] = {
    "i2": np.dtype("<i2"),
    "u1": np.dtype("u1"),
    "u2": np.dtype("<u2"),
    "u8": np.dtype("<u8"),
    "f8": np.dtype("<f8"),
}


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array of a file."""

    name: str
    type: str  # a key of TYPES
    shape: list[int]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file says of itself."""

    kind: str
    version: int  # of the kind: what its arrays mean
    parameters: dict[str, Any]
    inputs: dict[str, list[str]]  # role -> sha256 of each training file, sorted
    counts: dict[str, int]
    arrays: list[Array]
    sha256: str  # of everything behind the header


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model in memory."""

    kind: str
    version: int
    parameters: dict[str, Any]
    inputs: dict[str, list[str]]
    counts: dict[str, int]
    arrays: dict[str, np.ndarray]


def encode(model: Model) -> bytes:
    """A model as the bytes of its file."""
    names = {kind: name for name, kind in TYPES.items()}
    arrays, behind = [], bytearray()
    for name, array in model.arrays.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        arrays.append(Array(name, names[little.dtype], list(little.shape)))
        behind += little.tobytes()
        behind += bytes(-len(behind) % ALIGNMENT)
    header = msgspec.json.encode(
        Header(
            kind=model.kind,
            version=model.version,
            parameters=model.parameters,
            inputs={role: sorted(digests) for role, digests in model.inputs.items()},
            counts=model.counts,
            arrays=arrays,
            sha256=hashlib.sha256(behind).hexdigest(),
        ),
        order="sorted",
    )
    head = MAGIC + VERSION.to_bytes(4, "little") + len(header).to_bytes(4, "little") + header
    return head + bytes(-len(head) % ALIGNMENT) + bytes(behind)


def write(path: Path, model: Model) -> str:
    """Write a model's file, whole or not at all; its sha256."""
    data = encode(model)
    write_bytes(path.parent, path.name, data)
    return hashlib.sha256(data).hexdigest()


def is_ours(head: bytes) -> bool:
    """Whether a file that starts so is one of ours."""
    return head.startswith(MAGIC)


def read(file: BinaryIO, kind: str | None = None, version: int | None = None) -> Model:
    """Read an open file as `decode` does, unless it is too large to be one."""
    size = os.fstat(file.fileno()).st_size
    if size > LARGEST:
        raise ValueError(f"it has {size:,} bytes: expected {LARGEST:,} at most")
    return decode(file.read(), kind, version)


def decode(data: bytes, kind: str | None = None, version: int | None = None) -> Model:
    """Read a file's bytes, of a kind and its version where they are given.

    ValueError says what is wrong with it.
    """
    if not is_ours(data):
        raise ValueError(f"expected a file that starts with {MAGIC!r}, got {data[: len(MAGIC)]!r}")
    if len(data) < 24:
        raise ValueError("it is cut short")
    found, size = int.from_bytes(data[16:20], "little"), int.from_bytes(data[20:24], "little")
    if found != VERSION:
        raise ValueError(f"expected format version {VERSION}, got {found}")
    if size > min(LONGEST_HEADER, len(data) - 24):
        raise ValueError("it is cut short, or its header's size is wrong")
    try:
        header = msgspec.json.decode(data[24 : 24 + size], type=Header)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"its header is damaged: {error}") from error
    if kind is not None and header.kind != kind:
        raise ValueError(f"expected a model of kind {kind!r}, got {header.kind!r}")
    if version is not None and header.version != version:
        raise ValueError(
            f"expected version {version} of {kind!r}, got {header.version}: train it again"
        )
    behind = memoryview(data)[24 + size + -(24 + size) % ALIGNMENT :]
    digest = hashlib.sha256(behind).hexdigest()
    if digest != header.sha256:
        raise ValueError(
            f"it is damaged: expected sha256 {header.sha256} behind the header, got {digest}"
        )
    return Model(
        kind=header.kind,
        version=header.version,
        parameters=header.parameters,
        inputs=header.inputs,
        counts=header.counts,
        arrays=_arrays(header, behind),
    )


def _arrays(header: Header, behind: memoryview) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    at = 0
    for array in header.arrays:
        if (
            array.type not in TYPES
            or len(array.shape) > 2
            or any(not 0 <= length < 1 << 40 for length in array.shape)
        ):
            raise ValueError(
                f"its array {array.name!r} has the type {array.type!r} and the shape {array.shape}"
            )
        dtype, count = TYPES[array.type], math.prod(array.shape)
        if count * dtype.itemsize > len(behind) - at:
            raise ValueError(f"it is too short for its array {array.name!r}")
        arrays[array.name] = np.frombuffer(behind, dtype, count, at).reshape(array.shape)
        at += count * dtype.itemsize
        at += -at % ALIGNMENT
    if at != len(behind):
        raise ValueError("it is longer or shorter than its arrays")
    return arrays
