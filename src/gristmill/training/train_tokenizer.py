"""Trains a byte-level BPE tokenizer that our kernel can encode, with the trainer of HF tokenizers;
and shows tokenizers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gristmill.errors import RecipeError
from gristmill.source.read import ShardReader
from gristmill.source.rows import Fields
from gristmill.store.cache import default_cache
from gristmill.store.parts import write_bytes
from gristmill.tokens.tokenizer import END_OF_TEXT, load
from gristmill.user_input import local


def train_tokenizer(
    files: list[Path | str],
    out: Path | str,
    *,
    vocabulary: int = 32_768,
    text: str = "text",
    limit: int | None = None,
) -> dict[str, object]:
    """Train on the texts of files in any format that a recipe reads, and write a tokenizer.json.

    `vocabulary` is the number of tokens, with the 256 bytes and the end of text; `limit` is the
    largest number of documents from each file. Raises RecipeError if the vocabulary is too small, a
    file is missing, or there is no text.
    """
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    target = local(out, "--out")
    if vocabulary < 257:
        raise RecipeError(
            f"a vocabulary of {vocabulary} is too small for the 256 bytes and {END_OF_TEXT}"
        )
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    counts = {"documents": 0, "characters": 0}

    def texts() -> Iterator[list[str]]:
        for number, file in enumerate(files):
            if not Path(file).is_file():
                raise RecipeError(f"{file}: no such file")
            for batch in ShardReader(Path(file), number, fields=Fields(text), limit=limit):
                read = [value for value in batch["text"].to_pylist() if value]
                counts["documents"] += len(read)
                counts["characters"] += sum(map(len, read))
                yield read

    tokenizer.train_from_iterator(texts(), trainer)
    if not counts["documents"]:
        raise RecipeError("no text to train on: the files have no documents")
    write_bytes(target.parent, target.name, tokenizer.to_str(pretty=True).encode())
    return {"tokenizer": str(target), "vocabulary": tokenizer.get_vocab_size(), **counts}


def show_tokenizer(tokenizer: str, text: str) -> tuple[dict[str, Any], list[str]]:
    """A tokenizer (gpt2, or its path or URL) and the tokens of a text: as values, and as lines of
    text. Raises RecipeError.
    """
    loaded = load(tokenizer, Path.cwd(), default_cache())
    tokens = loaded.encode([text]).tokens.tolist()
    pieces = [loaded.decode([token]) for token in tokens]
    shown = {
        "vocabulary": loaded.vocabulary,
        "sha256": loaded.sha256,
        "kernel": loaded.kernel,
        "tokens": tokens,
        "pieces": pieces,
    }
    by = "gristmill's kernel" if loaded.kernel else "the tokenizers library"
    head = f"{tokenizer}: {loaded.vocabulary:,} tokens, encoded by {by}, sha256 {loaded.sha256}"
    return shown, [head, " ".join(map(str, tokens)), "|".join(pieces)]
