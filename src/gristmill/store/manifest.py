"""The manifest: what a corpus is, and the proof of every byte.

Pure: takes and gives bytes and values, opens nothing.

    manifest.json   every part with size, sha256 and counts; the recipe; the raw shards; versions;
                    `content`, a digest of the parts
    manifest.lock   the sha256 of manifest.json       } both in sha256sum's format,
    SHA256SUMS      the sha256 of every part          } paths from the corpus' root

Nothing of a clock, a host, a worker or a rate is in it: equal inputs give equal bytes.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from gristmill.errors import NO_JSON, VerificationError
from gristmill.store.parts import Part, to_json

FORMAT = 2  # 1 has no `tokens`
READABLE = (1, FORMAT)
MANIFEST, LOCK, SUMS, NEXT = "manifest.json", "manifest.lock", "SHA256SUMS", ".next"


class PackedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of several small files that are one raw shard."""

    url: str  # a path from the recipe's folder
    sha256: str | None = None  # null: not read yet
    size: int | None = None  # bytes
    row: int | None = None  # its first row in the raw shard; null: not processed yet


def file_at(files: Sequence[PackedFile], row: int) -> str:
    """Name the file of a pack that a row comes from."""
    return files[max(bisect_right(files, row, key=lambda file: file.row or 0) - 1, 0)].url


def pack_digest(files: Sequence[PackedFile]) -> str:
    """Return the sha256 of what `sha256sum` prints of the files, from the recipe's folder."""
    lines = (f"{file.sha256}  {file.url}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class RawShard(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest says of one input file, or of several small ones that are packed."""

    number: int
    source: str
    url: str  # a URL, or a path from the recipe's folder
    # null: absent (--allow-missing); of a pack the digest of what `sha256sum` prints of its files
    sha256: str | None
    kind: str | None = None
    codec: str | None = None
    compressed_bytes: int = 0
    decompressed_bytes: int = 0
    documents: int = 0  # rows with a verdict
    unique_documents: int = 0  # kept
    records_skipped: dict[str, int] = {}
    # documents by what was unusual in decoding them, if there are any: `against_label`
    decoding: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    missing: str | None = None  # why it is absent: one of errors.REASONS
    start: int | msgspec.UnsetType = msgspec.UNSET  # the first row that was read, if not 0
    # where its source reached its target, as in the plan: row, tokens, target
    cut: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    files: tuple[PackedFile, ...] | msgspec.UnsetType = msgspec.UNSET  # of a pack, in order

    def file_at(self, row: int) -> str:
        """Name the file that a row comes from."""
        return self.url if self.files is msgspec.UNSET else file_at(self.files, row)

    def urls(self) -> list[str]:
        """Name the files that it is made of."""
        return [self.url] if self.files is msgspec.UNSET else [file.url for file in self.files]


class TokenFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a reader understands the token shards of a corpus: what no shard says of itself."""

    tokenizer: str  # sha256 of the part in tokenizer/
    # the version, if it is a tokenizer that grows (docs/tokenizer-training.md)
    tokenizer_version: int | msgspec.UnsetType = msgspec.UNSET
    vocabulary: int  # every token is below it
    dtype: Literal["uint16", "uint32"]  # of a token in the shards, little-endian
    end_of_text: int  # the token between documents
    # what says that it is this one, where the user did not name it (docs/tokenizers.md)
    end_of_text_by: str | msgspec.UnsetType = msgspec.UNSET
    # the token before each document, if there is one
    begin_of_text: int | msgspec.UnsetType = msgspec.UNSET
    # where it stands: `after` each document (nanoGPT, OLMo), `before` it (llm.c), or nowhere
    end_of_text_side: Literal["after", "before", "none"] = "after"
    # The label of a position is the token behind it; that of a document's last token is the first
    # one of the next document, which a loader masks where it is asked to.
    labels: Literal["next"] = "next"


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of another tool from which tokens were imported."""

    path: str  # from the folder that was imported
    size: int  # bytes
    sha256: str


class Imported(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the tokens of a corpus come from that no recipe made."""

    format: str  # a word of `import --from`
    boundaries: Literal["index", "end-of-text"]  # what showed where documents end
    end_of_text: str | None  # the literal, as the user named it; null: the tokenizer's own
    files: list[ImportedFile]  # a document's number is `place in this list << 32 | row`


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The corpus. `funnel` is the table that `run` prints, without rates."""

    format: int = FORMAT
    content: str  # sha256 over SHA256SUMS
    versions: dict[str, str]
    recipe_sha256: str
    recipe: dict[str, Any]
    inputs: dict[str, Any]  # models, tokenizers: name -> {name, sha256}
    raw_shards: list[RawShard]
    funnel: dict[str, Any]
    tokens: TokenFormat | None = None  # null: it has no token shards, or is of format 1
    # Left out where a recipe made the corpus. With it, there are no recipe and no raw shards.
    imported: Imported | msgspec.UnsetType = msgspec.UNSET
    parts: list[Part]


def end_of_text_literal(manifest: Manifest) -> str | None:
    """Return the literal of the end of text that the user named; None: the tokenizer's own."""
    if manifest.imported is not msgspec.UNSET:
        return manifest.imported.end_of_text
    literal = (manifest.recipe.get("tokens") or {}).get("end_of_text")
    return literal if isinstance(literal, str) else None


def sums(parts: list[Part]) -> bytes:
    """SHA256SUMS: a line a part, sorted by path."""
    return b"".join(
        f"{part.sha256}  {part.path}\n".encode()
        for part in sorted(parts, key=lambda part: part.path)
    )


def content_digest(parts: list[Part]) -> str:
    """Return the digest over the parts alone."""
    return hashlib.sha256(sums(parts)).hexdigest()


def make_lock(manifest: bytes) -> bytes:
    """Return the lock for a manifest's bytes, as sha256sum would write it."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n".encode()


def encode(manifest: Manifest) -> bytes:
    """Return the one byte form of a manifest."""
    return to_json(manifest)


def decode(data: bytes) -> Manifest:
    """Read a manifest. Raises VerificationError if it is not one, or has another format."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except NO_JSON as error:
        raise VerificationError(
            f"{MANIFEST} is no manifest: {error}. Fetch it again, or run the recipe again"
        ) from error
    if manifest.format not in READABLE:
        raise VerificationError(
            f"{MANIFEST} has format {manifest.format}; this gristmill reads formats "
            f"{READABLE[0]} to {FORMAT}"
        )
    for part in manifest.parts:
        check_path(part.path)
    return manifest


def check_path(path: str) -> None:
    """Refuse a path that leaves the corpus' folder, or that could be read in two ways."""
    pieces = path.split("/")
    if (
        not path
        or "\\" in path
        or "\0" in path
        or "\n" in path
        or any(piece in ("", ".", "..") for piece in pieces)
    ):
        raise VerificationError(f"{MANIFEST} names a part {path!r} that leaves the corpus")


def without_manifest(where: str) -> str:
    """Return what is said of a corpus whose lock is there and whose manifest is not."""
    return (
        f"{where}: {LOCK} without {MANIFEST}: the manifest was removed. Restore it, or remove the "
        "lock to finish the corpus again"
    )


def check_lock(manifest: bytes, lock: bytes | None) -> None:
    """Refuse a manifest whose lock does not name it. Raises VerificationError."""
    expected = make_lock(manifest)
    if lock != expected:
        shown = "no lock" if lock is None else repr(lock.decode("utf-8", "replace").strip())
        raise VerificationError(
            f"{MANIFEST} and {LOCK} disagree: expected {expected.decode().strip()!r}, got {shown}. "
            "One of them was changed after it was written: restore both, or build the corpus "
            "again in a new folder"
        )
