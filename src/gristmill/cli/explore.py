"""The verb `gristmill explore`: thin, as app.py."""

import sys
from pathlib import Path

from typer import Option

from gristmill.cli.arguments import Json
from gristmill.cli.report import Corpus
from gristmill.progress.terminal import print_result
from gristmill.system.arrow_setup import set_up_libraries
from gristmill.system.interrupts import handle_ctrl_c


def explore(
    corpus: Corpus,
    out: Path = Option(Path("explore.parquet"), help="The Parquet file to write."),
    sample: int = Option(100_000, min=0, help="How many documents, chosen by a hash; 0: all."),
    kept: bool | None = Option(
        None, "--kept/--dropped", help="Kept or dropped documents alone.", show_default=False
    ),
    characters: int = Option(1_000, min=1, help="Cut texts at this length."),
    redact: bool = Option(True, "--redact/--no-redact", help="Redact personal data in texts."),
    map_: bool = Option(
        True, "--map/--no-map", help="Place texts with the same words near each other."
    ),
    seed: int = Option(1, min=0, help="The seed of the sample."),
    force: bool = Option(False, "--force", help="Replace a file that `explore` did not write."),
    start: bool | None = Option(
        None,
        "--start/--no-start",
        help="Start embedding-atlas (default: on a terminal, where it is installed).",
        show_default=False,
    ),
    host: str = Option("127.0.0.1", help="The address that embedding-atlas listens on."),
    port: int = Option(5055, min=1, max=65535, help="Its port."),
    as_json: Json = False,
) -> None:
    """Write documents, verdicts and measures to one Parquet file, to search and filter them.

    embedding-atlas (extra explore) shows it in a browser; DuckDB answers questions in SQL.
    """
    set_up_libraries()
    from gristmill.errors import MachineError
    from gristmill.reports.documents import explore_open
    from gristmill.reports.documents.explore import explore as write

    handle_ctrl_c()
    command = explore_open.atlas_command(out, places=map_, host=host, port=port)
    if start and command is None:
        raise MachineError(f"embedding-atlas is not installed: {explore_open.INSTALL}")
    result = write(
        corpus,
        out,
        sample=sample or None,
        verdict=None if kept is None else "kept" if kept else "dropped",
        characters=characters,
        redact=redact,
        projection=map_,
        seed=seed,
        force=force,
    )
    print_result(result, as_json, explore_open.lines(result, command))
    if command is not None and (sys.stdout.isatty() and not as_json if start is None else start):
        sys.stdout.flush()
        raise SystemExit(explore_open.start(command))
