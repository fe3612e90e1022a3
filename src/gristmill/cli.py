"""The command line: a verb is a library function of the same name.

Thin; nothing heavy is imported before a verb runs.
"""

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from gristmill import __version__
from gristmill.arguments import EXIT_CODES, Json, sample_of, settings_of
from gristmill.errors import GristmillError, MachineError
from gristmill.model_verbs import app as model_app
from gristmill.run_verb import run
from gristmill.terminal import hear_ctrl_c, leave, say, warn

app = typer.Typer(
    name="gristmill",
    help=f"Raw web in, verified training tokens out.\n\n{EXIT_CODES}",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
tokenizer_app = typer.Typer(
    no_args_is_help=True, help="Train and show tokenizers.", rich_markup_mode=None
)
app.add_typer(tokenizer_app, name="tokenizer")
app.add_typer(model_app, name="model")


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version_: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """What stands before a verb."""


Corpus = Annotated[Path, typer.Argument(help="The corpus' folder.")]


app.command(epilog=EXIT_CODES)(run)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("recipe.toml"),
    preset: Annotated[str, typer.Option(help="start, or one of `run --preset`.")] = "start",
) -> None:
    """Write a recipe to start from."""
    from gristmill.recipe import init as write

    say(
        None,
        False,
        [f"{write(path, preset=preset)} is written. Edit it, then: gristmill run {path}"],
    )


@app.command(epilog=EXIT_CODES)
def verify(
    corpus: Corpus,
    quick: Annotated[bool, typer.Option(help="Look at sizes only.")] = False,
    pin: Annotated[
        str | None,
        typer.Option(
            help="Succeed only for this corpus: the sha256 of its manifest, or its content digest."
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The raw shards as well, where they lie or in the cache.")
    ] = False,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Where fetched shards rest, for --raw.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every byte and every count of a corpus against its manifest and lock."""
    from gristmill.report.verify import verify as check

    told = check(corpus, quick=quick, pin=pin, raw=raw, cache_dir=cache_dir)
    what = "sizes" if quick else "sha256 and counts"
    line = (
        f"{corpus}: {told['parts']} parts, {told['bytes'] / 1e6:,.1f} MB: {what} as the manifest "
        "says"
    )
    say(told, as_json, [line, f"manifest {told['manifest']}", f"content  {told['content']}"])


@app.command()
def diff(
    a: Annotated[Path, typer.Argument(help="A corpus' folder.")],
    b: Annotated[Path, typer.Argument(help="Another's.")],
    as_json: Json = False,
) -> None:
    """Tell two corpora apart by their manifests: recipe, inputs, raw shards, counts, parts."""
    from gristmill.report.diff import diff as compare
    from gristmill.report.diff import lines

    told = compare(a, b)
    say(told, as_json, lines(told))


@app.command()
def why(
    corpus: Corpus,
    document: Annotated[str, typer.Argument(help="shard:row, its number, or its URL.")],
    as_json: Json = False,
) -> None:
    """Tell the fate of a document: kept, or dropped by which step for which reason at which
    value.
    """
    from gristmill.report.why import lines
    from gristmill.report.why import why as ask

    for told in ask(corpus, document):
        say(told, as_json, lines(told))


@app.command()
def lines(
    corpus: Corpus,
    top: Annotated[int, typer.Option(min=1, help="So many.")] = 20,
    as_json: Json = False,
) -> None:
    """Tell the most repeated lines of a corpus whose recipe cuts them, and in how many documents
    each stood.
    """
    from gristmill.report.lines import frequent
    from gristmill.report.lines import lines as shown

    told = frequent(corpus, top=top)
    say(told, as_json, shown(told))


@app.command()
def contamination(
    corpus: Corpus,
    benchmark: Annotated[str | None, typer.Option(help="Only this one, item by item.")] = None,
    item: Annotated[str | None, typer.Option(help="Only this item, by its number or id.")] = None,
    as_json: Json = False,
) -> None:
    """Tell which benchmark items stood in which documents, how much of each, and the text around
    them.
    """
    from gristmill.report.contamination import contamination as ask
    from gristmill.report.contamination import lines as shown

    told = ask(corpus, benchmark=benchmark, item=item)
    say(told, as_json, shown(told))


@app.command()
def duplicates(
    corpus: Corpus,
    top: Annotated[int, typer.Option(min=1, help="So many clusters.")] = 10,
    as_json: Json = False,
) -> None:
    """Tell how many duplicates went and why, how large clusters are, and what the largest have in
    common.
    """
    from gristmill.report.duplicates import duplicates as ask
    from gristmill.report.duplicates import lines as shown

    told = ask(corpus, top=top)
    say(told, as_json, shown(told))


@app.command()
def rejudge(
    recipe: Annotated[Path, typer.Argument(help="The recipe, with other thresholds (or --set).")],
    out: Annotated[
        Path | None, typer.Option(help="The corpus' folder (else the recipe's `output`).")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A recipe key: step.language.min_score=0.5.")
    ] = None,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Let filter classes of your own decide.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell what a corpus would keep with other thresholds, from its stored measures.

    Nothing is read again, nothing written.
    """
    from gristmill.report.rejudge import lines
    from gristmill.report.rejudge import rejudge as ask

    told = ask(recipe, out=out, settings=settings_of(set_), allow_code=allow_code)
    say(told, as_json, lines(told))


@app.command()
def curve(
    bands: Annotated[
        list[int] | None,
        typer.Option(help="Bands of a signature; give it again for another curve."),
    ] = None,
    rows: Annotated[
        list[int] | None, typer.Option(help="Rows of a band, one for each --bands.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="The similarity from which on pairs are wanted.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Of pairs below the threshold, spread evenly, the share that may be compared."
        ),
    ] = None,
    permutations: Annotated[int, typer.Option(help="Numbers in a signature, at most.")] = 128,
    as_json: Json = False,
) -> None:
    """Draw how likely pairs become candidates, 1 - (1 - s^rows)^bands; choose both for a threshold.

    With --budget: of all bands and rows whose `false` (the mean of the curve below the threshold)
    keeps to it, those whose `missed` (the mean of 1 - curve from the threshold up) is least, and
    the runners-up.
    """
    from gristmill.dedup.banding import curve as draw
    from gristmill.dedup.banding import lines

    told = draw(
        bands=bands or (),
        rows=rows or (),
        threshold=threshold,
        budget=budget,
        permutations=permutations,
    )
    say(told, as_json, lines(told))


@app.command(epilog=EXIT_CODES)
def size(
    recipe: Annotated[Path, typer.Argument(help="The recipe.")],
    out: Annotated[
        Path | None, typer.Option(help="The corpus' folder (else the recipe's `output`).")
    ] = None,
    machines: Annotated[
        int, typer.Option(min=1, help="Tell wall time on so many machines, too.")
    ] = 1,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Of each (default: as many as here).")
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            help="Measure so much: decoded bytes (default 64MiB), or whole shards (2shards)."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A recipe key: step.language.min_score=0.5.")
    ] = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Where fetched shards rest, shared by runs.")
    ] = None,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Run the recipe's own filters.")
    ] = False,
    allow_env: Annotated[
        list[str] | None,
        typer.Option("--allow-env", help="A variable that the recipe may send to its hosts."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what a run will cost, before it runs, from a measured sample: bytes, processor and wall
    time, memory, disk.
    """
    from gristmill.report.size import lines
    from gristmill.report.size import size as ask

    hear_ctrl_c()
    told = ask(
        recipe,
        out=out,
        machines=machines,
        cores=cores,
        settings=settings_of(set_),
        cache_dir=cache_dir,
        allow_code=allow_code,
        allow_env=allow_env or (),
        tell=warn,
        **sample_of(sample),
    )
    say(told, as_json, lines(told))


@app.command()
def status(corpus: Corpus, as_json: Json = False) -> None:
    """Tell where a run stands, and what was dropped."""
    from gristmill.corpus.funnel import Funnel
    from gristmill.report.status import lines
    from gristmill.report.status import status as ask

    told = ask(corpus)
    shown = lines(told) + (Funnel(told["funnel"]).lines() if "funnel" in told else [])
    say(told, as_json, shown)


@app.command()
def export(
    corpus: Corpus,
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    to: Annotated[str, typer.Option(help="jsonl, jsonl.gz, jsonl.zst or parquet.")] = "jsonl.zst",
    as_json: Json = False,
) -> None:
    """Write the kept documents as text, with all the fields they came with."""
    from gristmill.report.export import export as write

    hear_ctrl_c()
    told = write(corpus, out, to=to)
    say(
        told,
        as_json,
        [
            (
                f"{out}: {told['documents']:,} documents in {told['files']} files, "
                f"{told['bytes'] / 1e6:,.1f} MB"
            )
        ],
    )


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where the demo's corpus goes.")] = Path("demo"),
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes.")] = None,
) -> None:
    """Run a small corpus through all of it, offline, in a minute."""
    from gristmill.demonstration import demo as show

    hear_ctrl_c()
    show(folder, workers=workers)


@tokenizer_app.command("train")
def tokenizer_train(
    files: Annotated[list[Path], typer.Argument(help="Text, JSONL, WET or Parquet.")],
    out: Annotated[Path, typer.Option(help="The tokenizer.json to write.")] = Path(
        "tokenizer.json"
    ),
    vocabulary: Annotated[int, typer.Option(help="Tokens, the 256 bytes included.")] = 32_768,
    text: Annotated[str, typer.Option(help="The field that holds the text.")] = "text",
    limit: Annotated[
        int | None, typer.Option(min=1, help="No more than N documents a file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a byte-level BPE tokenizer on the texts of files."""
    from gristmill.training.train_tokenizer import train_tokenizer

    hear_ctrl_c()
    told = train_tokenizer(list(files), out, vocabulary=vocabulary, text=text, limit=limit)
    say(
        told,
        as_json,
        [f"{out}: {told['vocabulary']:,} tokens, learned from {told['documents']:,} documents"],
    )


@tokenizer_app.command("show")
def tokenizer_show(
    tokenizer: Annotated[str, typer.Argument(help="gpt2, or a tokenizer's path or URL.")],
    text: Annotated[
        str, typer.Argument(help="The text to encode.")
    ] = "Raw web in, verified training tokens out.",
    as_json: Json = False,
) -> None:
    """Show a tokenizer, and how it cuts a text."""
    from gristmill.training.train_tokenizer import show_tokenizer

    told, lines = show_tokenizer(tokenizer, text)
    say(told, as_json, lines)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def _fail(error: GristmillError) -> NoReturn:
    # An error of ours escapes what others wrote but for line feeds; a further line is indented, so
    # that no file name can begin one.
    first, *more = str(error).split("\n")
    print(
        "\n".join([f"gristmill: {first}", *("  " + line.removeprefix("  ") for line in more)]),
        file=sys.stderr,
    )
    raise SystemExit(error.exit_code)


def main(entry: Callable[[], Any] = app) -> None:
    """Run the command line."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, leave)
    try:
        entry()
    except GristmillError as error:
        _fail(error)
    except OSError as error:
        _fail(MachineError(f"{error.filename}: {error.strerror}" if error.filename else str(error)))
    except MemoryError:
        print("gristmill: out of memory; use fewer --workers", file=sys.stderr)
        raise SystemExit(5) from None


if __name__ == "__main__":
    main()
