"""Checks of a corpus' tokens and of what is left to repeat itself (check.py has the others)."""

from typing import Any

from gristmill.reports.page import figures
from gristmill.reports.page.tables import CorpusTables
from gristmill.reports.tokens.stats import FEWEST, MOST, stats

LEAST = 100  # documents: shares of fewer say little
SHORT, LONG = 32, 20_000  # tokens: the median of documents
VALIDATION_LEAST = 10_000  # tokens, for a loss that says something
VALIDATION_MOST = 0.2
VOCABULARY_LEAST = 0.3  # of corpora with MANY tokens for each token of the vocabulary
MANY = 20
SIMILAR_MOST = 0.2  # of the kept documents

# Of each finding its figure, what is usual, why it matters, and a command; null: this corpus has no
# such figure.
Found = list[tuple[str, str, str, str]] | None


def of_tokens(tables: CorpusTables) -> Found:
    """Return characters a token, the vocabulary, lengths, the validation split."""
    funnel = tables.manifest.funnel
    if tables.manifest.tokens is None or not funnel.get("tokens"):
        return None
    command = f"gristmill stats {tables.root}"
    findings = []
    if funnel.get("characters") and "repeats" not in funnel:
        ratio = funnel["characters"] / funnel["tokens"]
        if not FEWEST <= ratio <= MOST:
            findings.append(
                (
                    f"{ratio:.2f} characters a token",
                    f"{FEWEST} to {MOST:g}; 3 to 5 for English",
                    (
                        "a tokenizer for other languages or kinds of text splits words into "
                        "pieces, and training costs more"
                    ),
                    command,
                )
            )
    median = _median(tables)
    if median is not None and not SHORT <= median <= LONG:
        findings.append(
            (
                f"half of the documents have at most {median:,.0f} tokens",
                f"a median of {SHORT} to {LONG:,}",
                "fragments teach little; very long texts are cut by most packings",
                f"gristmill report {tables.root}",
            )
        )
    asked = (tables.manifest.recipe.get("tokens") or {}).get("validation")
    held = funnel.get("validation_tokens", 0)
    if asked and held < VALIDATION_LEAST:
        findings.append(
            (
                f"{held:,} tokens for validation",
                f"at least {VALIDATION_LEAST:,}",
                "a loss on so few tokens is noise",
                f"gristmill stats {tables.root}",
            )
        )
    if held > VALIDATION_MOST * funnel["tokens"]:
        findings.append(
            (
                f"{held / funnel['tokens']:.1%} of the tokens are for validation",
                f"below {VALIDATION_MOST:.0%}",
                "these tokens are never trained on",
                command,
            )
        )
    return findings


def of_statistics(
    tables: CorpusTables, counted: dict[str, Any] | None
) -> list[tuple[str, str, str, str]]:
    """Return what a count of all tokens shows: sources and languages, the vocabulary."""
    if tables.manifest.funnel["tokens"] > figures.MOST_TOKENS:
        return []
    counted = counted or stats(tables.root)
    command = f"gristmill stats {tables.root}"
    findings = [
        (
            line,
            "see the page on statistics",
            "one source or language may need another tokenizer",
            command,
        )
        for line in counted["warnings"]
        if not line.startswith("the corpus:")
    ]
    vocabulary = counted["vocabulary"]
    many = counted["tokens"] >= MANY * vocabulary["size"]
    if many and vocabulary["share"] < VOCABULARY_LEAST:
        usual = f"at least {VOCABULARY_LEAST:.0%} of it"
        why = "tokens that never occur are never trained: the tokenizer is for other texts"
        figure = f"{vocabulary['used']:,} of {vocabulary['size']:,} tokens of the vocabulary occur"
        findings.append((figure, usual, why, command))
    return findings


def left_alike(tables: CorpusTables) -> Found:
    """Near duplicates among the kept documents, and across the split."""
    path = tables.root / "duplicates/similar.parquet"
    kept = tables.manifest.funnel.get("kept", 0)
    if path not in tables.paths("duplicates/similar.parquet") or kept < LEAST:
        return None
    count = tables.rows(f"select count(*) from {tables.files([path])}")[0][0]
    findings = []
    if count > SIMILAR_MOST * kept:
        usual, why = f"below {SIMILAR_MOST:.0%}", "the threshold may be too high for these texts"
        figure = f"{count:,} of {kept:,} kept documents are like another kept one"
        findings.append((figure, usual, why, f"gristmill duplicates {tables.root}"))
    asked = tables.manifest.recipe.get("tokens") or {}
    if count and asked.get("validation") and asked.get("order") == "append":
        why = "a document for validation may be like one for training: the loss is too low"
        figure = f"{count:,} kept documents are like another, and order is append"
        findings.append((figure, 'order = "shuffled" keeps them together in training', why,
                      f"gristmill duplicates {tables.root}"))  # fmt: skip
    return findings


def _median(tables: CorpusTables) -> float | None:
    """Return the median of the kept documents' tokens, to an eighth of a power of two."""
    lengths = figures.lengths(tables)
    if lengths is None:
        return None
    left = lengths.documents / 2
    for edge, count in zip(lengths.edges[1:], lengths.counts, strict=True):
        left -= count
        if left <= 0:
            return edge
    return None
