"""The verbs `export` and `import`: thin, as cli.py."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.arguments import Json
from gristmill.terminal import handle_ctrl_c, print_result


def export(
    corpus: Annotated[Path, typer.Argument(help="The folder of the corpus.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    to: Annotated[
        str,
        typer.Option(
            help="Text: jsonl, jsonl.gz, jsonl.zst, parquet, nanochat. Tokens: nanogpt, llmc, "
            "megatron, olmo, datatrove, torchtitan, hf-parquet, hdf5, genesis."
        ),
    ] = "jsonl.zst",
    split: Annotated[
        str | None, typer.Option(help="Of tokens: train or val (default: both).")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(help="Write this source only; repeat the option for several."),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(
            help="Of tokens: interleave sources into one stream, by shares of tokens "
            "(web=0.7,books=0.3) or in proportion to their tokens (proportional)."
        ),
    ] = None,
    tokens_per_file: Annotated[
        int | None, typer.Option(min=1, help="Of tokens: the size of a file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the kept documents as text with all their fields, or the tokens for a trainer."""
    from gristmill.trainer_formats.export import export as write

    handle_ctrl_c()
    result = write(
        corpus,
        out,
        to=to,
        split=split,
        sources=source or (),
        mix=mix,
        tokens_per_file=tokens_per_file,
    )
    tokens = f", {result['tokens']:,} tokens" if "tokens" in result else ""
    line = (
        f"{out}: {result['documents']:,} documents{tokens} in {result['files']} files, "
        f"{result['bytes'] / 1e6:,.1f} MB"
    )
    print_result(result, as_json, [line, *result.get("notes", [])])
