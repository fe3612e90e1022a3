"""How much of a document is in other documents of the corpus: of its paragraphs, or its lines, the
share that repeats.

dolma marks a paragraph that its Bloom filter has seen in an earlier document (Soldaini et al. 2024,
doi 10.48550/arXiv.2402.00159), and recipes drop the documents of which too much is marked; DCLM's
BFF drops a document of which 80 % was seen before (Li et al. 2024, doi 10.48550/arXiv.2406.11794).
Here counts are exact, and do not depend on the order of processing.

    texts -> tables/repeated_paragraphs      of each document the paragraphs, by 64 bits of hash
    those of all documents that all steps keep
          -> repeated_paragraphs.sql         how much of each document repeats
          -> share > max_share               `repeated`

Paragraphs are compared as [deduplicate.lines] compares lines: as words in lower case, operators and
signs among them (docs/compared-text.md). One of punctuation alone, and one shorter than
`least_characters`, is not counted at all.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from gristmill.engine.relations import Relations
from gristmill.filters.api.corpus_rules import CorpusRule, Kept, RuleResult
from gristmill.filters.api.step import Inputs, Measured, Step, refuse_nan
from gristmill.store.parts import read_batches
from gristmill.tables.columns import utf8_buffers

FOLDER = "tables/repeated_paragraphs"
RELATION = "filters/rules/repeated_paragraphs"  # its SQL, beside this module
PARAGRAPHS = pa.schema(  # a row for each different paragraph of a document
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("hash", pa.int64(), nullable=False),  # of what it is compared as
        pa.field("times", pa.int32(), nullable=False),  # that the document has it
        pa.field("characters", pa.int64(), nullable=False),  # of one time, as compared
    ]
)


class RepeatedParagraphs(Step, frozen=True, kw_only=True):
    """Drop documents that consist of paragraphs of other documents.

    Paragraphs, or lines, are judged after the other steps, over the corpus, before deduplication.
    Origin: dolma's paragraph Bloom filter; DCLM's BFF.
    """

    name: ClassVar[str] = "repeated_paragraphs"
    version: ClassVar[int] = 2
    thresholds: ClassVar[frozenset[str]] = frozenset({"max_share", "by", "most", "keep"})
    table: ClassVar[str | None] = FOLDER
    example: ClassVar[str] = "max_share = 0.5"
    reasons: ClassVar[Mapping[str, str]] = {
        "repeated": "More than `max_share` of the text is in other documents."
    }
    measures: ClassVar[Mapping[str, str]] = {
        "paragraphs": "Paragraphs (or lines) that are counted."
    }

    # The most of a document that may be repeated, as a share.
    max_share: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.8
    by: Literal["characters", "paragraphs"] = "characters"  # What the share is of.
    # What is compared. Paragraphs have blank lines between them.
    unit: Literal["paragraphs", "lines"] = "paragraphs"
    # How many documents a paragraph may be in without being repeated.
    most: Annotated[int, Meta(ge=1)] = 1
    # With `first` a paragraph does not count as repeated in the earliest document that has it.
    keep: Literal["first", "none"] = "first"
    arabic_marks: bool = True  # Whether Arabic vowel marks and tatweel count.
    # A paragraph with fewer characters, once normalised, is not counted.
    least_characters: Annotated[int, Meta(ge=1)] = 1

    def __post_init__(self) -> None:
        refuse_nan([self.max_share])

    @property
    def corpus_rules(self) -> Sequence[CorpusRule]:
        return [RepeatedRule(self.max_share, self.by, self.most, self.keep)]

    def load(self, inputs: Inputs) -> Callable[[pa.RecordBatch], Measured]:
        return self._measure

    def _measure(self, batch: pa.RecordBatch) -> Measured:
        from gristmill.kernels.folding.compared import compared
        from gristmill.kernels.text import lines as kernels

        offsets, data = utf8_buffers(batch["text"])
        lines = kernels.find(offsets, data, paragraphs=self.unit == "paragraphs")
        bounds, text = compared(lines.starts, data, "signs", arabic_marks=self.arabic_marks)
        hashes, counted = kernels.hash_lines(bounds, text, least=self.least_characters)
        points = np.append(0, np.cumsum((text & 0xC0) != 0x80))  # code points before each byte
        characters = np.diff(points[bounds])
        owners = np.repeat(np.arange(len(batch)), np.diff(lines.offsets))
        rows = _distinct(owners[counted], hashes[counted], characters[counted])
        documents = batch["document"].take(pa.array(rows[0]))
        columns = [documents, *(pa.array(column) for column in rows[1:])]
        counts = np.bincount(owners[counted], minlength=len(batch))
        return Measured(
            {"paragraphs": pa.array(counts.astype(np.int64))},
            found=pa.RecordBatch.from_arrays(columns, schema=PARAGRAPHS),
        )


def _distinct(
    owners: np.ndarray, hashes: np.ndarray, characters: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (owner, hash, times, characters) of the different paragraphs of each owner, sorted by
    owner, then by hash.
    """
    order = np.lexsort((hashes, owners))
    owners, hashes, characters = owners[order], hashes[order], characters[order]
    new = np.ones(len(owners), bool)
    new[1:] = (owners[1:] != owners[:-1]) | (hashes[1:] != hashes[:-1])
    firsts = np.flatnonzero(new)
    times = np.diff(np.append(firsts, len(owners))).astype(np.int32)
    return owners[firsts], hashes[firsts], times, characters[firsts]


class RepeatedRule(NamedTuple):
    """The question about the whole corpus (filters.api.corpus_rules.CorpusRule)."""

    max_share: float
    by: Literal["characters", "paragraphs"]
    most: int
    keep: Literal["first", "none"]

    @property
    def reason(self) -> str:
        """Return the verdict's reason, without the step's name."""
        return "repeated"

    def key(self) -> dict[str, object]:
        """Return all that the answer depends on, but for tables."""
        return self._asdict()

    def ask(
        self, shards: Sequence[Kept], inputs: Inputs, relations: Callable[[], Relations], work: Path
    ) -> RuleResult:
        """Return which documents to drop."""
        work = Path(mkdtemp(dir=work))
        with pq.ParquetWriter(work / "paragraphs.parquet", PARAGRAPHS) as writer:
            for shard in shards:
                for batch in shard.rows(FOLDER):
                    writer.write_batch(batch.cast(PARAGRAPHS))
        with relations() as connection:
            names = ", ".join(PARAGRAPHS.names)
            connection.table("paragraphs", [work / "paragraphs.parquet"], names)
            connection.row(
                "parameters",
                most=self.most,
                keeps_first=int(self.keep == "first"),
                by_characters=int(self.by == "characters"),
            )
            written = connection.write(RELATION, work / "shares.parquet")
        dropped = [(np.empty(0, np.int64), np.empty(0))]
        documents = 0
        for batch in (batch for path in written for batch in read_batches(path)):
            documents += len(batch)
            shares = batch["repeated"].to_numpy() / np.maximum(batch["whole"].to_numpy(), 1)
            over = shares > self.max_share
            dropped.append((batch["document"].to_numpy()[over], shares[over]))
        numbers, values = (np.concatenate(column) for column in zip(*dropped, strict=True))
        report = {
            "max_share": self.max_share,
            "repeating": documents,  # documents with a paragraph that repeats
            "dropped": len(numbers),
        }
        return RuleResult(numbers, values, self.max_share, report)
