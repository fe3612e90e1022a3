"""Statistics of a corpus' tokens: how many, of which vocabulary, how long the documents are, by
source, split, language and domain; and warnings where a figure is unusual.

Everything is counted from the token shards. Characters and bytes of groups are those that their
tokens stand for, so they need no text; those of the whole corpus are the text's own, where the
corpus says them.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.errors import RecipeError, VerificationError
from gristmill.reports.documents.document_tables import Domains, Languages, group_languages
from gristmill.reports.planning import utilisation
from gristmill.reports.tokens.token_counts import (
    NO_LENGTHS,
    SPLITS,
    Lengths,
    count_streams,
    most_groups,
)
from gristmill.reports.tokens.token_texts import TokenTexts, token_texts

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
FEWEST, MOST = 1.5, 8.0  # characters a token, of ordinary text
LEAST = 10_000  # tokens of a group that may be warned of: fewer say nothing of a tokenizer
# Tokens a byte that are commonly quoted for FineWeb-Edu (Penedo et al. 2024, arXiv 2406.17557),
# whose tokens are counted with GPT-2's tokenizer: English web text. Not measured here.
REFERENCE = {"name": "FineWeb-Edu, GPT-2's tokenizer", "tokens_per_byte": 0.20}


def stats(
    corpus: Path | str, *, sequence_length: int | None = None, top: int = 10
) -> dict[str, Any]:
    """Return statistics of a finished corpus with token shards; its text is not read.

    `sequence_length` is the length of a training sequence in tokens, for `utilisation`; `top` is
    how many tokens and domains are listed. Tokens include the end of text. Raises RecipeError for
    a corpus without tokens, VerificationError for a damaged one.
    """
    if top < 0:
        raise RecipeError(f"top = {top}: a number of tokens and domains, 0 or more")
    if sequence_length is not None and sequence_length < 1:
        raise RecipeError(f"sequence_length = {sequence_length}: a number of tokens, at least 1")
    opened = TokenCorpus.open(corpus)
    texts = token_texts(opened)
    result: dict[str, Any] = {"corpus": opened.digest}
    with ExitStack() as stack:
        languages = group_languages(opened, most_groups(opened.format.vocabulary), stack)
        domains = Domains(opened, stack) if Domains.known(opened) else None
        tables = _count(opened, texts, languages, domains, top)
        result |= _whole(opened, texts, tables, top)
        for name in ("splits", "sources", "languages"):
            result[name] = tables[name]
        result["domain_count"], result["domains"] = None, None
        if domains is not None:
            count, largest = domains.largest(top)
            result["domain_count"] = count
            result["domains"] = [
                {**domain._asdict(), "share": _ratio(domain.tokens, result["tokens"])}
                for domain in largest
            ]
    result["utilisation"] = (
        utilisation.utilisation(opened, tables["train_lengths"], sequence_length)
        if sequence_length
        else None
    )
    result["reference"] = REFERENCE
    result["notes"] = _notes(opened, texts, result)
    result["warnings"] = _warnings(result)
    return result


def _count(
    opened: TokenCorpus,
    texts: TokenTexts | None,
    languages: Languages | None,
    domains: Domains | None,
    top: int,
) -> dict[str, Any]:
    """Return all counts of the shards, as rows of the result's tables."""
    size = opened.format.vocabulary
    groups = len(languages.names) if languages else 1
    of_groups = np.zeros((groups, size), np.int64)
    of_splits = {split: np.zeros(size, np.int64) for split in SPLITS}
    split_lengths = dict.fromkeys(SPLITS, NO_LENGTHS)
    train_lengths: dict[str, Lengths] = {}
    sources: dict[str, tuple[np.ndarray, int, Lengths]] = {}
    # Documents that begin with a space that the tokenizer put there.
    led = np.zeros(groups, np.int64)
    led_of_splits = dict.fromkeys(SPLITS, 0)
    rows: list[dict[str, Any]] = []
    total = sum(opened.stream(s, split).tokens for split in SPLITS for s in opened.sources(split))

    def close() -> None:
        """Turn the counts of sources that are complete into rows: they are large."""
        for name, (counts, led, lengths) in sources.items():
            rows.append(_row(name, counts, led, lengths, texts, total, top))
        sources.clear()

    for stream in count_streams(
        opened,
        groups,
        languages.group_of if languages else None,
        domains.add if domains is not None else None,
        texts.leads if texts is not None else None,
    ):
        if stream.source not in sources:
            close()
        counts = stream.counts.sum(0)
        before = sources.get(stream.source, (np.zeros(size, np.int64), 0, NO_LENGTHS))
        here = int(stream.led.sum())
        lengths = before[2].joined(stream.lengths)
        sources[stream.source] = (before[0] + counts, before[1] + here, lengths)
        of_groups += stream.counts
        led += stream.led
        led_of_splits[stream.split] += here
        of_splits[stream.split] += counts
        split_lengths[stream.split] = split_lengths[stream.split].joined(stream.lengths)
        if stream.split == "train":
            train_lengths[stream.source] = stream.lengths
    close()
    labels = languages.names if languages else []
    tables: dict[str, Any] = {
        "counts": of_groups.sum(0),
        "led": int(led.sum()),
        "lengths": split_lengths["train"].joined(split_lengths["val"]),
        "train_lengths": train_lengths,
        "sources": rows,
        "splits": [
            _row(
                split,
                of_splits[split],
                led_of_splits[split],
                split_lengths[split],
                texts,
                total,
                top,
            )
            for split in SPLITS
        ],
        "languages": None,
    }
    if languages:
        language_rows = [
            _row(name, counts, int(led[place]), None, texts, total, top)
            for place, (name, counts) in enumerate(zip(labels, of_groups, strict=False))
            if counts.any()
        ]
        tables["languages"] = _sort_languages(language_rows, languages, domains)
    return tables


def _sort_languages(
    rows: list[dict[str, Any]], languages: Languages, domains: Domains | None
) -> list[dict[str, Any]]:
    """Return the rows of languages, most tokens first, with their documents where these are
    known.
    """
    if domains is not None:
        counted = languages.documents(domains.tokens).tolist()
        documents = dict(zip(languages.names, counted, strict=True))
        for row in rows:
            row["documents"] = documents[row["name"]]
    return sorted(rows, key=lambda row: (-row["tokens"], row["name"] or ""))


def _row(
    name: str | None,
    counts: np.ndarray,
    led: int,
    lengths: Lengths | None,
    texts: TokenTexts | None,
    total: int,
    top: int,
) -> dict[str, Any]:
    """Return a row for a source, split or language."""
    tokens = int(counts.sum())
    row: dict[str, Any] = {"name": name, "tokens": tokens, "share": _ratio(tokens, total)}
    if lengths is not None:
        row["documents"] = int(lengths.documents.sum())
        row["median_tokens"] = lengths.quantile(0.5)
    if texts is not None:
        row |= _per_token(tokens, texts.characters_of(counts, led), texts.bytes_of(counts, led))
    row["vocabulary_used"] = int(np.count_nonzero(counts))
    row["top_tokens"] = _top(counts, texts, top)
    return row


def _per_token(tokens: int, characters: int, size: int) -> dict[str, Any]:
    return {
        "characters": characters,
        "bytes": size,
        "characters_per_token": _ratio(characters, tokens),
        "bytes_per_token": _ratio(size, tokens),
        "tokens_per_byte": _ratio(tokens, size),
    }


def _top(counts: np.ndarray, texts: TokenTexts | None, top: int) -> list[dict[str, Any]]:
    """Return the tokens that occur most, of equal ones the lower number."""
    total = int(counts.sum())
    order = np.argsort(-counts, kind="stable")[:top]
    return [
        {
            "token": token,
            **(texts.spelling(token) if texts is not None else {}),
            "count": int(counts[token]),
            "share": _ratio(int(counts[token]), total),
        }
        for token in order.tolist()
        if counts[token]
    ]


def _whole(
    opened: TokenCorpus, texts: TokenTexts | None, tables: dict[str, Any], top: int
) -> dict[str, Any]:
    """Return the figures of the whole corpus. Raises VerificationError where they are not the
    funnel's.
    """
    counts, lengths, funnel = tables["counts"], tables["lengths"], opened.manifest.funnel
    tokens, documents = int(counts.sum()), int(lengths.documents.sum())
    # Withdrawn documents are no longer kept, and their end-of-text tokens are in the shards.
    stated = funnel.get("train_documents", 0) + funnel.get("validation_documents", 0)
    for name, total, said in (
        ("tokens", tokens, funnel.get("tokens", tokens)),
        ("documents", documents, stated or documents),
    ):
        if said != total:
            raise VerificationError(
                f"{opened.root}: its shards have {total:,} {name}, and its funnel says {said:,}. "
                f"Run `gristmill verify {opened.root}`"
            )
    used = int(np.count_nonzero(counts))
    size = opened.format.vocabulary
    whole: dict[str, Any] = {
        "tokens": tokens,
        "documents": documents,
        "vocabulary": {
            "size": size,
            "used": used,
            "share": _ratio(used, size),
            "never_used": size - used,
        },
    }
    measured = None
    if texts is not None:
        led = tables["led"]
        measured = (texts.characters_of(counts, led), texts.bytes_of(counts, led))
    # The text's counts are of every document once.
    has_text = "characters" in funnel and "bytes" in funnel and "repeats" not in funnel
    stated = (funnel["characters"], funnel["bytes"]) if has_text else measured
    whole["measured_from"] = "text" if has_text else "tokens" if measured else None
    compared = measured is not None and has_text
    whole["tokens_spell_text"] = measured == stated if compared else None
    if stated is not None:
        whole |= _per_token(tokens, *stated)
    return whole | {"lengths": _lengths(lengths), "top_tokens": _top(counts, texts, top)}


def _lengths(lengths: Lengths) -> dict[str, Any]:
    """Return quantiles, and a histogram in powers of two: 1, 2, 3 to 4, 5 to 8 and so on."""
    documents = int(lengths.documents.sum())
    tokens = lengths.tokens * lengths.documents
    places = np.frexp(np.maximum(lengths.tokens - 1, 0).astype(np.float64))[1]
    bins = []
    for place in np.unique(places).tolist():
        here = places == place
        bins.append(
            {
                "least": (1 << place >> 1) + 1 if place else int(lengths.tokens[0] > 0),
                "most": 1 << place,
                "documents": int(lengths.documents[here].sum()),
                "tokens": int(tokens[here].sum()),
            }
        )
    return {
        "mean": _ratio(int(tokens.sum()), documents),
        "least": lengths.quantile(0.0),
        "most": lengths.quantile(1.0),
        "quantiles": {f"{share:g}": lengths.quantile(share) for share in QUANTILES},
        "histogram": bins,
    }


def _notes(opened: TokenCorpus, texts: TokenTexts | None, result: dict[str, Any]) -> list[str]:
    """Return what a reader must know of how figures were measured."""
    notes = []
    if texts is None:
        notes.append(
            "the corpus has no tokenizer that can be read: there are no characters, bytes or texts "
            "of tokens"
        )
    elif result["measured_from"] == "tokens":
        notes.append(
            "the corpus says nothing of its text: characters and bytes are those that its tokens "
            "stand for"
        )
    elif not result["tokens_spell_text"]:
        notes.append(
            "the tokenizer changes the text: characters and bytes by source, split and language "
            "are those that the tokens stand for; those of the whole corpus are the text's"
        )
    if result["languages"] is None:
        notes.append("no table by language: the recipe has no step language")
    if result["domains"] is None:
        notes.append("no table by domain: the corpus has no verdicts/, which have the URLs")
    return notes


def _warnings(result: dict[str, Any]) -> list[str]:
    warnings = []
    rows = [("the corpus", result)]
    if len(result["sources"]) > 1:
        rows += [(f"source {row['name']}", row) for row in result["sources"]]
    rows += [
        (f"language {row['name'] or '(none)'}", row)
        for row in result["languages"] or []
        if row["share"] < 1.0
    ]
    for what, row in rows:
        ratio = row.get("characters_per_token")
        if ratio is None or row["tokens"] < LEAST:
            continue
        shown = f"{what}: {ratio:.2f} characters a token"
        if ratio < FEWEST:
            warnings.append(
                f"{shown}, below {FEWEST}: the tokenizer splits the text into little more than "
                "characters. It was trained on other languages, scripts or kinds of text; in "
                "Chinese, Japanese and Korean, where a character is 3 bytes, 1 to 1.5 is usual: "
                "see bytes a token"
            )
        elif ratio > MOST:
            warnings.append(
                f"{shown}, above {MOST:g}: whole phrases or runs of one character are one token. "
                "The text repeats itself, or the tokenizer was trained on a narrow subject: see "
                "the top tokens"
            )
    used = result["utilisation"]
    return warnings + (utilisation.warnings(used) if used else [])


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0
