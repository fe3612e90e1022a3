"""The verbs that report on a corpus or a recipe and change nothing: thin, as app.py."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from gristmill.cli.arguments import Json, parse_bytes, read_settings
from gristmill.cli.completion import corpora
from gristmill.progress.terminal import print_result, warn
from gristmill.system.interrupts import handle_ctrl_c
from gristmill.system.output_streams import is_unread

Corpus = Annotated[Path, Argument(help="The folder of the corpus.", autocompletion=corpora)]
Out = Annotated[
    Path | None, Option(help="The folder of the corpus (default: the recipe's `output`).")
]
Set = Annotated[
    list[str] | None,
    Option("--set", help="Set a key of the recipe, as in step.language.min_score=0.5."),
]


def diff(
    a: Path = Argument(..., help="The folder of a corpus."),
    b: Path = Argument(..., help="The folder of another corpus."),
    as_json: Json = False,
) -> None:
    """Compare two corpora by their manifests: recipe, inputs, raw shards, counts, parts."""
    from gristmill.reports.diff import diff as compare
    from gristmill.reports.diff import lines

    result = compare(a, b)
    print_result(result, as_json, lines(result))


def why(
    corpus: Corpus,
    document: str = Argument(..., help="The document: shard:row, its number, or its URL."),
    as_json: Json = False,
) -> None:
    """Show whether a document was kept; if not, which step dropped it, why and at which value."""
    from gristmill.reports.documents.why import lines
    from gristmill.reports.documents.why import why as ask

    for result in ask(corpus, document):
        print_result(result, as_json, lines(result))


def explain(
    name: str = Argument(
        ...,
        help="A key, table, filter, parameter, reason or measure: tokens.validation, gopher, "
        "gopher.short_doc.",
    ),
    as_json: Json = False,
) -> None:
    """Show what a name of a recipe, of a verdict or of a measure means."""
    from gristmill.reports.documents.meanings import explain as ask
    from gristmill.reports.documents.meanings import lines

    answers = ask(name)
    print_result(answers, as_json, lines(answers))


def lines(
    corpus: Corpus,
    top: int = Option(20, min=1, help="How many lines to show."),
    as_json: Json = False,
) -> None:
    """Show the most repeated lines that the recipe cut, and how many documents contained each."""
    from gristmill.reports.documents.repeated_lines import frequent
    from gristmill.reports.documents.repeated_lines import lines as shown

    result = frequent(corpus, top=top)
    print_result(result, as_json, shown(result))


def substrings(
    corpus: Corpus,
    top: int = Option(20, min=1, help="How many spans to show."),
    as_json: Json = False,
) -> None:
    """Show the spans of text that are repeated most often."""
    from gristmill.reports.documents.top_substrings import lines as shown
    from gristmill.reports.documents.top_substrings import repeated

    result = repeated(corpus, top=top)
    print_result(result, as_json, shown(result))


def contamination(
    corpus: Corpus,
    benchmark: str | None = Option(None, help="Show the items of this benchmark only."),
    item: str | None = Option(None, help="Show this item only: its number or its id."),
    as_json: Json = False,
) -> None:
    """Show which documents contain which benchmark items, how much of each, and the text around."""
    from gristmill.reports.documents.contamination import contamination as ask
    from gristmill.reports.documents.contamination import lines as shown

    result = ask(corpus, benchmark=benchmark, item=item)
    print_result(result, as_json, shown(result))


def duplicates(
    corpus: Corpus,
    top: int = Option(10, min=1, help="How many clusters to show."),
    as_json: Json = False,
) -> None:
    """Show how many duplicates were dropped and why, how large clusters are, and the largest."""
    from gristmill.reports.documents.duplicates import duplicates as ask
    from gristmill.reports.documents.duplicates import lines as shown

    result = ask(corpus, top=top)
    print_result(result, as_json, shown(result))


def rejudge(
    recipe: Path = Argument(..., help="The recipe, with other thresholds in it or in --set."),
    out: Out = None,
    set_: Set = None,
    allow_code: bool = Option(False, "--allow-code", help="Let the custom filter classes decide."),
    as_json: Json = False,
) -> None:
    """Show what a corpus would keep with other thresholds, from the measures that it stores.

    It reads no document again, and writes nothing.
    """
    from gristmill.reports.planning.rejudge import lines
    from gristmill.reports.planning.rejudge import rejudge as ask

    result = ask(recipe, out=out, settings=read_settings(set_), allow_code=allow_code)
    print_result(result, as_json, lines(result))


def curve(
    bands: list[int] | None = Option(
        None, help="Bands of a signature; repeat the option for a further curve."
    ),
    rows: list[int] | None = Option(None, help="Rows of a band; once for each --bands."),
    threshold: float | None = Option(None, help="The least similarity of the pairs to find."),
    budget: float | None = Option(
        None,
        help="The largest share of pairs below the threshold that may be compared, if the "
        "similarities of pairs are uniform.",
    ),
    permutations: int = Option(128, help="The most numbers in a signature."),
    as_json: Json = False,
) -> None:
    """Draw the probability that a pair becomes a candidate, 1 - (1 - s^rows)^bands.

    With --threshold and --budget, choose bands and rows: of those whose `false` (the mean of the
    curve below the threshold) is within the budget, the ones with the least `missed` (the mean of
    1 - curve above the threshold), and the next best.
    """
    from gristmill.dedup.banding import curve as draw
    from gristmill.dedup.banding import lines

    result = draw(
        bands=bands or (),
        rows=rows or (),
        threshold=threshold,
        budget=budget,
        permutations=permutations,
    )
    print_result(result, as_json, lines(result))


def size(
    recipe: Path = Argument(..., help="The recipe."),
    out: Out = None,
    machines: int = Option(1, min=1, help="Predict the wall time on this number of machines too."),
    cores: int | None = Option(
        None, min=1, help="Cores of each machine (default: as many as this one has)."
    ),
    sample: str | None = Option(
        None, help="How many bytes of raw shards to measure (default: 16MiB)."
    ),
    set_: Set = None,
    cache_dir: Path | None = Option(
        None, help="The folder for fetched shards, which all runs share."
    ),
    allow_code: bool = Option(False, "--allow-code", help="Run the custom filters of the recipe."),
    allow_env: list[str] | None = Option(
        None, "--allow-env", help="An environment variable that the recipe may send to its hosts."
    ),
    allow_host: list[str] | None = Option(
        None,
        "--allow-host",
        help="A host that the recipe may send lines of a local list, or its output, to.",
    ),
    as_json: Json = False,
) -> None:
    """Predict what a run will cost, from a measured sample: tokens, time and disk."""
    from gristmill.reports.planning.size import lines
    from gristmill.reports.planning.size import size as ask

    handle_ctrl_c()
    result = ask(
        recipe,
        out=out,
        machines=machines,
        cores=cores,
        settings=read_settings(set_),
        cache_dir=cache_dir,
        allow_code=allow_code,
        allow_env=allow_env or (),
        allow_hosts=allow_host or (),
        on_line=warn,
        sample=parse_bytes("--sample", sample),
    )
    print_result(result, as_json, lines(result))


def status(
    corpus: list[str] = Argument(
        ...,
        metavar="CORPUS or URL...",
        help="The folder of the corpus, or where it was published; of several addresses, the "
        "next one is asked if one fails.",
    ),
    watch: bool = Option(False, "--watch", help="Show it again and again."),
    interval: float = Option(5.0, min=0.1, help="With --watch: seconds between two looks."),
    looks: int | None = Option(None, min=1, help="With --watch: how often (default: without end)."),
    root: Path | None = Option(
        None, help="Of a published corpus: the pinned root.json whose keys must sign."
    ),
    as_json: Json = False,
) -> None:
    """Show which phases of a run are done, what was dropped, and how far sources and tokens are.

    Of a published corpus: the newest release. With --watch, also how much grows in a second.
    """
    from gristmill.network.releases import status_remote
    from gristmill.reports.status import status_question

    ask, shown = status_question(corpus, root)
    if not watch:
        result = ask()
        print_result(result, as_json, shown(result))
        return
    for update in status_remote.watched(ask, interval, looks):
        failed = update["event"] == "error"
        rate = [] if failed else [status_remote.rate_line(update)]
        lines = [f"{update['time']}: {update['error']}"] if failed else [*rate, *shown(update), ""]
        print_result(update, as_json, lines)
        if is_unread():  # without end otherwise
            break


def report(
    corpus: Corpus,
    other: Path | None = Argument(None, help="The folder of another corpus, to compare with."),
    out: Path | None = Option(
        None, "--out", "-o", help="The file (default: CORPUS-report.html, beside it)."
    ),
    force: bool = Option(False, "--force", help="Replace a file that `report` did not write."),
    as_json: Json = False,
) -> None:
    """Write one HTML page that shows a corpus: what was dropped and why, with documents."""
    from gristmill.reports.page.report import report as write

    handle_ctrl_c()
    result = write(
        corpus, other, out=out, force=force, on_line=lambda line: warn(f"report: {line}")
    )
    line = f"{result['file']} is written ({result['bytes'] / 1000:,.0f} KB). Open it in a browser."
    print_result(result, as_json, [line])


def check(
    corpus: Corpus,
    strict: bool = Option(False, "--strict", help="Exit with code 1 if a figure is unusual."),
    as_json: Json = False,
) -> None:
    """Name the figures of a corpus that are unusual, why they matter, and what to look at next."""
    from gristmill.reports.page.check import check as ask
    from gristmill.reports.page.check import lines as shown

    result = ask(corpus)
    print_result(result, as_json, list(shown(result)))
    if strict and result["findings"]:
        raise typer.Exit(1)


def card(
    corpus: Corpus,
    out: Path | None = Option(
        None, "--out", "-o", help="The file (default: CORPUS-card.md, beside it)."
    ),
    force: bool = Option(False, "--force", help="Replace a file that `card` did not write."),
    as_json: Json = False,
) -> None:
    """Describe a corpus in Markdown, for those who get it: content, origin, licences, limits."""
    from gristmill.reports.page.card import card as write

    result = write(corpus, out=out, force=force)
    print_result(result, as_json, [f"{result['file']} is written ({result['bytes']:,} bytes)."])
