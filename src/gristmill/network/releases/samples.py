"""Samples of a published data set for its card: the beginnings of a few documents of each source,
with personal data redacted, whatever the recipe redacts.

    texts     the first documents of the files that are published
    tokens    the first documents of the token shards, decoded by the corpus' tokenizer
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.corpus.token_corpus import TokenCorpus
from gristmill.corpus.tokenizer_part import tokenizer_in
from gristmill.errors import RecipeError, VerificationError
from gristmill.filters.api.step_inputs import installed_inputs
from gristmill.filters.pii.private import Private
from gristmill.network.hub.dataset_facts import Sample
from gristmill.tokens.tokenizer import Tokenizer

SAMPLE = 400  # characters of a sample that are shown
READ = 4 * SAMPLE  # characters or tokens that are read of it: what is redacted becomes shorter
SAMPLES = 4  # of all sources together, but one of each source at least, up to as many
MOST = 12


def text_samples(files: dict[str, Path]) -> list[Sample]:
    """Of the sources' first files of texts."""
    samples = []
    each = _each(len(files))
    for source, path in list(files.items())[:MOST]:
        with pq.ParquetFile(path, memory_map=False) as file:
            columns = ["document", "text"]
            batches = file.iter_batches(each, columns=columns, use_threads=False)
            rows = next(batches, pa.RecordBatch.from_pylist([])).to_pylist()
        samples += [Sample(source, row["document"], row["text"][:READ]) for row in rows]
    return redacted(samples)


def token_samples(root: Path) -> list[Sample]:
    """Of the first training shards of a corpus; none where no tokenizer that we read is in it."""
    corpus = TokenCorpus.open(root)
    tokenizer = _tokenizer(corpus)
    if tokenizer is None:
        return []
    samples = []
    sources = corpus.sources("train")
    each = _each(len(sources))
    for source in sources[:MOST]:
        stream = corpus.stream(source, "train")
        taken, start = 0, 0
        # A document that was withdrawn (its number is below 0) is no sample.
        for number, end in zip(*(column.tolist() for column in stream.boundaries(0)), strict=True):
            if number >= 0 and taken < each:
                tokens = stream.read(start, min(end, start + READ))
                text = tokenizer.decode(tokens[~np.isin(tokens, tokenizer.marks)])
                samples.append(Sample(source, number, text))
                taken += 1
            start = end
            if taken == each:
                break
    return redacted(samples)


def redacted(samples: list[Sample]) -> list[Sample]:
    """Return samples without personal data, as the step `private` finds it, cut to their length."""
    if not samples:
        return []
    step = Private()
    batch = pa.RecordBatch.from_arrays([pa.array([sample.text for sample in samples])], ["text"])
    texts = step.load(installed_inputs(step))(batch).text
    assert texts is not None
    return [
        sample._replace(text=text[:SAMPLE])
        for sample, text in zip(samples, texts.to_pylist(), strict=True)
    ]


def _each(sources: int) -> int:
    return max(1, SAMPLES // max(sources, 1))


def _tokenizer(corpus: TokenCorpus) -> Tokenizer | None:
    try:
        return tokenizer_in(corpus)
    except (RecipeError, VerificationError):
        return None
