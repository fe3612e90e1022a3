"""Which batches a DataLoader has delivered, known in the process that asked for them.

Workers run ahead: what they have made is not what the training loop has got, and at the end of an
iteration they are ended, or begin again, with what nobody got. torch tells a data set nothing of
either. So iterators of DataLoaders over a TokenDataset count what they hand out (`count_deliveries`
wraps the public `DataLoader.__iter__`; loaders of other data sets are not affected), and workers
read from shared memory where an iteration begins (`Sharing`). docs/adr/0048 has the alternatives.
"""

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from gristmill.errors import RecipeError

MOST_WORKERS = 1024
_START, _GROUP, _TABLES = 0, 1, 2  # numbers in shared memory, then tables by worker
UNKNOWN = (
    "this data set is read through another one, or by a loader that is no DataLoader, and was "
    "begun before: which of its batches arrived is not known. Say where to go on, by "
    "dataset.load_state_dict(dataset.state_after(item)), or give it to a DataLoader itself"
)


class Sharing:
    """What the process of the training loop and its workers tell each other, in shared memory.

    Batches are those of a rank, counted from the beginning of the run.
    """

    def __init__(self) -> None:
        """Make the memory: 24 KB."""
        self.numbers = torch.zeros(_TABLES + 3 * MOST_WORKERS, dtype=torch.int64).share_memory_()

    def __getstate__(self) -> Any:
        return self.numbers

    def __setstate__(self, numbers: Any) -> None:
        # A worker that is spawned gets the memory itself; any other copy begins one of its own.
        self.numbers = numbers.share_memory_()

    def begin(self, start: int, workers: int, group: int) -> None:
        """Workers begin at a batch, with turns of `group` batches."""
        if workers > MOST_WORKERS:
            raise RecipeError(f"num_workers = {workers:,}: at most {MOST_WORKERS:,}")
        self.numbers[_START], self.numbers[_GROUP] = start, group
        self._expected()[:workers] = 1
        self._begun()[:] = 1
        self._resumed()[:] = 0

    def go_to(self, start: int) -> None:
        """Workers of which nobody counts the batches may begin once more, at a batch."""
        self.numbers[_START] = start
        self._begun()[:] = 0

    def start_of(self, worker: int, workers: int) -> tuple[int, int]:
        """In a worker: the batch at which all of them begin, and the batches of a turn. Raises
        RecipeError where that is not known.
        """
        if self._expected()[worker]:
            self._expected()[worker] = 0
        elif self._begun()[worker] and self.resumed(workers) is None:
            raise RecipeError(UNKNOWN)
        self._begun()[worker] = 1
        resumed = self.resumed(workers)
        return int(self.numbers[_START]) if resumed is None else resumed, self.group

    @property
    def group(self) -> int:
        """Return batches of a turn."""
        return max(int(self.numbers[_GROUP]), 1)

    def resume(self, worker: int, batch: int) -> None:
        """In a worker: a state was loaded there, which says which batch it makes next."""
        self._resumed()[worker] = batch + 1

    def resumed(self, workers: int | None = None) -> int | None:
        """Return the batch that comes next where all workers have loaded their states; else
        None.
        """
        loaded = self._resumed()
        loaded = loaded[loaded > 0] if workers is None else loaded[:workers]
        return int(loaded.min()) - 1 if len(loaded) and bool((loaded > 0).all()) else None

    def _expected(self) -> Any:
        """By worker: an iteration began that is counted, and it has not begun its part."""
        return self.numbers[_TABLES:][:MOST_WORKERS]

    def _begun(self) -> Any:
        """By worker: it may not begin without being expected."""
        return self.numbers[_TABLES + MOST_WORKERS :][:MOST_WORKERS]

    def _resumed(self) -> Any:
        """By worker: 1 and the batch that it makes next, as a loaded state says; 0: none is."""
        return self.numbers[_TABLES + 2 * MOST_WORKERS :]


class CountedDataset(Protocol):
    """A data set whose deliveries are counted."""

    iteration: int  # how many iterations were begun, or made invalid, in this process

    def begin(self, workers: int, group: int) -> None:
        """An iteration begins, at the batch that comes next."""

    def resumed(self) -> None:
        """An iteration has begun, by workers that may have loaded states."""

    def delivered(self, last: int | None, count: int) -> None:
        """Of this rank's batches, `last` was delivered, or `count` more if that is None."""


class Deliveries:
    """The iterator of a DataLoader, counting. What it does not have itself is asked of that one."""

    def __init__(self, iterator: Any, dataset: CountedDataset, group: int) -> None:
        """`group`: the batches of one item; 0: the data set counts them itself."""
        self._iterator, self.dataset, self._group = iterator, dataset, group
        self._iteration = dataset.iteration

    def __iter__(self) -> "Deliveries":
        return self

    def __next__(self) -> Any:
        """Raise RecipeError if a later iteration has begun."""
        check_current(self.dataset, self._iteration)
        item = next(self._iterator)
        if self._group:
            self.dataset.delivered(_last_batch(item), self._group)
        return item

    def __len__(self) -> int:
        return len(self._iterator)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_iterator":
            raise AttributeError(name)
        return getattr(self._iterator, name)


def check_current(dataset: CountedDataset, iteration: int) -> None:
    """Raise RecipeError if an iteration is not the last one."""
    if dataset.iteration != iteration:
        raise RecipeError(
            "this iteration is over: a later one of the same data set began, or a state was "
            "loaded. Make a new iterator, or a data set for each"
        )


def _last_batch(item: Any) -> int | None:
    """Return the number of the last batch in what a DataLoader gives; None if a collate_fn left it
    out.
    """
    if not isinstance(item, Mapping) or "batch" not in item:
        return None
    return int(torch.as_tensor(item["batch"]).max())


def _iterate(loader: Any, iterate: Any) -> Iterator[Any]:
    dataset = loader.dataset
    if not hasattr(dataset, "delivered") or not hasattr(dataset, "begin"):
        return iterate(loader)  # type: ignore[no-any-return]
    if loader.num_workers > 1 and not getattr(loader, "in_order", True):
        raise RecipeError(
            "in_order = False: the order of batches would depend on how fast workers are. Leave "
            "it out"
        )
    group = loader.batch_size or 1
    if loader.num_workers:  # else the data set's own iterator begins it, in this process
        dataset.begin(loader.num_workers, group)
    iterator = iterate(loader)
    dataset.resumed()
    return Deliveries(iterator, dataset, group if loader.num_workers else 0)


def count_deliveries(kind: Any) -> None:
    """From now on, a DataLoader of this class counts what it delivers of a TokenDataset."""
    iterate = kind.__iter__

    @functools.wraps(iterate)
    def counted(loader: Any) -> Iterator[Any]:
        return _iterate(loader, iterate)

    kind.__iter__ = counted


def count_all_deliveries() -> None:
    """The DataLoaders of torch and torchdata count from now on."""
    count_deliveries(DataLoader)
    try:
        stateful = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
    except (ImportError, AttributeError):
        return
    if "__iter__" in vars(stateful):  # else it has torch's
        count_deliveries(stateful)
