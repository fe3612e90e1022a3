"""Manifests of views: some shards of a corpus, as a corpus of their own."""

from collections.abc import Sequence

import msgspec

from gristmill.errors import VerificationError
from gristmill.store import manifest as manifests
from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part


def shard_paths(manifest: Manifest) -> list[str]:
    """Return the training shards of a corpus, in the order of its parts: a shard's place in this
    list is its number for the rules of assignment.
    """
    return [
        part.path
        for part in manifest.parts
        if part.path.startswith("tokens/")
        and part.path.endswith(".bin")
        and part.path.rpartition("/")[2].startswith("train_")
    ]


def manifest_of_view(manifest: Manifest, digest: str, shards: Sequence[str]) -> Manifest:
    """Return the manifest of a corpus that has some of the shards of another: these, their
    documents, and the tokenizer. `digest` is the sha256 of the other's manifest; it is an input of
    the new one.
    """
    wanted = set(shards) | {path.removesuffix(".bin") + ".docs" for path in shards}
    parts = [
        part for part in manifest.parts if part.path in wanted or part.path.startswith("tokenizer/")
    ]
    return msgspec.structs.replace(
        manifest,
        content=manifests.content_digest(parts),
        inputs={"release": {"name": manifests.MANIFEST, "sha256": digest}},
        raw_shards=[],
        funnel={},
        parts=parts,
    )


def tokenizer_part(manifest: Manifest) -> Part:
    """Return the part that is the tokenizer of its tokens. Raises VerificationError."""
    assert manifest.tokens is not None
    for part in manifest.parts:
        if part.path.startswith("tokenizer/") and part.sha256 == manifest.tokens.tokenizer:
            return part
    raise VerificationError("the release's manifest names no tokenizer among its parts")
