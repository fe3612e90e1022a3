"""The verbs that ask what a loader reads, and how fast: thin, as app.py."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from gristmill.cli.arguments import Json
from gristmill.cli.completion import corpora
from gristmill.progress.terminal import print_result
from gristmill.system.interrupts import handle_ctrl_c

Corpus = Annotated[Path, Argument(help="The folder of the corpus.", autocompletion=corpora)]
Plan = Annotated[Path, Option(help="The loader's plan, as LoaderPlan.save writes it.")]


def seen(
    corpus: Corpus,
    plan: Plan = Path("plan.json"),
    step: int | None = Option(None, min=0, help="Show the documents of this step."),
    document: str | None = Option(
        None,
        help="Show the steps that see this document (shard:row): in the first 16 epochs of "
        "its source, or between --from and --to.",
    ),
    first: int | None = Option(
        None, "--from", min=0, help="Show what is covered from this step on ..."
    ),
    stop: int | None = Option(None, "--to", min=0, help="... to the step before this one."),
    as_json: Json = False,
) -> None:
    """Show which documents a training step sees, when a document is seen, or what steps cover.

    Memory grows with the windows of the sources, not with their tokens. A range of at most 2^40
    tokens is counted.
    """
    from gristmill.errors import RecipeError
    from gristmill.loader.ledger import lines
    from gristmill.loader.ledger import seen as ask

    if (first is None) != (stop is None):
        raise RecipeError("--from and --to come together")
    steps = None if first is None or stop is None else (first, stop)
    result = ask(corpus, plan, step=step, document=document, steps=steps)
    print_result(result, as_json, lines(result))


def bench_loader(
    corpus: Corpus,
    tokens_per_second: float = Option(
        ..., min=1, help="What the trainer reads in a second, all ranks together."
    ),
    sequence_length: int = Option(2048, min=1, help="Positions of a window."),
    batch_size: int = Option(64, min=1, help="Windows of a step."),
    world_size: int = Option(1, min=1, help="Ranks; one of them is measured."),
    seconds: float = Option(5.0, help="How long to measure."),
    as_json: Json = False,
) -> None:
    """Measure how fast one rank's loader is; fail if it is under 10 times the trainer's rate.

    It exits with 1 if the loader is too slow. Measured cold (the files out of the page cache,
    where the system allows it) and warm.
    """
    from gristmill.loader.bench_loader import bench_loader as measure
    from gristmill.loader.bench_loader import lines

    handle_ctrl_c()
    result = measure(
        corpus,
        tokens_per_second,
        sequence_length=sequence_length,
        batch_size=batch_size,
        world_size=world_size,
        seconds=seconds,
    )
    print_result(result, as_json, lines(result))
    if not result["enough"]:
        raise typer.Exit(1)
