"""The verb `gristmill explore`: thin, as app.py."""

import shlex
from pathlib import Path
from typing import Any

from typer import Option

from gristmill.cli.arguments import Json
from gristmill.cli.report import Corpus
from gristmill.progress.terminal import print_result
from gristmill.system.arrow_setup import set_up_libraries
from gristmill.system.interrupts import handle_ctrl_c

INSTALL = "pip install 'gristmill[explore]', or: uv tool install embedding-atlas"


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
    as_json: Json = False,
) -> None:
    """Write documents, verdicts and measures to one Parquet file, to search and filter them.

    embedding-atlas (extra explore) shows it in a browser; DuckDB answers questions in SQL.
    """
    set_up_libraries()
    from gristmill.reports.documents.explore import explore as write

    handle_ctrl_c()
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
    print_result(result, as_json, _lines(result))


def _lines(result: dict[str, Any]) -> list[str]:
    """Return what was written, and how embedding-atlas and DuckDB open it."""
    from gristmill.engine.relations import pattern, quoted

    file = result["file"]
    places = "--x x --y y " if "x" in result["columns"] else ""
    sql = quoted(pattern(Path(file)))
    view = f"CREATE VIEW documents AS FROM {sql}"
    count = f"SELECT reason, count(*) FROM {sql} GROUP BY reason ORDER BY 2 DESC"
    sample = f"SELECT document, reason, text FROM {sql} WHERE text ILIKE '%cookie%' LIMIT 20"
    # Its own models, which it would fetch from a hub, are not asked for.
    atlas = f"embedding-atlas {shlex.quote(file)} --text text {places}--disable-projection"
    return [
        (
            f"{file}: {result['documents']:,} of {result['of']:,} documents, "
            f"{result['with_text']:,} with their text, {result['bytes'] / 1e6:,.1f} MB"
        ),
        f"In a browser ({INSTALL}):",
        f"  HF_HUB_OFFLINE=1 {atlas}",
        "By SQL:",
        f"  duckdb -cmd {_quoted(view)} -ui",
        *(f"  duckdb -c {_quoted(query)}" for query in (count, sample)),
    ]


def _quoted(sql: str) -> str:
    """Return a word for a shell: in double quotes where they do, since SQL has single ones."""
    return shlex.quote(sql) if set(sql) & set('"$`\\!') else f'"{sql}"'
