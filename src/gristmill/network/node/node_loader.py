"""The batches of a node: a loader over the shards of one rotation after another.

    feed = node.batches(sequence_length=2048, batch_size=64)
    for batch in feed:              # without end: the shards rotate
        feed.report(train(batch))   # the loss: a plateau ends a rotation early
        save(feed.state_dict())

A rotation is a segment of the loader's plan over a corpus of its own: the view of its shards in the
cache. So what is read is a function of the plan, and the node's log has the plan (node_log.py).
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError, SourceError, VerificationError
from gristmill.loader.batch import Batch
from gristmill.loader.loader import Loader
from gristmill.loader.plan import LoaderPlan
from gristmill.loader.window_kinds import Packing
from gristmill.network.node.node_cache import CacheLimitError, View
from gristmill.network.node.node_log import (
    Closed,
    Loss,
    NodeLog,
    Reason,
    Resumed,
    Rotated,
    plan_of_log,
    view_manifest,
)
from gristmill.network.node.rotation import PlateauRule, exhausted_at
from gristmill.store import manifest as manifests

STATE_FORMAT = 1
SLOTS = 1024  # of the mix of a view: small, as every rotation makes a mix


class Held(NamedTuple):
    """The shards of a rotation, in the cache and in use."""

    view: View
    manifest: manifests.Manifest  # of the view
    rotation: int
    release: int
    release_manifest: str  # sha256
    shards: list[str]


class Holder(Protocol):
    """What the batches need of a node."""

    node_id: str

    @property
    def rotations(self) -> int:
        """Return how many rotations there are until every shard had its turn."""
        ...

    def hold(self, rotation: int, *, refresh: bool = True) -> Held:
        """Return the shards of a rotation."""
        ...

    def view(self, manifest: manifests.Manifest) -> View:
        """Return the shards that a manifest names."""
        ...

    def prefetch(self, rotation: int, *, refresh: bool = True) -> None:
        """Begin to fetch the shards of a rotation."""
        ...


class NodeLoader:
    """An iterator of the batches of one rank of a node. Use it in one thread."""

    def __init__(
        self,
        node: Holder,
        log: NodeLog | None,
        *,
        sequence_length: int | None = None,
        batch_size: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        micro_batch_size: int | None = None,
        seed: int = 0,
        weights: Mapping[str, float] | None = None,
        packing: Packing = "concat",
        plateau: PlateauRule | None = None,
        epochs: int = 1,
        state: Mapping[str, Any] | None = None,
        prefetch: int = 2,
    ) -> None:
        """Use `Node.batches`, which has the meaning of every parameter."""
        if isinstance(epochs, bool) or epochs < 1:
            raise RecipeError(f"epochs = {epochs!r}: it is a number of 1 or more")
        self._node, self._log = node, log
        self._asked: dict[str, Any] = {"packing": packing, "seed": seed}
        self._weights = None if weights is None else dict(weights)
        self._ranks: dict[str, Any] = {
            "rank": rank,
            "world_size": world_size,
            "micro_batch_size": micro_batch_size,
            "prefetch": prefetch,
        }
        self._refresh = world_size == 1  # ranks that saw different releases would read different
        self.plateau = None if plateau is None else plateau.check()
        self.epochs = epochs
        self.losses: list[float] = []  # since the rotation began, the last of them
        self._held: Held | None = None
        self._loader: Loader | None = None
        self._end = 0  # the window at which the rotation is exhausted
        self._between = True  # whether the next batch is the first of a step
        if state is not None:
            self._restore(state)
            return
        for name, value in (("sequence_length", sequence_length), ("batch_size", batch_size)):
            if value is None:
                raise RecipeError(f"{name} is missing: give it, or a state")
            self._asked[name] = value
        self._rotate("start", None, 0)

    # -- what a trainer uses

    def __iter__(self) -> "NodeLoader":
        return self

    def __next__(self) -> Batch:
        """Return the next batch. Raises SourceError if the next shards cannot be had, and may then
        be called again; VerificationError if a shard or a release is not what it must be.
        """
        if self._between:
            due = self._due()
            if due is not None:
                self._rotate(due, self.loader.plan, self.rotation + 1)
        before = self.loader.windows
        batch = next(self.loader)
        self._between = self.loader.windows != before
        return batch

    def report(self, loss: float) -> bool:
        """Report the loss of the last step, in nats a token, the same on all ranks; returns whether
        the node rotates before its next step. Raises RecipeError if it is no number.
        """
        if isinstance(loss, bool) or not isinstance(loss, int | float):
            raise RecipeError(f"loss = {loss!r}: report a number (of a tensor, its item())")
        self.losses.append(float(loss))
        if self.plateau is not None:
            del self.losses[: -self.plateau.window]
        if self._log is not None:
            value = float(loss) if math.isfinite(loss) else None
            self._log.write(Loss(window=self.loader.windows, loss=value))
        return self._due() is not None

    @property
    def loader(self) -> Loader:
        """Return the loader of the current rotation."""
        if self._loader is None:
            raise RecipeError("these batches are closed")
        return self._loader

    @property
    def held(self) -> Held:
        """Return the shards of the current rotation."""
        if self._held is None:
            raise RecipeError("these batches are closed, or between two rotations")
        return self._held

    @property
    def rotation(self) -> int:
        """Return the number of the current rotation."""
        return self._rotation

    @property
    def vocabulary(self) -> int:
        """Return what every token of the current rotation is below; it grows with the tokenizer."""
        return self.loader.corpus.format.vocabulary

    @property
    def tokenizer(self) -> Path:
        """Return the tokenizer of the current rotation, in the cache."""
        paths = [
            part.path for part in self.held.manifest.parts if part.path.startswith("tokenizer/")
        ]
        return self.held.view.root / paths[0]

    def state_dict(self) -> dict[str, Any]:
        """Return plain values from which `Node.batches(state=...)` goes on exactly, on any number
        of ranks: the loader's state, and which shards it reads.
        """
        return {
            "format": STATE_FORMAT,
            "node": self._node.node_id,
            "rotation": self._rotation,
            "release": self._release,
            "release_manifest": self._release_manifest,
            "view": manifests.encode(self._view).decode(),
            "losses": list(self.losses),
            "loader": self.loader.state_dict(),
        }

    def close(self) -> None:
        """End the threads, and let the cache remove the shards."""
        if self._log is not None:
            if self._loader is not None:
                self._log.write(Closed(window=self._loader.windows))
            self._log.close()
            self._log = None
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self._close_view()

    def __enter__(self) -> "NodeLoader":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- rotation

    def _due(self) -> Reason | None:
        """Return why the node rotates before the next step; None: it does not."""
        if self.loader.windows >= self._end:
            return "exhausted"
        begun = self.loader.plan.segments[-1].from_window
        if self.loader.windows > begun and self.plateau is not None:
            return "plateau" if self.plateau.reached(self.losses) else None
        return None

    def _rotate(self, reason: Reason, plan: LoaderPlan | None, rotation: int) -> None:
        """Go on to a rotation, or to the first behind it that has something to read."""
        window = 0 if plan is None else self.loader.windows
        for number in range(rotation, rotation + self._node.rotations):
            held = self._hold(number)
            corpus = TokenCorpus.open(held.view.root)
            length = self._asked.get("sequence_length") or self.loader.plan.segments[-1]
            length = length if isinstance(length, int) else length.sequence_length
            weights, left_out = _view_weights(corpus, length, self._weights)
            if weights:
                break
            held.view.close()
        else:
            raise RecipeError(
                f"node {self._node.node_id!r}: none of its shards can be read: no source that has "
                f"a weight has a window of {length:,} tokens. Use a shorter sequence length"
            )
        if plan is None:
            plan = LoaderPlan.start(corpus, weights=weights, **self._asked)
        else:
            plan = plan.changed(corpus, from_window=window, weights=weights)
        entry = Rotated(
            window=window,
            rotation=number,
            reason=reason,
            release=held.release,
            manifest=held.release_manifest,
            shards=held.shards,
            left_out=left_out,
            segment=plan.segments[-1],
        )
        if self._log is not None:
            self._log.rotated(entry, held.manifest, plan)
        self.losses = []
        self._begin(held, corpus, plan, window)

    def _begin(self, held: Held, corpus: TokenCorpus, plan: LoaderPlan, window: int) -> None:
        """Read from a window on; what was read before is closed."""
        loader = Loader(corpus, plan=plan, **self._ranks)
        loader.seek(window)
        if self._loader is not None:
            self._loader.close()
        self._close_view()
        self._loader, self._held, self._view = loader, held, held.manifest
        self._rotation, self._release = held.rotation, held.release
        self._release_manifest = held.release_manifest
        self._end = exhausted_at(plan.segments[-1], self.epochs)
        self._between = True
        self._node.prefetch(held.rotation + 1, refresh=self._refresh)

    def _hold(self, rotation: int) -> Held:
        """Return the shards of a rotation; where the cache has no room for them beside the current
        ones, these are closed first.
        """
        try:
            return self._node.hold(rotation, refresh=self._refresh)
        except CacheLimitError:
            if self._held is None:
                raise
            self._close_view()
            return self._node.hold(rotation, refresh=self._refresh)

    def _close_view(self) -> None:
        if self._held is not None:
            self._held.view.close()
            self._held = None

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken. Raises RecipeError, VerificationError, SourceError."""
        record = _read_state(state)
        if record.node != self._node.node_id:
            raise RecipeError(
                f"the state is that of node {record.node!r}, and this is {self._node.node_id!r}: "
                "each node goes on from its own"
            )
        plan = LoaderPlan.decode(str(record.loader.get("plan")).encode(), "state")
        data = record.view.encode()
        digest = plan.segments[-1].corpus
        manifests.check_lock(data, f"{digest}  {manifests.MANIFEST}\n".encode())
        manifest = manifests.decode(data)
        view = self._node.view(manifest)
        shards = [part.path for part in manifest.parts if part.path.endswith(".bin")]
        held = Held(
            view, manifest, record.rotation, record.release, record.release_manifest, shards
        )
        self._begin(held, TokenCorpus.open(view.root), plan, plan.segments[-1].from_window)
        self.loader.load_state_dict(record.loader)
        self.losses = record.losses
        if self._log is not None:
            self._log.write(Resumed(window=self.loader.windows, segments=len(plan.segments)))


class _NodeState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    node: str
    rotation: int
    release: int
    release_manifest: str
    view: str
    losses: list[float]
    loader: dict[str, Any]


def _read_state(state: Mapping[str, Any]) -> _NodeState:
    if not isinstance(state, Mapping) or state.get("format") != STATE_FORMAT:
        raise VerificationError("state: not the state of a node's batches")
    try:
        return msgspec.convert(dict(state), _NodeState)
    except msgspec.ValidationError as error:
        raise VerificationError(f"state: not the state of a node's batches: {error}") from error


def _view_weights(
    corpus: TokenCorpus, length: int, asked: Mapping[str, float] | None
) -> tuple[dict[str, float], dict[str, int]]:
    """Return (the weights of a view's sources, the tokens of those that are left out): by tokens,
    in a period of about SLOTS windows, or as asked.

    What has no whole window is left out, and by tokens also what would not have half a slot.
    """
    tokens = {name: corpus.stream(name).tokens for name in corpus.sources()}
    total = sum(tokens.values())
    weights: dict[str, float] = {}
    for name, count in tokens.items():
        slots = -(-count * SLOTS // total) if 2 * SLOTS * count >= total else 0
        value = slots if asked is None else asked.get(name, 0)
        weights[name] = value if count >= length else 0
    left_out = {
        name: tokens[name]
        for name, value in weights.items()
        if not value and (asked is None or asked.get(name))
    }
    return (weights if any(weights.values()) else {}), left_out


def replay(
    node: Holder, folder: Path, *, steps: int | None = None, **ranks: Any
) -> Iterator[Batch]:
    """Yield the batches that a node has seen, again, from its log: those before the last window
    that the log names, or before step `steps`.

    Shards that the cache no longer has are fetched again. Raises RecipeError, VerificationError,
    SourceError (shards of a release that was withdrawn are nowhere).
    """
    plan, until = plan_of_log(folder)
    last = plan.step_of(until) if steps is None else steps
    for number, segment in enumerate(plan.segments):
        first, end = plan.step_of(segment.from_window), plan.end_of(number)
        stop = last if end is None else min(last, plan.step_of(end))
        if first >= stop:
            return
        try:
            view = node.view(view_manifest(folder, segment.corpus))
        except SourceError as error:
            raise SourceError(
                f"rotation at window {segment.from_window:,}: its shards cannot be had: {error}",
                error.reason,
            ) from error
        # Without the segments behind it: the loader looks a few steps ahead.
        until_here = LoaderPlan(segments=plan.segments[: number + 1])
        with view, closing(Loader(view.root, plan=until_here, steps=stop, **ranks)) as loader:
            loader.seek(segment.from_window)
            yield from loader
