"""The verbs that count a corpus' tokens and say what they suffice for: thin, as app.py."""

from pathlib import Path

from typer import Option

from gristmill.cli.arguments import Json
from gristmill.cli.report import Corpus
from gristmill.progress.terminal import print_result


def stats(
    corpus: Corpus,
    sequence_length: int | None = Option(
        None, min=1, help="Show the utilisation of sequences of this many tokens."
    ),
    top: int = Option(10, min=0, help="How many tokens and domains to show."),
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
    params: str | None = Option(None, help="The parameters of a model, such as 1.3e9 or 1.3B."),
    flops: str | None = Option(None, help="The compute of a training run in FLOPs, such as 1e21."),
    corpus: Path | None = Option(
        None, help="Show what the training tokens of this corpus suffice for."
    ),
    epochs: str | None = Option(None, help="How often the corpus is read (default: once)."),
    as_json: Json = False,
) -> None:
    """Show compute-optimal numbers of parameters and tokens, by published scaling laws."""
    from gristmill.reports.planning.chinchilla import chinchilla as ask
    from gristmill.reports.planning.chinchilla import lines

    result = ask(params=params, flops=flops, corpus=corpus, epochs=epochs)
    print_result(result, as_json, lines(result))
