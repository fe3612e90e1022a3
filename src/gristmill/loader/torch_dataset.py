"""The layer for torch: data sets for its DataLoader, and batches on a device.

    dataset = TokenDataset("corpus", sequence_length=2048, batch_size=512)
    for item in on_device(DataLoader(dataset, batch_size=None, num_workers=2), "cuda"):
        train(item["inputs"], item["targets"])
        state = dataset.state_after(item)

Tokens are uint16 or uint32, as in the shards, until they are on the device. Ranks come from
torch.distributed where it is initialised. The only module that imports torch.
"""

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
from gristmill.errors import VerificationError
from gristmill.loader.batch import Batch, Segments
from gristmill.loader.batch_maker import BatchMaker, Ranks
from gristmill.loader.loader import Loader
from gristmill.loader.parameters import MOST_WINDOWS, whole_number
from gristmill.loader.plan import LoaderPlan

Item = dict[str, Any]
KEPT_AHEAD = 2  # batches on their way to a device


class TokenDataset(IterableDataset):  # type: ignore[misc]
    """The batches of this rank, in order and without end: an iterable for
    `DataLoader(dataset, batch_size=None, num_workers=...)`.

    Any number of workers yields the same batches in the same order. It has the protocol of
    torchdata's StatefulDataLoader and of torch.distributed.checkpoint (`Stateful`).
    """

    def __init__(
        self,
        corpus: TokenCorpus | Path | str,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        **settings: Any,
    ) -> None:
        """`settings` as of `Loader`. Raises as it does."""
        super().__init__()
        found = _ranks()
        self._loader = Loader(
            corpus,
            rank=found[0] if rank is None else rank,
            world_size=found[1] if world_size is None else world_size,
            **settings,
        )
        self._given = 0  # batches that this process has yielded since `_loader.windows` was set
        self._origin = self._loader.windows

    @property
    def plan(self) -> LoaderPlan:
        """The plan; save it, and `gristmill seen` answers from it."""
        return self._loader.plan

    def __iter__(self) -> Iterator[Item]:
        worker = get_worker_info()
        self._loader.seek(self._origin)
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        self._loader.share(number, workers, self._given)
        for batch in self._loader:
            self._given += 1
            yield _item(batch, self._loader.windows)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is. In a worker it is that worker's place, for as many workers; for
        a state that any job resumes from, use `state_after`.
        """
        return {**self._loader.state_dict(), "windows": self._origin, "batches": self._given}

    def state_after(self, item: Item) -> dict[str, Any]:
        """The state when the batch has been trained on, of whole steps, whichever worker made it:
        for any number of ranks and workers.
        """
        return {**self._loader.state_dict(), "windows": item["consumed"], "batches": 0}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on there with the next iteration. Raises as `Loader.load_state_dict`."""
        given = state.get("batches", 0) if isinstance(state, Mapping) else 0
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MOST_WINDOWS:
            raise VerificationError(f"state: batches = {given!r} is not a number of batches")
        self._loader.load_state_dict(state)
        self._origin, self._given = self._loader.windows, given

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
        """Rows of one array: they are copied once."""
        if not 0 <= min(windows) <= max(windows) < self._windows:
            raise IndexError(f"window {max(windows)} of {self._windows}")
        if self._maker is None:
            self._maker = BatchMaker(TokenCorpus.open(self._root), self._plan, Ranks(0, 1))
        tokens = torch.from_numpy(self._maker.rows(np.array(windows, np.int64)).tokens)
        return [{"inputs": row[:-1], "targets": row[1:]} for row in tokens]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maker": None}


def _ranks() -> tuple[int, int]:
    """The rank of this process, and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _item(batch: Batch, consumed: int) -> Item:
    """A batch as tensors; nothing is copied."""
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
    }


def batch_of(item: Item) -> Batch:
    """The numpy batch of an item that is on the CPU, for `loader.masks`."""
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

    for item in items:
        with torch.cuda.stream(stream):
            tokens = _whole(item).pin_memory().to(device, non_blocking=True)
            waiting.append(({**item, **_widened(tokens)}, stream.record_event()))
        if len(waiting) > KEPT_AHEAD:
            yield first()
    while waiting:
        yield first()


def _whole(item: Item) -> Any:
    """Inputs and targets as the one array that both are views of."""
    rows, length = item["inputs"].shape
    return torch.as_strided(item["inputs"], (rows, length + 1), (length + 1, 1))


def _widened(tokens: Any) -> Item:
    wide = tokens.to(torch.int64)
    return {"inputs": wide[:, :-1], "targets": wide[:, 1:]}
