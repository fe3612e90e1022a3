"""A training node: the shards of a release that are assigned to it, verified, in a cache, and
their batches.

    node = Node("https://cdn.example/corpus", "node-17", cache_dir="cache")
    for batch in node.batches(sequence_length=2048, batch_size=64): ...

    release    the newest one, checked by its reader (release.py): digests, signatures where a root
               is pinned, no release older than one that was seen
    assigned   the shards of a rotation, by one of two rules (assignment.py)
    view       these shards in the cache, each verified (node_cache.py)
    batches    rotation after rotation (node_loader.py), the next one's shards fetched meanwhile
"""

import hashlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from gristmill.errors import RecipeError, SourceError, VerificationError
from gristmill.loader.batch import Batch
from gristmill.loader.window_kinds import Packing
from gristmill.network.node.assignment import SHARDS, check_holders, genesis, rendezvous, turn
from gristmill.network.node.fetch_ahead import FetchAhead
from gristmill.network.node.node_cache import NodeCache, View
from gristmill.network.node.node_loader import Held, NodeLoader
from gristmill.network.node.node_loader import replay as replayed
from gristmill.network.node.node_log import Began, NodeLog
from gristmill.network.node.rotation import PlateauRule
from gristmill.network.node.view_manifest import manifest_of_view, shard_paths, tokenizer_part
from gristmill.network.releases.release import PATIENCE, CheckedRelease, ReleaseReader
from gristmill.store.http.settings import Settings
from gristmill.store.manifest import Manifest
from gristmill.tokens.growth_record import record_version
from gristmill.user_input import local, one_or_more

Assignment = Literal["genesis", "rendezvous"]


def default_cache() -> Path:
    """Return the cache that nodes share if none is named."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill" / "nodes"


class Node:
    """One node of a training network. Use as a context, or `close` it."""

    @one_or_more("url", "nodes")
    def __init__(
        self,
        url: str | Sequence[str],
        node_id: str,
        *,
        cache_dir: Path | str | None = None,
        cache_bytes: int | None = None,
        root: Path | bytes | None = None,
        assignment: Assignment = "genesis",
        shards: int = SHARDS,
        nodes: Sequence[str] | None = None,
        holders: int = 3,
        settings: Settings = PATIENCE,
        on_event: Callable[[str], None] | None = None,
    ) -> None:
        """Fetch and check the newest release.

        `url`: where the target is; of several, the next one is asked where one fails. `cache_bytes`
        limits the cache (default: the disk). `root`: the pinned root of the release's signatures;
        without it, signatures are not asked for. `assignment`: "genesis", or "rendezvous" among
        `nodes`, the ids of all nodes, with `holders` nodes a shard. `shards`: how many a rotation
        has. `settings`: how patient downloads are. `on_event` is called with messages: a release
        that could not be fetched, a file that was damaged.

        Raises RecipeError, SourceError, VerificationError, MachineError.
        """
        if cache_bytes is not None and (isinstance(cache_bytes, bool) or cache_bytes < 1):
            raise RecipeError(f"cache_bytes = {cache_bytes!r}: it is a number of bytes")
        if assignment not in ("genesis", "rendezvous"):
            raise RecipeError(f"assignment = {assignment!r}: it is genesis or rendezvous")
        if assignment == "rendezvous" and not nodes:
            raise RecipeError("rendezvous hashing needs `nodes`: the ids of all nodes")
        check_holders(holders)
        genesis(node_id, 1, 0, shards)  # raises what is wrong with the id and the number
        self.node_id, self.assignment, self.shards = node_id, assignment, shards
        self.urls = list(url)
        self._nodes = None if nodes is None else list(nodes)
        self._holders = holders
        self._on_event = on_event or _ignore
        folder = default_cache() if cache_dir is None else local(cache_dir, "cache_dir")
        if folder.exists() and not folder.is_dir():
            raise RecipeError(f"cache_dir = {str(folder)!r}: a file: name a folder")
        self.log_folder = folder / "logs" / hashlib.sha256(node_id.encode()).hexdigest()[:16]
        self.cache = NodeCache(folder, cache_bytes, self._on_event)
        if not self.urls:
            raise RecipeError("no URL to read releases from: give one, or several")
        self.cache.own()
        self._reader = ReleaseReader(self.urls, root=root, state=folder / "seen", settings=settings)
        self._lock = threading.Lock()
        self._ahead: FetchAhead | None = None
        self._withdrawn: set[str] = set()  # files that must not be kept, by sha256
        self._checked = self._accept(self._reader.newest(), None)
        self._names = self._named()

    # -- the release

    @property
    def release(self) -> int:
        """Return the number of the release."""
        return self._checked.release.number

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of the release."""
        return self._checked.manifest

    def refresh(self) -> bool:
        """Ask for the newest release; returns whether it is another one.

        If no URL answers, the node stays with its release and says so. Raises VerificationError
        if the answer is older than what was seen, expired, or not what it must be.
        """
        with self._lock:
            try:
                candidate = self._reader.newest()
            except SourceError as error:
                self._on_event(f"stays with release {self.release}: {error}")
                return False
            if candidate.release.number == self.release:
                return False
            before, self._checked = self._checked, self._accept(candidate, self._checked)
            self._names = self._named()
            if candidate.release.minimum > before.release.number:
                kept = {part.sha256 for part in candidate.manifest.parts}
                self._withdrawn |= {part.sha256 for part in before.manifest.parts} - kept
            return True

    def _accept(self, found: CheckedRelease, before: CheckedRelease | None) -> CheckedRelease:
        """Return a release that this node can train on. Raises VerificationError if its tokenizer
        has not grown from that of the release before.
        """
        if found.manifest.tokens is None or not shard_paths(found.manifest):
            raise RecipeError(
                f"{self.urls[0]}: release {found.release.number} has no token shards for training"
            )
        if before is not None and before.manifest.tokens is not None:
            old, new = before.manifest.tokens, found.manifest.tokens
            if old.tokenizer != new.tokenizer:
                self._check_growth(found, old.tokenizer)
                self._on_event(
                    f"release {found.release.number}: the tokenizer has grown to "
                    f"{new.vocabulary:,} tokens"
                )
        return found

    def _check_growth(self, found: CheckedRelease, needs: str) -> None:
        """Raise VerificationError unless a release's tokenizer has grown from that with a
        sha256.
        """
        part = tokenizer_part(found.manifest)
        alone = manifest_of_view(found.manifest, found.release.manifest, [])
        with self.view(alone) as view:
            have = record_version((view.root / part.path).read_bytes())
        if have is None or needs not in have.previous:
            raise VerificationError(
                f"release {found.release.number} has another tokenizer (sha256 {part.sha256}), "
                f"which has not grown from that of release {self.release} (sha256 {needs}): a "
                "model that is trained here cannot read its tokens. Start a new node for it"
            )

    # -- assignment

    def assigned(self, rotation: int = 0) -> list[str]:
        """Return the paths of the shards of a rotation, in the corpus; none twice."""
        paths = shard_paths(self.manifest)
        if self.assignment == "genesis":
            own = genesis(self.node_id, len(paths), rotation, self.shards)
            return [paths[number] for number in dict.fromkeys(own)]
        return [paths[number] for number in turn(self._names, rotation, self.shards)]

    @property
    def rotations(self) -> int:
        """Return the rotations after which every shard that the node ever reads had its turn."""
        count = (
            len(shard_paths(self.manifest)) if self.assignment == "genesis" else len(self._names)
        )
        return max(1, math.ceil(count / self.shards))

    def _named(self) -> list[int]:
        """Return all shards that the node holds by rendezvous hashing. Raises RecipeError."""
        if self.assignment == "genesis":
            return []
        assert self._nodes is not None
        shards = rendezvous(self.node_id, shard_paths(self.manifest), self._nodes, self._holders)
        if not shards:
            raise RecipeError(
                f"node {self.node_id!r} holds no shard: there are {len(shard_paths(self.manifest))}"
                f" shards for {len(self._nodes):,} nodes. Raise `holders`"
            )
        return shards

    # -- shards

    def hold(self, rotation: int, *, refresh: bool = True) -> Held:
        """Return the shards of a rotation, in the cache, each verified; `refresh`: those of the
        newest release. They are in use until their view is closed.

        Raises CacheLimitError (a MachineError) if they do not fit beside what is in use,
        SourceError, VerificationError, MachineError.
        """
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            if (held := ahead.result(rotation)) is not None:
                return held
        return self._hold(rotation, refresh)

    def _hold(self, rotation: int, refresh: bool) -> Held:
        if refresh:
            self.refresh()
        with self._lock:
            checked, paths = self._checked, self.assigned(rotation)
            if self._withdrawn and not self.cache.discard(self._withdrawn):
                self._withdrawn = set()
        manifest = manifest_of_view(checked.manifest, checked.release.manifest, paths)
        return Held(
            self.view(manifest),
            manifest,
            rotation,
            checked.release.number,
            checked.release.manifest,
            paths,
        )

    def fetch(self, rotation: int = 0) -> dict[str, Any]:
        """Fetch and verify the shards of a rotation; returns what and where they are, as
        `gristmill node` prints it. `corpus` is a folder that `Loader` opens; the cache may remove
        it when it needs room, as nobody uses it after this call.

        Raises as `hold` does.
        """
        held = self.hold(rotation)
        with held.view as view:
            parts = held.manifest.parts
            return {
                "release": held.release,
                "manifest": held.release_manifest,
                "signed": self._checked.signed,
                "node": self.node_id,
                "rotation": rotation,
                "rotations": self.rotations,
                "shards": held.shards,
                "tokens": sum(part.counts["tokens"] for part in parts if part.path in held.shards),
                "bytes": sum(part.size for part in parts),
                "corpus": str(view.root),
            }

    def view(self, manifest: Manifest) -> View:
        """Return the shards that the manifest of a view names; those that the cache lacks are
        fetched.
        """
        return self.cache.view(manifest, self._fetch, self._reader.client.end)

    def prefetch(self, rotation: int, *, refresh: bool = True) -> None:
        """Fetch the next rotation's shards in a thread, for `hold`, which tries again."""
        if self._ahead is not None:
            self._ahead.cancel()
        self._ahead = FetchAhead(rotation, lambda: self._hold(rotation, refresh), self._on_event)

    def _fetch(self, sha256: str, size: int, to: Path) -> None:
        self._reader.download(sha256, size, to)

    # -- training

    def batches(
        self,
        *,
        sequence_length: int | None = None,
        batch_size: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        micro_batch_size: int | None = None,
        seed: int = 0,
        weights: Mapping[str, float] | None = None,
        packing: Packing = "concat",
        plateau: PlateauRule | None = PlateauRule(),  # noqa: B008 - a frozen value
        epochs: int = 1,
        state: Mapping[str, Any] | None = None,
        log: bool = True,
        prefetch: int = 2,
    ) -> NodeLoader:
        """Return the batches of this node, shards after shards, as `Loader` yields them.

        `plateau` is asked after every loss that is reported; None: only exhaustion rotates.
        `epochs`: how often the shards of a rotation are read before they are exhausted. `weights`
        of sources (default: by tokens). `state`: go on where `state_dict` was taken; what is given
        beside it but ranks, `plateau`, `epochs` and `weights` has no effect. `log`: write down what
        is read (rank 0 does).

        With several ranks, all must see the same release: it is not refreshed then.
        Raises RecipeError, SourceError, VerificationError, MachineError.
        """
        written = NodeLog(self.log_folder) if log and rank == 0 else None
        try:
            if written is not None:
                began = Began(
                    node=self.node_id,
                    url=self.urls[0].partition("?")[0],
                    assignment=self.assignment,
                    shards=self.shards,
                )
                written.write(began)
            return NodeLoader(
                self,
                written,
                sequence_length=sequence_length,
                batch_size=batch_size,
                rank=rank,
                world_size=world_size,
                micro_batch_size=micro_batch_size,
                seed=seed,
                weights=weights,
                packing=packing,
                plateau=plateau,
                epochs=epochs,
                state=state,
                prefetch=prefetch,
            )
        except BaseException:
            if written is not None:
                written.close()
            raise

    def replay(
        self, folder: Path | str | None = None, *, steps: int | None = None, **ranks: Any
    ) -> Iterator[Batch]:
        """Return the batches that a log names, again (default: this node's own log); before step
        `steps`, or all. `ranks`: rank, world_size and micro_batch_size.

        Raises RecipeError, SourceError, VerificationError.
        """
        return replayed(self, Path(folder or self.log_folder), steps=steps, **ranks)

    def close(self) -> None:
        """End what is under way; downloads are resumed by the next node."""
        self._reader.client.end()
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None
        self._reader.close()

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _ignore(message: str) -> None:
    pass
