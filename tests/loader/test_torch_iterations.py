"""A data set that is iterated again: every way to do it yields one list of batches."""

import itertools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import RecipeError
from gristmill.loader.loader import Loader
from tests.support.naive_order import numbered
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    from gristmill.loader.torch_dataset import TokenDataset
except ImportError:
    missing("torch", "torch is not installed (pip install 'gristmill[torch]')")

# As in test_torch_dataset.py.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]
# A step has three batches, and an epoch four steps.
SETTINGS: dict[str, Any] = {"sequence_length": 10, "batch_size": 6, "micro_batch_size": 2}
EPOCH = 12


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_corpus(
        tmp_path_factory.mktemp("iterations"),
        {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90)},
        tokens_per_shard=100,
    )


@pytest.fixture(scope="module")
def stream(root: Path) -> list[list[list[int]]]:
    """The one list: what a loader without torch yields."""
    with Loader(root, **SETTINGS) as loader:
        return [next(loader).inputs.tolist() for _ in range(60)]


def take(loader: Any, count: int | None) -> list[Any]:
    """The items of an iteration that is left after so many; None: that ends by itself."""
    items: list[Any] = []
    for item in loader:
        items.append(item)
        if len(items) == count:
            break
    return items


def numbers(items: list[Any], stream: list[list[list[int]]]) -> list[int]:
    """Places in the one list."""
    for item in items:
        assert item["inputs"].tolist() == stream[item["batch"]]
    return [item["batch"] for item in items]


def stateful(*words: Any, **kinds: Any) -> Any:
    try:
        from torchdata.stateful_dataloader import StatefulDataLoader
    except ImportError:
        missing("torchdata", "torchdata is not installed")
    return StatefulDataLoader(*words, **kinds)


def ways() -> list[Any]:
    """Workers, how they start, and whether they live on; most are for `make soak`."""
    quick = {(2, "fork", False), (3, "fork", True), (2, "spawn", True)}
    every = itertools.product((1, 2, 3), ("fork", "spawn"), (False, True))
    marks = [(way, [] if way in quick else [pytest.mark.soak]) for way in every]
    return [(0, None, False), *(pytest.param(*way, marks=mark) for way, mark in marks)]


@pytest.mark.parametrize("kind", [DataLoader, stateful])
@pytest.mark.parametrize(("workers", "context", "persistent"), ways())
def test_a_new_iteration_goes_on_where_the_state_is(
    root: Path,
    stream: list[list[list[int]]],
    kind: Callable[..., Any],
    workers: int,
    context: str | None,
    persistent: bool,
) -> None:
    dataset = TokenDataset(root, **SETTINGS, steps=EPOCH // 3)
    loader = kind(
        dataset,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=context,
        persistent_workers=persistent,
    )
    # After a break, in the middle of a step and at once; the rest of the epoch; two epochs.
    rounds = [numbers(take(loader, count), stream) for count in (4, 1, 3)]
    assert rounds == [[0, 1, 2, 3], [4], [5, 6, 7]]
    kept = dataset.state_dict()
    assert (kept["windows"], kept["batches"]) == (12, 2)
    assert numbers(take(loader, None), stream) == [8, 9, 10, 11]
    for epoch in (1, 2):
        items = take(loader, None)
        assert numbers(items, stream) == list(range(epoch * EPOCH, (epoch + 1) * EPOCH))
    # After load_state_dict, of a state within a step and of one after an item.
    dataset.load_state_dict(pickle.loads(pickle.dumps(kept)))
    assert numbers(take(loader, 2), stream) == [8, 9]
    dataset.load_state_dict(dataset.state_after(items[5]))
    assert numbers(take(loader, None), stream) == list(range(2 * EPOCH + 6, 3 * EPOCH))
    assert numbers(take(loader, 1), stream) == [3 * EPOCH]
    del loader
    # And another kind of loader over the same data set.
    assert numbers(take(DataLoader(dataset, batch_size=None), 2), stream) == [37, 38]
    assert numbers(take(dataset, 1), stream) == [39]
    dataset.close()


@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("stop", [5, EPOCH])
def test_a_state_of_torchdata_goes_on_into_later_epochs(
    root: Path, stream: list[list[list[int]]], workers: int, persistent: bool, stop: int
) -> None:
    """Saved in the middle of an epoch and at its end, in a second process' data set."""

    def loader() -> Any:
        return stateful(
            TokenDataset(root, **SETTINGS, steps=EPOCH // 3),
            batch_size=None,
            num_workers=workers,
            persistent_workers=persistent and workers > 0,
        )

    first = loader()
    assert numbers(take(first, None if stop == EPOCH else stop), stream) == list(range(stop))
    state = pickle.loads(pickle.dumps(first.state_dict()))
    second = loader()
    second.load_state_dict(state)
    got = numbers(take(second, None), stream)
    if stop < EPOCH:
        got += numbers(take(second, None), stream)
    assert got == list(range(stop, 2 * EPOCH))
    assert numbers(take(second, 2), stream) == [2 * EPOCH, 2 * EPOCH + 1]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_a_data_loader_collates(
    root: Path, stream: list[list[list[int]]], workers: int
) -> None:
    """With batch_size=2, and with a collate_fn that leaves nothing of an item but its tokens."""
    dataset = TokenDataset(root, **SETTINGS)
    loader = DataLoader(
        dataset,
        batch_size=2,
        num_workers=workers,
        collate_fn=lambda items: [item["inputs"].tolist() for item in items],
    )
    got = [batch for count in (3, 2, 4) for item in take(loader, count) for batch in item]
    assert got == stream[:18]
    dataset.close()


def test_items_that_nobody_looks_at_are_delivered(root: Path) -> None:
    """What counts is what the loader gave, and not what workers made ahead."""
    dataset = TokenDataset(root, **SETTINGS)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, prefetch_factor=4)
    items = iter(loader)
    for _ in range(5):
        next(items)
    assert dataset.state_dict()["windows"] == 6
    assert dataset.state_dict()["batches"] == 2
    later = iter(loader)
    with pytest.raises(RecipeError, match="this iteration is over"):
        next(items)
    del items
    assert next(later)["batch"] == 5


class Wrapped(IterableDataset):  # type: ignore[misc]
    """A data set of one's own round another."""

    def __init__(self, inner: TokenDataset) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[int]:
        return (item["batch"] for item in self.inner)


def test_what_cannot_be_known_is_said(root: Path, stream: list[list[list[int]]]) -> None:
    """Within another data set, deliveries are not seen: workers refuse to begin again."""
    dataset = TokenDataset(root, **SETTINGS)
    loader = DataLoader(Wrapped(dataset), batch_size=None, num_workers=2)
    assert take(loader, 3) == [0, 1, 2]
    with pytest.raises(RecipeError, match="read through another one"):
        take(loader, 3)
    items = take(TokenDataset(root, **SETTINGS), 3)
    dataset.load_state_dict(dataset.state_after(items[2]))
    assert take(loader, 3) == [3, 4, 5]
    # Without workers it is seen.
    loader = DataLoader(Wrapped(TokenDataset(root, **SETTINGS)), batch_size=None)
    assert [take(loader, 2), take(loader, 2)] == [[0, 1], [2, 3]]
    with pytest.raises(RecipeError, match="in_order = False"):
        iter(DataLoader(dataset, batch_size=None, num_workers=2, in_order=False))


def test_states_of_workers_are_for_workers(root: Path) -> None:
    dataset = TokenDataset(root, **SETTINGS)
    state = {**dataset.state_dict(), "workers": 2, "steps": None}
    with pytest.raises(RecipeError, match="that of one of 2 workers"):
        dataset.load_state_dict(state)


def test_lightning_and_accelerate_loops(root: Path, stream: list[list[list[int]]]) -> None:
    """Their loops, in short: Lightning's makes an iterator for each epoch and reads one item ahead
    of the step; accelerate's (HF Trainer) reads one ahead in a subclass's generator.
    """

    class Shard(DataLoader):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            items = super().__iter__()
            current = next(items)
            while True:
                try:
                    following = next(items)
                except StopIteration:
                    yield current
                    return
                yield current
                current = following

    for workers in (0, 2):
        dataset = TokenDataset(root, **SETTINGS, steps=EPOCH // 3)
        loader = Shard(dataset, batch_size=None, num_workers=workers)
        got = [number for _ in range(3) for number in numbers(take(loader, None), stream)]
        assert got == list(range(3 * EPOCH))
        dataset.close()


def test_ranks_of_torchrun_before_the_group_is_there(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def data_set(**variables: str) -> TokenDataset:
        for name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return TokenDataset(root, sequence_length=10, batch_size=6)

    ranked, alone = data_set(RANK="1", WORLD_SIZE="2"), data_set()
    assert take(ranked, 1)[0]["windows"].tolist() == [3, 4, 5]
    assert take(alone, 1)[0]["windows"].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RecipeError, match="the environment has WORLD_SIZE='4'; ranks need"):
        data_set(WORLD_SIZE="4")
    with pytest.raises(RecipeError, match="the environment has RANK='x'"):
        data_set(RANK="x", WORLD_SIZE="2")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        assert take(alone, 1)[0]["windows"].tolist() == [6, 7, 8, 9, 10, 11]
        said = "as rank 1 of 2, and this process is rank 0 of 1: make it afterwards"
        for loader in (ranked, DataLoader(ranked, batch_size=None, num_workers=1)):
            with pytest.raises(RecipeError, match=said):
                iter(loader)
    finally:
        torch.distributed.destroy_process_group()
    for one in (ranked, alone):
        one.close()
