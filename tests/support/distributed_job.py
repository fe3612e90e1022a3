"""A job of torch.distributed that trains, saves and is started again: `python -m ... JOB.json`.

JOB.json: corpus, settings, folder, and `runs`: each {"world": 2, "workers": 1, "batches": 9,
"lost": 2}, or with "stateful": true by torchdata's StatefulDataLoader. Every run is `world` new
processes, which go on from the checkpoint (torch.distributed.checkpoint) of the run before; `lost`
batches are trained on behind it. Each process writes what it has seen to FOLDER/run-rank.json.
"""

import hashlib
import json
import os
import pickle
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.distributed import checkpoint
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from gristmill import TokenDataset
from gristmill.loader.torch_dataset import on_device


def rank_of_run(job: dict[str, Any], number: int, rank: int) -> None:
    """One process of a run."""
    torch.set_num_threads(1)
    run, folder = job["runs"][number], Path(job["folder"])
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/group{number}", rank=rank, world_size=run["world"]
    )
    dataset = TokenDataset(job["corpus"], **job["settings"])
    workers = run.get("workers", 0)
    model = DistributedDataParallel(torch.nn.Embedding(job["vocabulary"], 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    stateful = run.get("stateful", False)
    if stateful:
        from torchdata.stateful_dataloader import StatefulDataLoader

        loader = StatefulDataLoader(dataset, batch_size=None, num_workers=workers)
    else:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
    if number:
        load(folder / f"checkpoint{number - 1}", dataset, loader, model, rank, stateful=stateful)
    seen = []
    items = on_device(loader, "cpu")
    for item in items:
        loss = model(item["inputs"]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append([item["windows"].tolist(), item["inputs"].tolist(), item["targets"].tolist()])
        if len(seen) == run["batches"]:
            data = dataset.state_after(item)
            if stateful:  # as torchtitan does: one value a rank
                data = {f"rank{rank}": pickle.dumps(loader.state_dict())}
            saved = {"data": data, "model": model.state_dict()}
            checkpoint.save(saved, checkpoint_id=folder / f"checkpoint{number}")
        if len(seen) == run["batches"] + run.get("lost", 0):
            break
    items.close()  # type: ignore[attr-defined]
    weights = model.module.weight.detach().numpy().tobytes()
    report = {"seen": seen[: run["batches"]], "weights": hashlib.sha256(weights).hexdigest()}
    (folder / f"{number}-{rank}.json").write_text(json.dumps(report))
    distributed.barrier()
    distributed.destroy_process_group()
    # Before `model` is freed: the destructor of a gloo group that DDP still has holds the GIL and
    # joins a thread that may wait for it (torch 2.13).
    os._exit(0)


def load(
    path: Path, dataset: TokenDataset, loader: Any, model: Any, rank: int, *, stateful: bool
) -> None:
    data = {f"rank{rank}": b""} if stateful else dataset.state_dict()
    saved = {"data": data, "model": model.state_dict()}
    checkpoint.load(saved, checkpoint_id=path)
    model.load_state_dict(saved["model"])
    if stateful:
        loader.load_state_dict(pickle.loads(saved["data"][f"rank{rank}"]))
    else:
        dataset.load_state_dict(saved["data"])


def main() -> None:
    """The runs one after the other."""
    warnings.simplefilter("ignore")
    job = json.loads(Path(sys.argv[1]).read_text())
    for number, run in enumerate(job["runs"]):
        # Forks of a process that has only imported torch: a group of new processes without the
        # seconds that an import takes.
        children = []
        for rank in range(run["world"]):
            child = os.fork()
            if child == 0:
                try:
                    rank_of_run(job, number, rank)
                except BaseException:  # noqa: BLE001 - a fork must not go on behind this
                    traceback.print_exc()
                    os._exit(1)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
        if any(codes):
            raise SystemExit(f"run {number}: {codes}")


if __name__ == "__main__":
    main()
