"""What a published corpus looks like in an object store or on the web: names, headers and records.

    PREFIX/.gristmill.json          says that the prefix is a release's (ownership.py)
    PREFIX/objects/ab/abcdef...     a part, manifest or lock, named by its sha256; never changes
    PREFIX/releases/00000001.json   a release; never changes, and no second one gets its number
    PREFIX/latest.json              the pointer: which release is the newest; the one name that
                                    changes, and whose copies in caches live for seconds
    PREFIX/trust/...                TUF metadata, where a key signs (network/trust/trust.py)

docs/publishing.md describes the fields. Pure: takes and gives bytes and values, opens nothing.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from gristmill.errors import NO_JSON, VerificationError
from gristmill.store.manifest import MANIFEST
from gristmill.store.parts import to_json

FORMAT = 1  # of a release, and of the pointer
OBJECTS, RELEASES, POINTER, TRUST = "objects", "releases", "latest.json", "trust"
IMMUTABLE = "public, max-age=31536000, immutable"  # Cache-Control of names that never change
MAX_AGE = 10  # seconds that a cache may show an old pointer; Cache-Control of what changes
LARGEST_POINTER = 4096  # bytes
LARGEST_RELEASE = 64 << 20  # bytes; a list of withdrawn documents is in it
LARGEST_MANIFEST = 1 << 30  # bytes
SHA256 = re.compile(r"[0-9a-f]{64}")
DIGITS = 8  # of a release's number in its name
RELEASE_KEY = re.compile(rf"{RELEASES}/([0-9]{{{DIGITS}}})\.json")

# The folders and files of a corpus that every release has; `--with` adds others.
ALWAYS = ("tokens", "tokenizer", "plan.json", "recipe.toml", "funnel.json", "withdrawn.txt")


class WithdrawnDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document that was taken back."""

    document: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    source: str | None  # of its raw shard; null: the plan has no such raw shard


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One state of a corpus, as it was published. No clock is in it."""

    format: int = FORMAT
    number: int  # 1, 2, 3 ...; a number may be left out, never used again
    manifest: str  # sha256 of manifest.json, which is an object
    manifest_size: int  # bytes
    previous: str | None  # sha256 of the release before; null for the first
    # The folders and files of the corpus whose parts are in the store. The manifest names all
    # parts of the corpus; those elsewhere are not here.
    included: list[str]
    withdrawn: list[WithdrawnDocument] = []  # of all releases so far
    minimum: int = 0  # readers refuse releases with a lower number
    # the list of what the next run needs besides the parts (run_state.py); null: it is not here
    state: str | None = None
    state_size: int = 0

    def has(self, path: str) -> bool:
        """Return whether a part of the corpus is in the store."""
        return is_included(path, self.included)


class Pointer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which release is the newest."""

    format: int = FORMAT
    release: int
    sha256: str  # of the release


def is_included(path: str, included: Sequence[str]) -> bool:
    """Return whether a part lies in one of the folders, or is one of the files."""
    return path in included or path.partition("/")[0] in included


def object_key(sha256: str) -> str:
    """Return the name of an object. Raises VerificationError if that is no sha256."""
    if not SHA256.fullmatch(sha256):
        raise VerificationError(f"{sha256!r} is no sha256 (64 digits 0-9 a-f): names no object")
    return f"{OBJECTS}/{sha256[:2]}/{sha256}"


def release_key(number: int) -> str:
    """Return the name of a release."""
    return f"{RELEASES}/{number:0{DIGITS}d}.json"


def release_number(key: str) -> int | None:
    """Return the number of the release that has this name; None: it is no release's name."""
    match = RELEASE_KEY.fullmatch(key)
    return int(match[1]) if match else None


def encode(value: Release | Pointer) -> bytes:
    """Return the one byte form of a release or a pointer."""
    return to_json(value)


def decode_release(data: bytes, where: str) -> Release:
    """Read a release; `where` begins messages.

    Raises VerificationError if it is none, has another format, or contradicts itself.
    """
    release = _decode(data, Release, "release", where)
    if not 1 <= release.number < 10**DIGITS or not 0 <= release.minimum <= release.number:
        raise VerificationError(
            f"{where}: release {release.number} with minimum {release.minimum}: expected numbers "
            "from 1, and a minimum that is not above the release's own number"
        )
    for size in (release.manifest_size, release.state_size):
        if not 0 <= size <= LARGEST_MANIFEST:
            raise VerificationError(
                f"{where}: {size:,} bytes of a manifest or a state: expected 0 to "
                f"{LARGEST_MANIFEST:,}"
            )
    for name in release.included:
        if "/" in name or name in ("", ".", ".."):
            raise VerificationError(f"{where}: {name!r} is no folder or file of a corpus")
    for digest in (release.manifest, release.previous, release.state):
        if digest is not None and not SHA256.fullmatch(digest):
            raise VerificationError(f"{where}: {digest!r} is no sha256 (64 digits 0-9 a-f)")
    return release


def decode_pointer(data: bytes, where: str) -> Pointer:
    """Read a pointer; `where` begins messages. Raises VerificationError as `decode_release`."""
    pointer = _decode(data, Pointer, "pointer", where)
    if not 1 <= pointer.release < 10**DIGITS or not SHA256.fullmatch(pointer.sha256):
        raise VerificationError(f"{where}: names no release: {pointer.release}, {pointer.sha256!r}")
    return pointer


class _RecordFormat(msgspec.Struct):
    format: Any = None


Record = TypeVar("Record", Release, Pointer)


def _decode(data: bytes, kind: type[Record], what: str, where: str) -> Record:
    hint = f"Is this the address of a corpus that `gristmill publish` wrote ({POINTER} is there)?"
    try:
        # The format first: a later one may have other fields.
        version = msgspec.json.decode(data, type=_RecordFormat).format
        if type(version) is int and version > FORMAT:
            raise VerificationError(
                f"{where}: a {what} of format {version}; this gristmill reads format {FORMAT}. "
                "Install a later version of gristmill"
            )
        if version != FORMAT:
            raise VerificationError(f"{where}: no {what}: it has format {version!r}. {hint}")
        decoded = msgspec.json.decode(data, type=kind)
        # Parsers differ in which of two equal keys they take.
        json.loads(data, object_pairs_hook=_unique)
        return decoded
    except NO_JSON as error:
        raise VerificationError(f"{where}: no {what}: {error}. {hint}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise msgspec.DecodeError("an object has a key twice")
    return mapping


def check_digest(data: bytes, sha256: str, where: str) -> bytes:
    """Return the bytes, if they have this digest. Raises VerificationError."""
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise VerificationError(
            f"{where}: expected sha256 {sha256}, got {digest} ({len(data):,} bytes). The copy at "
            "this address was altered or cut: use another address, or publish again"
        )
    return data


def lock_for(manifest: str) -> bytes:
    """Return the lock of a corpus whose manifest has this sha256, as sha256sum would write it."""
    return f"{manifest}  {MANIFEST}\n".encode()
