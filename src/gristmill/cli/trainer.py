"""The verbs `export` and `import`: thin, as app.py."""

from pathlib import Path

from typer import Argument, Option

from gristmill.cli.arguments import Json
from gristmill.cli.completion import among, corpora
from gristmill.progress.terminal import print_result
from gristmill.system.interrupts import handle_ctrl_c
from gristmill.trainer_formats import FORMATS, IMPORTED


def export(
    corpus: Path = Argument(..., help="The folder of the corpus.", autocompletion=corpora),
    out: Path = Option(..., help="The folder to write to."),
    to: str = Option(
        "jsonl.zst",
        help=f"Text: {', '.join(FORMATS.built_in_names('TextFormat'))}. Tokens: "
        f"{', '.join(FORMATS.built_in_names('TrainerFormat'))}. Or `module:VALUE`, a format of "
        "your own, or that of an installed package.",
        autocompletion=among(FORMATS.names),
    ),
    split: str | None = Option(None, help="For tokens: train or val (default: both)."),
    source: list[str] | None = Option(
        None, help="Write this source only; repeat the option for several."
    ),
    mix: str | None = Option(
        None,
        help="For tokens: interleave sources into one stream, by shares of tokens "
        "(web=0.7,books=0.3) or in proportion to their tokens (proportional).",
    ),
    tokens_per_file: int | None = Option(None, min=1, help="For tokens: the size of a file."),
    strict: bool = Option(
        False,
        "--strict",
        help="For tokens: refuse documents with an end of text inside, if readers of the "
        "format divide at that token.",
    ),
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
    folder: Path = Argument(..., help="The folder with the files to import."),
    from_: str = Option(
        ...,
        "--from",
        help=f"The format of the files: {', '.join(IMPORTED.built_in_names())}, or one of "
        "your own, as `module:VALUE`.",
        autocompletion=among(IMPORTED.names),
    ),
    out: Path = Option(..., help="The folder of the corpus to write."),
    tokenizer: str | None = Option(
        None,
        help="The tokenizer of the tokens: a name, path or URL (default: the one beside an "
        "export of gristmill).",
    ),
    source: str = Option("imported", help="The name of the source."),
    end_of_text: str | None = Option(None, help="The end of text (default: the tokenizer's own)."),
    end_of_text_side: str | None = Option(
        None, help="Where documents have it: after, before or none (default: as the files show)."
    ),
    dtype: str | None = Option(
        None, help="The type of tokens in files that do not say it: uint8 to uint64."
    ),
    tokens_per_shard: int = Option(100_000_000, min=1, help="Tokens of a shard."),
    cache_dir: Path | None = Option(None, help="The folder for a tokenizer that is fetched."),
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
