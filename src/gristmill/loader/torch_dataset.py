"""The layer for torch: data sets for its DataLoader, and batches on a device.

    dataset = TokenDataset("corpus", sequence_length=2048, batch_size=512)
    for item in on_device(DataLoader(dataset, batch_size=None, num_workers=2), "cuda"):
        train(item["inputs"], item["targets"])
        state = dataset.state_after(item)

Tokens are uint16 or uint32, as in the shards, until they are on the device. Ranks come from
torch.distributed where it is initialised, or from torchrun's environment.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ImportError as error:
    raise ImportError("torch is not installed: pip install 'gristmill[torch]'") from error

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.loader.batch import Batch, Segments
from gristmill.loader.batch_maker import BatchMaker, Ranks, Turns
from gristmill.loader.loader import Loader
from gristmill.loader.parameters import MOST_WINDOWS, whole_number
from gristmill.loader.plan import LoaderPlan
from gristmill.loader.torch_iterations import Sharing, check_current, count_all_deliveries

Item = dict[str, Any]
KEPT_AHEAD = 2  # batches on their way to a device

count_all_deliveries()


class TokenDataset(IterableDataset):  # type: ignore[misc]
    """The batches of this rank, in order and without end: an iterable for
    `DataLoader(dataset, batch_size=None, num_workers=...)`.

    It has a state, which is its place in the stream, and keeps torch's contract for that: a new
    `iter` goes on behind the last batch that was delivered, after a break as after an end. What
    workers have made and nobody got is made again. So any number of workers, forked or spawned,
    persistent or not, yields the same batches in the same order, over any number of epochs; to
    begin again, load the state of a new data set. With `steps`, an epoch ends before every
    `steps`th step of the run.

    It has the protocol of torchdata's StatefulDataLoader and of torch.distributed.checkpoint
    (`Stateful`).
    """

    def __init__(
        self,
        corpus: TokenCorpus | Path | str,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        **settings: Any,
    ) -> None:
        """`settings` as of `Loader`, but that `steps` is the length of an epoch.

        Without `rank` and `world_size`, they are those of torch.distributed where it is
        initialised, else those of torchrun's environment (RANK, WORLD_SIZE), else 0 of 1. Raises
        as `Loader` does.
        """
        super().__init__()
        self._ranks_given = rank is not None and world_size is not None
        ranks = (0, 1) if self._ranks_given else _ranks()
        self._loader = Loader(
            corpus,
            rank=ranks[0] if rank is None else rank,
            world_size=ranks[1] if world_size is None else world_size,
            **settings,
        )
        self._steps, self._loader.steps = self._loader.steps, None
        self._sharing = Sharing()
        self.iteration = 0
        self._worker_state: tuple[int, int | None] | None = None  # that was loaded in a worker
        self._next = 0  # the batch of this rank that comes next, counted from the run's beginning
        self._go_to(self._loader.batch)
        if settings.get("state") is not None:
            self.load_state_dict(settings["state"])

    @property
    def plan(self) -> LoaderPlan:
        """Return the plan; save it, and `gristmill seen` answers from it."""
        return self._loader.plan

    def __iter__(self) -> Iterator[Item]:
        """Raise RecipeError in a process of another rank, and where it is not known which batches
        of the iteration before were delivered.
        """
        worker = get_worker_info()
        if worker is None:
            self.begin(0, 1)
            turns = Turns(self._next, self._next, 1)
            self._loader.steps = self._end_of_epoch(self._next)
        elif self._worker_state is not None:
            first, self._loader.steps = self._worker_state
            turns = Turns(first, first, worker.num_workers, self._sharing.group)
            self._worker_state = None
        else:
            start, group = self._sharing.start_of(worker.id, worker.num_workers)
            first = start + worker.id * group
            turns = Turns(first, first, worker.num_workers, group)
            self._loader.steps = self._end_of_epoch(start)
        self._next = turns.at
        self._loader.take_turns(turns)
        return self._items(turns, self.iteration)

    def _items(self, turns: Turns, iteration: int) -> Iterator[Item]:
        given = 0
        while True:
            check_current(self, iteration)
            batch = next(self._loader, None)
            if batch is None:
                return
            number, given = turns.batch(given), given + 1
            self._next = turns.batch(given)
            yield _item(batch, self._loader.windows, number)

    def _end_of_epoch(self, batch: int) -> int | None:
        """Return the step before which the epoch ends that has a batch of this rank."""
        if self._steps is None:
            return None
        step = self.plan.step_of(self._loader.place_of(batch)[0])
        return (step // self._steps + 1) * self._steps

    def _go_to(self, batch: int) -> None:
        """The next iteration begins at a batch of this rank, and this one is over."""
        self._next = batch
        self.iteration += 1
        self._sharing.go_to(batch)

    def begin(self, workers: int, group: int) -> None:
        """For a DataLoader of this process: an iteration begins, with this number of workers."""
        self._check_ranks()
        self.iteration += 1
        if workers:
            self._sharing.begin(self._next, workers, group)

    def resumed(self) -> None:
        """For a DataLoader: its workers are there, and may have loaded states of their own."""
        batch = self._sharing.resumed()
        self._next = self._next if batch is None else batch

    def delivered(self, last: int | None, count: int) -> None:
        """For a DataLoader: batch `last` of this rank was delivered; None: `count` more were."""
        if get_worker_info() is None:
            self._next = self._next + count if last is None else last + 1

    def give_back(self, item: Item, iteration: int | None) -> None:
        """An item, and those behind it, were delivered and then not used by the training loop."""
        if self.iteration == iteration:
            self._next = item["batch"]

    def _check_ranks(self) -> None:
        """Raise RecipeError if this process has become another rank since it was made."""
        if self._ranks_given or not torch.distributed.is_available():
            return
        if torch.distributed.is_initialized():
            now, ours = _ranks(), self._loader.ranks[:2]
            if now != ours:
                raise RecipeError(
                    f"the data set was made before init_process_group, as rank {ours[0]} of "
                    f"{ours[1]}, and this process is rank {now[0]} of {now[1]}: make it "
                    "afterwards, or give it rank and world_size"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return where the iteration is, for the next one to go on behind the last batch that was
        delivered: of this rank, within a step if need be. In a worker it is that worker's place,
        for as many workers. For a state that any job resumes from, use `state_after`.
        """
        windows, batches = self._loader.place_of(self._next)
        state = {**self._loader.state_dict(), "windows": windows, "batches": batches}
        worker = get_worker_info()
        if worker is not None:
            state |= {"workers": worker.num_workers, "steps": self._loader.steps}
        return state

    def state_after(self, item: Item) -> dict[str, Any]:
        """Return the state when the batch has been trained on, of whole steps, whichever worker
        made it: for any number of ranks and workers.
        """
        return {**self._loader.state_dict(), "windows": item["consumed"], "batches": 0}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on there with the next iteration. Raises as `Loader.load_state_dict`."""
        given = state.get("batches", 0) if isinstance(state, Mapping) else 0
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MOST_WINDOWS:
            raise VerificationError(f"state: batches = {given!r} is not a number of batches")
        self._loader.load_state_dict(state)
        batch, worker = self._loader.batch + given, get_worker_info()
        workers, steps = state.get("workers"), state.get("steps")
        if workers is None and (worker is None or not given):
            self._go_to(batch)
            if worker is None:
                return
            batch, steps = batch + worker.id * self._sharing.group, self._end_of_epoch(batch)
        elif worker is None or workers != worker.num_workers:
            raise RecipeError(
                f"the state is that of one of {workers or 'several'} workers, or of an earlier "
                f"gristmill; here are {worker.num_workers if worker else 'none'}. Go on with as "
                "many by StatefulDataLoader, or from a `state_after`"
            )
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int)):
            raise VerificationError(f"state: steps = {steps!r} is not a step")
        self._next, self._worker_state = batch, (batch, steps if self._steps else None)
        self._sharing.resume(worker.id, batch)

    def close(self) -> None:
        """End the thread of this process."""
        self._loader.close()


class TokenWindows(Dataset):  # type: ignore[misc]
    """The windows of a plan's stream by number, for samplers of one's choice: item g is a row of
    `inputs` (L,) and `targets` (L,).

    The stream is shuffled already: read it in order.
    """

    def __init__(
        self, corpus: TokenCorpus | Path | str, plan: LoaderPlan, windows: int | None = None
    ) -> None:
        """`windows`: its length (default: one epoch of every source that is read)."""
        loader = Loader(corpus, plan=plan, prefetch=0)
        sources = plan.segments[-1].sources
        total = sum(source.windows for source in sources if source.slots)
        self._root, self._plan = loader.corpus.root, plan
        self._windows = total if windows is None else whole_number("windows", windows, 0)
        self._maker: BatchMaker | None = None

    def __len__(self) -> int:
        return self._windows

    def __getitem__(self, window: int) -> Item:
        return self.__getitems__([window])[0]

    def __getitems__(self, windows: Sequence[int]) -> list[Item]:
        """Return rows of one array: they are copied once."""
        if not 0 <= min(windows) <= max(windows) < self._windows:
            raise IndexError(f"window {max(windows)} of {self._windows}")
        if self._maker is None:
            self._maker = BatchMaker(TokenCorpus.open(self._root), self._plan, Ranks(0, 1))
        tokens = torch.from_numpy(self._maker.rows(np.array(windows, np.int64)).tokens)
        return [{"inputs": row[:-1], "targets": row[1:]} for row in tokens]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maker": None}


def _ranks() -> tuple[int, int]:
    """Return the rank of this process, and how many there are. Raises RecipeError if the
    environment says one of them alone, or no number.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    said = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE") if name in os.environ}
    if not said:
        return 0, 1
    if len(said) == 1 or not all(re.fullmatch("[0-9]{1,9}", value) for value in said.values()):
        raise RecipeError(
            f"the environment has {', '.join(f'{k}={v!r}' for k, v in said.items())}; ranks need "
            "RANK and WORLD_SIZE, whole numbers. Make the data set after init_process_group, or "
            "give it rank and world_size"
        )
    return int(said["RANK"]), int(said["WORLD_SIZE"])


def _item(batch: Batch, consumed: int, number: int) -> Item:
    """Return a batch as tensors; nothing is copied."""
    tokens = torch.from_numpy(batch.tokens)
    return {
        "inputs": tokens[:, :-1],
        "targets": tokens[:, 1:],
        "sources": torch.from_numpy(batch.sources),
        "windows": torch.from_numpy(batch.windows),
        "padding": torch.from_numpy(batch.padding),
        "segments": {
            name: torch.from_numpy(np.ascontiguousarray(field))
            for name, field in batch.segments._asdict().items()
        },
        "consumed": consumed,
        "batch": number,
    }


def batch_of(item: Item) -> Batch:
    """Return the numpy batch of an item that is on the CPU, for `loader.masks`."""
    inputs = item["inputs"]
    rows, length = inputs.shape
    tokens = torch.as_strided(inputs, (rows, length + 1), (length + 1, 1)).numpy()
    segments = Segments(**{name: field.numpy() for name, field in item["segments"].items()})
    rest = (item[name].numpy() for name in ("sources", "windows", "padding"))
    return Batch(tokens, segments, *rest)


def on_device(items: Iterable[Item], device: "torch.device | str") -> Iterator[Item]:
    """Items with `inputs` and `targets` as int64 on a device; the rest stays where it is.

    For a GPU, tokens are copied as uint16 or uint32 from pinned memory, a few batches ahead on a
    stream of their own, and widened there.
    """
    device = torch.device(device)
    if device.type != "cuda":
        for item in items:
            yield {**item, **_widened(_whole(item).to(device))}
        return
    stream = torch.cuda.Stream(device)
    waiting: list[tuple[Item, Any]] = []

    def first() -> Item:
        item, event = waiting.pop(0)
        current = torch.cuda.current_stream(device)
        current.wait_event(event)
        item["inputs"].record_stream(current)
        item["targets"].record_stream(current)
        return item

    owner = getattr(items, "dataset", items)
    try:
        for item in items:
            with torch.cuda.stream(stream):
                tokens = _whole(item).pin_memory().to(device, non_blocking=True)
                waiting.append(({**item, **_widened(tokens)}, stream.record_event()))
            iteration = getattr(owner, "iteration", None)
            if len(waiting) > KEPT_AHEAD:
                yield first()
        while waiting:
            yield first()
    finally:
        if waiting and isinstance(owner, TokenDataset):
            owner.give_back(waiting[0][0], iteration)


def _whole(item: Item) -> Any:
    """Inputs and targets as the one array that both are views of."""
    rows, length = item["inputs"].shape
    return torch.as_strided(item["inputs"], (rows, length + 1), (length + 1, 1))


def _widened(tokens: Any) -> Item:
    wide = tokens.to(torch.int64)
    return {"inputs": wide[:, :-1], "targets": wide[:, 1:]}
