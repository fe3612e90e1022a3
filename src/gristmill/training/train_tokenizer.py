"""Trains byte-level BPE tokenizers: the merges that HF tokenizers' BpeTrainer would choose, by
kernels, on all processors.

The pair with the highest count merges first; of equal counts the one whose left token has the
smaller number, then the smaller right one. Numbers are those of HF: the bytes in the order of their
characters in the byte-level alphabet, then the merged tokens as they are made. Merging goes on down
to a count of `least`, 1 unless said, as HF's `min_frequency` of 0 does.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.errors import RecipeError
from gristmill.progress.counted_work import timed
from gristmill.store.parts import write_bytes
from gristmill.tokens.byte_level import BYTE_LEVEL
from gristmill.tokens.rank_files import END_OF_TEXT
from gristmill.training.texts import TextSource, listed, name_sources, sampled
from gristmill.training.tokenizer_json import (
    BYTES_BY_CHARACTER,
    BytePairTokenizer,
    named_pattern,
    spellings,
    write_tokenizer_json,
)
from gristmill.user_input import local, one_or_more

DEFAULT_SPECIAL = (END_OF_TEXT,)
MOST_VOCABULARY = 10_000_000
LONGEST_SPECIAL = 256  # characters


@one_or_more("files", "special")
def train_tokenizer(
    files: Sequence[Path | str],
    out: Path | str,
    *,
    vocabulary: int = 32_768,
    pattern: str = "gpt2",
    special: Sequence[str] = DEFAULT_SPECIAL,
    special_first: bool = True,
    sample: int | None = None,
    least: int = 1,
    text: str = "text",
    limit: int | None = None,
    workers: int | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Train on the texts of files in any format that a recipe reads, or on the kept documents of
    corpora, and write a tokenizer.json.

    `vocabulary` is the number of tokens, with the 256 bytes and the special tokens; there are fewer
    if no pair is left that occurs `least` times. `pattern` is gpt2, cl100k, llama3, qwen2, o200k or
    deepseek. Special tokens get the first numbers, as HF's trainer gives them, or the last ones.
    `sample` is the largest number of documents of each source (all files are one), chosen by a hash
    of their text; `limit` that of the first documents from each file. The result depends on the
    texts and not on their order, nor on `workers`. Where their different pieces would not fit into
    memory, half of the documents are used, or a quarter, and so on: the result's `one_in` is 1, 2,
    4 and so on. A file `out` is replaced only with `force`.

    Raises RecipeError for a vocabulary that is too small or too large, for special tokens that
    cannot be, for an `out` that is there already, and if there is no text; MachineError if there is
    too little memory for choosing merges; SourceError for a file that cannot be read.
    """
    target = output_file(out, force=force)
    check_special(special)
    check_numbers(vocabulary, len(special), sample=sample, least=least)
    published = named_pattern(pattern)
    skipped: list[int] = []
    sources = name_sources(files, text=text, limit=limit, on_skipped=skipped.append)
    # Kernels are loaded, or compiled, when all that was asked for is right.
    from gristmill.kernels.bpe_training.pairs import choose_merges
    from gristmill.training.count_pieces import check_memory, count_pieces_that_fit

    def batches() -> Iterator[pa.RecordBatch]:
        skipped.clear()
        return _batches(sources, sample)

    pieces, amount, halvings = count_pieces_that_fit(batches, published.kernel, workers)
    if not amount.documents:
        raise RecipeError(
            f"{listed([source.where for source in sources])}: no text to train on: "
            + (
                "every document is too large (16 MiB) or cannot be read"
                if skipped
                else "no documents"
            )
        )
    check_memory([pieces])
    most = vocabulary - 256 - len(special)
    with timed(f"choose {most:,} merges among {len(pieces.counts):,} pieces"):
        merges = choose_merges(*pieces, bytes_in_order(), most, least=least)
    tokenizer = BytePairTokenizer(
        pattern, special, special_first, BYTES_BY_CHARACTER, merge_pairs(merges)
    )
    refuse_made_special(tokenizer)
    write_bytes(target.parent, target.name, write_tokenizer_json(tokenizer))
    return {
        "tokenizer": str(target),
        "vocabulary": 256 + len(special) + len(merges),
        "merges": len(merges),
        "documents": amount.documents,
        "bytes": amount.bytes,
        "skipped": sum(skipped) // (1 if sample is None else 2),  # a sample is read twice
        "pieces": len(pieces.counts),
        "one_in": 1 << halvings,
    }


def output_file(out: Path | str, *, force: bool) -> Path:
    """Return the file to write. Raises RecipeError for a folder, and for a file that is there
    already, unless `force`.
    """
    target = local(out, "--out")
    if target.is_dir():
        raise RecipeError(f"--out {target}: a folder. Name a file: {target / 'tokenizer.json'}")
    if os.path.lexists(target) and not force:
        raise RecipeError(
            f"--out {target}: it is there already, and corpora may name it. Choose another name, "
            "or replace it with --force"
        )
    return target


def _batches(sources: list[TextSource], sample: int | None) -> Iterator[pa.RecordBatch]:
    for source in sources:
        yield from source.read() if sample is None else sampled(source, sample)[0]


def bytes_in_order() -> np.ndarray:
    """Return (256,) int32: the place of each byte in the order of their characters."""
    places = np.empty(256, np.int32)
    places[BYTES_BY_CHARACTER] = np.arange(256)
    return places


def merge_pairs(merges: np.ndarray) -> list[tuple[int, int]]:
    """Merges of `choose_merges` as pairs of tokens."""
    return list(zip((merges >> 32).tolist(), (merges & 0xFFFFFFFF).tolist(), strict=True))


def check_numbers(vocabulary: int, special: int, *, sample: int | None, least: int) -> None:
    """Refuse numbers that cannot be. Raises RecipeError."""
    if vocabulary < 256 + special:
        raise RecipeError(
            f"a vocabulary of {vocabulary:,} is too small for the 256 bytes and {special} special "
            f"token{'s' * (special != 1)}: at least {256 + special} are needed"
        )
    if vocabulary > MOST_VOCABULARY:
        raise RecipeError(
            f"a vocabulary of {vocabulary:,} is too large: the limit is {MOST_VOCABULARY:,} tokens"
        )
    for option, value in (("--sample", sample), ("--least", least)):
        if value is not None and value < 1:
            raise RecipeError(f"{option} {value}: expected a number of at least 1")


def check_special(special: Sequence[str]) -> None:
    """Refuse special tokens that are empty, too long, repeated, not text, or the character of a
    byte. Raises RecipeError.
    """
    if not special:
        raise RecipeError(
            f"no special token: a corpus needs one at the end of each text, such as {END_OF_TEXT}"
        )
    for place, token in enumerate(special):
        shown = repr(token[:LONGEST_SPECIAL])
        if not token:
            raise RecipeError("--special: a special token is empty")
        if len(token) > LONGEST_SPECIAL:
            raise RecipeError(f"--special {shown}...: longer than {LONGEST_SPECIAL} characters")
        if any(0xD800 <= ord(character) < 0xE000 for character in token):
            raise RecipeError(f"--special {shown}: not valid Unicode")
        if token in special[:place]:
            raise RecipeError(f"--special {shown}: named twice")
        if token in BYTE_LEVEL:
            raise RecipeError(
                f"--special {shown}: this character stands for a byte: use a longer one, such as "
                f"{END_OF_TEXT}"
            )


def refuse_made_special(tokenizer: BytePairTokenizer) -> None:
    """Refuse a special token whose text is a token that was learned. Raises RecipeError."""
    for token in set(tokenizer.special) & set(spellings(tokenizer)):
        raise RecipeError(
            f"--special {token!r}: the texts make a token of the same characters: use one that "
            f"does not occur in text, such as {END_OF_TEXT}"
        )
