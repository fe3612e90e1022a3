"""Pull: a published corpus in a folder again, compared with its release; resumable.

    all of it       the parts take their places together with the manifest, as a run's do, so that a
                    folder with an earlier release becomes this one
    --only tokens   parts of it, with the manifest that names all

Where the release has the state of the run (run_state.py), the next run of the recipe goes on.
"""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gristmill.corpus.corpus import Corpus
from gristmill.corpus.places import check_places
from gristmill.errors import RecipeError, VerificationError
from gristmill.network.releases import run_state
from gristmill.network.releases.layout import Release, lock_for
from gristmill.network.releases.pull_stored import pull_stored, stored_at
from gristmill.network.releases.release import CheckedRelease, ReleaseReader
from gristmill.phases.inputs.local_inputs import note_elsewhere
from gristmill.store import manifest as manifests
from gristmill.store.manifest import Manifest
from gristmill.store.parts import Part, machine_errors, write_bytes
from gristmill.store.proof import damage
from gristmill.user_input import one_or_more

CONNECTIONS = 4
File = tuple[Path, str, int]  # where it goes, sha256, size


@one_or_more("urls", "only")
def pull(
    urls: Sequence[str | Path] | str | Path,
    folder: Path | str,
    *,
    only: Sequence[str] = (),
    root: Path | str | bytes | None = None,
    state: Path | None = None,
    connections: int = CONNECTIONS,
    on_bytes: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Have the newest release of a published corpus in a folder.

    `urls` are its addresses, asked in turn, or the store that a run wrote it into; `only` names
    folders of the corpus (`tokens`); `root` is the pinned root.json; `state` a folder that
    remembers which releases were seen (default: in the folder, so that it never goes back).
    `on_bytes` gets the bytes that are there, of all.

    Returns what the verb prints. Raises VerificationError, SourceError, MachineError, or
    RecipeError where the folder holds something else.
    """
    if root is None and (stored := stored_at(urls)) is not None:
        corpus = Corpus(Path(folder).absolute())
        lock = corpus.hold()
        try:
            return pull_stored(stored, corpus, list(only), on_bytes)
        finally:
            os.close(lock)
    corpus = Corpus(Path(folder).absolute())
    # Asked before the folder is made: an address that is wrong leaves nothing behind.
    reader = ReleaseReader(urls, root=root, state=state)
    try:
        release = reader.newest()
        lock = corpus.hold()
        try:
            with machine_errors(corpus.root, every=True):
                if state is None:
                    reader.remember_in(corpus.work / "seen")
                    release = reader.newest()
                return _Pull(reader, release, corpus, connections, on_bytes).into(list(only))
        finally:
            os.close(lock)
    finally:
        reader.close()


class _Pull:
    """One pull into a folder that is held."""

    def __init__(
        self,
        reader: ReleaseReader,
        found: CheckedRelease,
        corpus: Corpus,
        connections: int,
        on_bytes: Callable[[int, int], None],
    ) -> None:
        self._reader, self._found, self._corpus = reader, found, corpus
        self._connections, self._on_bytes = connections, on_bytes
        self._lock = threading.Lock()
        self._here = self._all = self._fetched = 0

    def into(self, only: list[str]) -> dict[str, Any]:
        """Bring what is asked for; see `pull`."""
        release, manifest = self._found.release, self._found.manifest
        check_places(manifest)
        parts = chosen(release, manifest, only)
        corpus = self._corpus
        corpus.recover()
        before = corpus.finished()
        whole = len(parts) == len(manifest.parts)
        same = before is not None and before[1] == self._found.data
        if before is not None and not same and not whole:
            raise RecipeError(
                f"{corpus.root}: holds another state of a corpus, and this is a part of one "
                "(--only, or published without --with all): choose another folder"
            )
        place = corpus.stage if whole and not same else corpus.root
        known = {part.path: part.sha256 for part in before[0].parts} if before else {}
        self.bring(
            (place / part.path, part.sha256, part.size)
            for part in parts
            if same or known.get(part.path) != part.sha256 or not corpus.is_whole(part)
        )
        if not same and whole:
            self._refuse_other_form(manifest)
            corpus.write_manifest(manifest)
        elif not same:
            write_bytes(corpus.root, manifests.SUMS, manifests.sums(manifest.parts))
            write_bytes(corpus.root, manifests.MANIFEST, self._found.data)
            write_bytes(corpus.root, manifests.LOCK, lock_for(release.manifest))
        files = 0
        if whole:
            files = run_state.restore(release, self._reader.read_object, self.bring, corpus.work)
            note_elsewhere(
                corpus.root, [url for shard in manifest.raw_shards for url in shard.urls()]
            )
        return {
            "folder": str(corpus.root),
            "release": release.number,
            "manifest": release.manifest,
            "signed": self._found.signed,
            "parts": len(parts),
            "of": len(manifest.parts),
            "bytes": self._fetched,
            "state": files,
        }

    def _refuse_other_form(self, manifest: Manifest) -> None:
        if manifests.encode(manifest) != self._found.data:
            raise VerificationError(
                "the manifest was written by another version of gristmill, which says more in it "
                "than this one knows: install that version"
            )

    def bring(self, files: Iterable[File]) -> None:
        """Have files in their places; those that are there and right stay."""
        wanted = list(files)
        self._all += sum(size for _, _, size in wanted)
        # Two files may have one content, and one place at a time is written.
        with ThreadPoolExecutor(self._connections) as threads:
            for _ in threads.map(self._one, wanted):
                pass

    def _one(self, file: File) -> None:
        path, sha256, size = file
        if damage(path, sha256, size) is not None:
            path.unlink(missing_ok=True)
            self._reader.download(sha256, size, path)
            with self._lock:
                self._fetched += size
        with self._lock:
            self._here += size
            self._on_bytes(self._here, self._all)


def chosen(release: Release, manifest: Manifest, only: list[str]) -> list[Part]:
    """Return the parts of a release that are asked for. Raises RecipeError for what it does not
    have.
    """
    there = [part for part in manifest.parts if release.has(part.path)]
    tops = sorted({part.path.partition("/")[0] for part in there})
    for name in only:
        if name not in tops:
            raise RecipeError(
                f"--only {name}: release {release.number} has none; it has {', '.join(tops)}"
            )
    return [part for part in there if not only or part.path.partition("/")[0] in only]
