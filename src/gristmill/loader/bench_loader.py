"""Whether a loader keeps up with a trainer: its rate over the real storage, its slowest batches,
the time to the first batch and to resume; and with a GPU a step with data beside one without.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.loader import Loader
from gristmill.loader.plan_segments import opened

LEAST_SECONDS = 0.5
HEADROOM = 10.0  # times the trainer's rate
LONGEST_STEP = 1.01  # with data, over that with a frozen batch
FAR = 1_000_003  # a step far into the run, to resume at


def bench_loader(
    corpus: TokenCorpus | Path | str,
    tokens_per_second: float,
    *,
    sequence_length: int = 2048,
    batch_size: int = 64,
    world_size: int = 1,
    seconds: float = 5.0,
) -> dict[str, Any]:
    """Measure rank 0 of a loader; `enough` says whether it has HEADROOM over its share of the
    trainer's rate, warm, and, where there is a GPU, whether steps with data are as fast.

    Raises RecipeError and VerificationError as Loader does.
    """
    if not LEAST_SECONDS <= seconds < float("inf"):
        raise RecipeError(
            f"seconds = {seconds}: at least {LEAST_SECONDS}, so that not only batches that were "
            "made ahead are measured"
        )
    corpus = opened(corpus)
    corpus.check_sizes("train")
    settings: dict[str, Any] = {
        "sequence_length": sequence_length,
        "batch_size": batch_size,
        "world_size": world_size,
    }
    dropped = _drop_pages(corpus)
    start = time.perf_counter()
    loader = Loader(corpus.root, **settings)
    next(loader)
    first_batch = time.perf_counter() - start
    with loader:
        cold = _measured(loader, seconds / 5)
        warm = _measured(loader, seconds)
        state = {**loader.state_dict(), "windows": FAR * batch_size}
    start = time.perf_counter()
    with Loader(corpus.root, **settings, state=state) as resumed:
        next(resumed)
        resume = time.perf_counter() - start
    wanted = tokens_per_second / world_size
    result: dict[str, Any] = {
        "tokens_per_second": tokens_per_second,
        "world_size": world_size,
        "first_batch_seconds": first_batch,
        "resume_seconds": resume,
        "cold": cold if dropped else None,
        "warm": warm,
        "headroom": warm["tokens_per_second"] / wanted,
        "least_headroom": HEADROOM,
        "step_ratio": _step_ratio(corpus, settings),
    }
    ratio = result["step_ratio"]
    result["enough"] = result["headroom"] >= HEADROOM and (ratio is None or ratio <= LONGEST_STEP)
    return result


def _measured(loader: Loader, seconds: float) -> dict[str, float]:
    """Return the rate of a loader, and how long `next` takes."""
    waits: list[float] = []
    tokens = 0
    start = now = time.perf_counter()
    while now - start < seconds or len(waits) < 10:
        batch = next(loader)
        before, now = now, time.perf_counter()
        waits.append(now - before)
        tokens += batch.inputs.size
    p50, p999 = np.percentile(waits, (50, 99.9)).tolist()
    return {
        "tokens_per_second": tokens / (now - start),
        "batches": len(waits),
        "next_p50_seconds": p50,
        "next_p999_seconds": p999,
    }


def _drop_pages(corpus: TokenCorpus) -> bool:
    """Ask the system to forget the pages of the token shards; whether it can be asked."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for part in corpus.manifest.parts:
        if part.path.startswith("tokens/"):
            file = os.open(corpus.root / part.path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
    return True


def _step_ratio(corpus: TokenCorpus, settings: dict[str, Any]) -> float | None:
    """Return `step_ratio` on a GPU; None: there is no torch, or no GPU."""
    try:
        import torch
    except ImportError:
        return None
    return step_ratio(corpus, settings) if torch.cuda.is_available() else None


def step_ratio(
    corpus: TokenCorpus,
    settings: dict[str, Any],
    device: str = "cuda",
    *,
    width: int = 1024,
    layers: int = 8,
    steps: int = 20,
    rounds: int = 7,
) -> float:
    """Return the time of a training step with data over that with one batch again and again: the
    median of rounds of `steps` steps of each. The model is `layers` linear layers of `width`.

    `settings` are the loader's. On `cpu` it only shows that it works: a loader takes time there
    that the model would have.
    """
    import torch

    from gristmill.loader.torch_dataset import TokenDataset, on_device

    model = torch.nn.Sequential(
        torch.nn.Embedding(corpus.format.vocabulary, width),
        *(torch.nn.Linear(width, width) for _ in range(layers)),
    ).to(device)
    dataset = TokenDataset(corpus, rank=0, **settings)
    items = on_device(dataset, device)
    frozen = next(items)

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    def timed(*, data: bool) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(steps):
            item = next(items) if data else frozen
            loss = model(item["inputs"]).square().mean()
            loss.backward()
            model.zero_grad()
        wait()
        return time.perf_counter() - start

    timed(data=True)
    pairs = [(timed(data=True), timed(data=False)) for _ in range(rounds)]
    dataset.close()
    return float(np.median([real / same for real, same in pairs]))


def lines(result: dict[str, Any]) -> list[str]:
    """Return a result of `bench_loader` for people."""
    first, resume = result["first_batch_seconds"], result["resume_seconds"]
    report = [f"first batch {first:.3f} s, resume at step {FAR:,} {resume:.3f} s"]
    for name in ("cold", "warm"):
        if (figures := result[name]) is None:
            report.append(f"{name}: not run: this system cannot drop pages of files")
            continue
        report.append(
            f"{name}: {figures['tokens_per_second'] / 1e6:,.1f} M tokens/s a rank; next() "
            f"p50 {figures['next_p50_seconds'] * 1e3:.3f} ms, "
            f"p99.9 {figures['next_p999_seconds'] * 1e3:.3f} ms"
        )
    ratio = result["step_ratio"]
    report.append(
        "step with data over a frozen batch: "
        + ("not run: no torch with a GPU" if ratio is None else f"{ratio:.3f}")
    )
    verdict = "enough" if result["enough"] else "NOT ENOUGH"
    report.append(
        f"headroom {result['headroom']:,.1f} x the trainer's rate, at least "
        f"{result['least_headroom']:.0f} x: {verdict}"
    )
    return report
