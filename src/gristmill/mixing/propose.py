"""The mixes of a swarm: `gristmill mix propose RECIPE --runs N`.

Mixes are drawn from Dirichlet distributions round the natural mix (RegMix, arXiv 2407.01492; Olmix,
2602.12237): a strength of 1 is far from it, one of 100 near. Shares that no proxy run would notice
are 0.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError
from gristmill.loader.parameters import whole_number
from gristmill.mixing.mix import Stage, plan_stages, read_supply
from gristmill.mixing.search import within
from gristmill.recipe.mix_settings import Shares
from gristmill.store.parts import machine_errors, write_bytes
from gristmill.system.ownership import claim_folder

STRENGTHS = (1.0, 100.0)
LEAST = 2e-3  # a share below is 0
MOST_RUNS = 4096


def propose_mixes(
    recipe: Path | str,
    *,
    runs: int,
    out: Path | str = "swarm",
    corpus: Path | str | None = None,
    supply: Mapping[str, int] | None = None,
    tokens: int | None = None,
    max_epochs: float = 4.0,
    sequence_length: int = 2048,
    batch_size: int = 64,
    seed: int = 1,
) -> dict[str, Any]:
    """Draw the mixes of `runs` proxy runs, and write them into the folder `out`.

    It gets `ratios.csv`, which `fit_mix` reads, and a loader's plan for each run where the corpus
    is finished: NAME.json, for `Loader(corpus, plan=...)`. The first run is the natural mix.
    `tokens` are those of a proxy run: no source is read more than `max_epochs` times in one. The
    same seed gives the same files. The answer has `out`, `runs` ({name: {source: share}}) and
    `plans`. Raises RecipeError.
    """
    runs = whole_number("runs", runs, 1, MOST_RUNS)
    counts, token_corpus, _ = read_supply(recipe, corpus, supply)
    names = [name for name, count in counts.items() if count]
    if len(names) < 2:
        raise RecipeError(f"{recipe}: a mix has two sources or more; {len(names)} has tokens")
    amounts = np.array([float(counts[name]) for name in names])
    natural = amounts / amounts.sum()
    caps = np.ones(len(names)) if tokens is None else np.minimum(max_epochs * amounts / tokens, 1.0)
    if caps.sum() < 1:
        raise RecipeError(
            f"a proxy run of {tokens:,} tokens is more than all sources read {max_epochs:g} times"
        )
    mixes = _draw(natural, caps, runs, seed)
    table = {
        f"run-{number:04d}": dict(zip(names, mix.tolist(), strict=True))
        for number, mix in enumerate(mixes)
    }
    folder = Path(out)
    with machine_errors(folder, every=True):
        claim_folder(folder, "mixes")
    _write(folder, table, names)
    plans = []
    if token_corpus is not None:
        for name, shares in table.items():
            plans.append(str(folder / f"{name}.json"))
            _plan(token_corpus, shares, sequence_length, batch_size, seed).save(plans[-1])
    return {"out": str(folder), "runs": table, "plans": plans}


def _draw(natural: np.ndarray, caps: np.ndarray, runs: int, seed: int) -> list[np.ndarray]:
    """Return the natural mix, and `runs` - 1 others."""
    random = np.random.default_rng(seed)
    low, high = np.log(STRENGTHS)
    mixes = [within(natural, caps)]
    while len(mixes) < runs:
        strength = np.exp(random.uniform(low, high))
        drawn = random.dirichlet(np.maximum(natural * strength, 1e-3))
        drawn = np.where(drawn < LEAST, 0.0, drawn)
        if drawn.sum() > 0:
            # Six decimals, as the file has them: the plan and the file are of the same shares.
            mixes.append(_round(within(drawn, caps)))
    return [_round(mix) for mix in mixes]


def _round(mix: np.ndarray) -> np.ndarray:
    parts = np.round(mix * 1_000_000).astype(np.int64)
    parts[int(parts.argmax())] += 1_000_000 - int(parts.sum())
    return np.asarray(parts / 1_000_000)


def _write(folder: Path, table: Mapping[str, Mapping[str, float]], names: list[str]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "name", "index", *names])
    for number, (name, shares) in enumerate(table.items()):
        writer.writerow([name, name, number, *(f"{shares[source]:.6f}" for source in names)])
    with machine_errors(folder / "ratios.csv", every=True):
        write_bytes(folder, "ratios.csv", text.getvalue().encode())


def _plan(corpus: TokenCorpus, shares: dict[str, float], length: int, batch: int, seed: int) -> Any:
    stage = Stage("train", Shares(), length, batch, 1, length * batch, shares)
    return plan_stages([stage], corpus, seed)


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return what was drawn, for people."""
    mixes = found["runs"]
    first = next(iter(mixes.values()))
    out = [f"{len(mixes)} mixes are in {found['out']}/ratios.csv; shares, from least to most:"]
    width = max(map(len, first))
    for name in first:
        drawn = [mix[name] for mix in mixes.values()]
        out.append(
            f"  {name:{width}}  {min(drawn):.3f} to {max(drawn):.3f}, natural {first[name]:.3f}"
        )
    if found["plans"]:
        out.append(f"plans of the loader: {found['plans'][0]} and {len(found['plans']) - 1} more")
    out.append(
        "Train a small model on each, write its metrics into metrics.csv (run,METRIC,...), then: "
        f"gristmill mix fit {found['out']}/ratios.csv metrics.csv"
    )
    return out
