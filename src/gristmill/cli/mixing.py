"""The verbs `gristmill mix ...`: thin, as app.py."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from gristmill.cli.arguments import EXIT_CODES, Json
from gristmill.errors import RecipeError
from gristmill.progress.terminal import print_result, warn
from gristmill.system.interrupts import handle_ctrl_c

SHOW = "show"


class _MixGroup(TyperGroup):
    """`gristmill mix RECIPE` is `gristmill mix show RECIPE`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first word; `show` where the word is no command."""
        if args and args[0] not in self.commands:
            args = [SHOW, *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_MixGroup,
    no_args_is_help=True,
    help="Show what a mix of sources reads; propose mixes, and choose one by measurement.\n\n"
    "`gristmill mix RECIPE` is short for `gristmill mix show RECIPE`.",
    rich_markup_mode=None,
)

Recipe = Annotated[Path, Argument(help="The recipe.")]
Corpus = Annotated[
    Path | None, Option(help="The folder of its corpus (default: the recipe's output).")
]
Supply = Annotated[
    list[str] | None,
    Option(
        help="SOURCE=N: the tokens of a source whose corpus is not made yet; repeat it for more."
    ),
]
Epochs = Annotated[float, Option(help="The most that a source is read.")]
Force = Annotated[bool, Option("--force", help="Replace a file of another kind.")]
Seed = Annotated[int, Option(min=0, help="The seed.")]


@app.command(SHOW, epilog=EXIT_CODES)
def show(
    recipe: Recipe,
    corpus: Corpus = None,
    supply: Supply = None,
    plan: Path | None = Option(None, help="Write the loader's plan of this mix to this file."),
    seed: int | None = Option(None, min=0, help="The seed of the plan (default: the recipe's)."),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show tokens and epochs of each source by a recipe's [mix], before anything runs."""
    from gristmill.mixing.mix import lines, mix

    result = mix(recipe, corpus=corpus, supply=_numbers(supply), plan=plan, seed=seed, force=force)
    print_result(result, as_json, lines(result))


@app.command("propose", epilog=EXIT_CODES)
def propose(
    recipe: Recipe,
    runs: int = Option(..., min=1, help="How many mixes."),
    out: Path = Option(Path("swarm"), help="The folder to write."),
    corpus: Corpus = None,
    supply: Supply = None,
    tokens: int | None = Option(None, min=1, help="The tokens of a proxy run, to limit epochs."),
    max_epochs: Epochs = 4.0,
    sequence_length: int = Option(2048, min=1, help="Of the plans."),
    batch_size: int = Option(64, min=1, help="Of the plans."),
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Draw the mixes of small proxy runs around the natural mix, with a loader's plan for each."""
    from gristmill.mixing.propose import lines, propose_mixes

    result = propose_mixes(
        recipe,
        runs=runs,
        out=out,
        corpus=corpus,
        supply=_numbers(supply),
        tokens=tokens,
        max_epochs=max_epochs,
        sequence_length=sequence_length,
        batch_size=batch_size,
        seed=seed,
    )
    print_result(result, as_json, lines(result))


@app.command("fit", epilog=EXIT_CODES)
def fit(
    ratios: Path = Argument(..., help="CSV: run, and the share of each source."),
    metrics: Path = Argument(..., help="CSV: run, and its metrics."),
    objective: list[str] | None = Option(
        None, "--metric", help="METRIC or METRIC=WEIGHT; repeat it (default: all)."
    ),
    maximize: bool = Option(False, help="More of the metrics is better."),
    law: str = Option("best", help="best, log_linear, linear or boosted."),
    supply: Supply = None,
    tokens: int | None = Option(
        None, min=1, help="The tokens of the training run, to limit epochs."
    ),
    max_epochs: Epochs = 4.0,
    seed: Seed = 1,
    plot: Path | None = Option(None, help="A picture to write: .svg, .png, .pdf."),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find the mix with the best metrics, by regression over the runs of a swarm."""
    from gristmill.mixing.fit import fit_mix, lines

    handle_ctrl_c()
    result = fit_mix(
        ratios,
        metrics,
        objective=None if not objective else _weights(objective),
        maximize=maximize,
        law=law,  # type: ignore[arg-type]
        supply=_numbers(supply),
        tokens=tokens,
        max_epochs=max_epochs,
        seed=seed,
        plot=plot,
        force=force,
    )
    print_result(result, as_json, lines(result))


def _numbers(given: list[str] | None) -> dict[str, int] | None:
    """Return the values of `--supply`. Raises RecipeError."""
    if not given:
        return None
    numbers = {}
    for pair in given:
        name, equals, value = pair.rpartition("=")
        if not equals or not re.fullmatch(r"\d[\d_]*", value):
            raise RecipeError(f"--supply {pair}: write SOURCE=N, as in web=1000000")
        numbers[name] = int(value)
    return numbers


def _weights(given: list[str]) -> dict[str, float]:
    """Return the values of `--metric`. Raises RecipeError."""
    weights = {}
    for metric in given:
        name, equals, value = metric.rpartition("=")
        try:
            weights[name if equals else metric] = float(value) if equals else 1.0
        except ValueError:
            raise RecipeError(f"--metric {metric}: write METRIC, or METRIC=WEIGHT") from None
    return weights


def doremi(
    recipe: Path = Argument(..., help="The recipe, or the folder of its finished corpus."),
    out: Path = Option(Path("doremi"), help="The folder of the run; it goes on there."),
    size: str = Option(
        "tiny", help="The size of both models: nano, tiny, small, 15m, 60m, 120m, 280m."
    ),
    steps: int = Option(2000, min=1, help="The steps of each model."),
    batch_size: int = Option(32, min=1, help="Windows of a step."),
    sequence_length: int = Option(256, min=2, help="Tokens of a window."),
    rate: float = Option(1e-3, help="The highest rate of learning."),
    seed: Seed = 1,
    device: str = Option("cpu", help="cpu, cuda or cuda:N."),
    plot: Path | None = Option(None, help="A picture to write: .svg, .png, .pdf."),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find weights of sources by DoReMi, with a small reference and a small proxy model.

    It may be killed at any moment, and goes on with the same numbers. Needs torch.
    """
    from gristmill.mixing.doremi import doremi as weigh
    from gristmill.mixing.doremi import lines

    handle_ctrl_c()
    result = weigh(
        recipe,
        out=out,
        size=size,
        steps=steps,
        batch_size=batch_size,
        sequence_length=sequence_length,
        rate=rate,
        seed=seed,
        device=device,
        plot=plot,
        force=force,
        on_line=None if as_json else warn,
    )
    print_result(result, as_json, lines(result))


def losses(
    corpus: Path = Argument(..., help="The folder of a finished corpus."),
    model: Path = Argument(
        ..., help="A folder that `doremi` wrote, or one of a Hugging Face causal model."
    ),
    sequence_length: int | None = Option(
        None, min=2, help="Tokens of a window (default: the model's)."
    ),
    limit: int | None = Option(None, min=2, help="At most this many tokens of each source."),
    device: str = Option("cpu", help="cpu, cuda or cuda:N."),
    as_json: Json = False,
) -> None:
    """Show a model's held-out loss and bits per byte on each source. Needs torch."""
    from gristmill.reports.tokens.losses import lines
    from gristmill.reports.tokens.losses import losses as measure

    handle_ctrl_c()
    result = measure(corpus, model, sequence_length=sequence_length, limit=limit, device=device)
    print_result(result, as_json, lines(result))
