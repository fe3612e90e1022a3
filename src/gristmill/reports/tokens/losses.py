"""Held-out loss and bits per byte of a model on each source of a corpus.

    bits per byte = sum of the losses of tokens in bits / bytes of their text

Bits per byte are comparable over tokenizers, a loss per token is not. The tokens are those of the
split `val`, in windows one behind the other; the first token of a window is given, and a token that
ends or begins a document has no bytes: its loss counts in neither figure. The bytes are those of
the text as the tokenizer's normalizer leaves it; those of WordPiece are without white space, so
that its bits per byte cannot be compared with others'.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.corpus.token_corpus import Split, TokenCorpus, TokenStream
from gristmill.errors import GristmillError, MachineError, RecipeError
from gristmill.loader.parameters import whole_number
from gristmill.mixing import proxy
from gristmill.progress.counted_work import Count, counted
from gristmill.reports.tokens.token_texts import TokenTexts, token_texts

try:
    import torch
    from torch.nn import functional
except ImportError as error:
    raise ImportError("torch is not installed: pip install 'gristmill[torch]'") from error

# Tokens (rows, length) int64 on a device to scores (rows, length, vocabulary) of the next token.
Model = Callable[[Any], Any]
LENGTH = 1024  # where neither the caller nor the model says one
ROW_TOKENS = 16_384  # of a batch


def losses(
    corpus: TokenCorpus | Path | str,
    model: Model | Path | str,
    *,
    sequence_length: int | None = None,
    split: Split = "val",
    limit: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Return loss (nats a token), bits per byte, tokens and bytes of each source, and of all
    together.

    `model` is a function from tokens to scores, a folder that `doremi` wrote, or a folder of a
    Hugging Face causal model (needs transformers; nothing is downloaded, no code in it is run).
    `limit`: at most this many tokens of each source, from its beginning. The answer has `sources`
    ({source: {loss, bits_per_byte, tokens, bytes}}), `all`, `sequence_length` and `split`.

    Raises RecipeError, VerificationError for a damaged corpus or model, GristmillError where a loss
    is not finite.
    """
    opened = corpus if isinstance(corpus, TokenCorpus) else TokenCorpus.open(corpus)
    if not opened.sources(split):
        raise RecipeError(
            f"{opened.root}: the split {split!r} has no tokens: raise [tokens] validation"
        )
    run, most = _model(model, opened.format.vocabulary, device)
    length = whole_number("sequence_length", sequence_length or most or LENGTH, 2)
    if most is not None and length > most:
        raise RecipeError(f"sequence_length {length:,}: the model has {most:,} positions")
    texts = token_texts(opened)
    if texts is None:
        raise RecipeError(f"{opened.root}: no tokenizer that can be read: bytes are not known")
    begins = isinstance(opened.format.begin_of_text, int)
    rows = {}
    for name in opened.sources(split):
        stream = opened.stream(name, split)
        with counted(f"losses {name}", limit or stream.tokens, "tokens") as count:
            rows[name] = _source(stream, run, texts, begins, length, limit, device, count)
    if not any(row["tokens"] for row in rows.values()):
        raise RecipeError(f"{opened.root}: no token of the split {split!r} has text before it")
    totals = {key: sum(row[key] for row in rows.values()) for key in ("nats", "tokens", "bytes")}
    return {
        "split": split,
        "sequence_length": length,
        "sources": {name: _row(row) for name, row in rows.items()},
        "all": _row(totals),
    }


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    tokens, size, nats = int(found["tokens"]), int(found["bytes"]), float(found["nats"])
    return {
        "loss": nats / tokens if tokens else None,
        "bits_per_byte": nats / math.log(2) / size if size else None,
        "tokens": tokens,
        "bytes": size,
    }


def _source(
    stream: TokenStream,
    model: Model,
    texts: TokenTexts,
    begins: bool,
    length: int,
    limit: int | None,
    device: str,
    count: Count,
) -> dict[str, float]:
    """Return the sum of losses of a source's tokens, how many they are, and their bytes."""
    end = min(stream.tokens, limit or stream.tokens)
    sums = {"nats": 0.0, "tokens": 0, "bytes": 0}
    skipped = int(begins)
    at = 0
    rows = max(1, ROW_TOKENS // length)
    while at + 1 < end:
        # A window's last token is the next one's first: every token but the first is predicted.
        rows_here = min(rows, max(1, (end - 1 - at) // length))
        wide = min(length, end - 1 - at)
        tokens = stream.read(at, at + rows_here * wide + 1).astype(np.int64)
        windows = np.stack([tokens[n * wide : n * wide + wide + 1] for n in range(rows_here)])
        given = torch.from_numpy(windows).to(device)
        with torch.no_grad():
            scores = model(given[:, :-1]).float()
            each = functional.cross_entropy(
                scores.flatten(0, 1), given[:, 1:].flatten(), reduction="none"
            )
        first = np.zeros(len(tokens), np.bool_)
        first[_first_places(stream, at, at + len(tokens), skipped) - at] = True
        sizes = texts.sizes_in_place(tokens, first)
        size = np.concatenate([sizes[n * wide + 1 : (n + 1) * wide + 1] for n in range(rows_here)])
        counted = each.double().cpu().numpy()[size > 0]
        if not np.isfinite(counted).all():
            raise GristmillError(
                f"source {stream.source!r}, tokens {at:,} to {at + rows_here * wide:,}: a loss is "
                "not finite"
            )
        sums["nats"] += float(counted.sum())
        sums["tokens"] += len(counted)
        sums["bytes"] += int(size.sum())
        at += rows_here * wide
        count.at(at)
    return sums


def _first_places(stream: TokenStream, start: int, stop: int, skipped: int) -> np.ndarray:
    """Return the positions in a range of the first token of text of a document, (n,) int64;
    `skipped` tokens stand before it.
    """
    low = max(start - skipped - 1, 0)
    spans = stream.documents(low, stop)
    # The first one may have begun before the range; in any case its text did.
    places = spans.starts[int(low > 0) :] + skipped
    return np.asarray(places[(places >= start) & (places < stop)])


def _model(model: Model | Path | str, vocabulary: int, device: str) -> tuple[Model, int | None]:
    """Return a model as a function, and its number of positions. Raises RecipeError."""
    if callable(model):
        return model, None
    folder = Path(model)
    if (folder / proxy.FILE).is_file():
        tensors, config = proxy.load_model(folder, device)
        _same_vocabulary(folder, config.vocabulary, vocabulary)
        return lambda tokens: proxy.logits(tensors, config, tokens), config.sequence_length
    if (folder / "config.json").is_file():
        return _hugging_face(folder, vocabulary, device)
    raise RecipeError(
        f"{folder}: no model: a folder with {proxy.FILE}, which `doremi` writes, or with "
        "config.json of a Hugging Face model"
    )


def _hugging_face(folder: Path, vocabulary: int, device: str) -> tuple[Model, int | None]:
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise MachineError(f"{folder} is a Hugging Face model: pip install transformers") from error
    try:
        loaded = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # of the library, of many kinds
        raise RecipeError(f"{folder}: transformers cannot load it: {error}") from error
    loaded = loaded.to(device).eval()
    _same_vocabulary(folder, int(loaded.config.vocab_size), vocabulary)
    most = getattr(loaded.config, "max_position_embeddings", None)
    return lambda tokens: loaded(tokens).logits, most


def _same_vocabulary(folder: Path, of_model: int, of_corpus: int) -> None:
    """Refuse a model that does not have all tokens of a corpus; one may have rows to spare."""
    if of_model < of_corpus:
        raise RecipeError(
            f"{folder}: the model has {of_model:,} tokens, the corpus has {of_corpus:,}: it was "
            "trained with another tokenizer"
        )


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return the losses, for people."""
    width = max(len(name) for name in (*found["sources"], "source"))
    out = [f"{'source':{width}}  {'loss':>8}  {'bits/byte':>9}  {'tokens':>12}  {'bytes':>12}"]
    for name, row in (*found["sources"].items(), ("all", found["all"])):
        if row["loss"] is None:
            out.append(f"{name:{width}}  {'-':>8}  {'-':>9}  {0:12,}  {0:12,}")
            continue
        out.append(
            f"{name:{width}}  {row['loss']:8.4f}  {row['bits_per_byte']:9.4f}  "
            f"{row['tokens']:12,}  {row['bytes']:12,}"
        )
    return out
