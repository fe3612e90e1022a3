"""The verbs `gristmill model ...`: thin, as cli.py."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.arguments import Json
from gristmill.terminal import hear_ctrl_c, say

app = typer.Typer(
    no_args_is_help=True,
    help="Train and show classifiers and n-gram models.",
    rich_markup_mode=None,
)

Out = Annotated[Path, typer.Option(help="The model to write.")]
Text = Annotated[str, typer.Option(help="The field that holds the text.")]
Limit = Annotated[int | None, typer.Option(min=1, help="No more than N documents a file.")]


@app.command("train-classifier")
def train_classifier(
    good: Annotated[list[Path], typer.Option(help="A file of good documents; again for more.")],
    bad: Annotated[list[Path], typer.Option(help="A file of bad documents; again for more.")],
    out: Out = Path("classifier.model"),
    seed: Annotated[int, typer.Option(help="Of the order of documents in training.")] = 1,
    bits: Annotated[int, typer.Option(help="2 ** bits weights.")] = 20,
    epochs: Annotated[int, typer.Option(help="Times that each document is seen.")] = 5,
    rate: Annotated[float, typer.Option(help="The rate of learning.")] = 0.2,
    text: Text = "text",
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Learn to tell good documents from bad: JSONL, Parquet, WET, or text, a document a paragraph.
    The same files give the same bytes.
    """
    from gristmill.training.train_models import lines
    from gristmill.training.train_models import train_classifier as train

    hear_ctrl_c()
    told = train(
        good, bad, out, seed=seed, bits=bits, epochs=epochs, rate=rate, text=text, limit=limit
    )
    say(told, as_json, [str(out), *lines(told)])


@app.command("train-perplexity")
def train_perplexity(
    files: Annotated[
        list[Path], typer.Argument(help="Reference text: JSONL, Parquet, WET or text.")
    ],
    out: Out = Path("perplexity.model"),
    order: Annotated[int, typer.Option(help="Words in the longest n-gram, 1 to 4.")] = 3,
    vocabulary: Annotated[
        int, typer.Option(help="So many of the commonest words, at most 65,532.")
    ] = 60_000,
    least: Annotated[
        int, typer.Option(help="Leave out n-grams of three words and more seen less often.")
    ] = 2,
    text: Text = "text",
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Estimate an n-gram model of words from reference text, for the step `perplexity`.

    The same files give the same bytes.
    """
    from gristmill.training.train_models import lines
    from gristmill.training.train_models import train_perplexity as train

    hear_ctrl_c()
    told = train(
        files, out, order=order, vocabulary=vocabulary, least=least, text=text, limit=limit
    )
    say(told, as_json, [str(out), *lines(told)])


@app.command("show")
def show(
    model: Annotated[Path, typer.Argument(help="A model file.")], as_json: Json = False
) -> None:
    """Show what a model file holds: its kind, its parameters, and the digests of the files that it
    was trained on.
    """
    from gristmill.training.train_models import lines, show_model

    told = show_model(model)
    say(told, as_json, lines(told))
