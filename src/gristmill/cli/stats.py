"""The verbs that count a corpus' tokens and say what they suffice for: thin, as app.py."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.arguments import Json
from gristmill.cli.report import Corpus
from gristmill.progress.terminal import print_result


def stats(
    corpus: Corpus,
    sequence_length: Annotated[
        int | None,
        typer.Option(min=1, help="Show the utilisation of sequences of this many tokens."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many tokens and domains to show.")] = 10,
    as_json: Json = False,
) -> None:
    """Show tokens, vocabulary use, lengths of documents, and shares by source and language.

    It reads the token shards and no text.
    """
    from gristmill.reports.tokens.stats import stats as count
    from gristmill.reports.tokens.stats_lines import lines

    result = count(corpus, sequence_length=sequence_length, top=top)
    print_result(result, as_json, lines(result))


def chinchilla(
    params: Annotated[
        str | None, typer.Option(help="The parameters of a model, such as 1.3e9 or 1.3B.")
    ] = None,
    flops: Annotated[
        str | None, typer.Option(help="The compute of a training run in FLOPs, such as 1e21.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Show what the training tokens of this corpus suffice for.")
    ] = None,
    epochs: Annotated[
        str | None, typer.Option(help="How often the corpus is read (default: once).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show compute-optimal numbers of parameters and tokens, by published scaling laws."""
    from gristmill.reports.planning.chinchilla import chinchilla as ask
    from gristmill.reports.planning.chinchilla import lines

    result = ask(params=params, flops=flops, corpus=corpus, epochs=epochs)
    print_result(result, as_json, lines(result))
