"""Utilisation: which share of the positions of training sequences is text, and which share of the
tokens an epoch reads, by how documents are put into sequences.
"""

from typing import Any

import numpy as np

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.reports.tokens.token_counts import Lengths

LONGEST = 1 << 22  # tokens of a sequence for which best fit is computed
LEAST = 0.9  # utilisation or share read below which packing is warned of


def utilisation(
    corpus: TokenCorpus, lengths: dict[str, Lengths], sequence_length: int
) -> dict[str, Any]:
    """Utilisation of the training tokens, of which `lengths` has the documents of each source.

    Concatenated documents are cut into sequences, source by source: what is left behind the last
    whole sequence of a source is not read in that epoch. Best fit decreasing: documents are packed,
    longer ones cut into whole sequences and a rest. One document a sequence: longer ones are cut
    off, shorter ones padded.
    """
    sizes = [corpus.stream(source).tokens for source in corpus.sources()]
    total = sum(sizes)
    whole = sum(size // sequence_length for size in sizes)
    documents = sum(int(histogram.documents.sum()) for histogram in lengths.values())
    used = sum(
        int((histogram.tokens.clip(max=sequence_length) * histogram.documents).sum())
        for histogram in lengths.values()
    )
    packings = [
        {
            "name": "concatenate and cut",
            "sequences": whole,
            "utilisation": 1.0 if whole else 0.0,
            "read": _share(whole * sequence_length, total),
        },
        *_best_fit(lengths, sequence_length),
        {
            "name": "one document a sequence",
            "sequences": documents,
            "utilisation": _share(used, documents * sequence_length),
            "read": _share(used, total),
        },
    ]
    return {"sequence_length": sequence_length, "packings": packings}


def _best_fit(lengths: dict[str, Lengths], sequence_length: int) -> list[dict[str, Any]]:
    """Return the row of best-fit decreasing; none for very long sequences."""
    if sequence_length > LONGEST:
        return []
    from gristmill.kernels.packing.best_fit import pack

    sequences = tokens = 0
    for histogram in lengths.values():
        counts = np.zeros(sequence_length + 1, np.int64)
        np.add.at(counts, histogram.tokens % sequence_length, histogram.documents)
        counts[0] = 0
        counts[sequence_length] += int(
            (histogram.tokens // sequence_length * histogram.documents).sum()
        )
        sequences += int(pack(counts).bins.sum()) if counts.any() else 0
        tokens += int((histogram.tokens * histogram.documents).sum())
    share = _share(tokens, sequences * sequence_length)
    return [{"name": "best fit", "sequences": sequences, "utilisation": share, "read": 1.0}]


def warnings(result: dict[str, Any]) -> list[str]:
    """Return warnings of a result; one document a sequence is shown for comparison, and never
    warned of.
    """
    messages = []
    for row in result["packings"]:
        shown = f"{row['name']}, sequences of {result['sequence_length']:,} tokens"
        if row["name"] == "one document a sequence":
            continue
        if row["utilisation"] < LEAST and row["sequences"]:
            messages.append(
                f"{shown}: {100 * row['utilisation']:.1f} % of the positions are text, below "
                f"{100 * LEAST:g} %: take shorter sequences, or concatenate documents"
            )
        if row["read"] < LEAST:
            messages.append(
                f"{shown}: an epoch reads {100 * row['read']:.1f} % of the tokens, below "
                f"{100 * LEAST:g} %: the sources are short for such sequences; take shorter ones"
            )
    return messages


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
