"""The command line: a verb is a library function of the same name.

Thin; nothing heavy is imported before a verb runs.
"""

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer import Argument, Option

from gristmill import __version__
from gristmill.cli.arguments import BENCH_EXIT_CODES, EXIT_CODES, Json
from gristmill.cli.completion import PRESETS, among
from gristmill.cli.explore import explore
from gristmill.cli.loader import bench_loader, seen
from gristmill.cli.mixing import app as mix_app
from gristmill.cli.mixing import doremi, losses
from gristmill.cli.model import app as model_app
from gristmill.cli.model import tokenizer_app
from gristmill.cli.network import publish, pull
from gristmill.cli.node import node
from gristmill.cli.packing import pack
from gristmill.cli.release import release_app
from gristmill.cli.report import (
    Corpus,
    card,
    check,
    contamination,
    curve,
    diff,
    duplicates,
    explain,
    lines,
    rejudge,
    report,
    size,
    status,
    substrings,
    why,
)
from gristmill.cli.run import load_and_fork, run
from gristmill.cli.stats import chinchilla, stats
from gristmill.cli.trainer import export, import_tokens
from gristmill.errors import GristmillError, MachineError, VerificationError
from gristmill.progress.terminal import PATIENCE, Display, print_result
from gristmill.system.interrupts import exit_on_ctrl_c, handle_ctrl_c
from gristmill.system.kernels_folder import refuse_foreign_kernels
from gristmill.system.output_streams import lost_result, open_streams

app = typer.Typer(
    name="gristmill",
    help=f"Raw web in, verified training tokens out.\n\n{EXIT_CODES}",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(tokenizer_app, name="tokenizer")
app.add_typer(model_app, name="model")
app.add_typer(mix_app, name="mix")
app.add_typer(release_app, name="release")


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


def _is_extra(error: ImportError) -> bool:
    """Return whether an error says which extra is to be installed."""
    return "gristmill[" in str(error)


@app.callback()
def options(
    version_: bool = Option(
        False, "--version", help="Print the version.", callback=_version, is_eager=True
    ),
) -> None:
    """Options before a verb."""


app.command(epilog=EXIT_CODES)(run)


@app.command()
def init(
    path: Path = Argument(Path("recipe.toml"), help="The file to write."),
    preset: str = Option(
        "start",
        help="start, or a preset of `run --preset`.",
        autocompletion=among(("start", *PRESETS)),
    ),
) -> None:
    """Write a recipe for you to edit."""
    from gristmill.recipe import init as write

    written = write(path, preset=preset)
    print_result(None, False, [f"{written} is written. Edit it, then: gristmill run {path}"])


@app.command(epilog=EXIT_CODES)
def verify(
    corpus: Corpus,
    quick: bool = Option(False, help="Check sizes only."),
    pin: str | None = Option(
        None,
        help="Succeed only for this corpus: the sha256 of its manifest, or its content digest.",
    ),
    raw: bool = Option(
        False,
        "--raw",
        help="Check what it was made from too: raw shards in their place or in the cache, "
        "imported files.",
    ),
    cache_dir: Path | None = Option(None, help="The folder for fetched shards, for --raw."),
    as_json: Json = False,
) -> None:
    """Check every byte and every count of a corpus against its manifest and lock."""
    from gristmill.reports.integrity.verify import verify as proven

    result = proven(corpus, quick=quick, pin=pin, raw=raw, cache_dir=cache_dir)
    what = "sizes" if quick else "sha256 and counts"
    line = (
        f"{corpus}: {result['parts']} parts, {result['bytes'] / 1e6:,.1f} MB: {what} as the "
        "manifest says"
    )
    if raw:
        line += f"; and {result['raw_files']} files that it was made from"
    print_result(
        result, as_json, [line, f"manifest {result['manifest']}", f"content  {result['content']}"]
    )


for verb in (diff, why, explain, lines, substrings, contamination, duplicates, rejudge, curve):
    app.command()(verb)
app.command(epilog=EXIT_CODES)(report)
app.command()(check)
app.command(epilog=EXIT_CODES)(card)
app.command(epilog=EXIT_CODES)(pack)
app.command(epilog=EXIT_CODES)(size)
app.command()(status)
app.command(epilog=EXIT_CODES)(explore)
app.command(epilog=EXIT_CODES)(seen)
app.command(name="bench-loader", epilog=BENCH_EXIT_CODES)(bench_loader)
app.command(epilog=EXIT_CODES)(node)
app.command()(stats)
app.command()(chinchilla)
app.command(epilog=EXIT_CODES)(doremi)
app.command(epilog=EXIT_CODES)(losses)


app.command(epilog=EXIT_CODES)(export)
app.command("import", epilog=EXIT_CODES)(import_tokens)
app.command(epilog=EXIT_CODES)(publish)
app.command(epilog=EXIT_CODES)(pull)


@app.command()
def demo(
    folder: Path = Argument(Path("demo"), help="The folder for the corpus of the demo."),
    workers: int | None = Option(None, min=1, help="The number of worker processes."),
) -> None:
    """Run a small corpus through all phases, offline, in a minute."""
    from gristmill.kernels.jit.places import DEMO

    load_and_fork(rooms=DEMO)
    from gristmill.demonstration import demo as show

    handle_ctrl_c()
    show(folder, workers=workers)


@app.command()
def version(
    report: bool = Option(
        False, "--report", help="Show what a report of an error should name too."
    ),
    as_json: Json = False,
) -> None:
    """Print the version; with --report also those of Python, the machine and all libraries."""
    if not report and not as_json:
        print(__version__)
        return
    from gristmill.reports.installation import installation, lines

    result = installation()
    print_result(result, as_json, lines(result))


def _fail(error: GristmillError) -> NoReturn:
    # Errors of gristmill escape the text of others, but for line feeds. Further lines are indented,
    # so that no file name can start a line.
    first, *more = str(error).split("\n")
    print(
        "\n".join([f"gristmill: {first}", *("  " + line.removeprefix("  ") for line in more)]),
        file=sys.stderr,
    )
    raise SystemExit(error.exit_code)


def main(entry: Callable[[], Any] = app) -> None:
    """Run the command line."""
    open_streams()
    try:
        _run(entry)
    except SystemExit as end:
        if not end.code and (lost := lost_result()) is not None:
            _fail(
                MachineError(
                    f"standard output: {lost.strerror}: a part of the result was not written. What "
                    "the command did is done"
                )
            )
        raise


def _run(entry: Callable[[], Any]) -> None:
    """Run a verb. Raises SystemExit."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, exit_on_ctrl_c)
    try:
        # Of a verb that has no display of its own.
        with Display(patience=PATIENCE) if "--json" not in sys.argv else nullcontext():
            refuse_foreign_kernels()
            entry()
    except GristmillError as error:
        _fail(error)
    except ImportError as error:
        if not _is_extra(error):
            raise
        _fail(MachineError(str(error)))
    except OSError as error:
        _fail(MachineError(f"{error.filename}: {error.strerror}" if error.filename else str(error)))
    except ValueError as error:
        # Of Arrow, which is loaded where it raises.
        if type(error).__module__ != "pyarrow.lib" or "arquet" not in str(error):
            raise
        _fail(
            VerificationError(
                f"a table is not as it was written: {error}: `gristmill verify CORPUS` names it"
            )
        )
    except MemoryError:
        print("gristmill: out of memory: use fewer workers, or smaller batches", file=sys.stderr)
        raise SystemExit(5) from None


if __name__ == "__main__":
    main()
