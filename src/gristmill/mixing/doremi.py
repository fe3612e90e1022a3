"""DoReMi: weights of sources that make up for what a small model has not learned of each.

Xie et al. 2023 (arXiv 2305.10429), algorithm 1. A reference model is trained on reference weights.
Then a proxy of the same shape is trained on minibatches that are uniform over sources; its loss is
weighted by source, and the weights rise where it is behind the reference (group_dro.py). The answer
is the mean of these weights over all steps: a `[mix]` for the large model.

A run that is killed goes on from its last checkpoint to the same numbers. `weights.csv` has the
weights and losses of every step, and is written at each checkpoint.
"""

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import GristmillError, RecipeError
from gristmill.loader.batch import Batch
from gristmill.loader.loader import Loader
from gristmill.loader.parameters import whole_number
from gristmill.mixing import group_dro, proxy
from gristmill.mixing.fit import weights_toml
from gristmill.mixing.mix import find_corpus
from gristmill.mixing.plot import refuse_picture
from gristmill.progress.counted_work import counted
from gristmill.store.parts import machine_errors, write_bytes
from gristmill.system.ownership import claim_folder

try:
    import torch
except ImportError as error:
    raise ImportError("torch is not installed: pip install 'gristmill[torch]'") from error

SMALL = 15_000_000  # parameters: proxies below have been seen to rank mixes wrongly (Olmix)
STATE = "state.pt"
SHOWN = 20  # lines of progress in a run
WRITTEN = ("weight", "loss", "reference loss")  # columns of weights.csv, each for every source


class DoremiSettings(NamedTuple):
    """What decides the numbers of a run."""

    corpus: str  # sha256 of the manifest
    config: proxy.ProxyConfig
    steps: int
    batch_size: int
    rate: float
    eta: float
    smoothing: float
    reference: dict[str, float] | None  # null: in proportion to tokens
    seed: int

    @property
    def digest(self) -> str:
        """Return what a checkpoint must be of."""
        return hashlib.sha256(json.dumps(self._asdict(), sort_keys=True).encode()).hexdigest()


class DoremiRun(NamedTuple):
    """A run under way."""

    settings: DoremiSettings
    corpus: TokenCorpus
    sources: list[str]
    out: Path
    device: str
    every: int  # steps from checkpoint to checkpoint
    on_line: Callable[[str], None] | None

    def say(self, line: str) -> None:
        """Report a line of progress."""
        if self.on_line is not None:
            self.on_line(line)


def doremi(
    corpus: Path | str,
    *,
    out: Path | str = "doremi",
    size: str = "tiny",
    steps: int = 2000,
    batch_size: int = 32,
    sequence_length: int = 256,
    reference: Mapping[str, float] | None = None,
    rate: float = 1e-3,
    eta: float = group_dro.ETA,
    smoothing: float = group_dro.SMOOTHING,
    seed: int = 1,
    device: str = "cpu",
    every: int | None = None,
    plot: Path | str | None = None,
    force: bool = False,
    on_line: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return the weights of a corpus' sources by DoReMi; goes on with a run that was stopped in
    `out`.

    `corpus` is the folder of a finished corpus, or the recipe whose output it is.
    `size` names the shape of reference and proxy (`proxy.SIZES`), `steps` are those of each.
    `batch_size` windows of `sequence_length` tokens are a step; it is raised to a multiple of the
    number of sources, so that every step has equally many windows of each. `reference` are the
    weights of the reference model (default: in proportion to tokens). `rate` is AdamW's highest,
    with warm-up and a cosine. `every`: steps from checkpoint to checkpoint. `plot` is a
    picture of the weights to write; with `force`, over one that is not gristmill's.

    It writes `out`/reference and `out`/proxy (models, for `losses`), `weights.csv` and
    `weights.toml`. The answer has `weights` ({source: weight}, the mean over steps), `last`,
    `reference_losses` and `proxy_losses` (nats a token over the last tenth of the steps),
    `parameters`, `steps`, `warnings`, `out`.

    Raises RecipeError, MachineError where the models do not fit, GristmillError with the step where
    a loss is not finite.
    """
    opened = TokenCorpus.open(find_corpus(corpus))
    sources = opened.sources("train")
    if len(sources) < 2:
        raise RecipeError(f"{corpus}: DoReMi weighs two sources or more; it has {sources}")
    config = proxy.find_config(
        size, opened.format.vocabulary, whole_number("length", sequence_length, 2)
    )
    steps = whole_number("steps", steps, 1, 1 << 32)
    rows = -(-whole_number("batch_size", batch_size, 1, 1 << 20) // len(sources)) * len(sources)
    if not (0 <= smoothing <= 1 and 0 < eta < math.inf and 0 < rate < math.inf):
        raise RecipeError("smoothing is from 0 to 1; eta and rate are above 0")
    proxy.check_memory(config, rows, device)
    weighted = None if reference is None else {name: float(w) for name, w in reference.items()}
    settings = DoremiSettings(
        opened.digest, config, steps, rows, rate, eta, smoothing, weighted, seed
    )
    run = DoremiRun(
        settings,
        opened,
        sources,
        Path(out),
        device,
        every or max(1, min(500, steps // 20)),
        on_line,
    )
    if plot is not None:
        refuse_picture(Path(plot), force=force)
    torch.manual_seed(seed)
    with machine_errors(run.out, every=True):
        claim_folder(run.out, "doremi", lambda _: _is_earlier(run))
    state = _resumed(run)
    if state["phase"] == "reference":
        state = _train_reference(run, state)
    table = _train_proxy(run, state)
    if plot is not None:
        from gristmill.mixing.plot import plot_weights

        plot_weights(Path(plot), sources, table[:, : len(sources)])
    return _answer(run, table)


def _is_earlier(run: DoremiRun) -> bool:
    """Return whether the folder has this run, begun by an earlier version."""
    try:
        return bool(proxy.read_state(run.out / STATE)["settings"] == run.settings.digest)
    except (GristmillError, KeyError):
        return False


def _resumed(run: DoremiRun) -> dict[str, Any]:
    """Return the state of the last checkpoint, or that of a beginning. Raises RecipeError."""
    path = run.out / STATE
    if not path.exists():
        return _beginning("reference")
    state = proxy.read_state(path, run.device)
    if state["settings"] != run.settings.digest:
        raise RecipeError(
            f"{run.out} has a run with other settings or of another corpus: name another folder "
            "with --out, or remove it"
        )
    run.say(f"{state['phase']}: going on at step {state['step']:,}")
    return state


def _beginning(phase: str) -> dict[str, Any]:
    return {"phase": phase, "step": 0, "model": None, "optimizer": None, "rows": None}


def _train_reference(run: DoremiRun, state: dict[str, Any]) -> dict[str, Any]:
    """Train the reference; the state with which the proxy begins."""
    model, optimizer = _restore_model(run, state)
    count = len(run.sources)
    rows = _figure_table(run, state, count)
    with (
        counted("reference", run.settings.steps, "steps") as count_steps,
        _loader(run, run.settings.reference) as loader,
    ):
        loader.seek_step(state["step"])
        for step, batch in zip(range(state["step"], run.settings.steps), loader, strict=False):
            losses = proxy.token_losses(model, run.settings.config, _tokens(batch, run.device))
            rows[step] = _by_source(losses, batch, count)
            _check(run, "reference", step, rows[step])
            _step(run, optimizer, losses.mean(), step)
            _checkpoint(run, "reference", step, model, optimizer, rows)
            count_steps.at(step + 1)
    proxy.save_model(run.out / "reference", model, run.settings.config)
    return _beginning("proxy")


def _train_proxy(run: DoremiRun, state: dict[str, Any]) -> np.ndarray:
    """Train the proxy; what every step had, (steps, 3 sources): the weights, the
    losses, and those of the reference on the same tokens.
    """
    reference, _ = proxy.load_model(run.out / "reference", run.device)
    model, optimizer = _restore_model(run, state)
    count = len(run.sources)
    rows = _figure_table(run, state, 3 * count)
    step = int(state["step"])
    weights = rows[step - 1, :count] if step else np.full(count, 1.0 / count)
    equal = dict.fromkeys(run.sources, 1.0)
    with (
        counted("proxy", run.settings.steps, "steps") as count_steps,
        _loader(run, equal) as loader,
    ):
        loader.seek_step(state["step"])
        for step, batch in zip(range(state["step"], run.settings.steps), loader, strict=False):
            tokens = _tokens(batch, run.device)
            losses = proxy.token_losses(model, run.settings.config, tokens)
            with torch.no_grad():
                before = proxy.token_losses(reference, run.settings.config, tokens)
                excess = _excess(losses, before, batch, count)
            by_source = _by_source(losses, batch, count)
            _check(run, "proxy", step, by_source)
            weights = group_dro.updated(
                weights, excess, eta=run.settings.eta, smoothing=run.settings.smoothing
            )
            # Every source has equally many tokens in a step.
            of_row = torch.from_numpy(weights[batch.sources] * count).to(losses)
            _step(run, optimizer, (losses.mean(dim=1) * of_row).mean(), step)
            rows[step] = np.concatenate([weights, by_source, _by_source(before, batch, count)])
            _checkpoint(run, "proxy", step, model, optimizer, rows)
            count_steps.at(step + 1)
    proxy.save_model(run.out / "proxy", model, run.settings.config)
    return rows


def _restore_model(run: DoremiRun, state: dict[str, Any]) -> tuple[proxy.Tensors, Any]:
    """Return the model and its optimizer, as they were or new; both models begin with the same
    numbers.
    """
    settings = run.settings
    model = proxy.started(settings.config, settings.seed, run.device)
    optimizer = torch.optim.AdamW(
        model.values(), settings.rate, betas=(0.9, 0.95), weight_decay=0.1
    )
    if state["model"] is not None:
        with torch.no_grad():
            for name, value in state["model"].items():
                model[name].copy_(value)
        optimizer.load_state_dict(state["optimizer"])
    return model, optimizer


def _figure_table(run: DoremiRun, state: dict[str, Any], columns: int) -> np.ndarray:
    """Return the figures of every step, filled up to the state's."""
    rows = np.zeros((run.settings.steps, columns))
    if state["rows"] is not None:
        rows[: state["step"]] = state["rows"].numpy()
    return rows


def _loader(run: DoremiRun, weights: Mapping[str, float] | None) -> Loader:
    settings = run.settings
    return Loader(
        run.corpus,
        sequence_length=settings.config.sequence_length,
        batch_size=settings.batch_size,
        seed=settings.seed,
        weights=weights,
        steps=settings.steps,
    )


def _tokens(batch: Batch, device: str) -> Any:
    return torch.from_numpy(batch.tokens.astype(np.int64)).to(device)


def _excess(losses: Any, reference: Any, batch: Batch, count: int) -> np.ndarray:
    """Return the lambda of each source, (sources,): how much the proxy is behind the reference,
    token by token, 0 where it is not, and the mean of that.
    """
    return _by_source((losses - reference).clamp(min=0), batch, count)


def _by_source(losses: Any, batch: Batch, count: int) -> np.ndarray:
    """Return the mean over the tokens of each source, (sources,) float64; 0 for one without any."""
    rows = losses.detach().double().mean(dim=1).cpu().numpy()
    windows = np.bincount(batch.sources, minlength=count)
    return np.asarray(np.bincount(batch.sources, rows, minlength=count) / np.maximum(windows, 1))


def _step(run: DoremiRun, optimizer: Any, loss: Any, step: int) -> None:
    steps = run.settings.steps
    warm = max(1, steps // 50)
    falling = 0.5 * (1 + math.cos(math.pi * step / steps))
    for group in optimizer.param_groups:
        group["lr"] = run.settings.rate * min((step + 1) / warm, 0.1 + 0.9 * falling)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()


def _check(run: DoremiRun, phase: str, step: int, losses: np.ndarray) -> None:
    """Stop where a loss is not finite, before the model is changed for good."""
    for name, loss in zip(run.sources, losses.tolist(), strict=True):
        if not math.isfinite(loss):
            raise GristmillError(
                f"DoReMi: {phase}, step {step:,}: the loss of source {name!r} is {loss}. Lower "
                f"the rate ({run.settings.rate:g}); the last checkpoint is in {run.out}"
            )


def _checkpoint(
    run: DoremiRun, phase: str, step: int, model: proxy.Tensors, optimizer: Any, rows: np.ndarray
) -> None:
    """Write the state and the figures where it is time to; say how it goes."""
    done, steps = step + 1, run.settings.steps
    count = len(run.sources)
    if done % max(1, steps // SHOWN) == 0 or done == steps:
        figures = rows[step, :count] if phase == "proxy" else None
        weights = "" if figures is None else "; weights " + _said(run.sources, figures)
        losses = rows[step, count : 2 * count] if phase == "proxy" else rows[step]
        run.say(f"{phase}: step {done:,} of {steps:,}; loss {losses.mean():.3f}{weights}")
    if done % run.every and done < steps:
        return
    if phase == "proxy":
        _write_table(run, rows[:done])
    # The figures of steps that are made again are the same: the state says where it goes on.
    state = {
        "settings": run.settings.digest,
        "phase": phase,
        "step": done,
        "model": proxy.plain(model),
        "optimizer": optimizer.state_dict(),
        "rows": torch.from_numpy(rows[:done].copy()),
    }
    proxy.write_state(run.out, STATE, state)


def _said(sources: list[str], weights: np.ndarray) -> str:
    return ", ".join(f"{name} {w:.3f}" for name, w in zip(sources, weights.tolist(), strict=True))


def _write_table(run: DoremiRun, rows: np.ndarray) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header = [f"{what} {name}" for what in WRITTEN for name in run.sources]
    writer.writerow(["step", *header])
    for step, row in enumerate(rows.tolist()):
        writer.writerow([step, *(f"{value:.9g}" for value in row)])
    with machine_errors(run.out / "weights.csv", every=True):
        write_bytes(run.out, "weights.csv", text.getvalue().encode())


def _answer(run: DoremiRun, rows: np.ndarray) -> dict[str, Any]:
    count = len(run.sources)
    mean = rows[:, :count].mean(axis=0)
    ends = rows[-max(1, len(rows) // 10) :].mean(axis=0).tolist()
    weights = dict(zip(run.sources, mean.tolist(), strict=True))
    with machine_errors(run.out / "weights.toml", every=True):
        write_bytes(run.out, "weights.toml", ("\n".join(weights_toml(weights)) + "\n").encode())
    parameters = run.settings.config.parameters
    warnings = []
    if parameters < SMALL:
        warnings.append(
            f"reference and proxy have {parameters:,} parameters: models below {SMALL:,} have been "
            "seen to say little of large ones. Take the weights as a demonstration"
        )
    return {
        "out": str(run.out),
        "weights": weights,
        "last": dict(zip(run.sources, rows[-1, :count].tolist(), strict=True)),
        "proxy_losses": dict(zip(run.sources, ends[count : 2 * count], strict=True)),
        "reference_losses": dict(zip(run.sources, ends[2 * count :], strict=True)),
        "parameters": parameters,
        "steps": run.settings.steps,
        "warnings": warnings,
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return what DoReMi found, for people."""
    width = max(map(len, found["weights"]))
    out = [f"weights, the mean over {found['steps']:,} steps:"]
    for name, weight in found["weights"].items():
        out.append(
            f"  {name:{width}}  {weight:.4f}  (last step {found['last'][name]:.4f}, loss "
            f"{found['proxy_losses'][name]:.3f}, reference {found['reference_losses'][name]:.3f})"
        )
    out += [f"warning: {warning}" for warning in found["warnings"]]
    return [*out, f"{found['out']}/weights.toml is for the recipe"]
