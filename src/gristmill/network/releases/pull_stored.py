"""Pull of a corpus that a run wrote into an object store (corpus/stored_corpus.py): every part has
its own name there, and there are no releases.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gristmill.corpus import summary
from gristmill.corpus.corpus import Corpus
from gristmill.corpus.places import check_places
from gristmill.corpus.stored_corpus import LARGEST, OBJECTS
from gristmill.errors import RecipeError, VerificationError
from gristmill.network.releases import layout
from gristmill.phases.inputs.local_inputs import note_elsewhere
from gristmill.store import manifest as manifests
from gristmill.store.bucket.bucket import Bucket
from gristmill.store.bucket.objects import ObjectFile, bring
from gristmill.store.http.urls import STORES
from gristmill.store.manifest import Manifest
from gristmill.store.parts import machine_errors, write_bytes


def stored_at(urls: Sequence[str | Path] | str | Path) -> Bucket | None:
    """Return the prefix of a finished corpus that is no release; None: what is there is something
    else.

    Raises RecipeError for a corpus that no run has finished.
    """
    given = [urls] if isinstance(urls, str | Path) else list(urls)
    if len(given) != 1 or not str(given[0]).startswith(STORES):
        return None
    bucket = Bucket(str(given[0]))
    top = bucket.names_at_top()
    if layout.POINTER in top:
        return None
    if manifests.LOCK in top and manifests.MANIFEST not in top:
        raise VerificationError(manifests.without_manifest(bucket.url))
    work = OBJECTS.partition("/")[0]
    if manifests.MANIFEST not in top and work in (name.rstrip("/") for name in top):
        raise RecipeError(
            f"{bucket.url}: a run has begun a corpus there, and none has finished it: run the same "
            "command again until it ends"
        )
    return bucket if manifests.MANIFEST in top else None


def pull_stored(
    bucket: Bucket, corpus: Corpus, only: list[str], on_bytes: Callable[[int, int], None]
) -> dict[str, Any]:
    """Have the corpus in a folder that is held; as network.pull.pull."""
    manifest, data = _manifest(bucket)
    tops = sorted({part.path.partition("/")[0] for part in manifest.parts})
    for name in only:
        if name not in tops:
            raise RecipeError(f"--only {name}: {bucket.url} has none; it has {', '.join(tops)}")
    parts = [part for part in manifest.parts if not only or part.path.partition("/")[0] in only]
    corpus.recover()
    before = corpus.finished()
    whole, same = not only, before is not None and before[1] == data
    if before is not None and not same and not whole:
        raise RecipeError(
            f"{corpus.root}: holds another state of a corpus, and this is a part of one (--only): "
            "choose another folder"
        )
    place = "work/stage/" if whole and not same else ""
    total, here = sum(part.size for part in parts), 0

    def count(size: int) -> None:
        nonlocal here
        here += size
        on_bytes(here, total)

    files = [ObjectFile(part.path, f"{place}{part.path}", part.sha256, part.size) for part in parts]
    with machine_errors(corpus.root, every=True):
        bring(bucket, files, corpus.root, count, keep=True)
    if whole and not same:
        corpus.write_manifest(manifest)
    elif not same:
        write_bytes(corpus.root, manifests.SUMS, manifests.sums(manifest.parts))
        write_bytes(corpus.root, manifests.MANIFEST, data)
        write_bytes(corpus.root, manifests.LOCK, manifests.make_lock(data))
    if whole:
        note_elsewhere(corpus.root, [url for shard in manifest.raw_shards for url in shard.urls()])
    return {
        "folder": str(corpus.root),
        "release": None,
        "manifest": manifests.make_lock(data).decode().partition(" ")[0],
        "signed": False,
        "parts": len(parts),
        "of": len(manifest.parts),
        "bytes": total,
        "state": 0,
    }


def status_of_stored(bucket: Bucket) -> dict[str, Any]:
    """Return `url`, `manifest`, and the figures of the manifest (corpus/summary.py)."""
    manifest, data = _manifest(bucket)
    sha256 = manifests.make_lock(data).decode().partition(" ")[0]
    return {"url": bucket.url, "manifest": sha256, **summary.summary(manifest)}


def lines(found: dict[str, Any]) -> list[str]:
    """Return the status for people."""
    said = f"{found['url']}: written by a run, manifest {found['manifest']}"
    return [said, *summary.lines(found)]


def _manifest(bucket: Bucket) -> tuple[Manifest, bytes]:
    """Return the manifest, its lock checked. Raises VerificationError."""
    blob, lock = bucket.get(manifests.MANIFEST, LARGEST), bucket.get(manifests.LOCK, 1 << 16)
    if blob is None:
        raise VerificationError(f"{bucket.url}: {manifests.MANIFEST} is gone")
    try:
        manifests.check_lock(blob.data, lock.data if lock is not None else None)
        manifest = manifests.decode(blob.data)
        check_places(manifest)
    except VerificationError as error:
        raise VerificationError(f"{bucket.url}: {error}") from None
    if manifests.encode(manifest) != blob.data:
        raise VerificationError(
            "the manifest was written by another version of gristmill, which says more in it than "
            "this one knows: install that version"
        )
    return manifest, blob.data
