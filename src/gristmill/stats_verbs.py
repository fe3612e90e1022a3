"""The verbs that count a corpus' tokens and say what they suffice for: thin, as cli.py."""

from typing import Annotated

import typer

from gristmill.arguments import Json
from gristmill.report_verbs import Corpus
from gristmill.terminal import print_result


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
    from gristmill.report.stats import stats as count
    from gristmill.report.stats_lines import lines

    result = count(corpus, sequence_length=sequence_length, top=top)
    print_result(result, as_json, lines(result))
