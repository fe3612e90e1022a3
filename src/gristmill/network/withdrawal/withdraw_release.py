"""Withdrawal from a published corpus: the corpus first, then a release that no reader may go back
from, then the objects of the releases before.

1. The corpus: network/withdrawal/withdraw.py.
2. Its new parts are uploaded, and a release N is made with `minimum` N: readers refuse every
   earlier one. It lists all documents that were ever withdrawn.
3. Objects that earlier releases name and this one does not are deleted, and the CDN is asked to
   forget them. Until then an old object may be read by its digest, from a release that readers
   refuse.

Killed anywhere, the same command goes on where it was.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError
from gristmill.network.releases import layout, run_state
from gristmill.network.releases.cdn import CloudFront
from gristmill.network.releases.corpus_check import checked_corpus
from gristmill.network.releases.layout import Release
from gristmill.network.releases.publish import top_names, whole_parts, withdrawn_so_far
from gristmill.network.releases.publisher import Publisher, UploadSettings
from gristmill.network.releases.targets import Target, open_target
from gristmill.network.trust.keys import load_signers
from gristmill.network.withdrawal.withdraw import LIST, withdraw
from gristmill.store import manifest as manifests
from gristmill.store.manifest import Manifest
from gristmill.user_input import one_or_more


@one_or_more("documents", "keys")
def withdraw_release(
    corpus: Path | str,
    target: Path | str,
    documents: Sequence[str],
    *,
    keys: Sequence[Path | str] = (),
    passphrase: str | None = None,
    settings: UploadSettings | None = None,
    cdn: CloudFront | None = None,
    cache_dir: Path | str | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Take documents out of a corpus and of the target where it is published.

    `target`, `keys`, `passphrase`, `settings` and `cdn` are as in `publish`; `documents` and
    `cache_dir` as in `withdraw`. Returns what `withdraw` returns, and `target`, `release`,
    `minimum`, `deleted` (objects), `invalidations` and `waiting` (as `publish`).

    Raises RecipeError if the target has no release of this corpus' kind, and what `withdraw` and
    `publish` raise. Nothing of the corpus is changed if the target cannot be published to.
    """
    root = Path(corpus)
    signers = load_signers(keys, passphrase)
    if cdn is not None:
        cdn.check()
    opened = open_target(target)
    try:
        publisher = Publisher(opened, signers, settings, cdn)
        if publisher.current is None:
            raise RecipeError(
                f"{opened.url}: nothing is published there. Withdraw from the corpus alone, or "
                "name the target of `gristmill publish`"
            )
        done = withdraw(root, documents, cache_dir=cache_dir, on_line=on_line)
        release, manifest = _released(publisher, root)
        # Readers still see the release before while a draft waits for signatures.
        waits = publisher.waiting is not None
        deleted = [] if waits else _deleted(opened, release, manifest)
        invalidated = publisher.invalidate(deleted)
    finally:
        opened.close()
    return {
        **done,
        "target": opened.url,
        "release": release.number,
        "minimum": release.minimum,
        "deleted": len(deleted),
        "invalidations": invalidated,
        "waiting": publisher.waiting,
    }


def _released(publisher: Publisher, root: Path) -> tuple[Release, Manifest]:
    """Upload what the target lacks, and make the release; one that was made is used again."""
    assert publisher.current is not None
    before = publisher.current[0]
    manifest, data = checked_corpus(root)
    included = sorted((set(before.included) | {LIST}) & top_names(manifest))
    parts = whole_parts(manifest, included, root)
    withdrawn = withdrawn_so_far(publisher.current, manifest, root)
    publisher.upload((root / part.path, part.sha256, part.size) for part in parts)
    if before.manifest == hashlib.sha256(data).hexdigest() and before.minimum == before.number:
        publisher.complete()
        return before, manifest
    release = publisher.release(data, included, withdrawn=withdrawn, raise_minimum=True)
    return release, manifest


def _deleted(target: Target, newest: Release, manifest: Manifest) -> list[str]:
    """Delete the objects that earlier releases name and the newest one does not; their names."""
    lock, listed = layout.lock_for(newest.manifest), manifests.sums(manifest.parts)
    needed = {part.sha256 for part in manifest.parts if newest.has(part.path)}
    needed |= {newest.manifest, *(hashlib.sha256(small).hexdigest() for small in (lock, listed))}
    there = target.sizes(f"{layout.OBJECTS}/")
    old: set[str] = set()
    manifests_of: set[str] = set()
    for key in target.sizes(f"{layout.RELEASES}/"):
        blob = target.get(key, layout.LARGEST_RELEASE)
        if blob is None or key == layout.release_key(newest.number):
            continue
        earlier = layout.decode_release(blob.data, f"{target.url}/{key}")
        if layout.object_key(earlier.manifest) in there:
            old |= _named(target, earlier)
            manifests_of.add(layout.object_key(earlier.manifest))
            if earlier.state is not None:
                old |= _of_state(target, earlier.state)
                manifests_of.add(layout.object_key(earlier.state))
    deleted = sorted({layout.object_key(sha256) for sha256 in old - needed} & there.keys())
    # The manifests last: they say what is left to delete if this is killed.
    deleted.sort(key=lambda key: key in manifests_of)
    for key in deleted:
        target.delete(key)
    return deleted


def _of_state(target: Target, sha256: str) -> set[str]:
    """Return the digests of the list of a run's state and of its files: they hold tokens as
    well.
    """
    blob = target.get(layout.object_key(sha256), run_state.LARGEST)
    return {sha256} if blob is None else {sha256, *run_state.read_objects(blob.data)}


def _named(target: Target, release: Release) -> set[str]:
    """Return the digests of all objects that a release has."""
    key = layout.object_key(release.manifest)
    blob = target.get(key, layout.LARGEST_MANIFEST)
    if blob is None:
        return set()
    where = f"{target.url}/{key}"
    decoded = manifests.decode(layout.check_digest(blob.data, release.manifest, where))
    lock, listed = layout.lock_for(release.manifest), manifests.sums(decoded.parts)
    small = (hashlib.sha256(data).hexdigest() for data in (lock, listed))
    return {release.manifest, *small, *(part.sha256 for part in decoded.parts)}
