"""Whether a corpus may be published: finished, whole, without links and without secrets."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.layout import links
from gristmill.errors import RecipeError, VerificationError
from gristmill.store.http.urls import is_url, stored
from gristmill.store.manifest import MANIFEST, SUMS, Manifest, sums


def checked_corpus(root: Path) -> tuple[Manifest, bytes]:
    """Return the manifest of a finished corpus that may be published, and its bytes.

    Raises VerificationError if it is not finished, its lock or SHA256SUMS differ, or it holds
    links; RecipeError if its recipe holds a secret.
    """
    finished = Corpus(root).finished()
    if finished is None:
        raise VerificationError(
            f"{root}: no {MANIFEST}: not a corpus, or not finished. Run the recipe again to finish "
            "it"
        )
    manifest, data = finished
    try:
        listed = (root / SUMS).read_bytes()
    except OSError as error:
        raise VerificationError(f"{root / SUMS}: cannot be read: {error.strerror}") from error
    if listed != sums(manifest.parts):
        raise VerificationError(
            f"{root / SUMS}: not as {MANIFEST} says. Restore it, or run the recipe again"
        )
    if paths := links(root, work=False):
        raise VerificationError(
            f"{paths[0]}: a link to {os.readlink(paths[0])!r}: a corpus has files and folders of "
            "its own only. Put the file itself there"
        )
    for url in (
        *_strings(manifest.recipe),
        *(url for shard in manifest.raw_shards for url in shard.urls()),
    ):
        if is_url(url) and stored(url) != url:
            raise RecipeError(
                f"{root}: its recipe or plan has the URL {stored(url)} with a secret (a user, a "
                "signature or a token): nothing was published. Run the recipe again"
            )
    return manifest, data


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
