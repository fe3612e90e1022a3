"""The tables that flow, and the number that names a document.

A document's number is `shard << 32 | row`: 31 bits of raw shard, 32 bits of row in it. So documents
have one total order, and no engine, worker or batch can change it.
"""

import pyarrow as pa

ROW_BITS = 32
MOST_SHARDS = 1 << 31
MOST_ROWS = 1 << ROW_BITS

# What a reader gives. `reason` and `value` are null but for rows that are no readable document:
# what was wrong, and at which byte of the decoded shard.
RAW = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("date", pa.string()),
        pa.field("record_id", pa.string()),
        pa.field("declared_language", pa.string()),  # by a record's or a page's own word
        pa.field(
            "content_type", pa.string()
        ),  # of a record: text/html waits for the step extract; null: not told
        pa.field("title", pa.string()),  # of a page, by the step extract
        pa.field("extra", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("value", pa.float64()),
    ]
)

DOCUMENTS = pa.schema([RAW.field(name) for name in RAW.names if name not in ("reason", "value")])

# What text/ holds: the kept documents as they are left, and how many documents were dropped as
# copies of each.
TEXT = pa.schema([*DOCUMENTS, pa.field("copies", pa.int64(), nullable=False)])

VERDICTS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("reason", pa.string()),  # null: kept
        pa.field("value", pa.float64()),
        pa.field("threshold", pa.float64()),
        pa.field("keeper", pa.int64()),
        pa.field("similarity", pa.float64()),
        pa.field("keeper_corpus", pa.string()),
    ]
)

# A seeded sample of what each step dropped, text included.
SAMPLES = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("text", pa.string(), nullable=False),
    ]
)

# What documents hold of benchmark items: a row for each part of an item, in document order.
CONTAMINATION = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("benchmark", pa.string(), nullable=False),
        pa.field("item", pa.int64(), nullable=False),  # its row in the benchmark, from 0
        pa.field("id", pa.string()),
        pa.field(
            "field", pa.string()
        ),  # the field that was found by itself; null: all of the item's, joined
        pa.field(
            "part", pa.int32(), nullable=False
        ),  # the part's place among those of all benchmarks
        pa.field(
            "matched", pa.int32(), nullable=False
        ),  # distinct n-grams of the part that stand in the document
        pa.field("ngrams", pa.int32(), nullable=False),  # distinct n-grams of the part
        pa.field("overlap", pa.float64(), nullable=False),
        pa.field(
            "similarity", pa.float64()
        ),  # of MinHash signatures; null: not asked for, or below it
        pa.field("start", pa.int64()),  # bytes of the text: of the first n-gram's first word ...
        pa.field("end", pa.int64()),  # ... and where the last one's last word ends
        pa.field("context", pa.string()),
        pa.field(
            "hits", pa.list_(pa.int32())
        ),  # which n-grams; null where `common` is not asked for
    ]
)


def signatures(permutations: int) -> pa.Schema:
    """The table of signatures: the hash of the normalised text, and k little-endian uint32 minima
    (none: no words).
    """
    return pa.schema(
        [
            pa.field("document", pa.int64(), nullable=False),
            pa.field("text_hash", pa.binary(16), nullable=False),
            pa.field("signature", pa.binary(4 * permutations)),
        ]
    )


def shard_name(number: int) -> str:
    """How a raw shard's parts are called, without folder and ending: `00042`."""
    return f"{number:05d}"


def shard_of(document: int) -> int:
    """The raw shard's number."""
    return document >> ROW_BITS


def row_of(document: int) -> int:
    """The row in the raw shard."""
    return document & (MOST_ROWS - 1)


def first_document(shard: int) -> int:
    """The number of a shard's row 0; the shard's documents lie from it up to `first_document(shard
    + 1)`.
    """
    return shard << ROW_BITS


def document_name(document: int) -> str:
    """How a document is written for people: `shard:row`."""
    return f"{shard_of(document)}:{row_of(document)}"
