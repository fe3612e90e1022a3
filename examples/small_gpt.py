"""A small GPT trained on a corpus for a budget of tokens, and judged by held-out text as it learns.

What the experiments of this folder share: the runs, the file of their results, and the figures.
"""

import json
import math
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from gristmill import GristmillError, Loader, RecipeError, TokenCorpus, losses
from gristmill.mixing import proxy

HEAD = 32  # numbers of a head of attention
TOKEN_SCALE, PLACE_SCALE = 4.0, 0.25  # of the first embeddings
PROBABILITY = 0.975  # of a two-sided interval of 95 %


class Budget(NamedTuple):
    """What is the same in all runs of an experiment."""

    tokens: int  # of a run
    parameters: int  # about
    length: int  # tokens of a window
    batch: int  # windows of a step
    rate: float
    points: int  # how often a run is judged
    judged: int  # held-out tokens of each source at a point
    device: str

    @property
    def steps(self) -> int:
        """The steps of a run."""
        return max(1, self.tokens // (self.length * self.batch))


def shape(budget: Budget, vocabulary: int) -> proxy.ProxyConfig:
    """The model whose parameters are next to what is asked: layers grow with the width."""
    found = [
        proxy.ProxyConfig(vocabulary, budget.length, width, max(2, width // 32), width // HEAD)
        for width in range(HEAD, 2049, HEAD)
    ]
    return min(found, key=lambda one: abs(math.log(one.parameters / budget.parameters)))


def train(
    corpus: Path,
    held_out: Path,
    budget: Budget,
    seed: int,
    *,
    plan: Path | None = None,
    phrase: Sequence[int] = (),
    on_line: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train a model from nothing. `curve` has a row for each point: the step, the tokens that were
    read, and bits per byte of each held-out source and of all; `phrase` is the loss of these tokens
    at the end in bits, the first of them given.

    Raises GristmillError with the step where a loss is not finite, MachineError where the model
    does not fit.
    """
    opened = TokenCorpus.open(corpus)
    config = shape(budget, opened.format.vocabulary)
    proxy.check_memory(config, budget.batch, budget.device)
    model = started(config, seed, budget.device)
    optimizer = torch.optim.AdamW(model.values(), budget.rate, betas=(0.9, 0.95), weight_decay=0.1)
    points = {budget.steps * (place + 1) // budget.points for place in range(budget.points)}
    asked = {} if plan is None else {"plan": plan}
    curve = []
    with Loader(
        opened,
        sequence_length=budget.length,
        batch_size=budget.batch,
        seed=seed,
        steps=budget.steps,
        **asked,
    ) as loader:
        for step, batch in enumerate(loader):
            tokens = torch.from_numpy(batch.tokens.astype("int64")).to(budget.device)
            loss = proxy.token_losses(model, config, tokens).mean()
            if not math.isfinite(loss.item()):
                raise GristmillError(
                    f"{corpus}, seed {seed}, step {step:,}: the loss is {loss.item()}: lower the "
                    f"rate ({budget.rate:g})"
                )
            update(optimizer, loss, step, budget)
            if step + 1 in points:
                found = judge(model, config, held_out, budget)
                curve.append({"step": step + 1, "tokens": (step + 1) * tokens[:, 1:].numel()})
                curve[-1] |= {"loss": loss.item(), **found}
                on_line(f"  step {step + 1:,}: {found['all']:.4f} bits per byte")
    return {
        "parameters": config.parameters,
        "curve": curve,
        "phrase": bits(model, config, phrase, budget.device) if phrase else None,
    }


def started(config: proxy.ProxyConfig, seed: int, device: str) -> proxy.Tensors:
    """The first parameters, with tokens that outweigh places: as large as each other, they leave a
    model of a few hundred steps with little more than the frequencies of tokens.
    """
    model = proxy.started(config, seed, device)
    with torch.no_grad():
        model["token"] *= TOKEN_SCALE
        model["place"] *= PLACE_SCALE
    return model


def update(optimizer: Any, loss: Any, step: int, budget: Budget) -> None:
    """A step of AdamW, with warm-up and a cosine down to a tenth of the rate."""
    falling = 0.5 * (1 + math.cos(math.pi * step / budget.steps))
    warm = max(1, budget.steps // 20)
    for group in optimizer.param_groups:
        group["lr"] = budget.rate * min((step + 1) / warm, 0.1 + 0.9 * falling)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()


def judge(
    model: proxy.Tensors, config: proxy.ProxyConfig, held_out: Path, budget: Budget
) -> dict[str, float]:
    """Bits per byte of each held-out source; `all` is their mean, each counting the same."""
    found = losses(
        held_out,
        lambda tokens: proxy.logits(model, config, tokens),
        sequence_length=config.sequence_length,
        split="train",
        limit=budget.judged,
        device=budget.device,
    )
    each = {name: row["bits_per_byte"] for name, row in found["sources"].items()}
    return {**each, "all": sum(each.values()) / len(each)}


def bits(
    model: proxy.Tensors, config: proxy.ProxyConfig, tokens: Sequence[int], device: str
) -> float:
    """The loss of tokens in bits, the first of them given."""
    given = torch.tensor([tokens[: config.sequence_length + 1]], device=device)
    with torch.no_grad():
        scores = proxy.logits(model, config, given[:, :-1])
        found = functional.cross_entropy(scores[0], given[0, 1:], reduction="sum")
    return found.item() / math.log(2)


class Results:
    """The finished runs of an experiment, in a file: a run that is in it is not made again."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Read what is there. Raises RecipeError for runs with other settings."""
        self.path = path
        self.settings = json.loads(json.dumps(settings))
        self.runs: dict[str, dict[str, Any]] = {}
        if path.is_file():
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["settings"] != self.settings:
                other = [k for k, v in self.settings.items() if stored["settings"].get(k) != v]
                raise RecipeError(
                    f"{path} has runs with another {', '.join(other)}: name another folder with "
                    "--out, or remove the file"
                )
            self.runs = stored["runs"]

    def add(self, name: str, found: dict[str, Any]) -> None:
        """Keep a run; the file is replaced whole."""
        self.runs[name] = found
        beside = self.path.with_suffix(".new")
        with open(beside, "w", encoding="utf-8") as file:
            json.dump({"settings": self.settings, "runs": self.runs}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)

    def values(
        self, variant: str, value: Callable[[dict[str, Any]], Any] = lambda run: run
    ) -> list[Any]:
        """A figure of each seed's run of a variant, by seed; else the runs."""
        found = {}
        for name, run in self.runs.items():
            of, _, seed = name.rpartition("/")
            if of == variant:
                found[int(seed)] = value(run)
        return [found[seed] for seed in sorted(found)]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half the width of its interval of 95 % (Student's t); nan for one value."""
    from scipy import stats

    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = stats.t.ppf(PROBABILITY, len(values) - 1) * spread / math.sqrt(len(values))
    return mean, float(half)


def said(values: Sequence[float], sign: str = "") -> str:
    """A mean with its interval, for a table."""
    mean, half = interval(values)
    return f"{mean:{sign}.4f} ± {half:.4f}"


def heading(cells: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return ["| " + " | ".join(cells) + " |", "|---" * len(cells) + "|"]


def versions() -> str:
    """What the runs were made with, for the report."""
    return f"torch {torch.__version__}"


def arguments(parser: Any, tokens: int) -> None:
    """The options that both experiments have."""
    data = os.environ.get("GRISTMILL_DATA") or "~/.cache/gristmill-data"
    parser.add_argument("--out", type=Path, default=Path("pay"))
    parser.add_argument("--data", type=Path, default=Path(data).expanduser())
    parser.add_argument("--tokens", type=int, default=tokens, help="of a run")
    parser.add_argument("--parameters", type=int, default=240_000, help="about")
    parser.add_argument("--vocabulary", type=int, default=2048)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--length", type=int, default=128, help="tokens of a window")
    parser.add_argument("--batch", type=int, default=4, help="windows of a step")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--points", type=int, default=4, help="how often a run is judged")
    parser.add_argument("--judged", type=int, default=15_000, help="held-out tokens of a source")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=None, help="of gristmill's runs")
    parser.add_argument("--report", type=Path, help="a page between whose marks tables are written")
    parser.add_argument("--plot", type=Path, help="a picture: .svg, .png or .pdf")


def budget_of(options: Any) -> Budget:
    """The budget that was asked for. Raises RecipeError."""
    for name in ("tokens", "parameters", "seeds", "length", "batch", "points", "judged"):
        if getattr(options, name) < 1:
            raise RecipeError(f"--{name} {getattr(options, name)}: it is 1 or more")
    if options.tokens < options.length * options.batch:
        raise RecipeError(
            f"--tokens {options.tokens:,}: less than one step of {options.batch} windows of "
            f"{options.length}"
        )
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise RecipeError(f"--device {options.device}: torch finds no CUDA device here")
    return Budget(*(getattr(options, name) for name in Budget._fields))


def folded(line: str) -> str:
    """A paragraph or an entry of a list in lines of 100 columns."""
    indent = "  " if line.startswith("* ") else ""
    return textwrap.fill(line, 100, subsequent_indent=indent, break_long_words=False)


def write_section(path: Path, name: str, lines: Sequence[str]) -> None:
    """Replace what is between two marks of a page, with paragraphs of at most 100 columns.

    Raises RecipeError for a page without the marks.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    text = path.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise RecipeError(f"{path} has no lines {begin.strip()} and {end.strip()}")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    wrapped = [line if line.startswith("|") else folded(line) for line in lines]
    path.write_text(
        f"{before}{begin}\n" + "\n".join(wrapped) + f"\n\n{end}{after}", encoding="utf-8"
    )
