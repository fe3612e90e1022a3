"""The verbs `gristmill model ...` and `gristmill tokenizer ...`: thin, as app.py."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from gristmill.cli.arguments import Json
from gristmill.cli.completion import PATTERNS, among
from gristmill.progress.terminal import print_result
from gristmill.system.interrupts import handle_ctrl_c

app = typer.Typer(
    no_args_is_help=True,
    help="Train and show classifiers and n-gram models.",
    rich_markup_mode=None,
)

tokenizer_app = typer.Typer(
    no_args_is_help=True, help="Train and show tokenizers.", rich_markup_mode=None
)

Out = Annotated[Path, Option(help="The file to write.")]
Text = Annotated[str, Option(help="The field that holds the text.")]
Replace = Annotated[bool, Option("--force", help="Replace a file that is no model.")]
Limit = Annotated[int | None, Option(min=1, help="Read at most N documents of each file.")]


@app.command("train-classifier")
def train_classifier(
    good: list[Path] = Option(..., help="A file of good documents; repeat it for more."),
    bad: list[Path] = Option(..., help="A file of bad documents; repeat it for more."),
    out: Out = Path("classifier.model"),
    seed: int = Option(1, help="The seed of the order of documents."),
    bits: int = Option(20, help="The classifier has 2 ** bits weights."),
    epochs: int = Option(5, help="How often training reads each document."),
    rate: float = Option(0.2, help="The rate of learning."),
    text: Text = "text",
    limit: Limit = None,
    force: Replace = False,
    as_json: Json = False,
) -> None:
    """Train a classifier that separates good documents from bad ones, for the step `classifier`.

    Files: JSONL, Parquet, WET, or text, where each paragraph is a document. The same files give
    the same bytes.
    """
    from gristmill.training.train_models import lines
    from gristmill.training.train_models import train_classifier as train

    handle_ctrl_c()
    result = train(
        good,
        bad,
        out,
        seed=seed,
        bits=bits,
        epochs=epochs,
        rate=rate,
        text=text,
        limit=limit,
        force=force,
    )
    print_result(result, as_json, [str(out), *lines(result)])


@app.command("train-perplexity")
def train_perplexity(
    files: list[Path] = Argument(..., help="Reference text: JSONL, Parquet, WET or text."),
    out: Out = Path("perplexity.model"),
    order: int = Option(3, help="Words in the longest n-gram, 1 to 4."),
    vocabulary: int = Option(
        60_000, help="How many of the most common words to use, at most 65,532."
    ),
    least: int = Option(2, help="Leave out n-grams of three or more words that occur less often."),
    text: Text = "text",
    limit: Limit = None,
    force: Replace = False,
    as_json: Json = False,
) -> None:
    """Estimate an n-gram model of words from reference text, for the step `perplexity`.

    The same files give the same bytes.
    """
    from gristmill.training.train_models import lines
    from gristmill.training.train_models import train_perplexity as train

    handle_ctrl_c()
    result = train(
        files,
        out,
        order=order,
        vocabulary=vocabulary,
        least=least,
        text=text,
        limit=limit,
        force=force,
    )
    print_result(result, as_json, [str(out), *lines(result)])


@app.command("show")
def show(model: Path = Argument(..., help="A model file."), as_json: Json = False) -> None:
    """Show the kind and the parameters of a model, and the digests of its training files."""
    from gristmill.training.train_models import lines, show_model

    result = show_model(model)
    print_result(result, as_json, lines(result))


Workers = Annotated[int | None, Option(min=1, help="Threads that count. Default: one a processor.")]
Force = Annotated[bool, Option("--force", help="Replace the file that is there.")]


@tokenizer_app.command("train")
def tokenizer_train(
    inputs: list[Path] = Argument(..., help="Text, JSONL, WET or Parquet files, or a corpus."),
    out: Path = Option(Path("tokenizer.json"), help="The tokenizer.json to write."),
    vocabulary: int = Option(
        32_768, help="The number of tokens, with the 256 bytes and special tokens."
    ),
    pattern: str = Option(
        "gpt2",
        help="How text is split into pieces: gpt2, cl100k, llama3, qwen2, o200k or deepseek.",
        autocompletion=among(PATTERNS),
    ),
    special: list[str] | None = Option(
        None, help="A special token; repeat it for more. Default: <|endoftext|>."
    ),
    special_last: bool = Option(
        False, "--special-last", help="Number special tokens last, not first."
    ),
    sample: int | None = Option(None, min=1, help="Train on at most N documents of each source."),
    least: int = Option(1, min=1, help="Stop when no pair of tokens occurs N times."),
    text: Text = "text",
    limit: Limit = None,
    workers: Workers = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a byte-level BPE tokenizer on the texts of files or of a corpus.

    The same texts give the same bytes, whatever their order. The merges are those that the trainer
    of HF tokenizers chooses.
    """
    from gristmill.training.train_tokenizer import DEFAULT_SPECIAL, train_tokenizer

    handle_ctrl_c()
    result = train_tokenizer(
        list(inputs),
        out,
        vocabulary=vocabulary,
        pattern=pattern,
        special=special or DEFAULT_SPECIAL,
        special_first=not special_last,
        sample=sample,
        least=least,
        text=text,
        limit=limit,
        workers=workers,
        force=force,
    )
    shown = (
        f"{out}: {result['vocabulary']:,} tokens, learned from {result['documents']:,} documents"
    )
    if result["one_in"] > 1:  # the texts had too many different pieces
        shown += (
            f", one in {result['one_in']} of all: the different pieces of more do not fit into "
            "memory"
        )
    if result["skipped"]:
        shown += f"; {result['skipped']:,} were too large or could not be read"
    print_result(result, as_json, [shown])


@tokenizer_app.command("grow")
def tokenizer_grow(
    sources: list[str] = Argument(
        ..., help="NAME=FILE (repeat a name for more files), or a corpus."
    ),
    tokenizer: Path | None = Option(None, help="The version to grow from. Without it: version 1."),
    out: Path = Option(Path("tokenizer.json"), help="The tokenizer.json to write."),
    merges: int | None = Option(None, help="Each source adds N merges."),
    total: int | None = Option(None, help="Share N merges out by the bytes of the samples."),
    sample: int = Option(10_000, min=1, help="Learn from at most N documents of each source."),
    least: int = Option(1, min=1, help="Stop when no pair of tokens occurs N times."),
    pattern: str | None = Option(
        None, help="For version 1: as of `tokenizer train`. Default: gpt2."
    ),
    special: list[str] | None = Option(None, help="For version 1: a special token; there are 10."),
    text: Text = "text",
    workers: Workers = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Add merges of new sources to a tokenizer; no token changes its number.

    Whatever an earlier version encoded, every later version decodes to the same text.
    """
    from gristmill.training.grow_tokenizer import grow_tokenizer, lines, sources_of_words

    handle_ctrl_c()
    result = grow_tokenizer(
        sources_of_words(sources),
        out,
        tokenizer=tokenizer,
        merges=merges,
        total=total,
        sample=sample,
        least=least,
        pattern=pattern,
        special=special or None,
        text=text,
        workers=workers,
        force=force,
    )
    print_result(result, as_json, lines(result))


@tokenizer_app.command("show")
def tokenizer_show(
    tokenizer: str = Argument(..., help="gpt2, or a tokenizer's path or URL."),
    inputs: list[Path] | None = Argument(None, help="Files or a corpus to encode."),
    text: str | None = Option(None, help="A text: show its tokens."),
    field: str = Option("text", help="The field of files that holds the text."),
    sample: int | None = Option(None, min=1, help="Encode at most N documents of each source."),
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Show a tokenizer: its tokens, the tokens of a text, and how it does on texts by source and
    language.
    """
    from gristmill.training.show_tokenizer import lines, show_tokenizer

    handle_ctrl_c()
    result = show_tokenizer(
        tokenizer, inputs or [], text=text, field=field, sample=sample, limit=limit
    )
    print_result(result, as_json, lines(result))
