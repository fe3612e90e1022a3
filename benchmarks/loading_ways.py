"""One way to read random windows of 2,048 tokens in batches of 64, as a process of its own:
`python loading_ways.py WAY FOLDER`. FOLDER has `tokens.bin` (uint16), the same tokens as a corpus
of gristmill in `corpus`, and what a way makes of them beside it.

    -> ready VERSION         after imports, preparation, and some batches
    <- BATCHES               -> SECONDS of processor time, and on the clock, for BATCHES
"""

import itertools
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

LENGTH, ROWS, WARM = 2048, 64, 300


def gristmill(folder: Path, prefetch: int = 0) -> Iterator[Any]:
    """The loader: concat, one source, segments included."""
    from gristmill.loader.loader import Loader

    return Loader(
        folder / "corpus", sequence_length=LENGTH, batch_size=ROWS, prefetch=prefetch, seed=1
    )


def copy(folder: Path) -> Iterator[Any]:
    """A bare copy of random windows into one buffer: nothing is made, nothing is kept."""
    data = np.memmap(folder / "tokens.bin", np.uint16, "r").view(np.ndarray)
    generator, out = np.random.default_rng(1), np.empty((ROWS, LENGTH + 1), np.uint16)
    while True:
        for row, at in enumerate(generator.integers(0, len(data) - LENGTH - 1, ROWS).tolist()):
            out[row] = data[at : at + LENGTH + 1]
        yield out


def nanogpt(folder: Path) -> Iterator[Any]:
    """get_batch of nanoGPT's train.py (MIT): random windows, with replacement, as int64."""
    import torch

    while True:
        data = np.memmap(folder / "tokens.bin", dtype=np.uint16, mode="r")
        ix = torch.randint(len(data) - LENGTH, (ROWS,))
        x = torch.stack([torch.from_numpy(data[i : i + LENGTH].astype(np.int64)) for i in ix])
        y = torch.stack(
            [torch.from_numpy(data[i + 1 : i + 1 + LENGTH].astype(np.int64)) for i in ix]
        )
        yield x, y


def grain(folder: Path) -> Iterator[Any]:
    """A global shuffle over windows of a memory map, batched."""
    import grain as library

    data = np.memmap(folder / "tokens.bin", np.uint16, "r").view(np.ndarray)

    class Windows:
        def __len__(self) -> int:
            return (len(data) - 1) // LENGTH

        def __getitem__(self, at: Any) -> Any:
            return data[int(at) * LENGTH : int(at) * LENGTH + LENGTH + 1]

    windows = library.MapDataset.source(Windows()).seed(1).shuffle().repeat().batch(ROWS)
    return iter(windows.to_iter_dataset(library.ReadOptions(num_threads=0, prefetch_buffer_size=0)))


def datatrove(folder: Path) -> Iterator[Any]:
    """Its file data set, in random order, by torch's DataLoader in this process."""
    from datatrove.utils.dataset import DatatroveFileDataset
    from torch.utils.data import DataLoader

    target = folder / "tokens.ds"
    if not target.exists():
        target.symlink_to(folder / "tokens.bin")
    dataset = DatatroveFileDataset(str(target), seq_len=LENGTH, token_size=2)
    while True:
        yield from DataLoader(dataset, batch_size=ROWS, shuffle=True)


def mds(folder: Path) -> Iterator[Any]:
    """MosaicML's StreamingDataset over local shards of windows, shuffled."""
    from streaming import MDSWriter, StreamingDataset
    from torch.utils.data import DataLoader

    target = folder / "mds"
    if not target.exists():
        data = np.memmap(folder / "tokens.bin", np.uint16, "r").view(np.ndarray)
        columns = {"tokens": f"ndarray:uint16:{LENGTH + 1}"}
        with MDSWriter(out=str(target), columns=columns) as writer:
            for at in range(0, len(data) - LENGTH - 1, LENGTH):
                writer.write({"tokens": data[at : at + LENGTH + 1]})
    dataset = StreamingDataset(local=str(target), shuffle=True, batch_size=ROWS)
    while True:
        yield from DataLoader(dataset, batch_size=ROWS)


def litdata(folder: Path) -> Iterator[Any]:
    """Lightning's StreamingDataset with its TokensLoader, shuffled."""
    import torch
    from litdata import StreamingDataLoader, StreamingDataset, TokensLoader
    from litdata.streaming.cache import Cache

    target = folder / "litdata"
    if not target.exists():
        data = np.memmap(folder / "tokens.bin", np.uint16, "r").view(np.ndarray)
        cache = Cache(str(target), chunk_bytes="64MB", item_loader=TokensLoader(LENGTH + 1))
        part = 100 * (LENGTH + 1)
        for number, at in enumerate(range(0, len(data) - part, part)):
            cache._add_item(number, torch.from_numpy(data[at : at + part].copy()))
        cache.done()
        cache.merge()
    loader = TokensLoader(block_size=LENGTH + 1)
    dataset = StreamingDataset(str(target), item_loader=loader, shuffle=True)
    while True:
        yield from StreamingDataLoader(dataset, batch_size=ROWS)


WAYS = {
    "gristmill": gristmill,
    "gristmill-thread": lambda folder: gristmill(folder, 2),
    "copy": copy,
    "nanogpt": nanogpt,
    "grain": grain,
    "datatrove": datatrove,
    "mds": mds,
    "litdata": litdata,
}
PACKAGES = {"mds": "mosaicml-streaming", "nanogpt": "torch", "copy": "numpy"}


def main() -> None:
    """Serve rounds."""
    way, folder = sys.argv[1], Path(sys.argv[2])
    batches = WAYS[way](folder)
    for _ in itertools.islice(batches, WARM):
        pass
    package = PACKAGES.get(way, way.partition("-")[0])
    print("ready", package, version(package), flush=True)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in itertools.islice(batches, int(line)):
            pass
        print(time.process_time() - cpu, time.perf_counter() - wall, flush=True)


if __name__ == "__main__":
    main()
