"""Shows tokenizers: what they hold, and how they do on texts, by source and language."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.errors import RecipeError
from gristmill.store.cache import default_cache
from gristmill.tables.columns import utf8_buffers
from gristmill.tokens.growth_record import read_record
from gristmill.tokens.rank_files import END_OF_TEXT, known_file
from gristmill.tokens.tokenizer import Tokenizer, load
from gristmill.tokens.tokenizer_file import read_json
from gristmill.training.texts import TextSource, listed, name_sources, sampled
from gristmill.user_input import one_or_more

TEXT = "Raw web in, verified training tokens out."
MOST_SHOWN = 10  # longest tokens, and unused ones


@one_or_more("inputs")
def show_tokenizer(
    tokenizer: str,
    inputs: Sequence[Path | str] = (),
    *,
    text: str | None = None,
    field: str = "text",
    sample: int | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return what a tokenizer (gpt2, or its path or URL) holds, and what it does to texts.

    `text` is encoded and its tokens are listed. `inputs` are files or corpora: for each source, and
    each language if the corpus has a step `language`, the numbers of documents, words, bytes and
    tokens, tokens a word (fertility) and bytes a token; and which tokens no text used. `sample` and
    `limit` are as in `train_tokenizer`, `field` is its `text`. Raises RecipeError.
    """
    loaded = load(tokenizer, Path.cwd(), default_cache())
    sizes = _sizes(loaded)
    shown: dict[str, Any] = {
        "name": tokenizer,
        "vocabulary": loaded.vocabulary,
        "sha256": loaded.sha256,
        "kernel": loaded.kernel,
        "library_reason": loaded.library_reason,
        "end_of_text": loaded.end_of_text,
        "end_of_text_literal": loaded.ending.literal,
        "end_of_text_evidence": list(loaded.ending.evidence),
        **_of_file(loaded),
        **_growth(loaded),
        "longest": _longest(loaded, sizes),
    }
    if text is None and not inputs:
        text = TEXT
    if text is not None:
        tokens = loaded.encode([text]).tokens.tolist()
        shown |= {"tokens": tokens, "pieces": [loaded.token_text(token) for token in tokens]}
    if inputs:
        shown |= _on_texts(loaded, sizes, name_sources(inputs, text=field, limit=limit), sample)
    return shown


def _of_file(loaded: Tokenizer) -> dict[str, Any]:
    """Return its special tokens, and its pattern of pieces."""
    known = known_file(loaded.sha256)
    if loaded.file_name != "tokenizer.json":
        special = known.special if known else {END_OF_TEXT: loaded.end_of_text}
        return {"special": special, "pattern": _pattern(loaded, {})}
    read = read_json(loaded.data)
    special = {token.content: token.id for token in read.added_tokens or [] if token.special}
    return {"special": special, "pattern": _pattern(loaded, read.splitting)}


def _growth(loaded: Tokenizer) -> dict[str, Any]:
    """Return the record of a tokenizer that grows."""
    record = read_record(loaded.data) if loaded.file_name == "tokenizer.json" else None
    return {} if record is None else {"growth": msgspec.to_builtins(record)}


def _pattern(loaded: Tokenizer, splitting: dict[str, Any]) -> str | None:
    """Return the name of the pattern that our kernel has, or the regular expressions of the file;
    None: it has no pre-tokenizer.
    """
    if loaded.pattern is not None:
        return loaded.pattern.name.lower()
    steps = splitting.get("pretokenizers", [splitting] if splitting else [])
    splits = [step.get("pattern", {}).get("Regex") or step.get("type") for step in steps]
    return " then ".join(map(str, splits)) or None


def _sizes(loaded: Tokenizer) -> np.ndarray:
    """Return (vocabulary,) the bytes of text of each token; 0 for special ones."""
    return loaded.token_bytes.sizes


def _longest(loaded: Tokenizer, sizes: np.ndarray) -> list[dict[str, Any]]:
    """Return the tokens of the most bytes, special ones aside."""
    order = np.argsort(-sizes, kind="stable")[:MOST_SHOWN].tolist()
    return [
        {"token": token, "bytes": int(sizes[token]), "text": loaded.token_text(token)}
        for token in order
        if sizes[token]
    ]


def _on_texts(
    loaded: Tokenizer, sizes: np.ndarray, sources: list[TextSource], sample: int | None
) -> dict[str, Any]:
    used = np.zeros(loaded.vocabulary, np.int64)
    rows: dict[tuple[str, str | None], np.ndarray] = {}
    for source in sources:
        batches = source.read() if sample is None else sampled(source, sample)[0]
        for batch in batches:
            for language, texts in _by_language(batch):
                row = rows.setdefault((source.name, language), np.zeros(4, np.int64))
                row += _count(loaded, texts, used)
    if not rows:
        where = listed([source.where for source in sources])
        raise RecipeError(f"{where}: no text to encode: the files have no documents")
    unused = np.flatnonzero((used == 0) & (sizes > 0))
    table = [
        _row(source, language, rows[source, language])
        for source, language in sorted(
            rows, key=lambda key: (key[0], -int(rows[key][2]), key[1] or "")
        )
    ]
    return {
        "texts": table,
        "all": _row("all", None, np.sum(list(rows.values()), axis=0)),
        "unused": {
            "tokens": len(unused),
            "share": len(unused) / max(int((sizes > 0).sum()), 1),
            "some": [
                {"token": token, "text": loaded.token_text(token)}
                for token in unused[:MOST_SHOWN].tolist()
            ],
        },
    }


def _by_language(batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.Array]]:
    texts, languages = batch["text"], batch["language"]
    if languages.null_count == len(batch):
        yield None, texts
        return
    for language in languages.unique().to_pylist():
        chosen = pc.is_null(languages) if language is None else pc.equal(languages, language)
        yield language, texts.filter(chosen)


def _count(loaded: Tokenizer, texts: pa.Array, used: np.ndarray) -> np.ndarray:
    """Return documents, words, bytes and tokens of texts; adds to the uses of each token."""
    from gristmill.kernels.text import words

    offsets, data = utf8_buffers(texts)
    tokens = loaded.encode(texts).tokens
    used += np.bincount(tokens, minlength=len(used))
    word_count = int(words.find(offsets, data).word_offsets[-1])
    return np.array([len(texts), word_count, int(offsets[-1]) - int(offsets[0]), len(tokens)])


def _row(source: str, language: str | None, counts: np.ndarray) -> dict[str, Any]:
    documents, found, size, tokens = map(int, counts)
    return {
        "source": source,
        "language": language,
        "documents": documents,
        "words": found,
        "bytes": size,
        "tokens": tokens,
        "tokens_per_word": tokens / found if found else None,
        "bytes_per_token": size / tokens if tokens else None,
    }


def lines(shown: dict[str, Any]) -> list[str]:
    """Return `show_tokenizer`'s result as lines of text."""
    by = "gristmill's kernel" if shown["kernel"] else "the tokenizers library, which is slower"
    special = ", ".join(f"{token} {number}" for token, number in shown["special"].items())
    head = f"{shown['name']}: {shown['vocabulary']:,} tokens, encoded by {by}"
    out = [
        f"{head}, sha256 {shown['sha256']}",
        *([f"library  {shown['library_reason']}"] if shown["library_reason"] else []),
        f"pattern  {shown['pattern'] or 'none'}",
        f"special  {special or 'none'}",
        f"end      {shown['end_of_text_literal']} {shown['end_of_text']}, by "
        + "; ".join(shown["end_of_text_evidence"]),
        "longest  "
        + ", ".join(f"{entry['text']!r} ({entry['bytes']})" for entry in shown["longest"]),
    ]
    if growth := shown.get("growth"):
        origins = dict.fromkeys(entry["source"] for entry in growth["sources_contributed"])
        out.append(
            f"version  {growth['version']}, next merge {growth['next_merge_id']:,}, "
            f"{len(origins)} source{'s' * (len(origins) != 1)}: {', '.join(origins)}"
        )
    if "tokens" in shown:
        out += ["", " ".join(map(str, shown["tokens"])), "|".join(shown["pieces"])]
    if "texts" in shown:
        names = ("source", "language", "documents", "words", "bytes", "tokens")
        table = [[*names, "tokens/word", "bytes/token"]]
        table += [_cells(row, names) for row in (*shown["texts"], shown["all"])]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        out.append("")
        for cells in table:
            left = [cell.ljust(width) for cell, width in zip(cells[:2], widths, strict=False)]
            right = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
            out.append("  ".join([*left, *right]))
        unused = shown["unused"]
        some = ", ".join(repr(entry["text"]) for entry in unused["some"])
        out.append("")
        out.append(
            f"unused   {unused['tokens']:,} tokens ({unused['share']:.1%})"
            + (f", such as {some}" if some else "")
        )
    return out


def _cells(row: dict[str, Any], names: Sequence[str]) -> list[str]:
    def cell(value: Any) -> str:
        if value is None:
            return "-"
        return f"{value:,}" if isinstance(value, int) else str(value)

    ratios = (row["tokens_per_word"], row["bytes_per_token"])
    return [
        *(cell(row[name]) for name in names),
        *("-" if ratio is None else f"{ratio:.3f}" for ratio in ratios),
    ]
