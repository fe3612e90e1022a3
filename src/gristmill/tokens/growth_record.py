"""The record of a tokenizer that grows: which version it is, where its tokens come from, and which
files its earlier versions are.

It is the field `gristmill` of the model in tokenizer.json, which HF tokenizers ignores. Numbers of
tokens never change from one version to the next: special tokens, the 256 bytes, then merges in the
order in which they were added. So every later version decodes what an earlier one encoded.
"""

import hashlib
import re
from typing import NamedTuple

import msgspec

from gristmill.errors import NO_JSON, RecipeError, VerificationError

FORMAT = 1
SPECIAL_TOKENS = 10  # before the bytes
BASE_TOKENS = SPECIAL_TOKENS + 256
MOST_TOKENS = 10_000_000
NO_DIGEST = "0" * 64
_DIGEST = re.compile(rb'"file_sha256": "[0-9a-f]{64}"')


class Contribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The merges that one source brought to one version."""

    version: int
    source: str
    asked: int  # merges; there are fewer if no pair was left that occurs often enough
    merges: int
    first_id: int  # of its merged tokens, which are numbered in a row
    documents: int  # of the sample
    bytes: int
    sample: str  # sha256 over the sorted BLAKE2b-64 of the sample's texts


class GrowthRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file of one version says of itself and of those before it."""

    format: int = FORMAT
    version: int  # 1, 2, ...
    vocab_size: int
    next_merge_id: int  # the number that the next merged token gets
    limit: int  # of vocab_size
    pattern: str
    sources_contributed: list[Contribution]
    previous: list[str]  # sha256 of the files of versions 1, 2, ... before this one
    file_sha256: str  # of the file with 64 zeros in this place


class TokenizerVersion(NamedTuple):
    """A version of a grown tokenizer: `previous` has the digests of the versions before, as far as
    they are known.
    """

    version: int
    sha256: str
    previous: tuple[str, ...] = ()


class _ModelPart(msgspec.Struct, frozen=True):
    gristmill: msgspec.Raw = msgspec.Raw(b"null")


class _TokenizerJson(msgspec.Struct, frozen=True):
    model: _ModelPart


def seal(data: bytes) -> bytes:
    """Put the digest into the bytes of a file that has NO_DIGEST in its place."""
    digest = hashlib.sha256(data).hexdigest()
    return data.replace(
        f'"file_sha256": "{NO_DIGEST}"'.encode(), f'"file_sha256": "{digest}"'.encode(), 1
    )


def read_record(data: bytes) -> GrowthRecord | None:
    """Return the record of a tokenizer.json; None: it has none. Raises VerificationError if the
    record cannot be read, or the file was changed after it was written.
    """
    try:
        raw = msgspec.json.decode(data, type=_TokenizerJson).model.gristmill
    except NO_JSON:
        return None  # another format; what reads the tokenizer says what is wrong
    if bytes(raw) == b"null":
        return None
    try:
        record = msgspec.json.decode(bytes(raw), type=GrowthRecord)
    except NO_JSON as error:
        raise VerificationError(
            f"the record of growth in this tokenizer.json cannot be read: {error}. It was edited, "
            "or written by a newer gristmill: fetch the file again, or update gristmill"
        ) from error
    if record.format != FORMAT:
        raise VerificationError(
            f"the record of growth in this tokenizer.json has format {record.format}; this "
            f"gristmill reads format {FORMAT}: update gristmill"
        )
    digest = hashlib.sha256(_DIGEST.sub(f'"file_sha256": "{NO_DIGEST}"'.encode(), data, count=1))
    if digest.hexdigest() != record.file_sha256:
        raise VerificationError(
            f"this tokenizer.json was changed after it was written: expected the sha256 "
            f"{record.file_sha256}, found {digest.hexdigest()}. Fetch or grow it again"
        )
    return record


def record_version(data: bytes) -> TokenizerVersion | None:
    """Return which version the bytes of a tokenizer.json are; None: it is no tokenizer that grows.
    Raises VerificationError as `read_record`.
    """
    record = read_record(data)
    if record is None:
        return None
    return TokenizerVersion(
        record.version, hashlib.sha256(data).hexdigest(), tuple(record.previous)
    )


def required_version(data: bytes) -> TokenizerVersion:
    """As `record_version`. Raises RecipeError if it is no tokenizer that grows."""
    version = record_version(data)
    if version is None:
        raise RecipeError(
            "this tokenizer.json has no record of growth: `gristmill tokenizer grow` did not make "
            "it, or another program wrote it anew and left the record out"
        )
    return version


def check_version(have: TokenizerVersion, needs: TokenizerVersion) -> None:
    """Refuse to read tokens of version `needs` with version `have`.

    Tokens of an earlier version are read by every later one that grew from it. Raises
    VerificationError if `have` is too old, or has not grown from `needs`.
    """
    if needs.version > have.version:
        raise VerificationError(
            f"the tokens were made with version {needs.version} of the tokenizer (sha256 "
            f"{needs.sha256}); this is version {have.version}, which is too old: fetch version "
            f"{needs.version} or a later one"
        )
    known = (*have.previous, have.sha256)
    if needs.version < 1 or len(known) != have.version or known[needs.version - 1] != needs.sha256:
        raise VerificationError(
            f"the tokens were made with another tokenizer: version {needs.version} with sha256 "
            f"{needs.sha256}; version {have.version} here has not grown from it. Use the "
            "tokenizer that the tokens were made with, or a later version of it"
        )
