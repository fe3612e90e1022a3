"""The verbs `export` and `import`: thin, as app.py."""

from pathlib import Path
from typing import Annotated

import typer

from gristmill.cli.arguments import Json
from gristmill.cli.completion import among, corpora
from gristmill.progress.terminal import print_result
from gristmill.system.interrupts import handle_ctrl_c
from gristmill.trainer_formats import FORMATS, IMPORTED


def export(
    corpus: Annotated[
        Path, typer.Argument(help="The folder of the corpus.", autocompletion=corpora)
    ],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    to: Annotated[
        str,
        typer.Option(
            help=f"Text: {', '.join(FORMATS.built_in_names('TextFormat'))}. Tokens: "
            f"{', '.join(FORMATS.built_in_names('TrainerFormat'))}. Or `module:VALUE`, a format of "
            "your own, or that of an installed package.",
            autocompletion=among(FORMATS.names),
        ),
    ] = "jsonl.zst",
    split: Annotated[
        str | None, typer.Option(help="For tokens: train or val (default: both).")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(help="Write this source only; repeat the option for several."),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(
            help="For tokens: interleave sources into one stream, by shares of tokens "
            "(web=0.7,books=0.3) or in proportion to their tokens (proportional)."
        ),
    ] = None,
    tokens_per_file: Annotated[
        int | None, typer.Option(min=1, help="For tokens: the size of a file.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="For tokens: refuse documents with an end of text inside, if readers of the "
            "format divide at that token.",
        ),
    ] = False,
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
        strict=strict,
    )
    tokens = f", {result['tokens']:,} tokens" if "tokens" in result else ""
    line = (
        f"{out}: {result['documents']:,} documents{tokens} in {result['files']} files, "
        f"{result['bytes'] / 1e6:,.1f} MB"
    )
    if result["kept"]:
        line += f"; {result['kept']} of them were kept from a start that was interrupted"
    print_result(result, as_json, [line, *result.get("notes", [])])


def import_tokens(
    folder: Annotated[Path, typer.Argument(help="The folder with the files to import.")],
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            help=f"The format of the files: {', '.join(IMPORTED.built_in_names())}, or one of "
            "your own, as `module:VALUE`.",
            autocompletion=among(IMPORTED.names),
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of the corpus to write.")],
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="The tokenizer of the tokens: a name, path or URL (default: the one beside an "
            "export of gristmill)."
        ),
    ] = None,
    source: Annotated[str, typer.Option(help="The name of the source.")] = "imported",
    end_of_text: Annotated[
        str | None, typer.Option(help="The end of text (default: the tokenizer's own).")
    ] = None,
    end_of_text_side: Annotated[
        str | None,
        typer.Option(
            help="Where documents have it: after, before or none (default: as the files show)."
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="The type of tokens in files that do not say it: uint8 to uint64."),
    ] = None,
    tokens_per_shard: Annotated[int, typer.Option(min=1, help="Tokens of a shard.")] = 100_000_000,
    cache_dir: Annotated[
        Path | None, typer.Option(help="The folder for a tokenizer that is fetched.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a corpus of tokens from token files that another tool wrote.

    Document boundaries are those of the format's index, otherwise those of the end of text.
    """
    from gristmill.trainer_formats.import_tokens import import_tokens as make

    handle_ctrl_c()
    result = make(
        folder,
        out,
        format=from_,
        tokenizer=tokenizer,
        source=source,
        end_of_text=end_of_text,
        end_of_text_side=end_of_text_side,
        dtype=dtype,
        tokens_per_shard=tokens_per_shard,
        cache_dir=cache_dir,
    )
    lines = [
        (
            f"{out}: {result['documents']:,} documents, {result['tokens']:,} tokens from "
            f"{result['files']} files, in {result['shards']} shards"
        ),
        f"boundaries by {result['boundaries']}; end of text: {result['end_of_text_side']}",
    ]
    if result["empty_documents"]:
        lines.append(f"{result['empty_documents']:,} documents without a token are left out")
    if result["unended"]:
        lines.append(f"{result['unended']} last documents have no end of text: cut short?")
    print_result(result, as_json, lines)
