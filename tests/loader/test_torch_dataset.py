"""The layer for torch: workers, StatefulDataLoader, checkpoints, devices, ranks."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import TokenCorpus
from gristmill.loader.bench_loader import step_ratio
from gristmill.loader.loader import Loader
from gristmill.loader.plan import LoaderPlan
from tests.support.naive_order import numbered
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

try:
    import torch
    from torch.utils.data import DataLoader

    from gristmill.loader.torch_dataset import TokenDataset, TokenWindows, batch_of, on_device
except ImportError:
    missing("torch", "torch is not installed (pip install 'gristmill[torch]')")

# Three workers on two cores; what torchdata and torch say of themselves; and forks of a process
# whose threads only wait.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]
SETTINGS: dict[str, Any] = {"sequence_length": 10, "batch_size": 6, "micro_batch_size": 2}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return token_corpus(
        tmp_path_factory.mktemp("torch"),
        {"web": numbered(1, 60, 30), "books": numbered(2, 9, 90)},
        tokens_per_shard=100,
    )


def expected(root: Path, count: int, **settings: object) -> list[list[list[int]]]:
    with Loader(root, **{**SETTINGS, **settings}) as loader:  # type: ignore[arg-type]
        return [batch.inputs.tolist() for batch in itertools.islice(loader, count)]


def taken(items: Any, count: int) -> list[Any]:
    found = list(itertools.islice(items, count))
    assert len(found) == count
    return found


def inputs(items: list[Any]) -> list[list[list[int]]]:
    return [item["inputs"].tolist() for item in items]


@pytest.mark.parametrize(
    ("workers", "context"),
    [
        *((0, None), (3, "fork"), (1, "spawn")),
        *(pytest.param(*how, marks=pytest.mark.soak) for how in ((1, "fork"), (2, "spawn"))),
    ],
)
def test_any_number_of_workers_yields_the_same(
    root: Path, workers: int, context: str | None
) -> None:
    dataset = TokenDataset(root, **SETTINGS, steps=8)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=workers, multiprocessing_context=context
    )
    items = list(loader)
    assert inputs(items) == expected(root, 24)
    assert [item["consumed"] for item in items[:4]] == [0, 0, 6, 6]
    assert items[0]["inputs"].dtype == torch.uint16
    assert items[0]["inputs"].data_ptr() + 2 == items[0]["targets"].data_ptr()
    # What was trained on decides the state, whoever made it, and however far workers are ahead.
    state = dataset.state_after(items[11])
    with Loader(root, **SETTINGS, state=state) as other:
        assert next(other).inputs.tolist() == items[12]["inputs"].tolist()
    dataset.load_state_dict(state)
    assert inputs(list(DataLoader(dataset, batch_size=None))) == inputs(items[12:])
    dataset.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 7, 12])
def test_stateful_data_loader(root: Path, workers: int, stop: int) -> None:
    try:
        from torchdata.stateful_dataloader import StatefulDataLoader
    except ImportError:
        missing("torchdata", "torchdata is not installed")
    whole = expected(root, 20)

    def loader() -> Any:
        return StatefulDataLoader(
            TokenDataset(root, **SETTINGS), batch_size=None, num_workers=workers
        )

    first = loader()
    assert inputs(taken(iter(first), stop)) == whole[:stop]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    second = loader()
    second.load_state_dict(state)
    assert inputs(taken(iter(second), 20 - stop)) == whole[stop:]


def test_a_checkpoint_of_torch_distributed(root: Path, tmp_path: Path) -> None:
    from torch.distributed import checkpoint

    dataset = TokenDataset(root, **SETTINGS)
    items = taken(dataset, 6)
    state = {"data": dataset.state_after(items[-1])}
    checkpoint.save(state, checkpoint_id=tmp_path / "one", no_dist=True)
    read = {"data": TokenDataset(root, **SETTINGS).state_dict()}
    checkpoint.load(read, checkpoint_id=tmp_path / "one", no_dist=True)
    assert read == state
    again = TokenDataset(root, **SETTINGS)
    again.load_state_dict(read["data"])
    assert inputs(taken(again, 3)) == inputs(taken(dataset, 3))
    for one in (dataset, again):
        one.close()


def test_ranks_of_torch_distributed(root: Path, tmp_path: Path) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        dataset = TokenDataset(root, **SETTINGS)
        assert dataset._loader.ranks[:2] == (0, 1)
    finally:
        torch.distributed.destroy_process_group()
    one = TokenDataset(root, sequence_length=10, batch_size=6, rank=1, world_size=2)
    whole = expected(root, 1, micro_batch_size=6)[0]
    assert inputs(taken(one, 1))[0] == whole[3:]
    one.close()


def test_windows_by_number(root: Path) -> None:
    plan = LoaderPlan.start(root, sequence_length=10, batch_size=6)
    windows = TokenWindows(root, plan)
    assert len(windows) == sum(source.windows for source in plan.segments[0].sources)
    whole = [row for batch in expected(root, len(windows) // 2) for row in batch]
    loader = DataLoader(windows, batch_size=4, num_workers=2, drop_last=True)
    found = [row for item in loader for row in item["inputs"].tolist()]
    assert found == whole[: len(found)]
    row = windows[7]
    assert row["targets"].tolist()[:-1] == row["inputs"].tolist()[1:]
    with pytest.raises(IndexError):
        windows[len(windows)]


def test_on_a_device_tokens_are_wide(root: Path) -> None:
    dataset = TokenDataset(root, **SETTINGS, steps=2)
    plain = list(dataset)
    dataset.load_state_dict({**dataset.state_dict(), "windows": 0, "batches": 0})
    for item, wide in zip(plain, on_device(dataset, "cpu"), strict=True):
        for name in ("inputs", "targets"):
            assert wide[name].dtype == torch.int64
            assert wide[name].tolist() == item[name].tolist()
        batch = batch_of(item)
        assert np.array_equal(batch.inputs, item["inputs"].numpy())
        assert np.array_equal(batch.targets, item["targets"].numpy())
        assert batch.segments.lengths.sum() == batch.inputs.size


def test_steps_with_data_beside_a_frozen_batch(root: Path) -> None:
    """What bench-loader does on a GPU, on a processor: steps are made and compared."""
    ratio = step_ratio(
        TokenCorpus.open(root), SETTINGS, "cpu", width=8, layers=1, steps=2, rounds=3
    )
    assert 0 < ratio < float("inf")
